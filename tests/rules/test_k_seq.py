"""K-SEQ: the factor is the smallest valid one, rounded up; every factor above it is valid and none below it."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from random_problems import random_problems

import ot_draft as otd
from ot_draft.rules import KSeq
from ot_draft.rules.k_seq.division_factor import division_factor

ROUNDING = F(1, 1 << 36)  # how far above gamma* the factor may lie in rational arithmetic
SIZES = [(1, 3), (2, 1), (2, 2), (2, 4), (3, 2), (3, 3), (4, 2), (4, 3), (5, 2), (6, 2)]
PROBLEMS = [problem for n, k in SIZES for problem in random_problems(9, n, k, otd.IID(), number=10)]


def factor_of(problem: otd.Problem) -> F:
    return division_factor(problem.p, problem.q, np.array([F(problem.k)], dtype=object))[0]


def covered(problem: otd.Problem, factor: Any) -> Any:
    """beta: the mass of min(q, p / factor)."""
    return np.minimum(problem.q, problem.p / factor).sum()


def is_valid(problem: otd.Problem, factor: Any) -> bool:
    beta = covered(problem, factor)
    return bool(1 - (1 - beta) ** problem.k <= factor * beta)


def is_slack(problem: otd.Problem, factor: Any) -> bool:
    """Whether no token is held back: min(q, p / factor) = q wherever p > 0. Smaller factors then hold back no more."""
    common = (problem.p > 0) & (problem.q > 0)
    return bool((problem.p[common] >= factor * problem.q[common]).all())


def test_the_factor_is_valid_and_hardly_above_the_smallest_valid_one() -> None:
    above_one = 0
    for problem in PROBLEMS:
        factor = factor_of(problem)
        assert 1 <= factor <= problem.k and is_valid(problem, factor)
        if factor - ROUNDING > 1 and covered(problem, factor) > 0:
            above_one += 1
            assert not is_valid(problem, factor - ROUNDING)
    assert above_one > 30


def test_the_tests_accept_as_often_as_the_formula_says() -> None:
    """The drafts that pass: 1 - (1 - beta)^k. The acceptance also counts what the residual puts on refused drafts."""
    for problem in PROBLEMS:
        for factor in (factor_of(problem), F(problem.k) + F(1, 3)):
            result, k = otd.evaluate(KSeq(factor), problem), problem.k
            each = np.minimum(problem.q, problem.p / factor)
            beta = each.sum()
            passed = 1 - (1 - beta) ** k
            assert result.accept.sum() == passed
            left = problem.p - each * (passed / beta if beta else 0)
            residual = left / left.sum() if left.sum() else left
            again = (1 - beta) ** k - (1 - beta - (problem.q - each)) ** k  # all refused, and y among them
            assert result.acceptance == passed + (residual * again).sum()


def test_the_share_of_the_optimum_is_at_least_the_bound() -> None:
    for problem in PROBLEMS:
        optimum = otd.optimal_acceptance(problem.p, problem.q, problem.k)
        assert otd.evaluate(KSeq(), problem).acceptance >= otd.kseq_bound(problem.k) * optimum - ROUNDING


def test_every_larger_factor_is_valid() -> None:
    for problem in PROBLEMS[::2]:
        smallest = factor_of(problem)
        for share in (F(0), F(1, 7), F(1, 2), F(1), F(5)):
            assert otd.evaluate(KSeq(smallest + share * (problem.k - smallest)), problem).lossless


def test_every_smaller_factor_is_shown_to_be_invalid() -> None:
    refuted = 0
    for problem in PROBLEMS:
        smallest = factor_of(problem) - ROUNDING
        for factor in (F(1), (1 + smallest) / 2, smallest):
            if 1 <= factor <= smallest and covered(problem, factor) > 0:
                lossless = otd.evaluate(KSeq(factor), problem).lossless
                assert not lossless or is_slack(problem, factor_of(problem))
                refuted += not lossless
    assert refuted > 60


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_in_floats_the_factor_is_on_the_valid_side(dtype: Any) -> None:
    """At the very same masses, taken as exact numbers: valid, and gamma* is within a few thousand roundings."""
    generator = np.random.default_rng(10)
    epsilon = F(float(np.finfo(dtype).eps))
    for n, k, spread in [(2, 2, 1.0), (5, 3, 3.0), (50, 8, 4.0), (400, 2, 2.0), (400, 16, 5.0)] * 4:
        logits = generator.normal(0, spread, (2, n))
        p, q = (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)).astype(dtype)
        factor = F(float(division_factor(p, q, np.array([k], dtype=dtype))[0]))
        p, q = (np.array([F(float(v)) for v in x], dtype=object) for x in (p, q))
        problem = otd.Problem(p / p.sum(), q / q.sum(), k)  # the masses as rounded sum to 1 within some roundings only
        assert is_valid(problem, factor * (1 + 4 * epsilon))
        assert not is_valid(problem, factor / (1 + 4096 * epsilon))


def test_the_factor_of_one_draft_and_of_equal_laws_is_one() -> None:
    for problem in PROBLEMS:
        if problem.k == 1:
            assert factor_of(problem) == 1
    p = np.array([F(1, 2), F(1, 3), F(1, 6)], dtype=object)
    result = otd.evaluate(KSeq(), otd.Problem(p, p, 4))
    assert 1 - ROUNDING <= result.acceptance <= 1 and result.lossless


@pytest.mark.parametrize("factor", [0.5, F(99, 100), -1, float("nan")])
def test_a_factor_below_one_is_refused(factor: Any) -> None:
    with pytest.raises(
        otd.InvalidArgument, match=r"factor of KSeq must be from 1 to k, got .*None for the best factor"
    ):
        KSeq(factor)


def test_a_given_factor_may_be_of_any_kind() -> None:
    """Fractions stay exact under a float factor, floats take a Fraction."""
    exact = otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], 2)
    floats = otd.Problem([0.5, 0.5], [0.75, 0.25], 2)
    for factor in (1.5, F(3, 2)):
        rule = otd.rules.KSeq(factor)
        assert otd.evaluate(rule, exact).output.tolist() == [F(1, 2), F(1, 2)]
        assert abs(otd.evaluate(rule, floats).output - 0.5).max() < 1e-15


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_factor_of_ones_own_for_many_drafts_of_one_pair(kind: str) -> None:
    p, q, drafts = np.array([[0.5, 0.5]]), np.array([[0.75, 0.25]]), np.array([[0, 0], [0, 1], [1, -1]])
    expected = [otd.rules.KSeq(factor=2)(p[0], q[0], row[row >= 0]).residual.tolist() for row in drafts]
    if kind == "torch":
        torch = pytest.importorskip("torch")
        p, q, drafts = (torch.from_numpy(x) for x in (p, q, drafts))
    assert otd.rules.KSeq(factor=2)(p, q, drafts).residual.tolist() == expected
