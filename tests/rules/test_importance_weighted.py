"""Importance weighting is lossless for any weights, however far apart; its quadrature agrees with the enumeration."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from random_problems import random_problems

import ot_draft as otd

WEIGHTS = {
    "p / q": otd.rules.ImportanceWeighted().weights,
    "all equal": lambda p, q: 1 + 0 * p,
    "target": lambda p, q: p,
    "mixed": lambda p, q: p + 3 * q * q,
    "far apart": lambda p, q: 0 * p + np.array([1, 10**25, 1, 10**40][: p.shape[-1]], dtype=p.dtype),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_any_weights_are_exact_in_fractions(name: str) -> None:
    for n, k in ((2, 2), (3, 3), (4, 2)):
        for problem in random_problems(81, n, k, otd.IID()):
            result = otd.evaluate(otd.rules.ImportanceWeighted(WEIGHTS[name]), problem)
            assert result.lossless
            assert result.acceptance <= otd.optimal_acceptance(problem.p, problem.q, k)


@pytest.mark.parametrize("name", [name for name in WEIGHTS if name != "far apart"])
def test_the_quadrature_is_the_enumeration(name: str, floats: Any) -> None:
    rule = otd.rules.ImportanceWeighted(WEIGHTS[name])
    for n, k in ((2, 1), (2, 4), (3, 3), (4, 2)):
        for problem in random_problems(82, n, k, otd.IID()):
            result = otd.evaluate(rule, otd.Problem(floats.make(problem.p), floats.make(problem.q), k))
            assert result.lossless
            assert floats.agrees(result.acceptance, otd.evaluate(rule, problem).acceptance)


@pytest.mark.parametrize("heavy", [F(1, 10**3), F(1, 10**9), F(1, 10**20)])
def test_weights_far_apart_stay_lossless_in_floats(heavy: F) -> None:
    """The heavy token is rare: it alone makes the mean weight, and the others lie 10^16 and more below it."""
    rule = otd.rules.ImportanceWeighted(WEIGHTS["far apart"])
    for k in (1, 2, 4):
        p, q = np.array([0.3, 0.5, 0.2]), np.array([0.75, float(heavy), 0.25 - float(heavy)])
        assert otd.evaluate(rule, otd.Problem(p, q, k)).error <= 1e-12
