"""The verdict first: lossless yes, no or not decided, apart from findings, apart from claims; each for the right reason."""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from slow import slow

import ot_draft as otd
from ot_draft import arrays as xp
from ot_draft.verify.outcome import Status
from ot_draft.verify.rule import RuleReport, SearchLimits, check_rule, child
from ot_draft.verify.rule.answers import Answers
from ot_draft.verify.rule.lossless import exactness
from ot_draft.verify.rule.properties import ALL, CLAIMS, of_category
from ot_draft.verify.rule.report import by_visibility
from ot_draft.verify.rule.report_files import html_page, json_text
from ot_draft.verify.source import magnitude

pytestmark = pytest.mark.usefixtures("short_searches")

Decide = Callable[[Any, Any, Any], Any]
LOSSLESS = of_category("lossless")


class Rule(otd.SelectionRule):
    """Recursive rejection that does something else where the test says so."""

    law = otd.IID()

    def __init__(self, decide: Decide, claims: tuple[str, ...] = ()) -> None:
        self.decide, self.claims = decide, claims

    def __call__(self, p: Any, q: Any, drafts: Any) -> Any:
        return self.decide(p, q, drafts)


def right(p: Any, q: Any, drafts: Any) -> otd.Selection:
    return otd.rules.RecursiveRejection()(p, q, drafts)


def checked(decide: Decide, claims: tuple[str, ...] = (), examples: int = 5) -> RuleReport:
    chosen = [each for each in ALL if each.name in {*map(str, claims), "extreme_cases"} or each in LOSSLESS]
    return check_rule(Rule(decide, claims), examples, chosen)


def raises_on_no_rows(p: Any, q: Any, drafts: Any) -> otd.Selection:
    assert 0 not in p.shape
    return right(p, q, drafts)


def forgets_masses_below_the_normal(p: Any, q: Any, drafts: Any) -> otd.Selection:
    return right(np.where(p < 1e-300, 0 * p, p), q, drafts)


@pytest.mark.parametrize("decide", [slow(raises_on_no_rows), forgets_masses_below_the_normal])
def test_wrong_on_no_proper_problem_is_lossless_with_a_finding(decide: Decide) -> None:
    report = checked(decide)
    assert report.lossless == "yes" and [each.check for each in report.findings] == ["extreme_cases"]
    assert not report.passed and report.answers.lines()[1] == "robust: 1 finding (extreme_cases)"
    assert report.answers.lines()[0] == "lossless: yes, on all problems tried"
    with pytest.raises(AssertionError, match="lossless: yes"):
        report.raise_if_failed()


def takes_the_first_column(p: Any, q: Any, drafts: Any) -> otd.Selection:
    assert drafts[..., 0].shape == drafts.shape[:-1]
    return right(p, q, drafts)


def q_without_drafts(p: Any, q: Any, drafts: Any) -> otd.Selection:
    return right(p, q, drafts) if drafts.shape[-1] else otd.Selection(right(p, q, drafts).accept, q)


def test_an_error_for_k_0_restricts_the_rule_and_a_wrong_residual_there_is_a_finding() -> None:
    report = checked(takes_the_first_column)
    assert report.lossless == "yes" and report.passed and not report.findings
    assert report.answers.lines()[1].startswith(
        "robust: yes (without k = 0, where it raised IndexError: index 0 is out"
    )
    wrong_there = check_rule(Rule(q_without_drafts), 5, ["output_distribution", "padded_drafts", "extreme_cases"])
    assert [each.check for each in wrong_there.findings] == ["extreme_cases"]


def forgets(p: Any, q: Any, drafts: Any) -> otd.Selection:
    return otd.Selection(right(p, q, drafts).accept, p)


def forgets_or_raises(p: Any, q: Any, drafts: Any) -> otd.Selection:
    """Raises an error on most problems, and is wrong on the others: the error does not hide it."""
    assert (q > 0).all()
    return forgets(p, q, drafts)


@pytest.mark.parametrize("decide", [slow(forgets), forgets_or_raises])
def test_one_wrong_law_on_a_proper_problem_is_not_lossless(decide: Decide) -> None:
    report = check_rule(Rule(decide), 20, ["output_distribution", "boundary_cases", "engine_sizes"])
    assert report.lossless == "no" and report["output_distribution"].refutes
    assert (
        report["output_distribution"].evidence.reason.startswith("output distribution (")
        and report.failures[0].check == "output_distribution"
    )
    assert report.answers.law.because.startswith("output_distribution")


def rarely_accepts_less(shares: dict[int, Fraction]) -> Decide:
    """Every draft is accepted less often by the share of the number of drafts."""

    def decide(p: Any, q: Any, drafts: Any) -> otd.Selection:
        found = right(p, q, drafts)
        return otd.Selection(found.accept * (1 - shares.get(drafts.shape[-1], shares[0])), found.residual)

    return decide


def unweighted_residuals(p: Any, q: Any, drafts: Any) -> otd.Selection:
    """K-SEQ's acceptance with the mean of the residuals of speculative sampling with q, 2 q, ...: nearly right where p = q."""
    accept = otd.rules.KSeq()(p, q, drafts).accept
    residuals = [xp.residual(p, q, xp.number(1 + i, p)) for i in range(max(1, drafts.shape[-1]))]
    return otd.Selection(accept, sum(residuals[1:], residuals[0]) / len(residuals))


LARGE, TINY = Fraction(1, 10), Fraction(1, 10**26)


@pytest.mark.parametrize(
    ("decide", "visible"),
    [
        (rarely_accepts_less({0: LARGE}), True),
        (rarely_accepts_less({0: TINY}), False),
        (rarely_accepts_less({0: TINY, 3: LARGE}), True),
        (unweighted_residuals, True),
    ],
    ids=["large", "tiny", "large for k = 3", "K-SEQ"],
)
def test_a_counterexample_states_its_distance_and_is_visible_where_some_is(decide: Decide, visible: bool) -> None:
    report = check_rule(Rule(decide), 60, ["output_distribution"])
    found = report["output_distribution"].counterexample
    assert report.lossless == "no" and found is not None
    problem = otd.Problem(*([Fraction(mass) for mass in found[name]] for name in "pq"), found["k"], otd.IID())
    distance = otd.evaluate(Rule(decide), problem).error
    assert found["total_variation_exact"] == str(distance) and found["total_variation"] == float(distance) > 0
    assert found["total_variation"] >= min(1e-3, report.answers.largest_bias / 2)
    assert (found["total_variation"] >= 1e-3) == visible
    for text in (str(report), html_page([report])):
        assert magnitude(distance) in text and f"{report.answers.largest_bias:.3g}" in text


def test_exact_counterexamples_are_shown_before_those_in_floats_unless_they_are_negligible() -> None:
    def shown(*failures: tuple[str, str, float]) -> list[str]:
        of = [SimpleNamespace(check=check, refutes=True, counterexample={"total_variation": distance},
                              evidence=SimpleNamespace(category=category)) for check, category, distance in failures]  # fmt: skip
        return [each.check for each in sorted(of, key=by_visibility)]  # type: ignore[arg-type]

    floats, edge, plain = ("floats", "floats", 7e-4), ("edge", "lossless", 7e-4), ("plain", "lossless", 5e-4)
    assert shown(floats, plain, edge) == ["plain", "edge", "floats"]
    assert shown(("tiny", "lossless", 1e-26), floats) == ["floats", "tiny"]
    assert shown(plain, ("large", "lossless", 0.1)) == ["large", "plain"]


def first_target_for_all(p: Any, q: Any, drafts: Any) -> otd.Selection:
    """Right for one pair; in a batch all rows get the target of the first."""
    first = p.reshape(-1, p.shape[-1])[:1] + 0 * p if p.size else p
    return right(first, q, drafts)


@pytest.mark.usefixtures("as_found")
def test_a_batch_whose_rows_get_anothers_law_is_not_lossless() -> None:
    report = checked(first_target_for_all)
    assert report["output_distribution"].status == "passed" and report["output_distribution_in_batches"].refutes
    assert report.lossless == "no" and report.answers.law.because == "output_distribution_in_batches"


def raises(p: Any, q: Any, drafts: Any) -> otd.Selection:
    raise RuntimeError("not yet")


def a_tuple(p: Any, q: Any, drafts: Any) -> Any:
    return tuple(vars(right(p, q, drafts)).values())


def in_floats(p: Any, q: Any, drafts: Any) -> otd.Selection:
    selection = right(p, q, drafts)
    return otd.Selection(1.0 * selection.accept, 1.0 * selection.residual)


def small_only(p: Any, q: Any, drafts: Any) -> otd.Selection:
    if p.shape[-1] > 3:
        raise otd.InvalidArgument("only three tokens")
    return right(p, q, drafts)


def test_what_a_rule_refuses_in_words_is_a_restriction_beside_the_verdict() -> None:
    report = check_rule(Rule(small_only), 20, ["output_distribution", "probabilities"])
    assert report["output_distribution"].evidence.refused > 0 and report["output_distribution"].status == "passed"
    everything = [each.outcome() for each in LOSSLESS if each.name != "output_distribution"]
    found = Answers([report["output_distribution"], *everything])
    said = found.lines()[0]
    assert said.startswith("lossless: yes, on all problems tried") and "problems (only three tokens)" in said
    assert found.tried_lines()[1].endswith("n <= 3 (q > 0: 2), k <= 4 (distinct: 2)")


@pytest.mark.parametrize(
    ("decide", "remedy"),
    [(raises, "the error is in the rule's own code"), (a_tuple, "return otd.Selection(accept, residual)")],
)
def test_a_crash_is_called_a_crash_first_and_has_a_remedy(decide: Decide, remedy: str) -> None:
    report = check_rule(Rule(decide), 5, ["output_distribution", "engine_sizes"])
    first, second, *_ = report.answers.lines()
    assert first.startswith("crash: the rule raised ") and remedy in first
    assert second.startswith("lossless: not decided") and report["engine_sizes"].status == "skipped"
    assert "Smallest problem on which the rule crashes, output_distribution" in str(report)
    assert report["output_distribution"].record["evidence"]["crash"] and not report.answers.refuted


def in_float16(p: Any, q: Any, drafts: Any) -> otd.Selection:
    selection = right(p, q, drafts)
    if p.dtype == object:
        return selection
    return otd.Selection(selection.accept.astype("f2").astype(p.dtype), selection.residual)


def test_a_law_that_is_lost_in_floats_is_a_verdict_of_its_own() -> None:
    report = check_rule(Rule(in_float16), 5, [*LOSSLESS, "float_distribution"])
    assert report.lossless == "yes" and report.answers.in_floats == "no" and report.answers.refuted
    assert report.answers.lines()[1] == "in floats: no (float_distribution)" and report.findings == ()
    assert json.loads(json_text([report]))["reports"][0]["answers"]["in_floats"] == "no"


def wrong_without_fractions(p: Any, q: Any, drafts: Any) -> otd.Selection:
    if p.dtype == object:
        raise TypeError("no Fractions")
    return otd.Selection(right(p, q, drafts).accept, p)


def test_the_verdict_in_floats_says_nothing_of_fractions_that_were_not_decided() -> None:
    answers = check_rule(Rule(wrong_without_fractions), 5, ["output_distribution", "boundary_cases_in_floats"]).answers
    assert (answers.lossless, answers.in_floats) == ("not decided", "no")
    assert answers.sentence.startswith(
        "In Fractions the output distribution was not decided; in floats it is not the target"
    )


def overwrites(p: Any, q: Any, drafts: Any) -> otd.Selection:
    selection = right(p, q, drafts)
    p[...] = q
    return selection


def test_arguments_that_are_overwritten_stand_in_the_first_lines() -> None:
    report = check_rule(Rule(overwrites), 5, ["inputs_unchanged"])
    assert (
        report.answers.lines()[0].startswith("arguments: overwritten (inputs_unchanged): ") and report.answers.refuted
    )


def wrong_and_overwrites(p: Any, q: Any, drafts: Any) -> otd.Selection:
    selection = forgets(p, q, drafts)
    q[...] = p
    return selection


def test_what_fails_because_of_overwritten_arguments_is_told_from_what_fails_without() -> None:
    """A right rule that overwrites p is wrong for its next call alone; a wrong rule stays wrong with copies."""
    chosen = ["output_distribution", "drawn_tokens", "inputs_unchanged"]
    innocent, guilty = (check_rule(Rule(decide), 20, chosen) for decide in (overwrites, wrong_and_overwrites))
    assert "it overwrites its arguments" in innocent.answers.law.because and innocent.lossless == "no"
    assert "it overwrites its arguments" not in guilty.answers.law.because and guilty.lossless == "no"
    for report in (innocent, guilty):
        assert report.answers.lines()[0].startswith("arguments: overwritten")
        assert "Smallest counterexample to inputs_unchanged" in str(report)


def wrong_by_memory() -> Decide:
    """Keeps the answer for an array in memory, whatever it holds: with copies it is right, and it overwrites nothing."""
    known: dict[Any, Any] = {}

    def decide(p: Any, q: Any, drafts: Any) -> otd.Selection:
        if not isinstance(p, np.ndarray):
            return right(p, q, drafts)
        key = p.__array_interface__["data"][0], drafts.shape
        known.setdefault(key, (p, right(p, q, drafts)))  # p is kept, so that its memory is not used again
        return known[key][1]

    return decide


def test_a_wrong_rule_that_is_right_with_copies_is_not_said_to_overwrite() -> None:
    report = check_rule(Rule(wrong_by_memory()), 5, ["repeated_calls", "inputs_unchanged"])
    assert report["repeated_calls"].refutes and report["inputs_unchanged"].status == "passed"
    assert not report.answers.overwritten and report.answers.law.because.startswith("repeated_calls")


@pytest.mark.parametrize("decide", [slow(raises), slow(a_tuple), in_floats])
@pytest.mark.usefixtures("as_found")
def test_what_cannot_be_looked_at_is_not_decided(decide: Decide) -> None:
    report = checked(decide)
    assert report.lossless == "not decided" and "output_distribution" in report.answers.law.because
    assert report["output_distribution"].status == "failed" and not report["output_distribution"].decides
    assert report["output_distribution"] in report.findings


def test_floats_that_are_wrong_beyond_rounding_decide() -> None:
    def wrong(p: Any, q: Any, drafts: Any) -> otd.Selection:
        return otd.Selection(0.999 * right(p, q, drafts).accept, right(p, q, drafts).residual)

    assert check_rule(Rule(wrong), 5, ["output_distribution"]).lossless == "no"


def test_what_was_not_asked_is_not_decided() -> None:
    report = check_rule(Rule(right), 5, ["output_distribution"])
    assert report.passed and report.lossless == "not decided"
    assert report.answers.law.because == "not asked: " + ", ".join(each.name for each in LOSSLESS[1:])
    assert report.answers.lines()[1] == "robust: not asked"


@pytest.mark.usefixtures("as_found")
def test_claims_are_a_question_of_their_own() -> None:
    report = checked(right, claims=("optimal", "maximal"), examples=20)
    assert report.lossless == "yes" and report.answers.findings == ()
    assert dict(report.answers.claims) == {"maximal": True, "optimal": False}
    assert report.answers.lines()[2] == "claims: maximal holds, optimal does not hold"
    assert [each.check for each in report.findings] == ["optimal"]


def test_drafts_of_another_law_refute_the_rule_with_its_drafts() -> None:
    def most_probable(q: Any, k: int, generator: Any) -> Any:
        return np.full(k, int(q.argmax()))

    def broken(q: Any, k: int, generator: Any) -> Any:
        raise RuntimeError("no drafts today")

    chosen = ["output_distribution"]
    wrong, silent = (check_rule(Rule(right), 2, chosen, draft_sampler=draft) for draft in (most_probable, broken))
    assert wrong.lossless == "no" and wrong.answers.law.because == "declared_draft_law"
    assert silent.lossless == "not decided" and not silent["declared_draft_law"].decides


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        (["passed"] * len(LOSSLESS), ("yes", "")),
        (["failed", *["passed"] * (len(LOSSLESS) - 1)], ("no", "output_distribution")),
        (["skipped", *["passed"] * (len(LOSSLESS) - 1)], ("not decided", "skipped: output_distribution")),
        (["passed"] * (len(LOSSLESS) - 1), ("not decided", f"not asked: {LOSSLESS[-1].name}")),
    ],
)
def test_the_verdict_is_read_off_the_properties(statuses: list[Any], verdict: tuple[str, str]) -> None:
    results = [each.outcome(Status(status)) for each, status in zip(LOSSLESS, statuses, strict=False)]
    found = Answers([*results, exactness.outcome(Status.SKIPPED)])
    assert (found.lossless, found.law.because) == verdict
    assert found.lines()[1] == "robust: not decided (skipped: exactness)"  # nothing of it was looked at


def test_every_property_answers_one_question() -> None:
    assert len(LOSSLESS) >= 10 and of_category("robust")
    assert of_category("claims") == CLAIMS


class Alternating(Rule):
    """Another right rule at every call: each call has the right law, but no two of them the same."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        self.calls += 1
        return (otd.rules.NaiveTarget() if self.calls % 2 else otd.rules.RecursiveRejection())(p, q, drafts)


@pytest.mark.usefixtures("as_found")
def test_a_right_rule_that_is_no_function_is_not_called_wrong() -> None:
    unhurried = SearchLimits(large_property_seconds=1e4, slow_problem_seconds=1e4)
    report = check_rule(Alternating(), 1, ["output_distribution_in_batches"], limits=unhurried)
    assert report.lossless == "not decided" and "output_distribution_in_batches" in report.answers.law.because
    assert "equal arguments give different outputs" in report["output_distribution_in_batches"].evidence.reason


class Unfinished(Rule):
    """Right, but for what a call that was stopped in the middle leaves behind: a flag that is never cleared."""

    def __init__(self) -> None:
        self.state = {"busy": False}

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        if self.state["busy"]:
            return forgets(p, q, drafts)
        self.state["busy"] = True
        end = process_time() + (60 if p.shape[-1] > 30 else 0)
        while process_time() < end:
            pass
        self.state["busy"] = False
        return right(p, q, drafts)


def test_a_rule_that_was_stopped_half_way_begins_anew() -> None:
    """What the stopped call left behind ended with its process: the next property meets the rule as it was made."""
    rule = Unfinished()
    limits = SearchLimits(large_property_seconds=0.3)
    report = check_rule(rule, 20, ["engine_sizes", "output_distribution_in_batches", "boundary_cases"], limits=limits)
    assert report["engine_sizes"].evidence.interrupted and not report.failures and not rule.state["busy"]
    assert report["boundary_cases"].status == "passed"


def test_a_rule_that_catches_everything_is_stopped_too() -> None:
    def catches(p: Any, q: Any, drafts: Any) -> otd.Selection:
        try:
            end = process_time() + (60 if p.shape[-1] > 100 else 0)
            while process_time() < end:
                pass
        except BaseException:
            return forgets(p, q, drafts)
        return right(p, q, drafts)

    limits = SearchLimits(large_property_seconds=0.3)
    report = check_rule(Rule(catches), 20, ["engine_sizes", "output_distribution_in_batches"], limits=limits)
    assert report.failures == () and any(outcome.evidence.interrupted for outcome in report.outcomes)


@pytest.mark.parametrize("way", ["asleep", "at work"])
def test_a_rule_without_end_is_told_so_and_is_no_verdict(way: str) -> None:
    def endless(p: Any, q: Any, drafts: Any) -> otd.Selection:
        while p.shape[-1] == 3:
            time.sleep(1000 if way == "asleep" else 0)
        return right(p, q, drafts)

    report = check_rule(Rule(endless), 40, [*LOSSLESS, "exactness"], limits=SearchLimits(first_problem_seconds=0.4))
    assert report.lossless == "not decided" and report.answers.crash.startswith("gave no answer within 0 s of the CPU")
    assert report["exactness"].status == "skipped" and "gave no answer" in report["exactness"].evidence.reason


def ends_the_process(p: Any, q: Any, drafts: Any) -> otd.Selection:
    if p.shape[-1] == 3:
        os._exit(0)
    return right(p, q, drafts)


def stops_all_threads(p: Any, q: Any, drafts: Any) -> otd.Selection:
    """Code that holds the interpreter: no thread of its process can watch it."""
    if p.shape[-1] == 3:
        ctypes.PyDLL(None).sleep(1000)
    return right(p, q, drafts)


@pytest.mark.skipif(not child.can_fork(), reason="no child process")
@pytest.mark.parametrize(
    ("decide", "said"),
    [
        (ends_the_process, "ended the process that it ran in"),
        (stops_all_threads, "gave no answer, and let nothing else run, for 2 s"),
    ],
)
def test_a_process_that_says_nothing_more_is_no_verdict(
    decide: Decide, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "silent_seconds", lambda limits: 2.0)
    report = check_rule(Rule(decide), 20, ["output_distribution", "probabilities"])
    assert report.lossless == "not decided" and report.answers.crash == said and not report.answers.refuted
    assert report["probabilities"].status == "skipped"
    unseen = check_rule(Rule(decide), 20, ["output_distribution", "exactness"])
    assert "robust: not decided (skipped: exactness)" in unseen.answers.lines()


def test_without_a_child_the_search_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    there = check_rule(Rule(forgets), 20, ["output_distribution"])["output_distribution"]
    monkeypatch.setattr(child, "can_fork", lambda: False)
    here = check_rule(Rule(forgets), 20, ["output_distribution"])["output_distribution"]
    assert (here.evidence.cases, here.counterexample) == (there.evidence.cases, there.counterexample)


@pytest.mark.parametrize("raised", [SystemExit(0), GeneratorExit(), MemoryError("much"), RecursionError("deep")])
def test_what_a_rule_raises_to_end_the_program_is_a_crash(raised: BaseException) -> None:
    def ends(p: Any, q: Any, drafts: Any) -> otd.Selection:
        raise raised

    report = check_rule(Rule(ends), 5, ["output_distribution"])
    assert report.lossless == "not decided" and report.answers.crash.startswith(f"raised {type(raised).__name__}")


def test_ctrl_c_goes_through() -> None:
    def interrupted(p: Any, q: Any, drafts: Any) -> otd.Selection:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_rule(Rule(interrupted), 5, ["output_distribution"])


def returns_read_only(p: Any, q: Any, drafts: Any) -> otd.Selection:
    selection = right(p, q, drafts)
    parts = [x + 0 for x in (selection.accept, selection.residual)]
    for x in parts:
        x.flags.writeable = False
    return otd.Selection(*parts)


def reversed_rows(p: Any, q: Any, drafts: Any) -> otd.Selection:
    if p.ndim == 1 or 0 in p.shape:
        return right(p, q, drafts)
    mirrored = right(p[..., ::-1], q[..., ::-1], np.where(drafts < 0, -1, p.shape[-1] - 1 - drafts))
    return otd.Selection(mirrored.accept, mirrored.residual[..., ::-1])


def prints_and_asks_threads(p: Any, q: Any, drafts: Any) -> otd.Selection:
    print("noise")
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(right, p, q, drafts).result()


def two_drafts(p: Any, q: Any, drafts: Any) -> otd.Selection:
    if drafts.shape[-1] < 2:
        raise NotImplementedError("two drafts at least")
    return right(p, q, drafts)


def ignores_absent(p: Any, q: Any, drafts: Any) -> otd.Selection:
    return right(p, q, np.where(drafts < 0, 0, drafts))


def refuses_absent(p: Any, q: Any, drafts: Any) -> otd.Selection:
    if (drafts < 0).any():
        raise otd.InvalidDrafts("all drafts must be there")
    return right(p, q, drafts)


def exactly(k: int) -> Decide:
    def decide(p: Any, q: Any, drafts: Any) -> otd.Selection:
        if drafts.shape[-1] != k:
            raise otd.InvalidArgument(f"{k} drafts")
        return right(p, q, drafts)

    return decide


def test_a_rule_that_is_right_for_drafts_that_are_all_there_is_not_refuted() -> None:
    """The i.i.d. law draws all drafts: a rule that does not know -1 is undecided, and one that refuses it is restricted."""
    passed = [each.outcome() for each in LOSSLESS if each.name != "padded_drafts"]
    for decide, said in (
        (ignores_absent, "not decided (no result: padded_drafts)"),
        (refuses_absent, "yes"),
    ):
        outcome = check_rule(Rule(decide), 5, ["padded_drafts"])["padded_drafts"]
        assert not outcome.refutes and Answers([outcome, *passed]).lines()[0].startswith(f"lossless: {said}")


def no_residual(p: Any, q: Any, drafts: Any) -> otd.Selection:
    return otd.Selection(right(p, q, drafts).accept, p)


def test_the_remedy_for_absent_drafts_is_told_only_where_they_are_the_cause() -> None:
    """A rule that is wrong without absent drafts, too, gets no advice on -1."""
    for decide, told in (
        (ignores_absent, True),
        (no_residual, False),
        (wrong_for_three, False),
        (no_residual_for_three, False),
    ):
        outcome = check_rule(Rule(decide), 6, ["padded_drafts"], k=3)["padded_drafts"]
        assert outcome.status == "failed" and ("-1 is an absent draft" in outcome.evidence.reason) == told, decide


@pytest.mark.parametrize("k", [2, 4])
def test_a_rule_for_one_number_of_drafts_is_tried_with_absent_and_with_drawn_drafts(k: int) -> None:
    report = check_rule(Rule(exactly(k)), 12, ["padded_drafts", "drawn_tokens"])
    assert all(outcome.status == "passed" for outcome in report.outcomes), str(report)


def wrong_for_three(p: Any, q: Any, drafts: Any) -> otd.Selection:
    found = right(p, q, drafts)
    return otd.Selection(found.accept / (2 if drafts.shape[-1] == 3 else 1), found.residual)


def no_residual_for_three(p: Any, q: Any, drafts: Any) -> otd.Selection:
    return otd.Selection(exactly(3)(p, q, drafts).accept, p)


@pytest.mark.usefixtures("as_found")
def test_only_the_number_of_drafts_that_is_asked_for_counts() -> None:
    assert not check_rule(Rule(wrong_for_three), 5, ["absent_drafts"], k=2).failures
    assert check_rule(Rule(wrong_for_three), 5, ["absent_drafts"]).failures


def test_the_answer_says_why_a_rule_rejects_every_problem() -> None:
    outcome = check_rule(Rule(exactly(3)), 5, ["output_distribution"], k=2)["output_distribution"]
    line = Answers([replace(outcome, check=each.name) for each in LOSSLESS]).lines()[0]
    assert line.startswith("lossless: not decided (the rule refuses every problem: ")


SMALL = ["output_distribution", "boundary_cases", "drawn_drafts", "repeated_calls"]


@pytest.mark.parametrize("k", [slow(1), 3, slow(4)])
def test_a_rule_for_one_number_of_drafts_is_decided_for_this_one(k: int) -> None:
    report = check_rule(Rule(exactly(k)), 5, SMALL)
    assert {outcome.status for outcome in report.outcomes} == {"passed"}, str(report)
    called = [outcome for outcome in report.outcomes if outcome.check != "drawn_drafts"]  # which does not call the rule
    assert all({each.k for each in outcome.evidence.by_k} == {k} for outcome in called)
    others = [each.outcome() for each in LOSSLESS if each.name not in SMALL]
    said = Answers([*report.outcomes, *others]).lines()[0]
    assert (
        said.startswith("lossless: yes, ")
        and f"restricted to k = {k} (other numbers of drafts were refused: {k} drafts)" in said
    )


def wrong_in_large_vocabularies(p: Any, q: Any, drafts: Any) -> otd.Selection:
    """Right for k = 3. Every other k is refused for small vocabularies, and wrong for larger ones."""
    selection = otd.rules.RecursiveRejection()(p, q, drafts)
    if drafts.shape[-1] == 3:
        return selection
    if p.shape[-1] < 8:
        raise otd.InvalidArgument("3 drafts for small vocabularies")
    return otd.Selection(selection.accept, p)


def test_a_number_of_drafts_that_is_refused_in_some_problems_is_tried_in_the_others() -> None:
    report = check_rule(Rule(wrong_in_large_vocabularies), 5, [*SMALL, "engine_sizes"])
    assert report.lossless == "no", str(report)


def test_a_rule_that_is_wrong_for_other_numbers_of_drafts() -> None:
    """The report names the numbers of its counterexamples; k= leaves them out, and the claim says so."""

    def for_two(p: Any, q: Any, drafts: Any) -> otd.Selection:
        return (right if drafts.shape[-1] == 2 else forgets)(p, q, drafts)

    report = check_rule(Rule(for_two), 5, ["output_distribution"])
    (failed,) = report.failures
    numbers = sorted(each.k for each in failed.evidence.by_k if each.status == "failed")
    assert 2 not in numbers and f"# Counterexamples have k = {', '.join(map(str, numbers))}." in str(report)
    only = check_rule(Rule(for_two), 5, SMALL, k=2)
    assert only.passed and {each.k for outcome in only.outcomes for each in outcome.evidence.by_k} == {2}
    assert (
        Answers(only.outcomes).law.verdict == "not decided"
        and check_rule(Rule(for_two), 5, SMALL, k=3).lossless == "no"
    )


def test_a_remedy_is_told_once() -> None:
    text = str(check_rule(Rule(raises), 2, ["output_distribution", "probabilities"]))
    assert text.count("raised RuntimeError: not yet") > 2 and text.count("Remedy: ") == 1


@pytest.mark.parametrize(
    "decide", [slow(returns_read_only), slow(reversed_rows), slow(prints_and_asks_threads), two_drafts]
)
def test_right_rules_of_odd_kinds_are_lossless(decide: Decide) -> None:
    chosen = ["float_distribution", "inputs_unchanged"]
    report = check_rule(Rule(decide), 5, [*LOSSLESS, *[each for each in ALL if each.name in chosen]])
    assert report.lossless == "yes" and report.answers.in_floats == "yes" and not report.answers.overwritten


def test_requests_with_fewer_drafts_than_others_are_tried() -> None:
    def as_many_as_the_longest(p: Any, q: Any, drafts: Any) -> otd.Selection:
        selection, number = right(p, q, drafts), (drafts >= 0).sum(-1)
        short = (number < number.max(initial=0))[..., None]
        return otd.Selection(selection.accept, np.where(short, p + 0 * selection.residual, selection.residual))

    assert check_rule(Rule(as_many_as_the_longest), 20, ["absent_drafts"]).failures
