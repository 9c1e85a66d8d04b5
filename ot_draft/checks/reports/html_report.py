"""Outcomes as one HTML page without links to anything outside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...page_style import STYLE
from .records import Record, answers_of, by_rule, is_wrong, verdict

OF_REPORTS = """
.answers { list-style: none; padding: 0; } .answers li:first-child { font-size: 1.2rem; font-weight: bold; }
small { opacity: .75; display: block; }
pre { background: var(--code); padding: .8rem; overflow-x: auto; border-radius: 4px; }
.verdict { white-space: nowrap; }
.passed { background: #00735a; } .failed, .unexpected { background: #b34700; }
.expected { background: #8a5c00; } .skipped { background: #666; }
@media print { pre { white-space: pre-wrap; } }
"""
WORDS = {"expected": "fails as expected", "unexpected": "passes unexpectedly"}


def html_page(records: Sequence[Record]) -> str:
    """A summary, then for each rule the answers, a table of its properties, and the counterexamples as code."""
    from ... import __version__

    rules = by_rule(records)
    wrong = sum(map(is_wrong, records))
    outcome = f"{wrong} not as they should be" if wrong else "all as they should be"
    body = "".join(_rule(rule, of_rule) for rule, of_rule in rules.items())
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Selection rules, checked</title>\n<style>{STYLE}{OF_REPORTS}</style>\n</head>\n<body>\n"
        f"<h1>Selection rules, checked</h1>\n<p>{len(records)} checks of {len(rules)} rules, {outcome}. "
        f"Checked by ot_draft {__version__}.</p>\n{body}</body>\n</html>\n"
    )


def _rule(name: str, records: Sequence[Record]) -> str:
    heads = "".join(f'<th class="number">{head}</th>' for head in ("k", "cases", "seconds"))
    rows = "".join(_row(record) for record in records)
    shown = "".join(
        f"<h3>{escape(record['property'])}: smallest {'crash' if record.get('crash') else 'counterexample'}</h3>\n"
        f"<p>{escape(record['reason'])}</p>\n"
        f"<pre><code>{escape(record['code'])}</code></pre>\n"
        for record in records
        if record["code"]
    )
    said = "".join(f"<li>{escape(line)}</li>\n" for line in answers_of(records).lines())
    return (
        f'<h2 id="{escape(name, quote=True)}">{escape(name)}</h2>\n<ul class="answers">\n{said}</ul>\n<div class="wide"><table>\n'
        f"<thead><tr><th>property</th><th>verdict</th>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n{shown}"
    )


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
