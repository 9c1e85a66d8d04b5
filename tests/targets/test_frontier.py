"""The family of targets is best: against linear and convex programs in floats, with == on Fractions, and by certificates."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from random_problems import random_pair

import ot_draft as ot
from ot_draft import targets

optimize = pytest.importorskip("scipy.optimize")

Array = Any
LAWS = [ot.IID(), ot.WithoutReplacement(), ot.Hybrid(1), ot.Hybrid(-1)]
EPS, FACTOR = Fraction(1, 7), Fraction(3, 2)
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
PROBLEMS = 120  # `ot-draft prove` takes 1,000 and more


def draw(number: int) -> ot.Problem:
    generator = np.random.default_rng([19, number])
    n, k = int(generator.integers(1, 7)), int(generator.integers(1, 5))
    return ot.Problem(*random_pair(generator, n), k, LAWS[number % len(LAWS)] if number % 2 else ot.IID())


def token_sets(problem: ot.Problem) -> tuple[Array, Array]:
    """All token sets, bool (2^n, n), and the probability that all drafts lie in each."""
    sets = np.array(list(product((False, True), repeat=problem.n)))
    return sets, np.array([problem.law.inside(problem.q, each, problem.k) for each in sets])


def program(problem: ot.Problem, sets: Array, inside: Array, divergence: str) -> float:
    """max over r of 1 + min over H of r(H) - Q(all in H), as a linear program: variables r, alpha, and (r - p)+ for tv."""
    n = problem.n
    p = problem.p.astype(float)
    rows = [np.concatenate((-each.astype(float), [1.0], np.zeros(n))) for each in sets]
    limits = list(1 - inside.astype(float))
    for y in range(n):  # r_y - p_y <= d_y
        row = np.zeros(2 * n + 1)
        row[y], row[n + 1 + y] = 1.0, -1.0
        rows.append(row)
        limits.append(p[y])
    if divergence == "tv":
        rows.append(np.concatenate((np.zeros(n + 1), np.ones(n))))
        limits.append(float(EPS))
    top = float(FACTOR) * p if divergence == "ratio" else np.ones(n)
    bounds = [(0, float(value)) for value in top] + [(None, 1)] + [(0, None)] * n
    total = np.concatenate((np.ones(n), np.zeros(n + 1)))[None]
    objective = np.zeros(2 * n + 1)
    objective[n] = -1
    found = optimize.linprog(objective, np.array(rows), limits, total, [1.0], bounds, method="highs", options=TIGHT)
    assert found.status == 0
    return -float(found.fun)


@pytest.mark.parametrize("block", range(4))
def test_tv_and_ratio_are_the_programs_optimum_and_exact(block: int) -> None:
    for number in range(block * PROBLEMS // 4, (block + 1) * PROBLEMS // 4):
        problem = draw(number)
        p, q, k, law = problem.p, problem.q, problem.k, problem.law
        sets, inside = token_sets(problem)
        masses = np.array([sum(p[each], Fraction(0)) for each in sets])
        lossless = 1 + min(masses - inside)
        for name, target, best in (
            ("tv", targets.TotalVariation(EPS), min(Fraction(1), lossless + EPS)),
            ("ratio", targets.Ratio(factor=FACTOR), min(Fraction(1), 1 + min(FACTOR * masses - inside))),
        ):
            r = target(p, q, k, law)
            assert r.sum() == 1 and (r >= 0).all()
            assert 1 + min(np.array([sum(r[each], Fraction(0)) for each in sets]) - inside) == best
            bias = ot.bias_of(r, p)
            assert bias.total_variation <= EPS if name == "tv" else bias.ratio <= FACTOR
            if number % 4 == 0 or PROBLEMS > 500:
                assert abs(program(problem, sets, inside, name) - float(best)) <= 1e-9


@pytest.mark.parametrize("name", ["kl", "reverse-kl", "chi-squared", "tv", "ratio"])
def test_every_point_has_a_certificate(name: str) -> None:
    for number in range(40):
        problem = draw(number)
        p, q = problem.p.astype(float), problem.q.astype(float)
        found = ot.frontier(p, q, problem.k, problem.law, name, [0.0, 1e-3, 0.05, 0.4])
        assert (found.gap >= -1e-12).all() and (found.gap <= 1e-8).all()
        assert (np.diff(found.acceptance) >= -1e-9).all()
        for budget, acceptance in zip(found.budget, found.acceptance, strict=True):
            r = targets.target_within(f"{name}={budget}")(p, q, problem.k, problem.law)
            assert ot.targets.spent(name, r, p) <= budget + 1e-9
            assert abs(float(ot.optimal_acceptance(r, q, problem.k, problem.law)) - acceptance) <= 1e-9


def test_kl_is_a_convex_programs_optimum() -> None:
    cvxpy = pytest.importorskip("cvxpy")
    for number in range(8):
        problem = draw(2 * number + 40)
        sets, inside = token_sets(problem)
        p, q = problem.p.astype(float), problem.q.astype(float)
        r, alpha = cvxpy.Variable(problem.n, nonneg=True), cvxpy.Variable()
        spent = cvxpy.sum(cvxpy.kl_div(r, np.maximum(p, 1e-12)) + r - np.maximum(p, 1e-12))
        limits = [
            sets.astype(float) @ r + 1 - inside.astype(float) >= alpha,
            cvxpy.sum(r) == 1,
            spent <= 0.05,
            alpha <= 1,
        ]
        limits += [r[y] == 0 for y in range(problem.n) if p[y] == 0]
        best = cvxpy.Problem(cvxpy.Maximize(alpha), limits).solve(solver=cvxpy.CLARABEL)
        found = ot.frontier(p, q, problem.k, problem.law, "kl", [0.05])
        assert abs(float(found.acceptance[0]) - best) <= 2e-5


def test_a_certificate_does_not_depend_on_the_target_that_is_certified() -> None:
    """No law on a grid of laws within the budget accepts more than the bound."""
    problem = ot.Problem(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6]), 2)
    grid = np.array([(a, b, 40 - a - b) for a in range(41) for b in range(41 - a)]) / 40
    accepted = ot.optimal_acceptance(grid, np.broadcast_to(problem.q, grid.shape), 2)
    for name in ("tv", "ratio", "kl", "reverse-kl", "chi-squared"):
        spent = targets.spent(name, grid, np.broadcast_to(problem.p, grid.shape))
        for budget in (0.01, 0.05, 0.2):
            bound = float(ot.frontier(problem.p, problem.q, 2, None, name, [budget]).bound[0])
            assert accepted[spent <= budget].max(initial=0.0) <= bound + 1e-9


def test_a_curve_without_budgets_and_a_batch() -> None:
    generator = np.random.default_rng(3)
    p, q = generator.dirichlet(np.ones(50), (2, 3))
    for name in ("tv", "kl", "ratio"):
        found = ot.frontier(p, q, 4, divergence=name)
        assert found.acceptance.shape == (3, len(found.budget)) and found.budget[0] == pytest.approx(0, abs=1e-9)
        assert (found.gap <= 1e-8).all()
        assert (np.diff(found.acceptance) >= -1e-9).all()
        row = ot.frontier(p[1], q[1], 4, divergence=name, budgets=found.budget)
        assert np.allclose(row.acceptance, found.acceptance[1], atol=1e-9)


def test_large_vocabularies_by_groups() -> None:
    generator = np.random.default_rng(5)
    logits = 3 * generator.standard_normal((2, 20_000)) * np.array([[1.0], [0.3]])
    p, q = (np.exp(x) / np.exp(x).sum() for x in (logits[0], logits[0] + 3 * logits[1]))
    for k in (1, 2, 8):
        for name, eps in (("kl", 0.02), ("tv", 0.05), ("ratio", 0.2)):
            target = targets.target_within(f"{name}={eps}")
            r = target(p, q, k)
            assert abs(r.sum() - 1) < 1e-12 and targets.spent(name, r, p) <= eps * (1 + 1e-9)
            found = ot.frontier(p, q, k, None, name, [eps])
            assert -1e-9 <= found.gap[0] <= 1e-5
            assert found.acceptance[0] <= float(ot.optimal_acceptance(r, q, k)) + 1e-9


@pytest.mark.parametrize("text", ["tv", "tv=x", "hellinger=0.1", "=0.1", "tv=1/0"])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ot.InvalidDrafts, match="budget"):
        targets.target_within(text)


@pytest.mark.parametrize("make", [lambda: targets.TotalVariation(-1), lambda: targets.KL("a"), targets.Ratio])
def test_budgets_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(ot.InvalidDrafts):
        make()


def test_an_unknown_divergence_is_refused() -> None:
    with pytest.raises(ot.InvalidDrafts, match="divergence"):
        ot.frontier([0.5, 0.5], [0.5, 0.5], divergence="hellinger")
