"""Drafting methods of trees, each with a lossless rule, simulated at a given number of drafted nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import ot_draft as otd
from llm_demo.bench.trees.shapes import best_by_level
from ot_draft.trees.drafting.baselines import ConfidentTree, SampledTree
from ot_draft.trees.evaluation.simulate import drafted_trees, simulate
from ot_draft.trees.model import Rows

WIDEST = 16  # max. number of children of a node
WITHOUT = otd.rules.RecursiveRejectionWithoutReplacement()
IN_TURN = otd.trees.TokenWise(WITHOUT)
STATIC: dict[str, tuple[otd.trees.PathRule, otd.DraftLaw]] = {
    "k-ary": (IN_TURN, otd.WithoutReplacement()),
    "Sequoia": (IN_TURN, otd.WithoutReplacement()),
    "Sequoia, traversal": (otd.trees.Traversal(), otd.WithoutReplacement()),
    "hybrid, joint": (otd.trees.Joint(), otd.Hybrid(1)),
}
CONTEXTS = 100  # number of contexts to which a drafting method is fitted
FOLLOWING = ("DySpec", "EAGLE-2", "counted, traversal", "adaptive, joint", "SpecDec++")
WAYS = (*STATIC, *FOLLOWING)


@dataclass(frozen=True, eq=False)
class BudgetRun:
    """One drafting method at a number of nodes.

    nodes: mean number of draft nodes per iteration. lengths: (iterations,) accepted lengths, or their expectation given the tree for
    rules with a formula (EAGLE-2).
    """

    way: str
    nodes: float
    lengths: np.ndarray


def simulate_budget(
    way: str, model: Any, budget: int, length: int = 8, iterations: int = 200, seed: int = 0
) -> BudgetRun:
    """Return accepted lengths of one of `WAYS` with at most `budget` nodes, at most `length` deep.

    "k-ary": the tree with equally many children per level and the most expected tokens. "Sequoia": the tree with the most expected tokens.
    Both use the acceptance by child measured on the model, children without replacement, and recursive rejection or traversal. "hybrid,
    joint": the k-ary tree whose first children are the draft's top tokens. "EAGLE-2", "DySpec": `ConfidentTree`, `SampledTree`, with beams
    as wide as the budget. "SpecDec++": one path, with the threshold at which its mean length is closest to `budget`. "counted, traversal",
    "adaptive, joint": `CountedTree`, `AdaptiveTree`, which follow the draft level by level, fitted to other contexts.
    """
    if way not in WAYS or budget < 1 or length < 1:
        raise otd.InvalidArgument(
            f"way must be one of {', '.join(WAYS)}, budget and length must be at least 1, got {way!r}, {budget} and {length}."
            " Correct these arguments."
        )
    if way in STATIC:
        rule, law = STATIC[way]
        shares = otd.trees.acceptance_by_child(WITHOUT, model, WIDEST, seed=seed)
        shape = otd.trees.sequoia(shares, budget, length) if "Sequoia" in way else best_by_level(shares, budget, length)
        return BudgetRun(
            way, shape.size, simulate(rule, model, otd.trees.FixedTree(shape, law), iterations, seed).lengths
        )
    drafting = _following(way, model, budget, length, iterations, seed)
    trees = [tree for tree, _ in drafted_trees(model, drafting, iterations, seed)]
    nodes = sum(int((tree.tokens >= 0).sum()) for tree in trees) / iterations
    if way == "EAGLE-2":
        return BudgetRun(way, nodes, np.concatenate([covered(tree) for tree in trees]))
    rule = otd.trees.TokenWise(otd.rules.SpeculativeSampling()) if way == "SpecDec++" else drafting.rule
    return BudgetRun(way, nodes, simulate(rule, model, drafting, iterations, seed).lengths)


def covered(tree: otd.trees.DraftTree) -> np.ndarray:
    """Return expected accepted lengths (B,) of naive target sampling on trees in numpy without equal siblings.

    The length is the sum over all nodes of the target's probability of their prefixes.
    """
    rows, reached = np.arange(len(tree.tokens)), np.ones((len(tree.tokens), tree.bounds.size + 1))
    for node in range(1, tree.bounds.size + 1):
        parent, token = np.minimum(tree.parents[:, node - 1], node - 1), tree.tokens[:, node - 1]
        reached[:, node] = np.where(token < 0, 0, reached[rows, parent] * tree.p[rows, parent, token])
    return reached[:, 1:].sum(-1)


def _following(way: str, model: Any, budget: int, length: int, iterations: int, seed: int) -> otd.trees.TreeDrafter:
    """Return the drafting of a method that follows the draft model, fitted to contexts of the model if it has parameters."""
    if way == "EAGLE-2":
        return ConfidentTree(budget, length, budget, budget)
    if way == "DySpec":
        return SampledTree(budget, length, budget, budget)
    rows = Rows.of(model)
    pairs = [rows.pair(rows.root(iterations + number), {}) for number in range(CONTEXTS)]
    p, q = map(np.stack, zip(*pairs, strict=True))
    if way == "SpecDec++":
        return _stopped(otd.trees.StoppedPath(2 * length).fitted(p, q), model, budget, iterations, seed)
    return (
        otd.trees.CountedTree(budget, length) if way == "counted, traversal" else otd.trees.AdaptiveTree(budget, length)
    ).fitted(p, q)


def _stopped(path: otd.trees.StoppedPath, model: Any, budget: int, iterations: int, seed: int) -> otd.trees.StoppedPath:
    """Return the path with the threshold that gives this mean length, on the draft tokens of this seed."""
    chains = otd.trees.FixedTree(otd.trees.TreeShape.chains(1, path.budget))
    trees = [tree for tree, _ in drafted_trees(model, chains, iterations, seed)]
    low, high = 0.0, 1.0
    for _ in range(20):
        path = replace(path, threshold=(low + high) / 2)
        ends = np.concatenate([path.lengths(tree) for tree in trees])
        low, high = (low, path.threshold) if ends.mean() > budget else (path.threshold, high)
    return path
