"""The family of targets is best: against linear and convex programs in floats, with == on Fractions, and by certificates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frontier_programs import closed_forms, draw, is_reached, kl_differences, linear_program
from slow import slow

import ot_draft as otd
from ot_draft import lossy
from ot_draft.bias import divergence
from ot_draft.lossy.frontier import target_within

pytest.importorskip("scipy.optimize")

PROBLEMS = 120  # `python tests/frontier_programs.py 1000` takes all


@pytest.mark.parametrize("block", range(4))
def test_tv_and_ratio_are_the_programs_optimum_and_exact(block: int) -> None:
    for number in range(block * PROBLEMS // 4, (block + 1) * PROBLEMS // 4):
        problem = draw(number)
        for name, target, best in closed_forms(problem):
            assert is_reached(problem, name, target, best)
            if number % 4 == 0:
                assert abs(linear_program(problem, name) - float(best)) <= 1e-9


@pytest.mark.parametrize("name", ["kl", "reverse-kl", "chi-squared", "tv", "ratio"])
def test_every_point_has_a_certificate(name: str) -> None:
    for number in range(40):
        problem = draw(number)
        p, q = problem.p.astype(float), problem.q.astype(float)
        found = otd.frontier(p, q, problem.k, problem.law, name, [0.0, 1e-3, 0.05, 0.4])
        assert (found.gap >= -1e-12).all() and (found.gap <= 1e-8).all()
        assert (np.diff(found.acceptance) >= -1e-9).all()
        for budget, acceptance in zip(found.budget, found.acceptance, strict=True):
            r = target_within(f"{name}={budget}")(p, q, problem.k, problem.law)
            assert divergence(name, r, p) <= budget + 1e-9
            assert abs(float(otd.optimal_acceptance(r, q, problem.k, problem.law)) - acceptance) <= 1e-9


def test_kl_is_a_convex_programs_optimum() -> None:
    pytest.importorskip("cvxpy")
    for number in range(40, 56, 2):
        beside_program, gap = kl_differences(number)
        assert beside_program <= 1e-6 and gap <= 1e-8


def test_a_certificate_does_not_depend_on_the_target_that_is_certified() -> None:
    """No law on a grid of laws within the budget accepts more than the bound."""
    problem = otd.Problem(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6]), 2)
    grid = np.array([(a, b, 40 - a - b) for a in range(41) for b in range(41 - a)]) / 40
    accepted = otd.optimal_acceptance(grid, np.broadcast_to(problem.q, grid.shape), 2)
    for name in ("tv", "ratio", "kl", "reverse-kl", "chi-squared"):
        spent = divergence(name, grid, np.broadcast_to(problem.p, grid.shape))
        for budget in (0.01, 0.05, 0.2):
            bound = float(otd.frontier(problem.p, problem.q, 2, None, name, [budget]).bound[0])
            assert accepted[spent <= budget].max(initial=0.0) <= bound + 1e-9


def test_a_curve_without_budgets_and_a_batch() -> None:
    generator = np.random.default_rng(3)
    p, q = generator.dirichlet(np.ones(50), (2, 3))
    for name in ("tv", "kl", "ratio"):
        found = otd.frontier(p, q, 4, divergence=name)
        assert found.acceptance.shape == (3, len(found.budget)) and found.budget[0] == pytest.approx(0, abs=1e-9)
        assert (found.gap <= 1e-8).all()
        assert (np.diff(found.acceptance) >= -1e-9).all()
        row = otd.frontier(p[1], q[1], 4, divergence=name, budgets=found.budget)
        assert np.allclose(row.acceptance, found.acceptance[1], atol=1e-9)


@pytest.mark.parametrize("n", [9_000, slow(20_000)])
def test_large_vocabularies_by_groups(n: int) -> None:
    generator = np.random.default_rng(5)
    logits = 3 * generator.standard_normal((2, n)) * np.array([[1.0], [0.3]])
    p, q = (np.exp(x) / np.exp(x).sum() for x in (logits[0], logits[0] + 3 * logits[1]))
    for k in (1, 2, 8):
        for name, eps in (("kl", 0.02), ("kl", 0.4), ("kl", 2.0), ("tv", 0.05), ("ratio", 0.2)):
            target = target_within(f"{name}={eps}")
            r = target(p, q, k)
            assert abs(r.sum() - 1) < 1e-12 and divergence(name, r, p) <= eps * (1 + 1e-9)
            found = otd.frontier(p, q, k, None, name, [eps])
            assert -1e-9 <= found.gap[0] <= 1e-6
            assert found.acceptance[0] <= float(otd.optimal_acceptance(r, q, k)) + 1e-9


@pytest.mark.parametrize("name", ["kl", "reverse-kl", "chi-squared"])
def test_tokens_that_one_law_never_gives_in_large_vocabularies(name: str) -> None:
    p, q = np.random.default_rng(0).dirichlet(np.full(9000, 0.5), 2)
    q[::7], p[3::11] = 0, 0
    p[::7] *= 1e-7  # a reverse KL that is infinite, on next to no mass
    p, q = p / p.sum(), q / q.sum()
    for eps in (0.5, 9.0):  # 9: more than all that is to be had
        target = target_within(f"{name}={eps}")
        r = target(p, q, 3)
        assert divergence(name, r, p) <= eps * (1 + 1e-9)
        assert -1e-9 <= otd.frontier(p, q, 3, None, name, [eps]).gap[0] <= 1e-6


@pytest.mark.parametrize("text", ["tv", "tv=x", "hellinger=0.1", "=0.1", "tv=1/0"])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(otd.InvalidArgument, match="budget"):
        target_within(text)


@pytest.mark.parametrize("make", [lambda: lossy.TotalVariation(-1), lambda: lossy.KL("a"), lossy.Ratio])
def test_budgets_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(otd.InvalidArgument):
        make()


def test_an_unknown_divergence_is_refused() -> None:
    with pytest.raises(otd.InvalidArgument, match="divergence"):
        otd.frontier([0.5, 0.5], [0.5, 0.5], divergence="hellinger")


@pytest.mark.parametrize("budgets", [0.1, [], [[0.1]]])
def test_budgets_are_a_list(budgets: Any) -> None:
    with pytest.raises(otd.InvalidArgument, match="budgets must be a non-empty list of numbers"):
        otd.frontier([0.5, 0.5], [0.5, 0.5], budgets=budgets)
