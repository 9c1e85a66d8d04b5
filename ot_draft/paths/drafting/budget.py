"""Ways to draft a tree, each with a rule that is lossless on it, simulated at a given number of drafted nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InvalidArgument
from ...laws import DraftLaw, Hybrid, WithoutReplacement
from ...rules.recursive_rejection_without_replacement import RecursiveRejectionWithoutReplacement
from ...rules.speculative_sampling import SpeculativeSampling
from ..rules.joint import Joint
from ..rules.path_rule import PathRule
from ..rules.token_wise import TokenWise
from ..rules.traversal import Traversal
from ..simulation.run import simulate
from ..tree import TreeShape
from .adaptive import AdaptiveTree
from .counted_tree import CountedTree
from .dynamic import StoppingRule, confident_tree, covered, sampled_tree
from .shapes import acceptance_by_child, expected_accepted, sequoia
from .trees import Rows, draft_trees

WIDEST = 16  # children of a node
WITHOUT = RecursiveRejectionWithoutReplacement()
IN_TURN = TokenWise(WITHOUT)
STATIC: dict[str, tuple[PathRule, DraftLaw]] = {
    "k-ary": (IN_TURN, WithoutReplacement()),
    "Sequoia": (IN_TURN, WithoutReplacement()),
    "Sequoia, traversal": (Traversal(), WithoutReplacement()),
    "hybrid, joint": (Joint(), Hybrid(1)),
}
FOLLOWING: dict[str, type[CountedTree] | type[AdaptiveTree]] = {
    "counted, traversal": CountedTree,
    "adaptive, joint": AdaptiveTree,
}
AT_ONCE = 8  # iterations drafted together
CONTEXTS = 100  # that an adaptive drafting is fitted to
DYNAMIC = ("DySpec", "EAGLE-2", *FOLLOWING, "SpecDec++")
WAYS = (*STATIC, *DYNAMIC)


@dataclass(frozen=True, eq=False)
class Drafted:
    """One way to draft at a number of nodes.

    nodes: drafted in an iteration, on average. lengths: (iterations,) accepted lengths; their expectation given the tree
    where the rule has a formula (EAGLE-2).
    """

    way: str
    nodes: float
    lengths: np.ndarray


def simulate_budget(
    way: str, model: Any, budget: int, length: int = 8, iterations: int = 200, seed: int = 0
) -> Drafted:
    """Accepted lengths of one of `WAYS` to draft at most `budget` nodes, at most `length` deep.

    "k-ary": the tree by level of most expected tokens, "Sequoia": the best tree of all, both from the acceptance by child
    that was measured on the model; children without replacement, by recursive rejection or traversal; "hybrid, joint": the k-ary
    tree whose first children are the draft's top tokens. "EAGLE-2", "DySpec": `confident_tree`, `sampled_tree`.
    "SpecDec++": one path, with the threshold at which it is `budget` long on average, or as near as its greatest length allows.
    "counted, traversal", "adaptive, joint": `CountedTree`, `AdaptiveTree`, which follow the draft level by level, fitted to other contexts.
    """
    if way not in WAYS or budget < 1 or length < 1:
        raise InvalidArgument(
            f"{way!r}, budget {budget}, length {length}: give one of {', '.join(WAYS)}, and numbers >= 1"
        )
    if way in STATIC:
        rule, law = STATIC[way]
        shares = acceptance_by_child(WITHOUT, model, WIDEST, seed=seed)
        shape = sequoia(shares, budget, length) if "Sequoia" in way else best_by_level(shares, budget, length)
        return Drafted(way, shape.size, simulate(rule, model, shape, iterations, seed, law).lengths)
    if way == "SpecDec++":
        return _stopped(model, budget, length, iterations, seed)
    if way in FOLLOWING:
        return _following(way, model, FOLLOWING[way](budget, length), iterations, seed)
    lengths = []
    for number in range(iterations):
        generator, root = np.random.default_rng([seed, number]), model.root(number)
        if way == "EAGLE-2":
            lengths.append(covered(confident_tree(model, root, budget, length))[0])
        else:
            tree = sampled_tree(model, root, budget, length, generator)
            lengths.append(IN_TURN.select(tree, generator.random((1, IN_TURN.uniforms(tree.shape)))).length[0])
    return Drafted(way, budget, np.array(lengths))


def best_by_level(acceptance: Any, budget: int, length: int) -> TreeShape:
    """The tree of at most `budget` nodes with equally many children at each level that has most expected tokens."""
    shapes = [TreeShape.by_level(children) for children in _by_level(budget, length, min(len(acceptance), budget))]
    return max(shapes, key=lambda shape: expected_accepted(shape, acceptance))


def _by_level(budget: int, length: int, widest: int, width: int = 1) -> Iterator[tuple[int, ...]]:
    """Numbers of children by level that do not increase, with at most `budget` nodes."""
    for children in range(1, widest + 1):
        nodes = width * children
        if nodes <= budget and length:
            yield (children,)
            for further in _by_level(budget - nodes, length - 1, children, nodes):
                yield (children, *further)


def _following(way: str, model: Any, drafting: CountedTree | AdaptiveTree, iterations: int, seed: int) -> Drafted:
    rows, rule, nodes = Rows.of(model), drafting.rule, 0
    pairs = [rows.pair(rows.root(iterations + number), {}) for number in range(CONTEXTS)]
    fitted = drafting.fitted(*map(np.stack, zip(*pairs, strict=True)))
    lengths = []
    for first in range(0, iterations, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, iterations))
        generators = [np.random.default_rng([seed, number]) for number in numbers]
        uniforms = np.stack([generator.random(drafting.draws) for generator in generators])
        trees = fitted.draft(rows, [rows.root(number) for number in numbers], uniforms)
        for row, generator in enumerate(generators):
            lengths.append(rule.select(trees.row(row), generator.random((1, rule.uniforms(trees.shape)))).length[0])
            nodes += int((trees.tokens[row] >= 0).sum())
    return Drafted(way, nodes / iterations, np.array(lengths))


def _stopped(model: Any, budget: int, length: int, iterations: int, seed: int) -> Drafted:
    """Paths of at most twice the length, stopped where the predicted chance of a refusal passes a threshold."""
    rule, chain = TokenWise(SpeculativeSampling()), TreeShape.chains(1, 2 * length)
    fitted = StoppingRule.fit(model, 0.5, seed=seed)
    trees = [tree for tree, _ in draft_trees(model, chain, iterations, seed)]
    low, high = 0.0, 1.0
    for _ in range(20):
        fitted = StoppingRule(fitted.edges, fitted.accepted, (low + high) / 2)
        ends = np.concatenate([fitted.lengths(tree) for tree in trees])
        low, high = (low, fitted.threshold) if ends.mean() > budget else (fitted.threshold, high)
    return Drafted(
        "SpecDec++", float(ends.mean()), np.minimum(simulate(rule, model, chain, iterations, seed).lengths, ends)
    )
