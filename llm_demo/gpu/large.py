"""What large targets would gain: costs of random weights of their shape, measured; acceptance from trees of the embedded pair.

Random models accept nothing, so speed cannot be measured as it is. But on a device a step costs the same whatever is accepted. So
the engine decodes with weights of the right shape, and the tokens a target call that the rules bring on the embedded pair's trees
(figures/data/real_block_efficiency.csv) are divided by that cost. It says what these costs allow at that acceptance: a draft that fits its
target better, as a smaller model of the same family does, accepts more.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from llm_demo.bench.contenders import GRID, Grid, own_methods
from llm_demo.rows import Row, read
from ot_draft.decoding import DecodeOptions, Pair
from ot_draft.decoding.benchmark import COSTS, measure_costs

TREES = Path(__file__).parents[2] / "figures" / "data" / "real_block_efficiency.csv"
COLUMNS = {
    "speculativesampling": "TokenWise(SpeculativeSampling)",
    "block": "BlockVerification",
    "recursiverejection": "TokenWise(RecursiveRejection)",
    "kseq": "TokenWise(KSeq)",
    "optimal": "TokenWise(Optimal)",
    "joint": "Joint",
}
WARM_UP, TIMED, CONTEXT = 3, 6, 512  # steps of each of two runs; tokens of every prompt


@dataclass(frozen=True)
class LlamaShape:
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


SMALL = LlamaShape("SmolLM2-135M", 576, 1536, 30, 9, 3, 49_152)
ONE = LlamaShape("Llama 3.2 1B", 2048, 8192, 16, 32, 8, 128_256)
PAIRS = (
    (LlamaShape("SmolLM2-1.7B", 2048, 8192, 24, 32, 32, 49_152), SMALL),
    (LlamaShape("Llama 3.1 8B", 4096, 14_336, 32, 32, 8, 128_256), ONE),
    (LlamaShape("Llama 3.1 70B", 8192, 28_672, 80, 64, 8, 128_256, held=20), ONE),
)
DRY = ((LlamaShape("dry run", 16, 32, 3, 2, 1, 40, held=2), LlamaShape("dry run", 16, 32, 1, 2, 1, 40)),)


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


def random_model(shape: LlamaShape, device: torch.device, dtype: torch.dtype) -> Any:
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


def _methods(pair: Pair, prompts: list[list[int]], grid: Grid, about: Row) -> Iterator[Row]:
    """Costs of a step by method, the plain one first, and the speed-up at the embedded pair's acceptance."""
    trees = read(TREES)
    methods = [
        method for method in own_methods(grid) if not method.K or (method.rule in COLUMNS and method.law == "iid")
    ]
    steps = WARM_UP + 3 * TIMED  # of the plain method, of which most are made
    room = DecodeOptions(
        max_tokens=steps * (1 + max(method.L for method in methods)), stop=()
    )  # should all drafts be accepted
    costs = measure_costs(pair, prompts, methods, room, warm_up=WARM_UP, timed=TIMED)
    plain = costs[methods[0]].step
    for method, cost in costs.items():
        tokens = replayed(trees, f"{COLUMNS[method.rule]} {method.K}x{method.L}") if method.K else 1.0
        row: Row = about | {"rule": method.rule, "K": method.K, "L": method.L}
        row |= {f"{name}_ms": f"{1000 * getattr(cost, name):.4g}" for name in (*COSTS, "step")}
        row |= {"replayed_block_efficiency": f"{tokens:.4g}", "replayed_speed_up": f"{tokens * plain / cost.step:.4g}"}
        yield row | {"label": "measured costs of random weights; acceptance of SmolLM2-135M and its two-layer draft"}


def replayed(trees: Sequence[Row], column: str) -> float:
    """Tokens a target call: one more than the mean accepted length over all trees where it was computed."""
    known = [(int(row["trees"]), float(row[column])) for row in trees if row[column]]
    return 1 + sum(weight * length for weight, length in known) / sum(weight for weight, _ in known)
