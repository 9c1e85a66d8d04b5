"""Random orders of the tokens: what happens where the solver of their weights gives up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import ot_draft as otd


@pytest.fixture
def giving_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """HiGHS without an answer in these ways of calling it."""
    refused: list[str] = []
    solve = scipy.optimize.linprog

    def linprog(*arguments: Any, method: str, **options: Any) -> Any:
        answer = solve(*arguments, method=method, **options)
        if method in refused:
            answer.x = None
        return answer

    monkeypatch.setattr(scipy.optimize, "linprog", linprog)
    return refused


P, Q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.1, 0.2, 0.3, 0.4])


def test_another_way_to_solve_gives_the_same_acceptance(giving_up: list[str]) -> None:
    problem = otd.Problem(P, Q, 2, otd.WithoutReplacement())
    usual = otd.evaluate(otd.rules.RandomOrder(), problem)
    giving_up += ["highs", "highs-ds"]
    other = otd.evaluate(otd.rules.RandomOrder(tolerance=1e-10), problem)
    assert usual.lossless and other.lossless
    assert other.acceptance == pytest.approx(usual.acceptance, abs=1e-8)


def test_no_way_at_all_is_one_line(giving_up: list[str]) -> None:
    giving_up += ["highs", "highs-ds", "highs-ipm"]
    with pytest.raises(otd.SolverFailed, match="no mixture of orders with 3 methods"):
        otd.evaluate(otd.rules.RandomOrder(tolerance=1e-11), otd.Problem(P, Q, 3, otd.WithoutReplacement()))
