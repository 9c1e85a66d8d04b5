"""Sampling with uniforms in [0, 1) and strict comparisons never emits what has probability 0, not even at the boundaries.

Inverse CDF: token y is taken for c_{y-1} <= u < c_y, c being the prefix sums. For a token of mass 0 this is empty. A comparison
u <= c would emit a first token of mass 0 at u = 0; u = 1 would run past the last token.

CHECK. Drafts of every draft law, outputs of every draft law's rules: all uniforms from 0, the last grid point below 1, and every
prefix sum (the boundaries themselves), in Fractions.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

import ot_draft as otd

from ..checking import check
from ..optimum.linear_program import problems
from ..random_cases import Case
from ..statement import Statement

__all__ = ["STATEMENTS", "Boundaries", "check"]

GRID = 1 << 63
AT_MOST, FROM_ONE = "u <= c instead of u < c", "uniforms in (0, 1]"
ZERO_FIRST = Case((Fraction(0), Fraction(1)), (Fraction(0), Fraction(1)), 2, 0)
RULES: tuple[otd.SelectionRule, ...] = (
    otd.rules.Optimal(),
    otd.rules.KSeq(),
    otd.rules.NaiveTarget(),
    otd.rules.RecursiveRejectionWithoutReplacement(),
    otd.rules.Greedy(),
    otd.rules.SpecHub(),
)


class Boundaries(np.random.Generator):
    """A generator whose uniforms are given: integers over 2^63, as `otd.draw` and `otd.sample` read them for Fractions."""

    def __init__(self, uniforms: tuple[Fraction, ...]) -> None:
        super().__init__(np.random.PCG64())
        self.bits = [int(u * GRID) for u in uniforms]

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Any:  # type: ignore[override]  # the one use made of it
        """Return the given integers; their number must be that of the request."""
        return np.array(self.bits, dtype=object).reshape(shape)


def two_drafts(case: Case) -> Case:
    """Return the case with at most two drafts, its masses rounded to multiples of 1/64 with the same zeros.

    Prefix sums are then on the grid of the uniforms.
    """
    return replace(case, p=_in_64ths(case.p), q=_in_64ths(case.q), k=2)


def uniforms(masses: Any, error: str = "") -> list[Fraction]:
    """Return 0, the prefix sums below 1, and the last point of the grid."""
    sums = np.cumsum(np.array(masses, dtype=object)).tolist()
    if error == FROM_ONE:
        return sorted({*sums, Fraction(1)} - {Fraction(0)})
    return sorted({Fraction(0), *(c for c in sums if c < 1), Fraction(GRID - 1, GRID)})


def drafts_possible(case: Case, error: str) -> bool:
    """Return whether the drafts have positive probability under every draft law and for all uniforms."""
    case = two_drafts(case)
    for problem in problems(case):
        for values in product(uniforms(case.q), repeat=2):
            drafts = otd.draw(problem.law, problem.q, 2, Boundaries(values))
            if error == AT_MOST and isinstance(problem.law, otd.IID):
                sums = np.cumsum(problem.q)
                drafts = np.array([next(y for y, c in enumerate(sums) if u <= c) for u in values])
            if problem.law.probability(problem.q, drafts) == 0:
                return False
    return True


def outputs_possible(case: Case, error: str) -> bool:
    """Return whether the output has positive probability given the drafts, for all rules, drafts and uniforms."""
    case = two_drafts(case)
    for rule in RULES:
        problem = case.problem(rule.law)
        for start in product(uniforms(case.q), repeat=2):
            drafts = otd.draw(rule.law, problem.q, 2, Boundaries(start))
            selection = rule(problem.p, problem.q, drafts)
            law = selection.output(drafts)
            for values in product(uniforms(selection.accept, error), uniforms(selection.residual, error)):
                token, _ = otd.sample(rule, problem.p, problem.q, drafts, Boundaries(values))
                if law[int(token)] == 0:
                    return False
    return True


def _in_64ths(masses: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    counts = [int(mass * 32) + 1 if mass else 0 for mass in masses]
    counts[counts.index(max(counts))] += 64 - sum(counts)
    return tuple(Fraction(count, 64) for count in counts)


STATEMENTS = (
    Statement(
        "no impossible draft",
        "With uniform numbers in [0, 1), boundaries included, draft tokens of every draft law have positive probability.",
        "this project",
        "Fractions, uniforms at all boundaries",
        drafts_possible,
        (AT_MOST,),
        first=(ZERO_FIRST,),
        limit=60,
    ),
    Statement(
        "no impossible output",
        "With uniform numbers in [0, 1), boundaries included, the output of a rule has positive probability given the drafts.",
        "this project",
        "Fractions, uniforms at all boundaries",
        outputs_possible,
        (FROM_ONE,),
        limit=8,
    ),
)
