"""Outcomes as files: JSON for programs, JUnit XML for CI servers, one HTML page for people."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from .answers import Answers, refutes
from .html_report import html_page
from .records import Record, answers_of, by_rule, is_wrong, result_of, verdict

NAMES = {"html": "ot-report.html", "json": "ot-report.json", "junit": "ot-report.xml"}


def write_reports(formats: Iterable[str], records: Sequence[Record], folder: Path) -> list[Path]:
    """Write the reports in these formats (html, json, junit) to the folder, under the names in NAMES."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"html": html_page, "json": json_text, "junit": junit_text}
    written = []
    for name in dict.fromkeys(formats):
        written.append(folder / NAMES[name])
        written[-1].write_text(texts[name](records), encoding="utf-8")
    return written


def json_text(records: Sequence[Record]) -> str:
    """{"ot_draft": version, "python": version, "passed": all as they should be, "rules": answers, "outcomes": records}.

    An answer has the rule's name, `lossless` and `in_floats` ("yes", "no", "not decided"), why, what was tried, a crash of the
    rule, whether it overwrites its arguments, the names of its findings, and its claims.
    """
    from ... import __version__

    outcomes = [{**record, "verdict": verdict(record)} for record in records]
    passed = not any(map(is_wrong, records))
    rules = [_answer(rule, answers_of(of_rule)) for rule, of_rule in by_rule(records).items()]
    versions = {"ot_draft": __version__, "python": platform.python_version()}
    whole = {**versions, "passed": passed, "rules": rules, "outcomes": outcomes}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _answer(rule: str, answer: Answers) -> Record:
    verdict: Record = {"lossless": answer.lossless, "because": answer.because, "tried": answer.tried}
    verdict |= {"in_floats": answer.in_floats, "tried_in_floats": answer.tried_in_floats}
    verdict |= {"crash": answer.crash, "overwritten": answer.overwritten}
    return {"rule": rule, **verdict, "findings": list(answer.findings), "claims": dict(answer.claims)}


def junit_text(records: Sequence[Record]) -> str:
    """One test suite a rule, one test case a property, in the JUnit schema of Jenkins; what was tried is the case's output.

    The answers are properties of the suite; a failure that refutes that the rule is lossless has another type than a finding.
    """
    root = ElementTree.Element("testsuites")
    now = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    for rule, of_rule in by_rule(records).items():
        about = {
            "name": rule,
            "tests": str(len(of_rule)),
            "failures": str(sum(map(is_wrong, of_rule))),
            "errors": "0",
            "skipped": str(sum(verdict(record) in {"skipped", "expected"} for record in of_rule)),
            "time": f"{sum(record['seconds'] for record in of_rule):.6f}",
            "timestamp": now,
            "hostname": platform.node(),
        }
        suite = ElementTree.SubElement(root, "testsuite", about)
        properties = ElementTree.SubElement(suite, "properties")
        for line in answers_of(of_rule).lines():
            name, _, value = line.partition(": ")
            ElementTree.SubElement(properties, "property", name=name, value=value)
        for record in of_rule:
            _add_case(suite, record)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ElementTree.Element, record: Record) -> None:
    about = {"classname": f"ot_draft.{record['rule']}", "name": record["property"], "time": f"{record['seconds']:.6f}"}
    case = ElementTree.SubElement(suite, "testcase", about)
    word, reason = verdict(record), record["reason"]
    if word == "failed":
        about = {"message": _clean(reason), "type": "NotLossless" if refutes(result_of(record)) else "Finding"}
        ElementTree.SubElement(case, "failure", about).text = _clean(record["code"])
    elif word == "unexpected":
        message = f"passed, and should have failed: {record['expected_failure']}"
        ElementTree.SubElement(case, "failure", message=_clean(message), type="UnexpectedPass")
    elif word in {"skipped", "expected"}:
        message = reason if word == "skipped" else f"expected failure: {record['expected_failure']}"
        ElementTree.SubElement(case, "skipped", message=_clean(message))
    lines = [
        f"k = {each['k']}: {each['cases']} cases, {each['status']}, {each['seconds']:.3f} s" for each in record["by_k"]
    ]
    ElementTree.SubElement(case, "system-out").text = "\n".join(lines)


def _clean(text: str) -> str:
    """The text without characters that XML does not have."""
    return re.sub(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]", "?", text)
