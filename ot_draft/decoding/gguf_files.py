"""Check that transformers reads all of a GGUF file, and keep the blocks of its quantized weights."""

from math import isclose
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import CannotDecode

BLOCKS = "blocks.safetensors"  # in a converted folder: the file's blocks as they are, rows in transformers' order
BYTES = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}  # of a block
FIELDS = (
    "attention.head_count",
    "attention.layer_norm_rms_epsilon",
    "block_count",
    "embedding_length",
    "feed_forward_length",
)
# Fields outside READ that transformers does not read, by suffix: other values change a model's distribution.
NEUTRAL: dict[str, tuple[float, ...]] = {
    "attention.causal": (1,),
    "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,),
    "attention.output_scale": (0, 1),
    "attention.scale": (0,),
    "attention.sliding_window": (0,),
    "attention.temperature_length": (0,),
    "attention.temperature_scale": (0,),
    "attn_logit_softcapping": (0,),
    "embedding_scale": (0, 1),
    "expert_count": (0,),
    "final_logit_softcapping": (0,),
    "logit_scale": (0, 1),
    "residual_scale": (0, 1),
}
READ = {
    "gemma3": {"attention.sliding_window"},
    "gemma4": {"attention.sliding_window"},
    "gpt-oss": {"expert_count"},
    "minimax-m2": {"expert_count"},
    "qwen2moe": {"expert_count"},
    "qwen3moe": {"expert_count"},
}
# Per architecture: the value that transformers assumes for a field that it does not read. TURNED: share of a head's numbers with RoPE.
TAKEN = {
    ("starcoder2", "rope.freq_base"): 10_000,
    ("stablelm", "rope.freq_base"): 10_000,
    ("gemma3", "attention.key_length"): 256,
    ("falcon", "attention.layer_norm_epsilon"): 1e-5,
    ("nemotron", "attention.layer_norm_epsilon"): 1e-5,
}
TURNED = {
    "nemotron": 0.5,
    "phi3": 1,
    "qwen2": 1,
    "qwen2moe": 1,
    "qwen3": 1,
    "qwen3moe": 1,
    "stablelm": 0.25,
    "starcoder2": 1,
}
NAMES = {"token_embd": "model.embed_tokens", "output": "lm_head", "attn_output": "self_attn.o_proj"}
NAMES |= {f"attn_{each}": f"self_attn.{each}_proj" for each in "qkv"}
NAMES |= {f"ffn_{each}": f"mlp.{each}_proj" for each in ("gate", "up", "down")}


def check_read_whole(reader: Any, name: str) -> None:
    """CannotDecode for a GGUF file, by gguf's reader, of which transformers would leave out a part, or make one up, without an error."""
    fields, names = reader.fields, {tensor.name for tensor in reader.tensors}
    if "general.architecture" not in fields:
        raise CannotDecode(f"{name} is incomplete: general.architecture is missing. Download it again.")
    kind = fields["general.architecture"].contents()
    left = {each for each in names if each.startswith(("rope_freqs.", "rope_factors_"))}
    scaling = fields.get(f"{kind}.rope.scaling.type")
    if scaling is not None and scaling.contents() != "none" and kind != "gpt-oss":
        left.add(scaling.name)
    left |= _unread(kind, {name: field.contents() for name, field in fields.items() if name.startswith(f"{kind}.")})
    if kind == "llama":
        if lacks := min({f"llama.{each}" for each in FIELDS} - fields.keys(), default=""):
            raise CannotDecode(f"{name} is incomplete: {lacks} is missing. Download it again.")
        if scaling is None:  # which llama.cpp takes for linear
            scales = (
                "llama.rope.scaling.factor",
                "llama.rope.scale_linear",
            )  # of positions; the latter in files of 2023
            factors = {each: fields[each].contents() for each in scales if each in fields}
            left |= {each for each, factor in factors.items() if factor not in (0, 1)}
        layer = {*(each for each in NAMES if each not in ("token_embd", "output")), "attn_norm", "ffn_norm"}
        layers = range(fields["llama.block_count"].contents())
        whole = {f"blk.{number}.{each}.weight" for number in layers for each in layer}
        whole |= {"token_embd.weight", "output_norm.weight"}
        left |= names - whole - {"output.weight"}
        if lacks := min(whole - names, default=""):
            raise CannotDecode(f"{name} is incomplete: {lacks} is missing. Download it again.")
    if left:
        raise CannotDecode(
            f"{name} has {min(left)}, which transformers does not read from GGUF files of kind {kind}. Use the directory or the hub name of"
            " the original model."
        )


def _unread(kind: str, values: dict[str, Any]) -> set[str]:
    """Fields of this kind by which the model's law is another one than transformers takes it for."""
    neutral: dict[str, tuple[Any, ...]] = {
        name: each for name, each in NEUTRAL.items() if name not in READ.get(kind, set())
    }
    neutral |= {name: (value,) for (its, name), value in TAKEN.items() if its == kind}
    if kind in TURNED:
        whole, heads = values.get(f"{kind}.embedding_length", 0), values.get(f"{kind}.attention.head_count", 1)
        width = values.get(f"{kind}.attention.key_length") or whole // heads
        neutral |= {"rope.dimension_count": (int(TURNED[kind] * width),)} if width else {}
    window, context = (values.get(f"{kind}.{name}") for name in ("attention.sliding_window", "context_length"))
    if isinstance(window, int) and context and window >= context:  # which no text reaches
        neutral["attention.sliding_window"] = (window,)
    found = {f"{kind}.{name}": each for name, each in neutral.items()}
    return {name for name, each in found.items() if name in values and not any(_same(values[name], x) for x in each)}


def _same(value: Any, other: float) -> bool:
    """Whether a field has this value, but for rounding to float32."""
    return isinstance(value, int | float) and isclose(value, other, rel_tol=1e-6)


def write_blocks(reader: Any, folder: Path, config: Any) -> None:
    """The blocks of a GGUF file of a Llama as BLOCKS, from gguf's reader; of other kinds than BYTES their names alone."""
    from safetensors.torch import save_file

    kinds, blocks = dict[str, str](), dict[str, Tensor]()
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for tensor in reader.tensors:
        *layer, theirs, kind = tensor.name.split(".")
        if kind != "weight" or theirs not in NAMES:
            continue
        name = ".".join(["model.layers", layer[1], NAMES[theirs]] if layer else [NAMES[theirs]])
        kinds[f"{name}.weight"] = tensor.tensor_type.name
        if tensor.tensor_type.name in BYTES:
            rows = torch.from_numpy(tensor.data.copy())
            if theirs in heads:  # which the file turns as neighbours
                rows = rows.unflatten(0, (heads[theirs], -1, 2)).transpose(1, 2).flatten(0, 2)
            blocks[f"{name}.weight"] = rows.contiguous()
    save_file(blocks, folder / BLOCKS, kinds)
