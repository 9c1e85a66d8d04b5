"""What large targets would gain: costs of random weights of their shape, measured; acceptance from trees of the embedded pair.

Random models accept nothing, so speed cannot be measured as it is. But on a device a step costs the same whatever is accepted. So
the engine decodes with weights of the right shape, and the tokens a target call that the rules bring on the embedded pair's trees
(figures/data/real_block_efficiency.csv) are divided by that cost. It says what these costs allow at that acceptance: a draft that fits its
target better, as a smaller model of the same family does, accepts more.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from llm_demo.bench.command import read
from llm_demo.bench.methods import GRID, contenders
from ot_draft.decoding import Options, Pair, decode_steps

TREES = Path(__file__).parents[2] / "figures" / "data" / "real_block_efficiency.csv"
COLUMNS = {
    "speculativesampling": "TokenWise(SpeculativeSampling)",
    "block": "BlockVerification",
    "recursiverejection": "TokenWise(RecursiveRejection)",
    "kseq": "TokenWise(KSeq)",
    "optimal": "TokenWise(Optimal)",
    "joint": "Joint",
}
WARM_UP, TIMED, CONTEXT = 3, 12, 512  # steps; tokens of every prompt
Row = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama. held: number of layers whose weights are held; the others use the same weights once more.

    A layer of a large model is many times what a GPU's cache holds: read again, it comes from memory again.
    """

    name: str
    hidden: int
    inner: int
    layers: int
    heads: int
    groups: int
    vocabulary: int
    held: int = 1000


SMALL = Shape("SmolLM2-135M", 576, 1536, 30, 9, 3, 49_152)
ONE = Shape("Llama 3.2 1B", 2048, 8192, 16, 32, 8, 128_256)
PAIRS = (
    (Shape("SmolLM2-1.7B", 2048, 8192, 24, 32, 32, 49_152), SMALL),
    (Shape("Llama 3.1 8B", 4096, 14_336, 32, 32, 8, 128_256), ONE),
    (Shape("Llama 3.1 70B", 8192, 28_672, 80, 64, 8, 128_256, held=20), ONE),
)
DRY = ((Shape("dry run", 16, 32, 3, 2, 1, 40, held=2), Shape("dry run", 16, 32, 1, 2, 1, 40)),)


def large_rows(device: torch.device, seconds: float, dry: bool, batches: tuple[int, ...] = (1, 8)) -> Iterator[Row]:
    """A row for every shape, batch and method; no further shape is begun once the time is up."""
    end = time.monotonic() + seconds
    for target, draft in DRY if dry else PAIRS:
        if time.monotonic() > end:
            return
        dtype = torch.float32 if dry else torch.bfloat16
        pair = Pair(random_model(target, device, dtype), random_model(draft, device, dtype))
        for batch in batches[:1] if dry else batches:
            context, grid = (4, GRID[:2]) if dry else (CONTEXT, GRID)
            generator = torch.Generator().manual_seed(batch)
            prompts = torch.randint(target.vocabulary, (batch, context), generator=generator).tolist()
            yield from _methods(pair, prompts, grid, {"target": target.name, "draft": draft.name, "batch": batch})
        del pair
        if device.type == "cuda":
            torch.cuda.empty_cache()


def random_model(shape: Shape, device: torch.device, dtype: torch.dtype) -> Any:
    """A Llama of this shape with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    ends: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = LlamaConfig(
        vocab_size=shape.vocabulary, hidden_size=shape.hidden, intermediate_size=shape.inner,
        num_hidden_layers=min(shape.layers, shape.held), num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups, max_position_embeddings=4096, tie_word_embeddings=True, **ends,
    )  # fmt: skip
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # else the weights would be made in float32 first
    try:
        with torch.device(device):
            model: Any = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    held = list(model.model.layers)
    model.model.layers = nn.ModuleList([_again(held[i % len(held)], i) for i in range(shape.layers)])
    model.config.num_hidden_layers = shape.layers
    return model.eval().requires_grad_(False)


def _again(layer: Any, number: int) -> Any:
    """The layer's weights as layer `number`, with a place of its own in the cache."""
    twin, attention = copy.copy(layer), copy.copy(layer.self_attn)
    attention.layer_idx = number
    twin._modules = layer._modules | {"self_attn": attention}
    return twin


def _methods(pair: Pair, prompts: list[list[int]], grid: tuple[tuple[int, int], ...], about: Row) -> Iterator[Row]:
    """Costs of a step by method, the plain one first, and the speed-up at the embedded pair's acceptance."""
    trees, plain = read(TREES), float("nan")
    for each in contenders(grid, peers=False):
        if each.method is None or (each.K and (each.name not in COLUMNS or each.law != "iid")):
            continue
        length = (WARM_UP + TIMED) * (each.L + 1)  # room for every text, should all be accepted
        steps = decode_steps(pair, prompts, each.method.drafting, Options(max_tokens=length, stop=()))
        seconds = [step.seconds for step in islice(steps, WARM_UP + TIMED)][WARM_UP:]
        cost = {name: 1000 * median(getattr(s, name) for s in seconds) for name in ("draft", "verify", "select", "cache")}  # fmt: skip
        step = 1000 * median(s.total for s in seconds)
        plain = step if each.K == 0 else plain
        tokens = replayed(trees, f"{COLUMNS[each.name]} {each.K}x{each.L}") if each.K else 1.0
        row: Row = about | {"rule": each.name, "K": each.K, "L": each.L}
        row |= {f"{name}_ms": f"{value:.4g}" for name, value in cost.items()} | {"step_ms": f"{step:.4g}"}
        row |= {"replayed_block_efficiency": f"{tokens:.4g}", "replayed_speed_up": f"{tokens * plain / step:.4g}"}
        yield row | {"label": "measured costs of random weights; acceptance of SmolLM2-135M and its two-layer draft"}


def replayed(trees: list[Row], column: str) -> float:
    """Tokens a target call: one more than the mean accepted length over all trees where it was computed."""
    known = [(int(row["trees"]), float(row[column])) for row in trees if row[column]]
    return 1 + sum(weight * length for weight, length in known) / sum(weight for weight, _ in known)
