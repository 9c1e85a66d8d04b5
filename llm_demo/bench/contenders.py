"""Benchmark of all path rules on K paths of length L, and of generation in transformers with the same models, interleaved in one run.

Every rule is compared with autoregressive decoding in the same engine, and with transformers' autoregressive and assisted generation. The
rows are those of `ot-draft decode --compare`, for batches of prompts.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_demo.bench.auto import plain_method
from llm_demo.prompts import Prompt
from llm_demo.rows import Row
from ot_draft.cli.decode.table import csv_rows
from ot_draft.decoding import DecodeOptions, Pair
from ot_draft.decoding.benchmark import compare_methods
from ot_draft.decoding.benchmark.peers import Peer
from ot_draft.decoding.benchmark.peers import peers as every_peer
from ot_draft.decoding.methods import Method, method_called, shape_of

GRID = ((1, 4), (8, 4), (1, 8), (8, 8))  # SpecTr's Table 1 (Sun et al., NeurIPS 2023)
ONE_PATH = (("speculativesampling", None), ("block", None))
PATHS = (
    ("recursiverejection", None),
    ("kseq", None),
    ("optimal", None),
    ("joint", None),
    ("optimal", "hybrid:auto"),
    ("joint", "hybrid:auto"),
    ("recursiverejectionwithoutreplacement", None),
)
Grid = tuple[tuple[int, int], ...]


def own_methods(grid: Grid = GRID) -> list[Method]:
    """Return the autoregressive method, then all rules for every (K, L)."""
    return [plain_method()] + [
        method_called(rule, law, shape_of(K, L, None)) for K, L in grid for rule, law in (ONE_PATH if K == 1 else PATHS)
    ]


def peers(pair: Pair, grid: Grid = GRID) -> list[Peer]:
    """Return transformers' generation with the same models: autoregressive, and assisted by one draft of every length of the grid."""
    return every_peer(pair, *dict.fromkeys(L for _, L in grid))[:-1]


def bench(
    pair: Pair,
    prompts: Sequence[Prompt],
    batch: int,
    options: DecodeOptions,
    grid: Grid = GRID,
    methods: Sequence[Method] = (),
) -> list[Row]:
    """Return a row for every method at one batch size and temperature; methods of transformers are included at batch 1 only.

    methods: the autoregressive one first; by default all of the grid.
    """
    texts = [prompt.tokens for prompt in prompts]
    groups = [texts[start : start + batch] for start in range(0, len(texts) - batch + 1, batch)]
    own = methods or own_methods(grid)
    steady = [method for method in own if method.fixed_shape]
    others: list[Method] = [method for method in own if not method.fixed_shape]
    if batch == 1:
        others += peers(pair, grid)
    comparison = compare_methods(pair, groups, steady, options, peers=others)
    common = {"batch": batch, "temperature": options.sampling.temperature, "texts": len(groups) * batch}
    sizes = [{"K": row.method.K, "L": row.method.L} for row in comparison.rows]
    return [common | size | row for size, row in zip(sizes, csv_rows(comparison), strict=True)]
