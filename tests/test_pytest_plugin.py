"""The pytest plugin: its options, its summary, its report files, also with workers, and how little it loads."""

from __future__ import annotations

import json
import marshal
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import ot_draft as otd
from ot_draft.verify.outcome import Outcome, RuleEvidence, Status, Tried
from ot_draft.verify.rule import RuleReport, check_rule
from ot_draft.verify.rule.properties import properties_of
from ot_draft.verify.rule.report_files import is_wrong, reports_of, summary_lines, verdict, write_reports

USER_TEST = """
import ot_draft as otd

class Forgetful(otd.SelectionRule):
    law = otd.IID()

    def __call__(self, p, q, drafts):
        return otd.Selection(otd.rules.RecursiveRejection()(p, q, drafts).accept, p)

@otd.parametrize_with_rule_checks(
    [otd.rules.NaiveTarget(), Forgetful()],
    expected_failures={"Forgetful-at_most_the_optimum": "takes <what> it may not"},
    properties=["output_distribution", "at_most_the_optimum", "maximal"],
    max_examples=20,
)
def test_rule(rule, check):
    check(rule)

def test_other(record_property):
    record_property("mine", 1)
"""


class OwnLaw(otd.IID):
    """A draft law that is not the library's."""


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    (pytester.path / "test_user.py").write_text(USER_TEST)
    return pytester.path


@pytest.fixture
def run(pytester: pytest.Pytester) -> Callable[..., str]:
    """What a second pytest prints, in this process: a new one takes seconds to load what is here already."""

    def printed(*options: str) -> str:
        done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--rootdir", str(pytester.path), *options)
        return f"{done.stdout}\n{done.stderr}"

    return printed


def in_a_process_of_its_own(folder: Path, *options: str) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        *options,
        str(folder),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def summary(output: str) -> dict[tuple[str, str, str], tuple[int, str]]:
    """(rule, property, k) -> (cases, verdict) of the lines of the summary."""
    lines = re.findall(r"^(\w+) +(\w+) +k=(\d+) +(\d+) cases +(\w+) +[\d.]+ s$", output, re.MULTILINE)
    assert len({line[:3] for line in lines}) == len(lines)
    return {(rule, name, k): (int(cases), kind) for rule, name, k, cases, kind in lines}


def outcomes(folder: Path) -> dict[tuple[str, str], Any]:
    """(rule, property) -> entry of the JSON report."""
    reports = json.loads((folder / "ot-report.json").read_text())["reports"]
    return {(report["subject"], each["check"]): each["evidence"] for report in reports for each in report["outcomes"]}


def test_one_line_for_each_rule_property_and_number_of_drafts(folder: Path, run: Callable[..., str]) -> None:
    output = run("--ot-report=json")
    lines, found = summary(output), outcomes(folder)
    assert re.search(
        r"^NaiveTarget: lossless: not decided \(not asked: probabilities, .*; claims: maximal was skipped$",
        output,
        re.MULTILINE,
    )
    assert re.search(
        r"^Forgetful: lossless: no \(output_distribution, at_most_the_optimum\); robust: not asked; claims: ",
        output,
        re.MULTILINE,
    )
    assert "selection rules" in output and "ot_draft report: ot-report.json" in output
    assert len(found) == 6
    for (rule, name), entry in found.items():
        here = {k: line for (*test, k), line in lines.items() if test == [rule, name]}
        assert {k: cases for k, (cases, _) in here.items()} == {str(each["k"]): each["cases"] for each in entry["by_k"]}
        assert sum(cases for cases, _ in here.values()) == entry["cases"]
    assert (
        found["NaiveTarget", "output_distribution"]["cases"] == 20
        and len(found["NaiveTarget", "output_distribution"]["by_k"]) > 1
    )
    assert {kind for (rule, name, _), (_, kind) in lines.items() if rule == "NaiveTarget"} == {"passed"}
    assert lines["Forgetful", "output_distribution", "1"][1] == "failed"
    assert lines["Forgetful", "at_most_the_optimum", "1"][1] == "expected"
    assert found["Forgetful", "at_most_the_optimum"]["expected_failure"] == "takes <what> it may not"
    assert re.search(r"Forgetful +maximal +skipped: not claimed", output)


@pytest.mark.slow
def test_workers_send_what_they_found(folder: Path, run: Callable[..., str]) -> None:
    run("--ot-report=json", "--ot-report-dir=alone")
    output = run("--ot-report=json", "--ot-report-dir=together", "-n", "2")
    alone, together = outcomes(folder / "alone"), outcomes(folder / "together")
    assert "2 workers" in output and len(summary(output)) > 6
    assert [_untimed(entry) for entry in alone.values()] == [_untimed(together[test]) for test in alone]
    assert set(alone) == set(together)


def _untimed(entry: dict[str, Any]) -> dict[str, Any]:
    by_k = [{name: value for name, value in each.items() if name != "seconds"} for each in entry["by_k"]]
    return {**entry, "by_k": by_k}


def test_the_number_of_examples_and_the_selection(folder: Path, run: Callable[..., str]) -> None:
    output = run("--ot-max-examples=7", "--ot-report=json", "-k", "NaiveTarget and output_distribution")
    assert "1 passed, 6 deselected" in output
    assert [entry["cases"] for entry in outcomes(folder).values()] == [7]
    assert sum(cases for cases, _ in summary(output).values()) == 7


def test_quiet_shows_what_is_wrong_only(folder: Path, run: Callable[..., str]) -> None:
    output = run("-q")
    assert {(rule, name) for rule, name, _ in summary(output)} == {("Forgetful", "output_distribution")}
    assert "NaiveTarget: " not in output
    assert summary(run("-q", "-k", "NaiveTarget")) == {}


def test_wrong_options_are_refused(folder: Path, run: Callable[..., str]) -> None:
    assert "--ot-max-examples must be at least 1, got 0" in run("--ot-max-examples=0")
    assert "invalid choice: 'pdf'" in run("--ot-report=pdf")


def test_other_tests_are_left_alone(folder: Path, run: Callable[..., str]) -> None:
    output = run("-k", "other", "--junitxml=user.xml", "-o", "junit_family=xunit1")
    assert "1 passed" in output and "selection rules" not in output
    run("-k", "NaiveTarget or other", "--junitxml=user.xml", "-o", "junit_family=xunit1")
    names = {each.get("name") for each in ElementTree.parse(folder / "user.xml").iter("property")}
    assert names == {"mine"}


def test_the_plugin_loads_nothing_that_a_run_without_rules_does_not_need(folder: Path, run: Callable[..., str]) -> None:
    (folder / "test_user.py").write_text(
        "import sys\ndef test():\n    assert 'ot_draft.pytest_plugin' in sys.modules\n"
        "    assert not {'ot_draft.verify.rule', 'hypothesis', 'torch', 'scipy'} & set(sys.modules)\n"
    )
    assert "1 passed" in in_a_process_of_its_own(folder, "-p", "no:hypothesispytest", "-p", "no:benchmark")


def test_the_checks_work_without_the_plugin(folder: Path, run: Callable[..., str]) -> None:
    output = run("-p", "no:ot_draft", "-k", "NaiveTarget and output_distribution")
    assert "1 passed" in output and "selection rules" not in output


PASSED = Outcome(check="output_distribution", claim="p < q & so on", seconds=0.5,
                 evidence=RuleEvidence(category="lossless", cases=3, by_k=(Tried(1, 3, seconds=0.25),)))  # fmt: skip
FAILED = replace(PASSED, check="bad", status=Status.FAILED, evidence=replace(PASSED.evidence, reason="a\x00 <b>"),
                 counterexample={"code": 'print("<b> & \x01")\n'})  # fmt: skip
SKIPPED = replace(
    PASSED, check="meta", status=Status.SKIPPED, evidence=RuleEvidence(category="lossless", reason="no torch")
)
EXPECTED = replace(FAILED, check="known", evidence=replace(FAILED.evidence, expected_failure="known <bug>"))
UNEXPECTED = replace(PASSED, evidence=replace(PASSED.evidence, expected_failure="was broken"))
REPORTS = [RuleReport("Mine", (PASSED, FAILED, SKIPPED, EXPECTED)), RuleReport("Other", (UNEXPECTED,))]
OUTCOMES = [outcome for report in REPORTS for outcome in report.outcomes]


def test_a_number_of_drafts_that_is_refused_is_not_applicable() -> None:
    evidence = RuleEvidence(category="lossless", cases=5, refused=3, by_k=(Tried(1, 3, 3), Tried(2, 2)))
    lines = [*summary_lines([RuleReport("Mine", (replace(PASSED, evidence=evidence),))])]
    assert [" ".join(line.split()[2:6]) for line in lines[1:]] == ["k=1 3 cases not", "k=2 2 cases passed"]
    assert "not applicable" in lines[1]


def test_verdicts() -> None:
    verdicts = ["passed", "failed", "skipped", "expected", "unexpected"]
    assert [verdict(each) for each in OUTCOMES] == verdicts
    assert [is_wrong(each) for each in OUTCOMES] == [False, True, False, False, True]


def test_a_record_is_plain_and_holds_all_of_an_outcome() -> None:
    failed = check_rule(otd.rules.KSeq(factor=1), 20, ["output_distribution"]).outcomes[0]
    assert failed.status == "failed" and failed.evidence.ranges and failed.evidence.by_k
    for outcome in (failed, *OUTCOMES):
        ((there,),) = (
            each.outcomes for each in reports_of(json.loads(json.dumps([{"subject": "", "outcome": outcome.record}])))
        )
        assert there.evidence.by_k == outcome.evidence.by_k and verdict(there) == verdict(outcome)
        assert json.dumps(there.record) == json.dumps(outcome.record)
        marshal.dumps(outcome.record)  # exact types: pytest-xdist's workers send no others


class Page(HTMLParser):
    """Tags in order, those that are open, and the text of the verdicts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.code: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["code"]:
            self.code.append(data)


def test_the_page_is_whole_and_leads_nowhere(tmp_path: Path) -> None:
    (file,) = write_reports(["html", "html"], REPORTS, tmp_path / "new")
    text = file.read_text()
    page = Page()
    page.feed(text)
    assert page.open == [] and not {"src", "href"} & {name for name, _ in page.attributes} and "url(" not in text
    assert {f"verdict {verdict(each)}" for each in OUTCOMES} <= {
        value for name, value in page.attributes if name == "class"
    }
    assert page.code == [FAILED.code, EXPECTED.code]
    order = ["not lossless</p>", "There is a problem", "<pre>", "<li>lossless", "<td><b>bad</b>", "<summary>1 passed"]
    assert sorted(order, key=text.index) == order and text.index("<summary>1 passed") < text.index(
        "<b>output_distribution</b>"
    )
    assert "<li>lossless: no (bad, known)</li>" in text
    assert "5 checks of 2 rules, 2 not as they should be" in text and "p &lt; q &amp; so on" in text
    assert (
        "all as they should be"
        in write_reports(["html"], [RuleReport("Mine", (PASSED, EXPECTED))], tmp_path)[0].read_text()
    )


def test_a_test_that_does_not_call_its_check_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import ot_draft as otd

        @otd.parametrize_with_rule_checks([otd.rules.KSeq()], properties=["output_distribution"], max_examples=2)
        def test_forgotten(rule, check):
            pass

        @otd.parametrize_with_rule_checks(
            [otd.rules.KSeq()], properties=["output_distribution"], max_examples=2, expected_failures={"output_distribution": "known"}
        )
        def test_expected(rule, check):
            pass

        @otd.parametrize_with_rule_checks([otd.rules.KSeq()], properties=["output_distribution"], max_examples=2)
        def test_called(rule, check):
            check(rule)
        """
    )
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    done.assert_outcomes(failed=2, passed=1)
    done.stdout.fnmatch_lines(["nothing was checked: the body of the test is  check(rule)"])


@pytest.mark.parametrize("place", ["there/below", "there"])
def test_a_folder_that_cannot_be_written_to_is_refused_before_the_tests(place: str, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test():\n    pass\n")
    (pytester.path / "there").write_text("")
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--ot-report", "json", "--ot-report-dir", place)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*--ot-report-dir must be a writable folder, got {str(place)!r}*"])


def test_torch_is_loaded_and_problems_are_drawn_once_for_all_tests() -> None:
    """Not in the child process of every test. A draft law of the user is not called in this process."""
    from ot_draft.verify.rule.report import check_property
    from ot_draft.verify.rule.search import drawn_problems

    (claim,) = properties_of(otd.rules.NaiveTarget(), ["output_distribution"])
    drawn_problems.cache_clear()
    for _ in range(2):
        assert check_property(claim, otd.rules.NaiveTarget(), 5).status == Status.PASSED
    assert (drawn_problems.cache_info().misses, drawn_problems.cache_info().hits) == (1, 1)
    assert check_property(claim, otd.rules.NaiveTarget(OwnLaw()), 5).status == Status.PASSED
    assert drawn_problems.cache_info().misses == 1
