"""The bridge for trees drawn without replacement: the root has two children, the elder one two of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path

import ot_draft as otd
from ot_draft import trees
from ot_draft.trees.model import Nodes
from ot_draft.trees.tree import PlainTree

from ..branches import Chance, extended, law_of
from .bridge_paths import PathCase, markov, models, positive_law
from .coq_text import Definition, NumbersFile, entries, numbers

SHAPE = trees.TreeShape((0, 0, 1, 1))
LAW = otd.WithoutReplacement()
CASES = 2


def tree_rules() -> tuple[trees.PathRule, ...]:
    """Return Traversal and recursive rejection, in the order of bridge_trees.v."""
    return trees.Traversal(), trees.TokenWise(otd.rules.RecursiveRejectionWithoutReplacement())


def problem(index: int) -> PathCase:
    """Return the target and draft of a Markov model of three tokens without zeros."""
    draw = random.Random(5 + index)
    target, draft = ([positive_law(draw, 3) for _ in range(4)] for _ in range(2))
    return target, draft, 2, 2


def by_tree(rule: trees.PathRule, nodes: Nodes) -> str:
    """Return, for all trees that can occur, their probability and the distribution of the three tokens given them."""
    rows = []

    def draw(chance: Chance) -> tuple[int, ...]:
        first, second = draw_two(chance, nodes.draft(()).tolist())
        return (first, second, *draw_two(chance, nodes.draft((first,)).tolist()))

    for drafted, probability in law_of(draw).items():
        law = extended(rule(nodes, PlainTree(SHAPE, drafted, LAW)), nodes.target, 3)
        rows.append(
            f"({numbers([probability])}, {numbers(law.get(text, Fraction(0)) for text in product(range(3), repeat=3))})"
        )
    return entries(rows)


def draw_two(chance: Chance, q: list[Fraction]) -> tuple[int, int]:
    """Return two tokens without replacement."""
    first = chance.draw(q)
    return first, chance.draw([0 * mass if y == first else mass / (1 - q[first]) for y, mass in enumerate(q)])


def cases() -> Iterator[str]:
    """Yield the cases in Coq's notation, one rule per line.

    The model is the same for all rules and trees, so that its caches are reused.
    """
    for case in map(problem, range(CASES)):
        nodes = Nodes(markov(case))
        yield f"({models(case)},\n   {entries((by_tree(rule, nodes) for rule in tree_rules()), indent=4)})"


FILE = NumbersFile(
    Path(__file__).parent / "computed" / "bridge_tree_cases.v",
    """Written by `python -m proofs_checks.formal.bridge`: trees drawn without replacement, and what the rules do on them in Fractions.

   A case is (target, draft, and for Traversal and for recursive rejection, for every tree that can occur: ([its probability], the law
   of the text of three tokens given it)). A model is its first law, then those after token 0, 1, ..""",
    (Definition("tree_cases", "list (list Q) * list (list Q) * list (list (list Q * list Q))", cases),),
)
