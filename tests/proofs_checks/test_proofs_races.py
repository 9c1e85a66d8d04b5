"""The proof checks of exponential races: they pass, fail when they must, and agree with races that are really run."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from proofs_checks.exponential_sums import integral, over_delays, plus, power, product
from proofs_checks.races import exponential_race, list_race
from proofs_checks.random_cases import Case
from proofs_checks.statement import Statement

ALL = [(module, statement) for module in (exponential_race, list_race) for statement in module.STATEMENTS]
P, Q = (F(1, 2), F(1, 6), F(1, 3), F(0)), (F(1, 5), F(1, 2), F(0), F(3, 10))
RUNS = 200_000
FIVE_SIGMA = 5 / (2 * RUNS**0.5)  # of a frequency; the seed is fixed, hence the tests do not vary


@pytest.mark.parametrize(("module", "statement"), ALL, ids=[statement.name for _, statement in ALL])
def test_the_statement_holds_and_its_planted_errors_do_not(module: Any, statement: Statement) -> None:
    outcome = module.check(statement, 12)
    assert outcome.passed, outcome.verdict + outcome.controls
    assert outcome.kind == ("proved" if statement.prove else "verified")


def test_sums_of_exponentials() -> None:
    first, second = {F(1): F(2), F(3): F(-1)}, {F(1): F(-2), F(2): F(1)}
    assert plus(first, second) == {F(3): F(-1), F(2): F(1)} and plus(first, first, -1) == {}
    assert product(first, second) == {F(2): F(-4), F(3): F(2), F(4): F(2), F(5): F(-1)}
    assert power(first, 2) == product(first, first) and power(first, 0) == {F(0): F(1)}
    assert integral(first) == 2 - F(1, 3)


@pytest.mark.parametrize("end", [None, F(3, 2)])
def test_delays_by_quadrature(end: F | None) -> None:
    def exponent(v: F) -> F:
        return v + max(F(0), 2 * v - 1) + max(F(0), 3 * v - 4)

    integrated = over_delays(exponent, [F(1, 2), F(4, 3), F(-1), F(7)], end)
    for s in (0.3, 1.7):
        value, _ = quad(lambda v, s=s: s * np.exp(-s * float(exponent(F(v)))), 0, 60 if end is None else 1.5, limit=400)
        assert sum(float(c) * np.exp(-float(rate) * s) for rate, c in integrated.items()) == pytest.approx(
            value, abs=1e-6
        )


def races(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Outputs (runs,) and drafts (runs, k) of races that are really run."""
    exponentials = np.random.default_rng([88, k]).exponential(size=(RUNS, k, len(P)))
    with np.errstate(divide="ignore"):
        outputs = (exponentials.min(1) / np.array(P, dtype=float)).argmin(-1)
        return outputs, (exponentials / np.array(Q, dtype=float)).argmin(-1)


def frequencies(drafts: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """How often each pair of a draft and an output occurs: (n, n)."""
    n = len(P)
    return np.bincount(drafts * n + outputs, minlength=n * n).reshape(n, n) / RUNS


def test_the_joint_law_of_one_race() -> None:
    outputs, drafts = races(1)
    law = np.array(exponential_race.joint(Case(P, Q, 1, 0)), dtype=float)
    assert abs(law - frequencies(drafts[:, 0], outputs)).max() < FIVE_SIGMA
    assert abs(law - law.T).max() > 10 * FIVE_SIGMA  # draft and output are not interchangeable here
    assert exponential_race.joint(Case(P, Q, 1, 0)) == list_race.joint(Case(P, Q, 1, 0))


@pytest.mark.parametrize("k", [2, 3])
def test_the_joint_law_and_the_match_of_a_list_of_races(k: int) -> None:
    case = Case(P, Q, k, 0)
    outputs, drafts = races(k)
    assert abs(np.array(list_race.joint(case), dtype=float) - frequencies(drafts[:, 0], outputs)).max() < FIVE_SIGMA
    matched = (drafts == outputs[:, None]).any(1)
    for token in range(len(P)):
        exact, bound = list_race.match(case, token), list_race.lower_bound(case, token)
        assert abs(float(exact) - (matched & (outputs == token)).mean()) < FIVE_SIGMA
        assert bound <= exact
    assert sum(list_race.match(case, y) for y in range(4)) > sum(list_race.lower_bound(case, y) for y in range(4))


def test_two_tokens_match_as_often_as_any_coupling() -> None:
    case = Case((F(1, 2), F(1, 2)), (F(3, 4), F(1, 4)), 1, 0)
    assert [exponential_race.match(case, y) for y in range(2)] == [F(1, 2), F(1, 4)]
    assert [list_race.match(case, y) for y in range(2)] == [F(1, 2), F(1, 4)]
