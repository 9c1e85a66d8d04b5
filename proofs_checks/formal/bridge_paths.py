"""The bridge for rules along paths: small Markov models, and what the path rules do on them in Fractions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

import ot_draft as otd
from ot_draft import trees
from ot_draft.trees.model import Nodes

from ..branches import Chance, extended, law_of
from .coq_text import Definition, NumbersFile, entries, number, numbers

CASES = 12
SIZES = ((2, 1, 1), (2, 1, 2), (2, 2, 1), (2, 2, 2), (3, 1, 1), (2, 3, 1))  # tokens, paths K, length L
# Positive models, in which most weights lie strictly between 0 and 1, row by row.
ROW_SIZES = ((2, 1, 2), (2, 2, 2), (2, 1, 3), (3, 1, 2), (2, 2, 2), (2, 3, 1))
Laws = list[list[Fraction]]
PathCase = tuple[Laws, Laws, int, int]


def _laws(*texts: str) -> Laws:
    return [[Fraction(mass) for mass in text.split()] for text in texts]


# Two paths over three tokens whose first tokens agree: two drafts are alive where the weight is 1/2, and there selecting for p
# selects another draft, and accepts less, than selecting for w p.
SCALED: PathCase = (
    _laws("1/2 1/4 1/4", "1/11 5/11 5/11", "1/3 1/3 1/3", "1/3 1/3 1/3"),
    _laws("1 0 0", "5/7 1/7 1/7", "1/3 1/3 1/3", "1/3 1/3 1/3"),
    2,
    2,
)


def any_law(draw: random.Random, n: int) -> list[Fraction]:
    """Return a distribution with small numerators, zeros and ties among them."""
    return _normalised([draw.choice((0, 1, 1, 2, 3, 5, 8)) for _ in range(n)])


def positive_law(draw: random.Random, n: int) -> list[Fraction]:
    """Return a distribution without zeros."""
    return _normalised([draw.randint(1, 5) for _ in range(n)])


def _normalised(masses: list[int]) -> list[Fraction]:
    whole = sum(masses)
    return [Fraction(mass, whole) for mass in masses] if whole else [Fraction(1, len(masses))] * len(masses)


def path_rules(K: int) -> tuple[trees.PathRule, ...]:
    """Return the path rules that are formalised, in the order of bridge_paths.v."""
    several = (
        trees.TokenWise(otd.rules.RecursiveRejection()),
        trees.TokenWise(otd.rules.Optimal()),
        trees.Traversal(),
        trees.Joint(),
    )
    return (*several, trees.BlockVerification()) if K == 1 else several


def problem(index: int) -> PathCase:
    """Return the target and draft of a Markov model of order 1, K and L; the same for a number in every run."""
    return _drawn(random.Random(1000 + index), SIZES[index % len(SIZES)], any_law)


def order_two(K: int) -> PathCase:
    """Return models of order 2 without zeros, with paths for which checks of the last token alone would use another distribution."""
    draw = random.Random(52)
    target, draft = ([positive_law(draw, 2) for _ in range(7)] for _ in range(2))
    return target, draft, K, 3


def row_problem(index: int) -> PathCase:
    """Return the same without zeros, for the rows."""
    return _drawn(random.Random(77 + index), ROW_SIZES[index], positive_law)


def _drawn(
    draw: random.Random, size: tuple[int, int, int], law: Callable[[random.Random, int], list[Fraction]]
) -> PathCase:
    n, K, L = size
    return [law(draw, n) for _ in range(n + 1)], [law(draw, n) for _ in range(n + 1)], K, L


def markov(case: PathCase) -> trees.MarkovModel:
    """Return the case's model, of the order that its table has."""
    target, draft = case[:2]
    contexts: list[tuple[int, ...]] = []
    order = -1
    while len(contexts) < len(target):
        order += 1
        contexts += product(range(len(target[0])), repeat=order)
    targets, drafts = (dict(zip(contexts, map(np.array, laws), strict=True)) for laws in (target, draft))
    return trees.MarkovModel(targets, drafts, order)


def texts(n: int, L: int) -> Iterator[tuple[int, ...]]:
    """Yield all texts of L + 1 of n tokens."""
    return product(range(n), repeat=L + 1)


def average(rule: trees.PathRule, case: PathCase, nodes: Nodes) -> str:
    """Return the distribution of the L + 1 tokens and the expected number of accepted tokens, as otd.trees.evaluate gives them."""
    target, _, K, L = case
    found = trees.evaluate(rule, nodes, (K, L))
    law = [found.law.get(text, Fraction(0)) for text in texts(len(target[0]), L)]
    return f"({numbers(law)}, {number(found.expected_length)})"


def by_drafts(
    rule: trees.PathRule, case: PathCase, nodes: Nodes, some: Callable[[tuple[int, ...]], bool] = bool
) -> str:
    """Return, for drafted paths that can occur, their probability, the accepted length, and the distribution of texts given them.

    The texts are those that begin and end with token 0. some: whether drafts with this path, among others like it, are listed.
    """
    target, _, K, L = case
    every, rows = [text for text in texts(len(target[0]), L) if text[0] == text[-1] == 0], []

    def draw(chance: Chance) -> tuple[tuple[int, ...], ...]:
        drawn = []
        for _ in range(K):
            path: tuple[int, ...] = ()
            while len(path) < L:
                path = (*path, chance.draw(nodes.draft(path).tolist()))
            drawn.append(path)
        return tuple(drawn)

    for drafts, probability in law_of(draw).items():
        if all(map(some, drafts)):
            emitted = rule(nodes, drafts)
            length = sum((mass * (len(text) - 1) for text, mass in emitted.items()), Fraction(0))
            law = extended(emitted, nodes.target, L + 1)
            rows.append(f"({numbers([probability, length])}, {numbers(law.get(text, Fraction(0)) for text in every)})")
    return entries(rows)


def path_case(
    case: PathCase, rules: Iterable[trees.PathRule], said: Callable[[trees.PathRule, PathCase, Nodes], str]
) -> str:
    """Return one case in Coq's notation, one rule per line.

    The model is the same for all rules and paths, so that its caches are reused.
    """
    (_, _, K, L), nodes = case, Nodes(markov(case))
    return f"({models(case)}, {K}%nat, {L}%nat,\n   {entries((said(rule, case, nodes) for rule in rules), indent=4)})"


def models(case: PathCase) -> str:
    """Return the target and draft in Coq's notation."""
    return ", ".join(entries(map(numbers, laws)) for laws in case[:2])


def averages() -> Iterator[str]:
    """Yield the cases of averages."""
    for case in map(problem, range(CASES)):
        yield path_case(case, path_rules(case[2]), average)


def rows() -> Iterator[str]:
    """Yield the cases by drafts."""
    for case in map(row_problem, range(len(ROW_SIZES))):
        yield path_case(case, path_rules(case[2]), by_drafts)


def long_rows() -> Iterator[str]:
    """Yield the cases of order 2, by drafts."""
    for case in map(order_two, (1, 2)):
        yield path_case(case, path_rules(case[2]), partial(by_drafts, some=lambda path: path[1] == path[2]))


def scaled_rows() -> Iterator[str]:
    """Yield the case in which p and w p differ; its tokens 1 and 2 are equivalent."""
    yield path_case(SCALED, (trees.Joint(),), partial(by_drafts, some=lambda path: 2 not in path))


MODEL = "list (list Q) * list (list Q) * nat * nat"
ROWS = "list (list (list Q * list Q))"
FILE = NumbersFile(
    Path(__file__).parent / "computed" / "bridge_path_cases.v",
    """Written by `python -m proofs_checks.formal.bridge`: small Markov models, and what the path rules do on them in Fractions.

   A case is (target, draft, K, L, and for each rule, in the order of bridge_paths.v, what follows). A model is its first law, then those
   after token 0, 1, .., and of order 2 those after 0 0, 0 1, ..; a law of texts of L + 1 tokens is listed in lexicographic order.
   path_cases: (law of the text, expected accepted tokens), as otd.trees.evaluate gives them.
   path_rows: for all drafted paths that can occur (their probability and the accepted tokens, the law given them of the texts that
   begin and end with token 0). long_rows: the same, of order 2, for paths whose last two tokens are equal.
   scaled_rows: the same for Joint alone, where selecting for p and for w p differ, for paths without token 2.""",
    (
        Definition("path_cases", f"{MODEL} * list (list Q * Q)", averages),
        Definition("path_rows", f"{MODEL} * {ROWS}", rows),
        Definition("long_rows", f"{MODEL} * {ROWS}", long_rows),
        Definition("scaled_rows", f"{MODEL} * {ROWS}", scaled_rows),
    ),
)
