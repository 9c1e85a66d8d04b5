"""Time of one path selection in softmaxes of the tensor of its K x L target distributions: run by `make bench` only.

A measurement, not a judgement: a slow or busy machine makes no test fail, and the table says what is over its target.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest

import ot_draft as otd
from ot_draft import trees

torch = pytest.importorskip("torch")

N, K, L = 32_000, 8, 8
CHAINS = trees.TreeShape.chains(K, L)
SEEDS = 50
RULES = [
    (trees.TokenWise(otd.rules.KSeq()), 2.0),
    (trees.TokenWise(otd.rules.RecursiveRejection()), float("inf")),
    (trees.TokenWise(otd.rules.Optimal(classes=256)), float("inf")),
    (trees.Joint(), 5.0),
    (trees.Traversal(), float("inf")),
    (trees.NaivePath(), float("inf")),
]


def drafted(generator: Any, equal: bool, shape: trees.TreeShape = CHAINS) -> trees.DraftTree:
    """Paths, K of length L, i.i.d. from a draft model about as far from the target as a small language model from a large one.

    equal: all paths are the same, so that all live to the end: the longest walk, with most survivors at every node.
    """
    logits = 3 * torch.randn((1, shape.size + 1, N), generator=generator)
    p = torch.softmax(logits, -1)
    q = torch.softmax(logits + 0.7 * torch.randn(logits.shape, generator=generator), -1)
    tokens = otd.draw(otd.IID(), q[:, list(shape.parents)], 1, generator)[..., 0]
    if equal:
        tokens = tokens[:, ::K].repeat_interleave(K, 1)
    return shape.tree(tokens, p, q)


@pytest.mark.parametrize("equal", [False, True], ids=["drawn", "equal"])
@pytest.mark.parametrize(("rule", "target"), RULES, ids=[rule.name for rule, _ in RULES])
def test_one_path_selection(
    in_softmaxes: Callable[..., float], rule: trees.PathRule, target: float, equal: bool
) -> None:
    generator = torch.Generator().manual_seed(91)
    tree = drafted(generator, equal)
    logits = torch.randn((K * L, N), generator=generator)
    uniforms = cycle(torch.rand((SEEDS, 1, rule.n_uniforms(tree.bounds)), generator=generator))
    lengths: list[Any] = []
    in_softmaxes(
        f"{rule.name}, {K} {'equal' if equal else 'drawn'} paths of {L}",
        logits,
        target,
        lambda: lengths.append(rule.select(tree, next(uniforms)).length),
    )
    assert torch.cat(lengths).max() <= L


@pytest.mark.parametrize("length", [1, L])
def test_one_drafted_path(in_softmaxes: Callable[..., float], length: int) -> None:
    """Of the rule that one path is usually selected by, which a step of most texts asks: in softmaxes of the path's own laws."""
    generator, rule = torch.Generator().manual_seed(91), trees.BlockVerification()
    tree = drafted(generator, False, trees.TreeShape.chains(1, length))
    logits = torch.randn((length, N), generator=generator)
    uniforms = cycle(torch.rand((SEEDS, 1, 2), generator=generator))
    in_softmaxes(f"{rule.name}, a path of {length}", logits, 2.0, lambda: rule.select(tree, next(uniforms)))
