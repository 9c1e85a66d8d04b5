"""Statements about K-SEQ, recursive rejection, their order and the number of drafts: each holds, each control comes out as it must."""

from __future__ import annotations

from fractions import Fraction as F
from operator import lt
from types import ModuleType

import pytest
from slow import slow_except
from sympy import sqrt

import ot_draft as otd
from proofs_checks.by_z3 import decide
from proofs_checks.k_seq import k_seq_share, k_seq_valid
from proofs_checks.k_seq.formulas import around_the_smallest, draw_solved, is_valid, output, passed
from proofs_checks.k_seq.sharp import lemmas, search
from proofs_checks.k_seq.sharp.smallest import bound
from proofs_checks.optimum import more_drafts
from proofs_checks.polynomials import X, is_nonnegative, single_root
from proofs_checks.random_cases import Case, draw
from proofs_checks.rational_functions import every_case, keeps_the_target, unknowns
from proofs_checks.rules import order_of_rules, recursive_rejection
from proofs_checks.statement import Statement

MODULES = (k_seq_valid, k_seq_share, recursive_rejection, order_of_rules, more_drafts)
PAIRS = [(module, statement) for module in MODULES for statement in module.STATEMENTS]
CASES = 20


@pytest.mark.parametrize(
    ("module", "statement"),
    slow_except(
        PAIRS,
        "lemmas of K-SEQ's share",
        "recursive rejection is a walk along one curve",
        "recursive rejection accepts as much as K-SEQ",
        name=lambda pair: pair[1].name,
    ),
)
def test_the_statement_comes_out_as_it_must_and_so_do_its_controls(module: ModuleType, statement: Statement) -> None:
    outcome = module.check(statement, CASES)
    assert outcome.passed, f"{outcome.verdict}\n{outcome.controls}"
    expected = "refuted" if statement.expected == "refuted" else "proved" if statement.prove else "verified"
    assert outcome.kind == expected or statement.name == "worst cases of K-SEQ"


def test_the_worst_pair_of_two_drafts_is_exact() -> None:
    pair = search.worst_pair(2)
    assert pair == Case((F(4, 9), F(5, 9)), (F(2, 3), F(1, 3)), 2, 0)
    evaluation = otd.evaluate(otd.rules.KSeq(F(4, 3)), pair.problem())  # gamma* is rational here
    assert evaluation.lossless and evaluation.acceptance == F(8, 9)
    assert otd.optimal_acceptance(list(pair.p), list(pair.q), 2) == 1
    low, high = lemmas.share_between(2)
    assert low <= F(8, 9) <= high and high - low < F(1, 10**15)


def test_the_sharp_share_is_what_its_equation_says() -> None:
    for k, rounded in ((3, 0.8650300), (8, 0.8397070)):
        low, high = lemmas.share_between(k)
        assert abs(float(low) - rounded) < 1e-7 and low < high < low + F(1, 10**15)
        lower, upper = search.share_of(search.worst_pair(k))
        assert low <= upper < low + F(1, 10**5) and upper - lower < F(1, 10**9)
        assert float(otd.kseq_bound(k)) < rounded - 0.1


def test_a_search_that_finds_a_worse_pair_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "share_between", lambda k: (F(9, 10), F(9, 10)))
    assert "k = 2: share 0.8888" in search.worst("").counterexample


def test_z3_finds_pairs_below_a_share_that_is_too_large() -> None:
    assert decide("", bound(F(8, 9), 2, 2)).count == 2
    assert decide("", bound(F(8, 9) + F(1, 10**6), 2, 2)).counterexample


def test_the_factor_of_a_solved_problem_is_its_smallest_valid_one() -> None:
    above_one = 0
    for case in map(draw_solved, range(100)):
        assert sum(case.p) == sum(case.q) == 1 and min(case.p + case.q) >= 0
        low, high = around_the_smallest(case)
        assert low <= case.factor <= high and is_valid(case, case.factor)
        above_one += case.factor > 1 and not is_valid(case, max(F(1), case.factor - F(1, 10**6)))
    assert above_one > 30


def test_the_printed_bernoulli_values() -> None:
    case = Case((F(1, 2), F(1, 2)), (F(1, 4), F(3, 4)), 2, 0)
    s, m = order_of_rules.walk(case)
    assert 1 - m[-1] == F(13, 16) == otd.evaluate(otd.rules.RecursiveRejection(), case.problem()).acceptance
    low, high = around_the_smallest(case, F(1, 10**6))
    assert s[-1] < low and passed(case, high) < F(8476, 10**4) + F(1, 10**4) and passed(case, low) > F(8475, 10**4)


@pytest.mark.parametrize(("rule", "law"), [(a, b) for a in (False, True) for b in (False, True)])
def test_the_written_out_rejection_is_the_librarys_under_right_and_wrong_laws(rule: bool, law: bool) -> None:
    """Agreement is asserted inside for every q > 0, also where the pair is not valid."""
    valid = [recursive_rejection._keeps(case, rule, law) for case in map(draw, range(30))]
    assert all(valid) == (rule == law)


def test_a_wrong_written_out_rule_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recursive_rejection, "RULES", {False: otd.rules.NaiveTarget(), True: otd.rules.NaiveTarget()})
    # Not valid, hence not what NaiveTarget puts out.
    case = Case((F(1, 6), F(1, 2), F(1, 3)), (F(3, 5), F(1, 5), F(1, 5)), 2, 0)
    with pytest.raises(AssertionError, match="not the algorithm"):
        recursive_rejection.with_replacement(case, recursive_rejection.UNDER_WITHOUT)


def test_every_case_goes_through_all_answers() -> None:
    assert list(every_case(lambda less: (less(0, 0), less(0, 0)))) == [
        (a, b) for a in (False, True) for b in (False, True)
    ]
    assert list(every_case(lambda less: less(0, 0) and less(0, 0))) == [False, False, True]


def test_unknown_laws_sum_to_one_and_a_wrong_output_is_shown_in_numbers() -> None:
    p, q, s = unknowns("pq", 3, ["s"])
    assert sum(p) == 1 == sum(q) and len({*p, *q, s}) == 7
    wrong = keeps_the_target(lambda p, q, k, less: q, [(2, 1)], "")
    assert wrong.counterexample.startswith("p = (") and "output" in wrong.counterexample
    assert keeps_the_target(lambda p, q, k, less: list(p), [(2, 1), (3, 2)], "proved").count == 2
    assert output((F(1, 2), F(1, 2)), (F(1, 4), F(3, 4)), 2, lt, F(2, 3)) == [F(1, 2), F(1, 2)]


def test_signs_of_polynomials() -> None:
    assert (
        is_nonnegative((X - F(1, 3)) ** 2, 0, 1) and is_nonnegative(X * (1 - X), 0, 1) and is_nonnegative(0 * X, 0, 1)
    )
    assert not is_nonnegative((X - F(1, 3)) ** 2 - F(1, 10**9), 0, 1)
    assert not is_nonnegative(-X, 0, 1) and not is_nonnegative(X - F(1, 1000), 0, 1)
    low, high = single_root(X**2 - 2, F(0), F(2), 40)
    assert low < sqrt(2) < high and high - low <= F(1, 1 << 40)
    with pytest.raises(ValueError, match="single root"):
        single_root((X - F(1, 2)) * (X - F(1, 3)), F(0), F(1), 10)
