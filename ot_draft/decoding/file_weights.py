"""Weights as a GGUF file has them, for torch's products of 4 bits on a CPU: `--dtype file`.

Q4_0 and Q4_1 hold 32 weights a scale, and a minimum where there is one: torch's product takes just that. Its rows, scales, results are of
bfloat16, so that the model is another target than the one in float32. Q8_0 has no such product: rounded to float16, its weights are off by
less (one part in 2,048) than scales of bfloat16 would have them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import CannotDecode
from .cpu import Float16Linear, has_short_products
from .llama import FloatTensors, NamedTensors

BLOCKS = "blocks.safetensors"  # in a converted folder: the file's blocks as they are, rows in transformers' order
GROUP = 32  # weights of a block
BYTES = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}  # of a block
ENDS = "token_embd", "output"  # before and behind the layers
NAMES = {"token_embd": "model.embed_tokens", "output": "lm_head", "attn_output": "self_attn.o_proj"}
NAMES |= {f"attn_{each}": f"self_attn.{each}_proj" for each in "qkv"}
NAMES |= {f"ffn_{each}": f"mlp.{each}_proj" for each in ("gate", "up", "down")}


class FileWeights(NamedTensors):
    """Of a converted folder: layers of the file's blocks, and all else in float32."""

    def __init__(self, folder: Path, floats: FloatTensors) -> None:
        from safetensors import safe_open

        if not (folder / BLOCKS).is_file():
            raise CannotDecode("dtype file takes the weights of a GGUF file of a Llama, and this is none: take float32")
        self._blocks: Any = safe_open(folder / BLOCKS, "pt")
        self._kinds, self._floats = self._blocks.metadata() or {}, floats

    def __contains__(self, name: str) -> bool:
        return name in self._floats

    def __getitem__(self, name: str) -> Tensor:
        return self._floats[name]

    def layer(self, names: Sequence[str], order: Tensor | None = None) -> Any:
        kinds = sorted({self._kinds.get(f"{name}.weight", "unknown") for name in names})
        if kinds == ["Q8_0"]:
            return Float16Linear(self._floats.layer(names, order))
        if kinds not in (["Q4_0"], ["Q4_1"]) or any(f"{name}.bias" in self for name in names):
            raise CannotDecode(
                f"dtype file: {', '.join(names)} is of type {' and '.join(kinds)}, and torch has products for {', '.join(BYTES)}: take"
                " float16"
            )
        rows = torch.cat([self._blocks.get_tensor(f"{name}.weight") for name in names])
        return Int4Linear(rows if order is None else rows[order], kinds[0])


class Int4Linear(nn.Module):
    """x W^T with W of 4 bits; x and the result are rounded to bfloat16."""

    weight: Tensor
    scales: Tensor

    def __init__(self, blocks: Tensor, kind: str) -> None:
        """blocks: uint8 (out, bytes), rows of blocks of this kind."""
        super().__init__()
        codes, scales, zeros = unpacked(blocks, kind)
        self.out_features, self.in_features = codes.shape
        self.bytes_read = codes.numel() // 2 + 4 * scales.numel()
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.int(), 1)
        both = torch.stack((scales, zeros), -1).transpose(0, 1).contiguous().bfloat16()
        for name, tensor in (("weight", packed), ("scales", both)):
            self.register_buffer(name, tensor, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        rows = x.reshape(-1, self.in_features).bfloat16()
        product = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.weight, GROUP, self.scales)
        return product.to(x.dtype).view(*x.shape[:-1], self.out_features)


def unpacked(blocks: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """Codes 0 .. 15 (out, in), scales and zeros (out, in / 32): a weight is scale * (code - 8) + zero."""
    blocks = blocks.view(len(blocks), -1, BYTES[kind])
    head = blocks[..., : BYTES[kind] - 16].contiguous().view(torch.float16).float()
    nibbles = blocks[..., -16:]
    codes = torch.cat((nibbles & 15, nibbles >> 4), -1).flatten(1)
    scales = head[..., 0]
    return codes, scales, head[..., 1] + 8 * scales if kind == "Q4_1" else torch.zeros_like(scales)


def check_products() -> None:
    """CannotDecode where this torch has no products of 4 bits on this processor, or wrong ones."""
    if not has_short_products():
        raise CannotDecode("dtype file takes products of 16 bits, which torch has on x86 processors only: take float32")
    generator = torch.Generator().manual_seed(0)
    blocks = torch.randint(0, 256, (32, 2 * BYTES["Q4_1"]), dtype=torch.uint8, generator=generator)
    blocks.view(32, 2, -1)[..., :4] = torch.tensor([0.5, -0.25], dtype=torch.float16).view(torch.uint8)
    codes, scales, zeros = unpacked(blocks, "Q4_1")
    weight = (codes.unflatten(1, (-1, GROUP)) - 8.0) * scales[..., None] + zeros[..., None]
    x = torch.linspace(-1, 1, 2 * GROUP)[None].bfloat16().float()
    wanted = x @ weight.flatten(1).T
    try:
        right = bool(((Int4Linear(blocks, "Q4_1")(x) - wanted).abs() <= 0.01 * wanted.abs().max()).all())
    except (RuntimeError, AttributeError):
        right = False
    if not right:
        raise CannotDecode(
            f"torch {torch.__version__} has no right product of 4 bits on this processor"
            f" ({torch.backends.cpu.get_cpu_capability()}): take float16 or float32"
        )


def check_read_whole(reader: Any, name: str) -> None:
    """CannotDecode for a GGUF file, by gguf's reader, of which transformers would leave out a part, or make one up, without an error."""
    fields, names = reader.fields, {tensor.name for tensor in reader.tensors}
    kind = fields["general.architecture"].contents()
    left = {each for each in names if each.startswith(("rope_freqs.", "rope_factors_"))}
    scaling = fields.get(f"{kind}.rope.scaling.type")
    if scaling is not None and scaling.contents() != "none" and kind != "gpt-oss":
        left.add(scaling.name)
    if kind == "llama":
        layer = {*(each for each in NAMES if each not in ENDS), "attn_norm", "ffn_norm"}
        layers = range(fields["llama.block_count"].contents())
        whole = {f"blk.{number}.{each}.weight" for number in layers for each in layer}
        whole |= {"token_embd.weight", "output_norm.weight"}
        left |= names - whole - {"output.weight"}
        if lacks := min(whole - names, default=""):
            raise CannotDecode(f"{name} has no {lacks}: it is not whole, load it again")
    if left:
        raise CannotDecode(
            f"{name} has {min(left)}, which transformers does not read from GGUF files of kind {kind}: give the folder or the hub name of"
            " the model that it was made of"
        )


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
