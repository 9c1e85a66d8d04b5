"""The bridge for the sweep: the levels that optimal selection computes, and the distribution of the token that it selects by them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from ot_draft.rules.optimal import host

from . import bridge_optimum
from .bridge_paths import any_law, positive_law
from .coq_text import Definition, NumbersFile, numbers

CASES = 120


def problem(index: int) -> tuple[list[Fraction], list[Fraction], int]:
    """Return p, q and k, deterministic for an index.

    Up to 7 tokens, with zeros and ties, and in every sixth problem two that die together.
    """
    draw = random.Random(500 + index)
    n = draw.randint(2, 7)
    p, q, k = any_law(draw, n), any_law(draw, n), draw.randint(1, 4)
    return (p, q, k) if index % 6 else together(draw, n)


def together(draw: random.Random, n: int) -> tuple[list[Fraction], list[Fraction], int]:
    """Return a problem whose p is the distribution of the token selected by levels of 0, 1 and one in between, which die together,
    neighbours and others."""
    q, k, share = positive_law(draw, n), draw.randint(2, 4), Fraction(draw.randint(1, 4), 5)
    t = [Fraction(0), *accumulate(q)]
    levels = [Fraction(1), *draw.choices((share, share, share, Fraction(0), Fraction(1)), k=n - 1), Fraction(1)]
    p = [Fraction(0)] * n
    for least, weight in ((Fraction(0), share), (share, 1 - share)):
        for a, b in pairwise(i for i, level in enumerate(levels) if level > least):
            for y in range(a, b):
                p[y] += weight * q[y] * (t[b] ** k - t[a] ** k) / (t[b] - t[a])
    return p, q, k


def case(p: list[Fraction], q: list[Fraction], k: int) -> str:
    """Return one case in Coq's notation."""
    target, draft = (np.array(masses, dtype=object) for masses in (p, q))
    _, level, law = host.by_count(target, draft, np.array([k]), None)
    between = level[: max(sum(mass > 0 for mass in q) - 1, 0)]
    return f"({numbers(p)}, {numbers(q)}, {k}%nat, {numbers(between.tolist())}, {numbers(law.tolist())})"


def cases() -> Iterator[str]:
    """Yield all cases."""
    return (case(*problem(index)) for index in range(CASES))


def cases_of_bridge() -> Iterator[str]:
    """Yield the cases of the problems of bridge.py."""
    return (case(p, q, k) for p, q, k, _ in map(bridge_optimum.problem, range(bridge_optimum.CASES)))


FILE = NumbersFile(
    Path(__file__).parent / "computed" / "bridge_level_cases.v",
    """Written by `python -m proofs_checks.formal.bridge`: small problems, and the levels of optimal selection on them in Fractions.

   A case is (p, q, k, the levels between the tokens with q > 0 in the order of p/q, the law of the selected token). few_tokens: on the
   problems of bridge_cases.v.""",
    (
        Definition("level_cases", "list Q * list Q * nat * list Q * list Q", cases),
        Definition("few_tokens", "list Q * list Q * nat * list Q * list Q", cases_of_bridge),
    ),
)
