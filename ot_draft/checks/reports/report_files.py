"""Outcomes as files: JSON for programs, JUnit XML for CI servers, one HTML page for people."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from .html_report import html_page
from .records import Record, is_wrong, verdict

NAMES = {"html": "ot-report.html", "json": "ot-report.json", "junit": "ot-report.xml"}


def write_reports(kinds: Iterable[str], records: Sequence[Record], folder: Path) -> list[Path]:
    """Write the reports of these kinds (html, json, junit) to the folder, under the names in NAMES."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"html": html_page, "json": json_text, "junit": junit_text}
    written = []
    for kind in dict.fromkeys(kinds):
        written.append(folder / NAMES[kind])
        written[-1].write_text(texts[kind](records), encoding="utf-8")
    return written


def json_text(records: Sequence[Record]) -> str:
    """{"ot_draft": version, "python": version, "passed": all as they should be, "outcomes": records with their verdict}."""
    from ... import __version__

    outcomes = [{**record, "verdict": verdict(record)} for record in records]
    passed = not any(map(is_wrong, records))
    whole = {"ot_draft": __version__, "python": platform.python_version(), "passed": passed, "outcomes": outcomes}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def junit_text(records: Sequence[Record]) -> str:
    """One test suite a rule, one test case a property, in the JUnit schema of Jenkins; what was tried is the case's output."""
    root = ElementTree.Element("testsuites")
    now = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    for rule in dict.fromkeys(record["rule"] for record in records):
        mine = [record for record in records if record["rule"] == rule]
        about = {
            "name": rule,
            "tests": str(len(mine)),
            "failures": str(sum(map(is_wrong, mine))),
            "errors": "0",
            "skipped": str(sum(verdict(record) in {"skipped", "expected"} for record in mine)),
            "time": f"{sum(record['seconds'] for record in mine):.6f}",
            "timestamp": now,
            "hostname": platform.node(),
        }
        suite = ElementTree.SubElement(root, "testsuite", about)
        for record in mine:
            _add_case(suite, record)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ElementTree.Element, record: Record) -> None:
    about = {"classname": f"ot_draft.{record['rule']}", "name": record["property"], "time": f"{record['seconds']:.6f}"}
    case = ElementTree.SubElement(suite, "testcase", about)
    kind, reason = verdict(record), record["reason"]
    if kind == "failed":
        failure = ElementTree.SubElement(case, "failure", message=_clean(reason), type="Counterexample")
        failure.text = _clean(record["code"])
    elif kind == "unexpected":
        message = f"passed, and should have failed: {record['expected_failure']}"
        ElementTree.SubElement(case, "failure", message=_clean(message), type="UnexpectedPass")
    elif kind in {"skipped", "expected"}:
        message = reason if kind == "skipped" else f"expected failure: {record['expected_failure']}"
        ElementTree.SubElement(case, "skipped", message=_clean(message))
    lines = [
        f"k = {each['k']}: {each['cases']} cases, {each['status']}, {each['seconds']:.3f} s" for each in record["by_k"]
    ]
    ElementTree.SubElement(case, "system-out").text = "\n".join(lines)


def _clean(text: str) -> str:
    """The text without characters that XML does not have."""
    return re.sub(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]", "?", text)
