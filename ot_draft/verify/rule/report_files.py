"""Reports on rules as files and for the terminal."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from ...page_style import page, table
from ..outcome import Outcome, Record, RuleEvidence, Status, Tried
from ..ranges import Range
from .answers import Lossless, RuleOutcome
from .report import RuleReport, by_visibility


def verdict(outcome: RuleOutcome) -> str:
    """The status; "expected" for a failure that was announced, and "unexpected" for a pass where one was."""
    if outcome.evidence.expected_failure is None:
        return outcome.status.value
    return {Status.FAILED: "expected", Status.PASSED: "unexpected"}.get(outcome.status, outcome.status.value)


def is_wrong(outcome: RuleOutcome) -> bool:
    """Whether the verdict is one that should not be."""
    return verdict(outcome) in {"failed", "unexpected"}


def summary_lines(reports: Sequence[RuleReport], wrong_only: bool = False) -> Iterator[str]:
    """The answers for each rule; then one line for each rule, property and number of drafts: cases tried, verdict, time.

    wrong_only: lines of what is not as it should be, and answers for the rules that have some.
    """
    shown = [(report, [each for each in report.outcomes if is_wrong(each) or not wrong_only]) for report in reports]
    shown = [(report, outcomes) for report, outcomes in shown if outcomes]
    for report, _ in shown:
        yield f"{report.subject}: {'; '.join(report.answers.lines())}"
    rows = [(report.subject, each) for report, outcomes in shown for each in outcomes]
    wide = [max(map(len, names), default=0) for names in ([rule for rule, _ in rows], [each.check for _, each in rows])]
    for rule, outcome in rows:
        start = f"{rule:<{wide[0]}}  {outcome.check:<{wide[1]}}"
        for each in outcome.evidence.by_k:
            word = verdict(outcome) if each.status == outcome.status else each.status
            word = "not applicable" if each.refused == each.cases else word
            yield f"{start}  k={each.k:<2} {each.cases:>5} cases  {word:<14} {each.seconds:7.2f} s"
        if not outcome.evidence.by_k:
            yield f"{start}  {outcome.status}: {outcome.evidence.reason}"


def reports_of(records: Iterable[Record]) -> list[RuleReport]:
    """The reports of the rules in records of pytest's plugin: {"subject", "outcome", "expected_failure"}."""
    found: dict[str, list[RuleOutcome]] = {}
    for record in records:
        outcome = _outcome(record["outcome"], record.get("expected_failure"))
        found.setdefault(record["subject"], []).append(outcome)
    return [RuleReport(rule, tuple(sorted(found[rule], key=lambda each: each.check))) for rule in sorted(found)]


def _outcome(record: Record, expected_failure: str | None) -> RuleOutcome:
    evidence = dict(record["evidence"])
    evidence["by_k"] = tuple(Tried(**{**each, "status": Status(each["status"])}) for each in evidence["by_k"])
    evidence["ranges"] = {kind: Range(**each) for kind, each in evidence["ranges"].items()}
    if expected_failure is not None:
        evidence["expected_failure"] = expected_failure
    return Outcome(**{**record, "status": Status(record["status"]), "evidence": RuleEvidence(**evidence)})


def report_file(folder: Path, name: str) -> Path:
    """Return the file of the report in a format (html, json)."""
    return folder / f"ot-report.{name}"


def write_reports(formats: Iterable[str], reports: Sequence[RuleReport], folder: Path) -> list[Path]:
    """Write the reports in these formats (html, json) to the files of `report_file`."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"html": html_page, "json": json_text}
    written = {report_file(folder, name): texts[name](reports) for name in dict.fromkeys(formats)}
    for file, text in written.items():
        file.write_text(text, encoding="utf-8")
    return list(written)


def json_text(reports: Sequence[RuleReport]) -> str:
    """{"ot_draft": version, "python": version, "passed": all as they should be, "reports": records with "answers"}.

    The answers are `lossless` and `in_floats` ("yes", "no", "not decided"), why, what was tried, a crash of the
    rule, whether it overwrites its arguments, the names of its findings, and its claims.
    """
    from ...version import __version__

    whole = {
        "ot_draft": __version__,
        "python": platform.python_version(),
        "passed": not any(is_wrong(each) for report in reports for each in report.outcomes),
        "reports": [report.record | {"answers": report.answers.record} for report in reports],
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def html_page(reports: Sequence[RuleReport]) -> str:
    """For each rule the verdict, a sentence, the smallest counterexample as code, what else failed; what passed is folded."""
    from ...version import __version__

    outcomes = [outcome for report in reports for outcome in report.outcomes]
    wrong, body = sum(map(is_wrong, outcomes)), "".join(map(_rule, reports))
    last = f"{wrong} not as they should be" if wrong else "all as they should be"
    body += f"<p>{len(outcomes)} checks of {len(reports)} rules, {last}. Checked by ot_draft {__version__}.</p>\n"
    style = """
.answer { font-size: 1.3rem; font-weight: bold; display: inline-block; } .answers { list-style: none; padding: 0; }
small { opacity: .75; display: block; } summary { cursor: pointer; margin: .6rem 0; }
pre { background: var(--code); padding: .8rem; overflow-x: auto; border-radius: 4px; }
.verdict { white-space: nowrap; } td { overflow-wrap: anywhere; }
.passed { background: #00735a; } .failed, .unexpected { background: #b34700; }
.expected, .open { background: #8a5c00; } .skipped { background: #666; }
@media (max-width: 40rem) { .number { display: none; } td, th { padding: .3rem .2rem; } }
@media print { pre { white-space: pre-wrap; } }
"""
    return page("Selection rules, checked", body, style)


def _rule(report: RuleReport) -> str:
    name, outcomes, said = report.subject, report.outcomes, report.answers
    answer: str = said.lossless
    if answer == Lossless.YES and said.refuted:
        answer = "yes, in Fractions" if said.in_floats == Lossless.NO else "yes, overwrites"
    style, word = {
        Lossless.YES: ("passed", "\u2713 lossless"),
        Lossless.NO: ("failed", "\u2717 not lossless"),
        Lossless.NOT_DECIDED: ("open", f"? {Lossless.NOT_DECIDED}"),
        "yes, in Fractions": ("failed", "\u2717 lossless in Fractions only"),
        "yes, overwrites": ("failed", "\u2717 overwrites its arguments"),
    }[answer]
    with_code = sorted((each for each in outcomes if each.code), key=by_visibility)
    shown = "".join(f"<h3>{_headline(each)}</h3>\n{_code(each)}" for each in with_code[:1])
    shown += "".join(_folded(_headline(each), _code(each)) for each in with_code[1:])
    passed = [each for each in outcomes if verdict(each) == "passed"]
    lines = "".join(f"<li>{escape(line)}</li>\n" for line in said.lines())
    tried = escape("\n".join(said.tried_lines()))
    return (
        f'<h2 id="{escape(name, quote=True)}">{escape(name)}</h2>\n<p class="verdict answer {style}">{word}</p>\n'
        f'<p>{escape(said.sentence)}</p>\n{shown}<ul class="answers">\n{lines}</ul>\n'
        f"{_table([each for each in outcomes if verdict(each) != 'passed'])}"
        f"{_folded(f'{len(passed)} passed', _table(passed)) if passed else ''}"
        f"{_folded('what was tried', f'<pre>{tried}</pre>') if tried else ''}"
    )


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>\n{content}</details>\n"


def _table(outcomes: Sequence[RuleOutcome]) -> str:
    rows, words = [], {"expected": "fails as expected", "unexpected": "passes unexpectedly"}
    for outcome in outcomes:
        evidence, kind = outcome.evidence, verdict(outcome)
        reason = evidence.expected_failure or ("" if outcome.code else evidence.reason)
        numbers = [(str(each.k), str(each.cases), f"{each.seconds:.2f}") for each in evidence.by_k]
        columns = map("<br>".join, zip(*numbers, strict=True)) if numbers else [""] * 3
        name = f"<b>{escape(outcome.check)}</b><small>{escape(outcome.claim)}</small>"
        said = f'<span class="verdict {kind}">{words.get(kind, kind)}</span><small>{escape(reason)}</small>'
        rows.append((name, said, *columns))
    return table(("property", "verdict", "k", "cases", "seconds"), rows, texts=2) if rows else ""


def _headline(outcome: RuleOutcome) -> str:
    return f"{escape(outcome.check)}: smallest {'crash' if outcome.evidence.crash else 'counterexample'}"


def _code(outcome: RuleOutcome) -> str:
    return f"<p>{escape(outcome.evidence.reason)}</p>\n<pre><code>{escape(outcome.code)}</code></pre>\n"
