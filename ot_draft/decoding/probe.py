"""Whether a model reads trees as the engine asks it to: tried once on a small one, since no signature tells.

Families of TRIED were tried beforehand, each made tiny (tests/integrations/test_architectures.py), and are not tried again.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from .. import arrays as xp
from ..errors import CannotDecode
from ..trees import FixedTree, TreeShape
from .cache import SequenceBatch
from .language_model import LanguageModel
from .model import DecoderModel
from .model_runner import ModelRunner
from .sampling import SamplingParams

# Families of transformers 5.24 whose greedy texts were plain `generate`'s.
TRIED = {
    "afmoe", "apertus", "apertus1p5_text", "arcee", "aria_text", "axk1", "beam", "biogpt", "bitnet", "codegen", "cohere",
    "cohere2", "cohere2_moe", "ctrl", "deepseek_v3", "diffllama", "doge", "ernie4_5", "ernie4_5_moe", "exaone", "exaone4",
    "exaone_moe", "flex_olmo", "flint", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "glm4_moe", "glm4_moe_lite", "gpt-sw3",
    "gpt2", "gpt_bigcode", "gpt_neox", "gpt_neox_japanese", "gpt_oss", "gptj", "granite", "granite_swa", "granitemoe",
    "granitemoe_swa", "granitemoeshared", "helium", "hy_v3", "hyperclovax", "internlm3", "iquestcoder", "jais2", "jetmoe",
    "kolibri1", "laguna", "lfm2", "llama", "llama4", "llama4_text", "mellum", "mimo_v2_flash", "minicpm3", "minimax_m2",
    "minimax_m3_vl_text", "ministral3", "mistral", "mixtral", "moshi", "nanochat", "olmo", "olmo2", "olmo3", "olmoe", "opt",
    "persimmon", "phi", "phi3", "phimoe", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "sarvam_mla", "sarvam_moe", "seed_oss",
    "smollm3", "solar_open", "stablelm", "starcoder2", "vaultgemma", "youtu",
}  # fmt: skip

_known: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # of every model that was tried, what was found


def check_reads_trees(model: DecoderModel) -> None:
    """CannotDecode where its laws at the nodes of a small tree, in a batch of two, are not those along the text without a cache."""
    if model.info.unsupported:
        raise CannotDecode(model.info.unsupported)
    if type(model) is not LanguageModel:
        return  # this package's own ones are read as they are meant to be
    module = type(model.model).__module__
    tried = module.startswith("transformers.") and getattr(model.config, "model_type", None) in TRIED
    if tried:
        return
    if model.model not in _known:
        _known[model.model] = _found(model)
    if _known[model.model]:
        raise CannotDecode(
            f"{type(model.model).__name__} {_known[model.model]}. Use a model with standard attention, such as Llama, Qwen or GPT-2."
        )


def _found(model: LanguageModel) -> str:
    drafted = torch.tensor([[6, 1, 3, 2], [4, 5, 1, 6]], device=model.info.device) % model.info.n
    prompts = [[token % model.info.n for token in prompt] for prompt in ((5, 4, 3, 2), (7,))]  # of different lengths
    shape = TreeShape((0, 0, 1, 2))
    way = (0, 2, 4)  # the root and the nodes down to the last one, which are not the first of their level
    parents = shape.parents_of(drafted)
    layout = FixedTree(shape).bounds.layout(parents)
    attention_mask, depths = (xp.from_view(xp.copy(x), drafted) for x in (layout.attention_mask, layout.depths))
    slots = max(map(len, prompts)) + shape.size + 8
    cache = model.cache(slots + -slots % 8)
    runner = ModelRunner(
        model, cache, SamplingParams(), SequenceBatch.after(prompts, (), 1, 3, model.info.device), cache
    )
    try:
        runner.prefill(prompts)
        laws, _ = runner.read_tree(drafted, parents, attention_mask, depths)
        far = max(_off(model, *row, way) for row in zip(prompts, drafted.tolist(), laws, strict=True))
    except torch.OutOfMemoryError:
        raise
    except (
        ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError,
    ) as error:  # fmt: skip
        reason = " ".join(str(error).split())[:120]
        return f"cannot read a tree from this engine's cache ({type(error).__name__}: {reason})"
    # Larger total variations are not explained by rounding.
    if far <= (1e-3 if model.info.dtype in (torch.float32, torch.float64) else 0.2):
        return ""
    return f"reads a small tree otherwise than a text, its laws being {far:.2g} off in total variation"


def _off(model: DecoderModel, prompt: list[int], tokens: list[int], laws: Tensor, way: tuple[int, ...]) -> float:
    """The largest total variation between a law on the way down the tree and the same one along the text."""
    text = [*prompt, *(tokens[node - 1] for node in way[1:])]
    places = [len(prompt) + place for place in range(len(way))]
    wanted = model.full_pass(text, places).logits.float().softmax(-1)
    made = laws[list(way)][:, : wanted.shape[-1]].float()
    # A law that is not there is told of where it is asked for.
    return float((made - wanted).abs().sum(-1).nan_to_num(0.0).max()) / 2
