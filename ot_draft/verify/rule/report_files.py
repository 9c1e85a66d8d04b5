"""Outcomes as files and for the terminal: every form is a view of `Outcome`s."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from ...page_style import page, table
from .answers import Answers, Lossless
from .outcome import Outcome, RecordVerdict

Outcomes = Sequence[Outcome]


def by_rule(outcomes: Outcomes) -> dict[str, list[Outcome]]:
    """The outcomes of every rule, by its name, in the order in which they came."""
    return {rule: [each for each in outcomes if each.rule == rule] for rule in dict.fromkeys(o.rule for o in outcomes)}


def summary_lines(outcomes: Outcomes, wrong_only: bool = False) -> Iterator[str]:
    """The answers for each rule; then one line for each rule, property and number of drafts: cases tried, verdict, time.

    wrong_only: lines of what is not as it should be, and answers for the rules that have some.
    """
    shown = [each for each in outcomes if each.is_wrong or not wrong_only]
    for rule in by_rule(shown):
        yield f"{rule}: {'; '.join(Answers(by_rule(outcomes)[rule]).lines())}"
    wide = [max(map(len, names), default=0) for names in ([o.rule for o in shown], [o.property for o in shown])]
    for outcome in shown:
        start = f"{outcome.rule:<{wide[0]}}  {outcome.property:<{wide[1]}}"
        for each in outcome.by_k:
            word = outcome.verdict if each.status == outcome.status else each.status
            yield f"{start}  k={each.k:<2} {each.cases:>5} cases  {word:<10} {each.seconds:7.2f} s"
        if not outcome.by_k:
            yield f"{start}  {outcome.status}: {outcome.reason}"


NAMES = {"html": "ot-report.html", "json": "ot-report.json"}


def write_reports(formats: Iterable[str], outcomes: Outcomes, folder: Path) -> list[Path]:
    """Write the reports in these formats (html, json) to the folder, under the names in NAMES."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"html": html_page, "json": json_text}
    written = {folder / NAMES[name]: texts[name](outcomes) for name in dict.fromkeys(formats)}
    for file, text in written.items():
        file.write_text(text, encoding="utf-8")
    return list(written)


def json_text(outcomes: Outcomes) -> str:
    """{"ot_draft": version, "python": version, "passed": all as they should be, "rules": answers, "outcomes": records}.

    An answer has the rule's name, `lossless` and `in_floats` ("yes", "no", "not decided"), why, what was tried, a crash of the
    rule, whether it overwrites its arguments, the names of its findings, and its claims.
    """
    from ...version import __version__

    whole = {
        "ot_draft": __version__,
        "python": platform.python_version(),
        "passed": not any(each.is_wrong for each in outcomes),
        "rules": [{"rule": rule, **Answers(of_rule).record} for rule, of_rule in by_rule(outcomes).items()],
        "outcomes": [each.record for each in outcomes],
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


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
    Lossless.YES: ("passed", "\u2713 lossless"),
    Lossless.NO: ("failed", "\u2717 not lossless"),
    Lossless.NOT_DECIDED: ("open", f"? {Lossless.NOT_DECIDED}"),
    "yes, in Fractions": ("failed", "\u2717 lossless in Fractions only"),
    "yes, overwrites": ("failed", "\u2717 overwrites its arguments"),
}


def html_page(outcomes: Outcomes) -> str:
    """For each rule the verdict, a sentence, the smallest counterexample as code, what else failed; what passed is folded."""
    from ...version import __version__

    rules, wrong = by_rule(outcomes), sum(each.is_wrong for each in outcomes)
    body = "".join(_rule(rule, of_rule) for rule, of_rule in rules.items())
    last = f"{wrong} not as they should be" if wrong else "all as they should be"
    body += f"<p>{len(outcomes)} checks of {len(rules)} rules, {last}. Checked by ot_draft {__version__}.</p>\n"
    return page("Selection rules, checked", body, OF_REPORTS)


def _rule(name: str, outcomes: Outcomes) -> str:
    said = Answers(outcomes)
    verdict: str = said.lossless
    if verdict == Lossless.YES and said.refuted:
        verdict = "yes, in Fractions" if said.in_floats == Lossless.NO else "yes, overwrites"
    style, word = SIGNS[verdict]
    with_code = sorted((each for each in outcomes if each.code), key=lambda each: not each.refutes)
    shown = "".join(f"<h3>{_headline(each)}</h3>\n{_code(each)}" for each in with_code[:1])
    shown += "".join(_folded(_headline(each), _code(each)) for each in with_code[1:])
    passed = [each for each in outcomes if each.verdict == RecordVerdict.PASSED]
    lines = "".join(f"<li>{escape(line)}</li>\n" for line in said.lines())
    return (
        f'<h2 id="{escape(name, quote=True)}">{escape(name)}</h2>\n<p class="verdict answer {style}">{word}</p>\n'
        f'<p>{escape(said.sentence)}</p>\n{shown}<ul class="answers">\n{lines}</ul>\n'
        f"{_table([each for each in outcomes if each.verdict != RecordVerdict.PASSED])}"
        f"{_folded(f'{len(passed)} passed', _table(passed)) if passed else ''}"
    )


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>\n{content}</details>\n"


def _table(outcomes: Outcomes) -> str:
    rows = []
    for outcome in outcomes:
        reason = outcome.expected_failure or ("" if outcome.code else outcome.reason)
        word = WORDS.get(outcome.verdict, outcome.verdict)
        numbers = [(str(each.k), str(each.cases), f"{each.seconds:.2f}") for each in outcome.by_k]
        columns = map("<br>".join, zip(*numbers, strict=True)) if numbers else [""] * 3
        name = f"<b>{escape(outcome.property)}</b><small>{escape(outcome.statement)}</small>"
        verdict = f'<span class="verdict {outcome.verdict}">{word}</span><small>{escape(reason)}</small>'
        rows.append((name, verdict, *columns))
    return table(("property", "verdict", "k", "cases", "seconds"), rows, texts=2) if rows else ""


def _headline(outcome: Outcome) -> str:
    return f"{escape(outcome.property)}: smallest {'crash' if outcome.crash else 'counterexample'}"


def _code(outcome: Outcome) -> str:
    return f"<p>{escape(outcome.reason)}</p>\n<pre><code>{escape(outcome.code)}</code></pre>\n"
