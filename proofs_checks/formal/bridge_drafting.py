"""The bridge for trees that follow what was drafted: three drafters, enumerated by the library and by Coq."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import ot_draft as otd
from ot_draft.laws import DraftLaw
from ot_draft.trees.drafting.baselines import SampledTree
from ot_draft.trees.drafting.growing import Growing, Grown, TreeDraws
from ot_draft.trees.model import Nodes
from ot_draft.trees.tree import Forest, TreeBounds

from ..branches import extended
from .bridge_paths import Laws, markov, models, positive_law
from .coq_text import Definition, NumbersFile, entries, numbers

CASES = 3  # number of models per drafter


@dataclass(frozen=True)
class TossedTree(otd.trees.TreeDrafter):
    """One child of the root or, with probability 1/3, two; and one child of the second one if that is token 0."""

    law: ClassVar[DraftLaw] = otd.IID()
    rule: ClassVar[otd.trees.PathRule] = otd.trees.Traversal()
    label: ClassVar[str] = "tossed"
    bounds: ClassVar[TreeBounds] = TreeBounds(3, 2, 2)

    def growing(self, draws: TreeDraws) -> Growing:
        return TossedGrowth(draws)


class TossedGrowth(Growing):
    """Growth of `TossedTree` in Fractions: uniform 0 decides the number of children, and uniform i draws node i."""

    def __init__(self, draws: TreeDraws) -> None:
        super().__init__(draws, 2)
        self._tokens = np.full((len(draws.root), 3), -1)

    def grow(self, q: Any) -> None:
        tokens, drawn = self._tokens, self._draws.tokens
        if self.levels == 2:
            coin = np.broadcast_to(np.array([Fraction(1, 3), Fraction(2, 3)]), (len(q), 1, 2))
            one = np.ones((len(q), 1, 1), dtype=bool)
            two = drawn(coin, np.array([0]), one) == 0
            needed = np.concatenate((one, two), -1)
            tokens[:, :2] = np.where(needed, drawn(q, np.array([1, 2]), needed), -1)[:, 0]
            below = tokens[:, 1:2] == 0
            self._show(np.where(below, 2, -1), np.where(below, 0, 0), 0 * below)
        else:
            needed = (self.slots >= 0)[..., None]
            tokens[:, 2:] = np.where(needed, drawn(q, np.array([3]), needed), -1)[:, 0]
        self.levels -= 1

    def grown(self) -> Grown:
        # Absent nodes are last: without a second child there is no third node.
        parents = np.where(self._tokens >= 0, np.array([0, 0, 2]), 3)
        slots = np.arange(4) + 0 * np.zeros((len(parents), 1), dtype=int)
        return Grown(self._tokens, parents, 0 * slots, slots)


# In the order of bridge_drafting.v: drafter, number of tokens, length, rules.
STOPPED = otd.trees.StoppedPath(3, threshold=0.5, edges=(0.5,), accepted=(0.25, 0.75))
SAMPLED = SampledTree(3, length=2, max_children=2, beam=3)
BOTH = (otd.trees.Traversal(), otd.trees.TokenWise(otd.rules.RecursiveRejectionWithoutReplacement()))
DRAWINGS: tuple[tuple[otd.trees.TreeDrafter, int, int, tuple[otd.trees.PathRule, ...]], ...] = (
    (STOPPED, 2, 3, (otd.trees.Traversal(),)),
    (SAMPLED, 3, 2, BOTH),
    (TossedTree(), 2, 2, (otd.trees.Traversal(),)),
)


def problem(drawing: int, index: int) -> tuple[Laws, Laws]:
    """Return the target and draft of a Markov model of order 1 without zeros, for which no two draws of `SAMPLED` have the same value."""
    draw, n = random.Random(1000 * drawing + index), DRAWINGS[drawing][1]
    while True:
        target, draft = ([positive_law(draw, n) for _ in range(n + 1)] for _ in range(2))
        if not any(tied(draft, x, y) for x, y in product(range(n), repeat=2)):
            return target, draft


def tied(draft: Laws, x: int, y: int) -> bool:
    """Return whether a draw below x has the value of one next to it, or a draw below y that of one below x."""
    v, below, beside = draft[0][x], draft[1 + x][y], draft[0][y]
    return v == Fraction(1, 2) or (x != y and v == beside) or v * (1 - below) == 1 - v


def held(forest: Forest, prefix: tuple[int, ...]) -> bool:
    """Return whether a tree holds the prefix."""
    return not prefix or any(token == prefix[0] and held(below, prefix[1:]) for token, below in forest)


def case(drawing: int, index: int) -> str:
    """Return one case in Coq's notation.

    It has probabilities of prefixes, the bound of the caps, and by rule the texts of the trees with each prefix.
    """
    (target, draft), (drafter, n, L, rules) = problem(drawing, index), DRAWINGS[drawing]
    nodes = Nodes(markov((target, draft, 1, L)))
    prefixes = [prefix for length in range(L + 1) for prefix in product(range(n), repeat=length)]
    trees = list(drafter.every_tree(nodes))
    forests = [tree.forest for tree, _ in trees]
    holding = {prefix: [i for i, forest in enumerate(forests) if held(forest, prefix)] for prefix in prefixes}

    def mean(values: list[Fraction], prefix: tuple[int, ...]) -> Fraction:
        """Return the mean of a number over the trees that hold the prefix."""
        return sum((trees[i][1] * values[i] for i in holding[prefix]), Fraction(0))

    chances = [mean([Fraction(1)] * len(trees), prefix) for prefix in prefixes]
    rows = [f"({numbers(chances)}, {numbers([otd.trees.cap_bound(nodes, trees)])})"]
    for rule in rules:
        laws = [extended(rule(nodes, tree), nodes.target, L + 1) for tree, _ in trees]
        for prefix in prefixes:
            texts = product(range(n), repeat=L + 1)
            law = [mean([given.get(text, Fraction(0)) for given in laws], prefix) for text in texts]
            rows.append(f"([], {numbers(law)})")
    return f"({models((target, draft, 1, L))}, {L}%nat,\n   {entries(rows, indent=4)})"


def cases(drawing: int) -> Iterator[str]:
    """Yield the cases of one drafter."""
    return (case(drawing, index) for index in range(CASES))


NAMES = ("stopped_cases", "sampled_cases", "tossed_cases")
FILE = NumbersFile(
    Path(__file__).parent / "computed" / "bridge_drafting_cases.v",
    """Written by `python -m proofs_checks.formal.bridge`: trees that follow what was drafted, enumerated by the library in Fractions.

   A case is (target, draft, L, rows). A model is its first law, then those after token 0, 1, .. The first row: the probability that the
   tree holds each prefix of at most L tokens, shorter ones first; and the bound of the caps. Then for every rule, prefix by prefix: for
   every text of L + 1 tokens, the probability that the tree holds the prefix and the text comes out.""",
    tuple(
        Definition(
            name,
            "list (list Q) * list (list Q) * nat * list (list Q * list Q)",
            partial(cases, number),
        )
        for number, name in enumerate(NAMES)
    ),
)
