"""The bridge for the optimum: `otd.optimal_acceptance` on the problems of bridge.py, and K-SEQ's own factor."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

import ot_draft as otd
from ot_draft.rules.k_seq.division_factor import division_factor

from .bridge_paths import any_law
from .coq_text import Definition, NumbersFile, number, numbers

CASES = 210
Problem = tuple[list[Fraction], list[Fraction], int, Fraction]


def problem(number: int) -> Problem:
    """Return p, q, k and a factor in [1, k] for K-SEQ, deterministic for a number, with zeros and ties.

    The factor is at least gamma*: below it the library and rules.v fill up a distribution that cannot be filled up, each in its own way.
    """
    draw = random.Random(number)
    n = draw.choice((1, 2, 2, 3, 3, 3, 4))
    k = draw.randint(1, min(n, 3))
    p, q = any_law(draw, n), any_law(draw, n)
    factor = 1 + (k - 1) * Fraction(draw.randint(0, 12), 12)
    return p, q, k, factor if large_enough(p, q, k, factor) else Fraction(k)


def large_enough(p: list[Fraction], q: list[Fraction], k: int, factor: Fraction) -> bool:
    """Return whether p_acc <= factor beta, which holds from gamma* on."""
    beta = sum((min(q_y, p_y / factor) for p_y, q_y in zip(p, q, strict=True)), Fraction(0))
    return 1 - (1 - beta) ** k <= factor * beta


def gamma(p: list[Fraction], q: list[Fraction], k: int, binary_digits: int = 40) -> Fraction:
    """Return gamma* rounded up to binary digits, if K-SEQ's own factor is that or at most two units larger; else K-SEQ's own.

    The library finds it in floats first, which may differ by a unit from machine to machine.
    """
    low, high = (
        (1 << binary_digits) - 1,
        k << binary_digits,
    )  # multiples of the unit; the first is too small or would be below 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if large_enough(p, q, k, Fraction(middle, 1 << binary_digits)) else (middle, high)
    least, unit = Fraction(high, 1 << binary_digits), Fraction(1, 1 << binary_digits)
    found = Fraction(division_factor(np.array(p), np.array(q), np.array([Fraction(k)]))[0])
    return least if least <= found <= least + 2 * unit else found


def cases() -> Iterator[str]:
    """Yield all cases in Coq's notation."""
    for p, q, k, _ in map(problem, range(CASES)):
        best = [otd.optimal_acceptance(p, q, k, law) for law in (otd.IID(), otd.WithoutReplacement())]
        yield f"({numbers(p)}, {numbers(q)}, {k}%nat, {numbers(best)}, {number(gamma(p, q, k))})"


FILE = NumbersFile(
    Path(__file__).parent / "computed" / "bridge_optimum_cases.v",
    """Written by `python -m proofs_checks.formal.bridge`: small problems, and the best acceptance on them in Fractions.

   A case is (p, q, k, [the best acceptance of k i.i.d. drafts, of k without replacement], gamma* rounded up to 40 binary digits:
   the factor that K-SEQ finds for itself is that or at most two units larger).""",
    (Definition("optimum_cases", "list Q * list Q * nat * list Q * Q", cases),),
)
