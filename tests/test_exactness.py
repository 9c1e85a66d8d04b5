"""`evaluate`: rules under other laws than their own, wrong rules, batches; == on Fractions. tests/verify/rule has every rule."""

from __future__ import annotations

from fractions import Fraction as F

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from random_problems import LAWS, SMALL_SIZES, fits, random_problems

import ot_draft as otd
from ot_draft.arrays import argsort
from ot_draft.problem import _exact_sums


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_naive_target_sampling_is_lossless_under_every_law(law: otd.DraftLaw) -> None:
    for n, k in SMALL_SIZES:
        if fits(law, k):
            for problem in random_problems(2, n, k, law):
                assert otd.evaluate(otd.rules.NaiveTarget(), problem).lossless


@pytest.mark.parametrize("law", [otd.WithoutReplacement(), otd.SpecHubLaw()], ids=repr)
def test_speculative_sampling_needs_only_its_first_draft(law: otd.DraftLaw) -> None:
    for n, k in SMALL_SIZES:
        if fits(law, k):
            for problem in random_problems(3, n, k, law):
                assert otd.evaluate(otd.rules.SpeculativeSampling(), problem).lossless


SKEWED = [F(1, 2), F(3, 10), F(1, 5)], [F(1, 10), F(1, 5), F(7, 10)]
WRONG_LAWS = [
    (otd.rules.RecursiveRejection(), otd.WithoutReplacement()),
    (otd.rules.KSeq(), otd.WithoutReplacement()),
    (otd.rules.ImportanceWeighted(), otd.WithoutReplacement()),
    (otd.rules.FromCoupling(), otd.WithoutReplacement()),
    (otd.rules.RecursiveRejectionWithoutReplacement(), otd.IID()),
    (otd.rules.SpeculativeSampling(), otd.Hybrid(top=1)),
    (otd.rules.RecursiveRejection(), otd.Hybrid(top=1)),
    (otd.rules.Greedy(), otd.IID()),
    (otd.rules.SpecHub(), otd.IID()),
]


@pytest.mark.parametrize(("rule", "law"), WRONG_LAWS, ids=[f"{rule.name}-{law.name}" for rule, law in WRONG_LAWS])
def test_a_rule_under_a_wrong_law_is_found_out(rule: otd.SelectionRule, law: otd.DraftLaw) -> None:
    result = otd.evaluate(rule, otd.Problem(*SKEWED, 2, law))
    assert not result.lossless and result.error > F(1, 1000)
    assert result.output.sum() == 1  # it still outputs something: only the law is wrong


class Forgetful(otd.SelectionRule):
    """A planted bug, common in the field: the target in the place of the residual."""

    law = otd.IID()

    def __call__(self, p: np.ndarray, q: np.ndarray, drafts: np.ndarray) -> otd.Selection:
        return otd.Selection(otd.rules.RecursiveRejection()(p, q, drafts).accept, p)


class Swapped(otd.SelectionRule):
    """Another: p and q in each other's place."""

    law = otd.IID()

    def __call__(self, p: np.ndarray, q: np.ndarray, drafts: np.ndarray) -> otd.Selection:
        return otd.rules.RecursiveRejection()(q, p, drafts)


@pytest.mark.parametrize("rule", [Forgetful(), Swapped()], ids=["Forgetful", "Swapped"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_wrong_rule_is_found_out(rule: otd.SelectionRule, k: int) -> None:
    assert not otd.evaluate(rule, otd.Problem(*SKEWED, k)).lossless
    floats = [np.array(x, dtype=np.float64) for x in SKEWED]
    assert not otd.evaluate(rule, otd.Problem(*floats, k)).lossless


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_draft_law_that_sums_to_nearly_1_makes_no_rule_lossy(dtype: type, sign: int) -> None:
    p, q = (np.array(x, dtype) for x in SKEWED)
    # Half of what `Problem` lets pass; four drafts would lack four times as much.
    off = 5e-10 if dtype is np.float64 else 5e-5
    q[0] += sign * off
    for rule in (otd.rules.NaiveTarget(), otd.rules.RecursiveRejection(), otd.rules.KSeq(), otd.rules.Optimal()):
        found, exact = otd.evaluate(rule, otd.Problem(p, q, 4)), otd.evaluate(rule, otd.Problem(*SKEWED, 4))
        assert found.lossless and abs(found.acceptance - float(exact.acceptance)) < 4 * off


def test_what_evaluate_returns_is_consistent() -> None:
    problem = otd.Problem(*SKEWED, 2)
    result = otd.evaluate(otd.rules.NaiveTarget(), problem)
    assert result.problem is problem
    # NaiveTarget: y is accepted when it is among two i.i.d. drafts.
    assert result.acceptance == sum(p * (1 - (1 - q) ** 2) for p, q in zip(*SKEWED, strict=True)) == F(77, 200)
    assert result.accept.tolist() == [F(25, 100), result.acceptance - F(25, 100)]


def test_evaluate_does_a_batch_of_problems_as_each_alone() -> None:
    p, q = (np.stack([np.array(x) for x in pair]) for pair in (SKEWED, SKEWED[::-1]))
    both = otd.evaluate(otd.rules.KSeq(), otd.Problem(p, q, 3))
    for row in range(2):
        alone = otd.evaluate(otd.rules.KSeq(), otd.Problem(p[row], q[row], 3))
        assert (both.output[row] == alone.output).all() and both.acceptance[row] == alone.acceptance
        assert (both.accept[row] == alone.accept).all()


NEAR = [
    F(0),
    F(1, 3),
    F(1, 3) + F(1, 10**30),
    F(1, 2),
    F(10) ** 400,
]  # the second and the third are one float, the last is none


@given(st.lists(st.lists(st.sampled_from(NEAR), min_size=5, max_size=5), min_size=1, max_size=3))
def test_fractions_are_ordered_by_what_they_are_and_not_by_their_floats(rows: list[list[F]]) -> None:
    x = np.array(rows, dtype=object)
    expected = [sorted(range(5), key=row.__getitem__) for row in rows]
    assert argsort(x, stable=True).tolist() == expected


@given(st.lists(st.lists(st.fractions(), min_size=3, max_size=3), min_size=1, max_size=3))
def test_sums_in_whole_numbers_are_those_of_fractions(rows: list[list[F]]) -> None:
    x = np.array(rows, dtype=object)
    assert (_exact_sums(x) == x.sum(-1, keepdims=True)).all()
    assert {type(each) for each in _exact_sums(x).flat} == {F}
