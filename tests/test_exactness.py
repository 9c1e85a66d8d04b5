"""`evaluate`: rules under other laws than their own, wrong rules, batches; == on Fractions. tests/verify/rule tries every rule under its law."""

from __future__ import annotations

from fractions import Fraction as F

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from random_problems import LAWS, SMALL_SIZES, fits, random_problems

import ot_draft as ot
from ot_draft.arrays import argsort


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_naive_target_sampling_is_lossless_under_every_law(law: ot.DraftLaw) -> None:
    for n, k in SMALL_SIZES:
        if fits(law, k):
            for problem in random_problems(2, n, k, law):
                assert ot.evaluate(ot.rules.NaiveTarget(), problem).lossless


@pytest.mark.parametrize("law", [ot.WithoutReplacement(), ot.Hub()], ids=repr)
def test_speculative_sampling_needs_only_its_first_draft(law: ot.DraftLaw) -> None:
    for n, k in SMALL_SIZES:
        if fits(law, k):
            for problem in random_problems(3, n, k, law):
                assert ot.evaluate(ot.rules.SpeculativeSampling(), problem).lossless


SKEWED = [F(1, 2), F(3, 10), F(1, 5)], [F(1, 10), F(1, 5), F(7, 10)]
WRONG_LAWS = [
    (ot.rules.RecursiveRejection(), ot.WithoutReplacement()),
    (ot.rules.KSeq(), ot.WithoutReplacement()),
    (ot.rules.ImportanceWeighted(), ot.WithoutReplacement()),
    (ot.rules.FromCoupling(), ot.WithoutReplacement()),
    (ot.rules.RecursiveRejectionWithoutReplacement(), ot.IID()),
    (ot.rules.SpeculativeSampling(), ot.Hybrid(top=1)),
    (ot.rules.RecursiveRejection(), ot.Hybrid(top=1)),
    (ot.rules.Greedy(), ot.IID()),
    (ot.rules.SpecHub(), ot.IID()),
]


@pytest.mark.parametrize(("rule", "law"), WRONG_LAWS, ids=[f"{rule.name}-{law.name}" for rule, law in WRONG_LAWS])
def test_a_rule_under_a_wrong_law_is_found_out(rule: ot.SelectionRule, law: ot.DraftLaw) -> None:
    result = ot.evaluate(rule, ot.Problem(*SKEWED, 2, law))
    assert not result.lossless and result.error > F(1, 1000)
    assert result.output.sum() == 1  # it still outputs something: only the law is wrong


class Forgetful(ot.SelectionRule):
    """A planted bug, common in the field: the target in the place of the residual."""

    law = ot.IID()

    def __call__(self, p: np.ndarray, q: np.ndarray, drafts: np.ndarray) -> ot.Selection:
        return ot.Selection(ot.rules.RecursiveRejection()(p, q, drafts).accept, p)


class Swapped(ot.SelectionRule):
    """Another: p and q in each other's place."""

    law = ot.IID()

    def __call__(self, p: np.ndarray, q: np.ndarray, drafts: np.ndarray) -> ot.Selection:
        return ot.rules.RecursiveRejection()(q, p, drafts)


@pytest.mark.parametrize("rule", [Forgetful(), Swapped()], ids=["Forgetful", "Swapped"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_wrong_rule_is_found_out(rule: ot.SelectionRule, k: int) -> None:
    assert not ot.evaluate(rule, ot.Problem(*SKEWED, k)).lossless
    floats = [np.array(x, dtype=np.float64) for x in SKEWED]
    assert not ot.evaluate(rule, ot.Problem(*floats, k)).lossless


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_draft_law_that_sums_to_nearly_1_makes_no_rule_lossy(dtype: type, sign: int) -> None:
    p, q = (np.array(x, dtype) for x in SKEWED)
    # Half of what `Problem` lets pass; four drafts would lack four times as much.
    off = 5e-10 if dtype is np.float64 else 5e-5
    q[0] += sign * off
    for rule in (ot.rules.NaiveTarget(), ot.rules.RecursiveRejection(), ot.rules.KSeq(), ot.rules.Optimal()):
        found, exact = ot.evaluate(rule, ot.Problem(p, q, 4)), ot.evaluate(rule, ot.Problem(*SKEWED, 4))
        assert found.lossless and abs(found.acceptance - float(exact.acceptance)) < 4 * off


def test_what_evaluate_returns_is_consistent() -> None:
    problem = ot.Problem(*SKEWED, 2)
    result = ot.evaluate(ot.rules.NaiveTarget(), problem)
    assert result.problem is problem
    # NaiveTarget: y is accepted when it is among two i.i.d. drafts.
    assert result.acceptance == sum(p * (1 - (1 - q) ** 2) for p, q in zip(*SKEWED, strict=True)) == F(77, 200)
    assert result.accept.tolist() == [F(25, 100), result.acceptance - F(25, 100)]


def test_evaluate_does_a_batch_of_problems_as_each_alone() -> None:
    p, q = (np.stack([np.array(x) for x in pair]) for pair in (SKEWED, SKEWED[::-1]))
    both = ot.evaluate(ot.rules.KSeq(), ot.Problem(p, q, 3))
    for row in range(2):
        alone = ot.evaluate(ot.rules.KSeq(), ot.Problem(p[row], q[row], 3))
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
