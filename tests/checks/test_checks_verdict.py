"""The verdict first: lossless yes, no or not decided, apart from findings, apart from claims; each for the right reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ot_draft as ot
from ot_draft.checks import Report, check_rule
from ot_draft.checks.answers import Result, answers
from ot_draft.checks.properties import ALL, LOSSLESS, ROBUST
from ot_draft.checks.report_files import as_record, json_text

Decide = Callable[[Any, Any, Any], Any]


class Rule(ot.SelectionRule):
    """Recursive rejection that does something else where the test says so."""

    law = ot.IID()

    def __init__(self, decide: Decide, claims: tuple[str, ...] = ()) -> None:
        self.decide, self.claims = decide, claims

    def __call__(self, p: Any, q: Any, drafts: Any) -> Any:
        return self.decide(p, q, drafts)


def right(p: Any, q: Any, drafts: Any) -> ot.Selection:
    return ot.rules.RecursiveRejection()(p, q, drafts)


def checked(decide: Decide, claims: tuple[str, ...] = (), examples: int = 20) -> Report:
    chosen = [each for each in ALL if each.name in {*map(str, claims), "extreme_cases"} or each in LOSSLESS]
    return check_rule(Rule(decide, claims), examples, chosen)


def raises_on_no_rows(p: Any, q: Any, drafts: Any) -> ot.Selection:
    assert 0 not in p.shape
    return right(p, q, drafts)


def forgets_masses_below_the_normal(p: Any, q: Any, drafts: Any) -> ot.Selection:
    return right(np.where(p < 1e-300, 0 * p, p), q, drafts)


@pytest.mark.parametrize("decide", [raises_on_no_rows, forgets_masses_below_the_normal])
def test_wrong_on_no_proper_problem_is_lossless_with_a_finding(decide: Decide) -> None:
    report = checked(decide)
    assert report.lossless == "yes" and [each.name for each in report.findings] == ["extreme_cases"]
    assert not report.passed and report.answers.lines()[1] == "robust: 1 finding (extreme_cases)"
    assert report.answers.lines()[0].startswith("lossless: yes, for n <= ")
    with pytest.raises(AssertionError, match="lossless: yes"):
        report.raise_if_failed()


def forgets(p: Any, q: Any, drafts: Any) -> ot.Selection:
    return ot.Selection(right(p, q, drafts).accept, p)


def forgets_or_raises(p: Any, q: Any, drafts: Any) -> ot.Selection:
    """Raises an error on most problems, and is wrong on the others: the error does not hide it."""
    assert (q > 0).all()
    return forgets(p, q, drafts)


@pytest.mark.few(1)
@pytest.mark.parametrize("decide", [forgets, forgets_or_raises])
def test_one_wrong_law_on_a_proper_problem_is_not_lossless(decide: Decide) -> None:
    report = checked(decide, examples=60)
    assert report.lossless == "no" and report["output_law"].refutes
    assert report["output_law"].reason.startswith("output law (") and report.failures[0].name == "output_law"
    assert report.answers.because.startswith("output_law")


def first_target_for_all(p: Any, q: Any, drafts: Any) -> ot.Selection:
    """Right for one pair; in a batch all rows get the target of the first."""
    first = p.reshape(-1, p.shape[-1])[:1] + 0 * p if p.size else p
    return right(first, q, drafts)


def test_a_batch_whose_rows_get_anothers_law_is_not_lossless() -> None:
    report = checked(first_target_for_all)
    assert report["output_law"].status == "passed" and report["output_law_in_batches"].refutes
    assert report.lossless == "no" and report.answers.because == "output_law_in_batches"


def raises(p: Any, q: Any, drafts: Any) -> ot.Selection:
    raise RuntimeError("not yet")


def a_tuple(p: Any, q: Any, drafts: Any) -> Any:
    return tuple(vars(right(p, q, drafts)).values())


def in_floats(p: Any, q: Any, drafts: Any) -> ot.Selection:
    selection = right(p, q, drafts)
    return ot.Selection(1.0 * selection.accept, 1.0 * selection.residual)


def small_only(p: Any, q: Any, drafts: Any) -> ot.Selection:
    if p.shape[-1] > 3:
        raise ValueError("only three tokens")
    return right(p, q, drafts)


def test_what_a_rule_refuses_in_words_is_a_restriction_beside_the_verdict() -> None:
    report = check_rule(Rule(small_only), 20, ["output_law", "probabilities"])
    assert report["output_law"].refused > 0 and report["output_law"].status == "passed"
    everything = [Result(each.name, each.category, "passed", True) for each in LOSSLESS if each.name != "output_law"]
    found = answers([report["output_law"].result, *everything])
    said = found.lines()[0]
    assert said.startswith("lossless: yes, for n <= 3, k <= 4, ") and "problems (only three tokens)" in said


@pytest.mark.parametrize("decide", [raises, a_tuple])
def test_a_crash_is_called_a_crash_first_and_has_a_remedy(decide: Decide) -> None:
    report = check_rule(Rule(decide), 5, ["output_law", "engine_sizes"])
    first, second, *_ = report.answers.lines()
    assert first.startswith("crash: the rule raised ") and "return ot.Selection(accept, residual)" in first
    assert second.startswith("lossless: not decided") and report["engine_sizes"].status == "skipped"
    assert "Smallest problem on which the rule crashes, output_law" in str(report)
    assert as_record("mine", report["output_law"])["crash"] and not report.answers.refuted


def in_float16(p: Any, q: Any, drafts: Any) -> ot.Selection:
    selection = right(p, q, drafts)
    if p.dtype == object:
        return selection
    return ot.Selection(selection.accept.astype("f2").astype(p.dtype), selection.residual)


def test_a_law_that_is_lost_in_floats_is_a_verdict_of_its_own() -> None:
    report = check_rule(Rule(in_float16), 20, [*LOSSLESS, "law_in_floats"])
    assert report.lossless == "yes" and report.answers.in_floats == "no" and report.answers.refuted
    assert report.answers.lines()[1] == "in floats: no (law_in_floats)" and report.findings == ()
    assert json.loads(json_text([as_record("mine", each) for each in report.outcomes]))["rules"][0]["in_floats"] == "no"


def overwrites(p: Any, q: Any, drafts: Any) -> ot.Selection:
    selection = right(p, q, drafts)
    p[...] = q
    return selection


def test_arguments_that_are_overwritten_stand_in_the_first_lines() -> None:
    report = check_rule(Rule(overwrites), 5, ["inputs_unchanged"])
    assert report.answers.lines()[0] == "arguments: overwritten (inputs_unchanged)" and report.answers.refuted


@pytest.mark.few(1)
@pytest.mark.parametrize("decide", [raises, a_tuple, in_floats])
def test_what_cannot_be_looked_at_is_not_decided(decide: Decide) -> None:
    report = checked(decide)
    assert report.lossless == "not decided" and "output_law" in report.answers.because
    assert report["output_law"].status == "failed" and not report["output_law"].decides
    assert report["output_law"] in report.findings


def test_floats_that_are_wrong_beyond_rounding_decide() -> None:
    def wrong(p: Any, q: Any, drafts: Any) -> ot.Selection:
        return ot.Selection(0.999 * right(p, q, drafts).accept, right(p, q, drafts).residual)

    assert checked(wrong).lossless == "no"


def test_what_was_not_asked_is_not_decided() -> None:
    report = check_rule(Rule(right), 5, ["output_law"])
    assert report.passed and report.lossless == "not decided"
    assert report.answers.because == "not asked: " + ", ".join(each.name for each in LOSSLESS[1:])
    assert report.answers.lines()[1] == "robust: not asked"


def test_claims_are_a_question_of_their_own() -> None:
    report = checked(right, claims=("optimal", "maximal"), examples=60)
    assert report.lossless == "yes" and report.answers.findings == ()
    assert dict(report.answers.claims) == {"maximal": True, "optimal": False}
    assert report.answers.lines()[2] == "claims: maximal holds, optimal does not hold"
    assert [each.name for each in report.findings] == ["optimal"]


def test_drafts_of_another_law_refute_the_rule_with_its_drafts() -> None:
    def most_probable(q: Any, k: int, generator: Any) -> Any:
        return np.full(k, int(q.argmax()))

    def broken(q: Any, k: int, generator: Any) -> Any:
        raise RuntimeError("no drafts today")

    chosen = ["output_law"]
    wrong, silent = (check_rule(Rule(right), 2, chosen, draft_sampler=draft) for draft in (most_probable, broken))
    assert wrong.lossless == "no" and wrong.answers.because == "declared_law"
    assert silent.lossless == "not decided" and not silent["declared_law"].decides


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        (["passed"] * len(LOSSLESS), ("yes", "")),
        (["failed", *["passed"] * (len(LOSSLESS) - 1)], ("no", "output_law")),
        (["skipped", *["passed"] * (len(LOSSLESS) - 1)], ("not decided", "skipped: output_law")),
        (["passed"] * (len(LOSSLESS) - 1), ("not decided", f"not asked: {LOSSLESS[-1].name}")),
    ],
)
def test_the_verdict_is_read_off_the_properties(statuses: list[Any], verdict: tuple[str, str]) -> None:
    results = [Result(each.name, each.category, status, True) for each, status in zip(LOSSLESS, statuses, strict=False)]
    found = answers([*results, Result("torch_agrees", "robust", "skipped", True)])
    assert (found.lossless, found.because) == verdict
    assert found.lines()[1] == "robust: yes (skipped: torch_agrees)"


def test_every_property_answers_one_question() -> None:
    assert {each.category for each in LOSSLESS} == {"lossless"} and {each.category for each in ROBUST} == {"robust"}
    assert [each.is_claim for each in ALL] == [each.category == "claims" for each in ALL]
