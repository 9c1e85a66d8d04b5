"""What a rule accepts on a pair (p, q), the one way for `compare` and `sweep`: by formula, by enumeration, else from random drafts.

Every estimate has a stream of random numbers of its own, so that nothing depends on what else is compared, nor in which order.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import numpy as np

from ..arrays import Array
from ..problem import Problem
from ..selection import SelectionRule
from .closed_forms import closed_form
from .estimate import Acceptance, expected_acceptance

Place = tuple[int, ...]  # of a pair: the first numbers of its stream's key


def evaluate_pair(
    rule: SelectionRule, problem: Problem, samples: int, seed: int, place: Place, optimum: Array | None = None
) -> Acceptance:
    """One pair. samples, seed, place: of the random drafts, where there is no exact value. optimum: of the problem, if known."""
    stream = crc32(f"{rule.name} {problem.law.spelling}".encode())
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(*place, problem.k, stream)))
    return expected_acceptance(rule, problem, samples, generator, optimum)


def evaluate_pairs(
    rule: SelectionRule,
    problem: Problem,
    samples: int,
    seed: int,
    place_of: Callable[[int], Place],
    optimum: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Many pairs (R, n) at a time, in floats: acceptance, what is taken, and the standard error of the first, (R,) each.

    place_of: place of a row. The numbers are those of `evaluate_pair`, up to rounding where the rule has a formula.
    """
    if form := closed_form(rule, problem, optimum):
        return *form, 0 * form[0]
    rows = []
    for row, (p, q) in enumerate(zip(problem.p, problem.q, strict=True)):
        alone = Problem(p, q, problem.k, problem.law)
        rows.append(evaluate_pair(rule, alone, samples, seed, place_of(row)))
    value, taken, error = (
        np.array([getattr(row, name) for row in rows], dtype=np.float64) for name in ("value", "taken", "error")
    )
    return value, taken, error
