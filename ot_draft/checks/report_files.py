"""Outcomes as plain data: for files, for the terminal, and for the way from a pytest worker to its controller."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from xml.etree import ElementTree

from ..page_style import STYLE
from .answers import Answers, Record, Result, answers, refutes
from .search import Range


def by_rule(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The records of every rule, by its name, in the order in which they came."""
    rules: dict[str, list[Record]] = {}
    for record in records:
        rules.setdefault(record["rule"], []).append(record)
    return rules


def answers_of(records: Iterable[Record]) -> Answers:
    """What the records of one rule answer."""
    return answers(map(result_of, records))


def result_of(record: Record) -> Result:
    """What the answers need of a record."""
    ranges = {kind: Range(**each) for kind, each in record.get("ranges", {}).items()}
    for each in ranges.values():
        each.n_by_k = {int(k): n for k, n in each.n_by_k.items()}  # JSON has texts for keys
    refused = (record.get("refused", 0), record["cases"])
    about = (record["property"], record["category"], record["status"], record["decides"], record.get("crash", ""))
    return Result(*about, refused, record.get("refusal", ""), ranges)


def verdict(record: Record) -> str:
    """passed, failed, skipped; "expected" for a failure that was announced, and "unexpected" for a pass where one was."""
    status: str = record["status"]
    if record.get("expected_failure") is None:
        return status
    return {"failed": "expected", "passed": "unexpected"}.get(status, status)


def is_wrong(record: Record) -> bool:
    """Whether the verdict is one that should not be."""
    return verdict(record) in {"failed", "unexpected"}


def summary_lines(records: Iterable[Record], wrong_only: bool = False) -> Iterator[str]:
    """The answers for each rule; then one line for each rule, property and number of drafts: cases tried, verdict, time.

    wrong_only: lines of what is not as it should be, and answers for the rules that have some.
    """
    records = list(records)
    shown = [record for record in records if is_wrong(record) or not wrong_only]
    for rule in by_rule(shown):
        yield f"{rule}: {'; '.join(answers_of(by_rule(records)[rule]).lines())}"
    wide = [max((len(record[name]) for record in shown), default=0) for name in ("rule", "property")]
    for record in shown:
        start = f"{record['rule']:<{wide[0]}}  {record['property']:<{wide[1]}}"
        for each in record["by_k"]:
            word = verdict(record) if each["status"] == record["status"] else each["status"]
            yield f"{start}  k={each['k']:<2} {each['cases']:>5} cases  {word:<10} {each['seconds']:7.2f} s"
        if not record["by_k"]:
            yield f"{start}  {record['status']}: {record['reason']}"


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


def try_places(formats: Iterable[str], folder: Path) -> None:
    """Raise OSError now where a report could not be written later; nothing is left behind."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name in formats:
            file = folder / NAMES[name]
            there = file.exists()
            file.open("a").close()
            if not there:
                file.unlink()
    finally:
        for each in new:
            each.rmdir()


def json_text(records: Sequence[Record]) -> str:
    """{"ot_draft": version, "python": version, "passed": all as they should be, "rules": answers, "outcomes": records}.

    An answer has the rule's name, `lossless` and `in_floats` ("yes", "no", "not decided"), why, what was tried, a crash of the
    rule, whether it overwrites its arguments, the names of its findings, and its claims.
    """
    from .. import __version__

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


OF_REPORTS = """
.answer { font-size: 1.3rem; font-weight: bold; display: inline-block; } .answers { list-style: none; padding: 0; }
small { opacity: .75; display: block; } summary { cursor: pointer; margin: .6rem 0; }
pre { background: var(--code); padding: .8rem; overflow-x: auto; border-radius: 4px; }
.verdict { white-space: nowrap; } td { overflow-wrap: anywhere; }
.passed { background: #00735a; } .failed, .unexpected { background: #b34700; }
.expected, .open { background: #8a5c00; } .skipped { background: #666; }
@media (max-width: 40rem) { .number { display: none; } td, th { padding: .3rem .2rem; } }
@media print { pre { white-space: pre-wrap; } }
"""
WORDS = {"expected": "fails as expected", "unexpected": "passes unexpectedly"}
SIGNS = {
    "yes": ("passed", "\u2713 lossless"),
    "no": ("failed", "\u2717 not lossless"),
    "not decided": ("open", "? not decided"),
}


def html_page(records: Sequence[Record]) -> str:
    """For each rule the verdict, a sentence, the smallest counterexample as code, what else failed; what passed is folded."""
    from .. import __version__

    rules = by_rule(records)
    wrong = sum(map(is_wrong, records))
    outcome = f"{wrong} not as they should be" if wrong else "all as they should be"
    body = "".join(_rule(rule, of_rule) for rule, of_rule in rules.items())
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Selection rules, checked</title>\n<style>{STYLE}{OF_REPORTS}</style>\n</head>\n<body>\n"
        f"<h1>Selection rules, checked</h1>\n{body}<p>{len(records)} checks of {len(rules)} rules, {outcome}. "
        f"Checked by ot_draft {__version__}.</p>\n</body>\n</html>\n"
    )


def _rule(name: str, records: Sequence[Record]) -> str:
    answers = answers_of(records)
    style, word = SIGNS[answers.lossless]
    if answers.lossless == "yes" and answers.refuted:
        style, word = (
            "failed",
            "\u2717 lossless in Fractions only" if answers.in_floats == "no" else "\u2717 overwrites its arguments",
        )
    with_code = sorted((each for each in records if each["code"]), key=lambda each: not refutes(result_of(each)))
    shown = "".join(map(_shown, with_code[:1])) + "".join(map(_folded, with_code[1:]))
    passed = [each for each in records if verdict(each) == "passed"]
    others = [each for each in records if verdict(each) != "passed"]
    said = "".join(f"<li>{escape(line)}</li>\n" for line in answers.lines())
    folded = f"<details><summary>{len(passed)} passed</summary>\n{_table(passed)}</details>\n" if passed else ""
    return (
        f'<h2 id="{escape(name, quote=True)}">{escape(name)}</h2>\n<p class="verdict answer {style}">{word}</p>\n'
        f'<p>{escape(answers.sentence)}</p>\n{shown}<ul class="answers">\n{said}</ul>\n'
        f"{_table(others) if others else ''}{folded}"
    )


def _table(records: Sequence[Record]) -> str:
    heads = "".join(f'<th class="number">{head}</th>' for head in ("k", "cases", "seconds"))
    rows = "".join(map(_row, records))
    return (
        '<div class="wide"><table>\n<thead><tr><th>property</th><th>verdict</th>'
        f"{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )


def _shown(record: Record) -> str:
    return f"<h3>{_headline(record)}</h3>\n{_code(record)}"


def _folded(record: Record) -> str:
    return f"<details><summary>{_headline(record)}</summary>\n{_code(record)}</details>\n"


def _headline(record: Record) -> str:
    return f"{escape(record['property'])}: smallest {'crash' if record.get('crash') else 'counterexample'}"


def _code(record: Record) -> str:
    return f"<p>{escape(record['reason'])}</p>\n<pre><code>{escape(record['code'])}</code></pre>\n"


def _row(record: Record) -> str:
    reason = record.get("expected_failure") or ("" if record["code"] else record["reason"])
    columns = [[str(each["k"]) for each in record["by_k"]], [str(each["cases"]) for each in record["by_k"]]]
    columns.append([f"{each['seconds']:.2f}" for each in record["by_k"]])
    numbers = "".join(f'<td class="number">{"<br>".join(column)}</td>' for column in columns)
    return (
        f"<tr><td><b>{escape(record['property'])}</b><small>{escape(record['statement'])}</small></td>"
        f"<td>{_verdict(verdict(record))}<small>{escape(reason)}</small></td>{numbers}</tr>\n"
    )


def _verdict(word: str) -> str:
    return f'<span class="verdict {word}">{WORDS.get(word, word)}</span>'
