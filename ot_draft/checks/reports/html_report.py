"""Outcomes as one HTML page without links to anything outside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .records import Record, is_wrong, verdict

# Okabe and Ito's colours, told apart by everyone; the verdict stands there as a word too.
STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --line: #ccc; --code: #f4f4f4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #181818; --line: #444; --code: #242424; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; white-space: nowrap; }
small { opacity: .75; display: block; }
pre { background: var(--code); padding: .8rem; overflow-x: auto; border-radius: 4px; }
.verdict { color: #fff; border-radius: 4px; padding: .1rem .5rem; white-space: nowrap; }
.passed { background: #00735a; } .failed, .unexpected { background: #b34700; }
.expected { background: #8a5c00; } .skipped { background: #666; }
@media print { pre { white-space: pre-wrap; } }
"""
WORDS = {"expected": "fails as expected", "unexpected": "passes unexpectedly"}


def html_page(records: Sequence[Record]) -> str:
    """A summary, then for each rule a table of its properties, and the counterexamples as code."""
    from ... import __version__

    rules = list(dict.fromkeys(record["rule"] for record in records))
    wrong = sum(map(is_wrong, records))
    outcome = f"{wrong} not as they should be" if wrong else "all as they should be"
    body = "".join(_rule(rule, [record for record in records if record["rule"] == rule]) for rule in rules)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Selection rules, checked</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>Selection rules, checked</h1>\n<p>{len(records)} checks of {len(rules)} rules, {outcome}. "
        f"Checked by ot_draft {__version__}.</p>\n{body}</body>\n</html>\n"
    )


def _rule(name: str, records: Sequence[Record]) -> str:
    heads = "".join(f'<th class="number">{head}</th>' for head in ("k", "cases", "seconds"))
    rows = "".join(_row(record) for record in records)
    shown = "".join(
        f"<h3>{escape(record['property'])}: smallest counterexample</h3>\n<p>{escape(record['reason'])}</p>\n"
        f"<pre><code>{escape(record['code'])}</code></pre>\n"
        for record in records
        if record["code"]
    )
    return (
        f'<h2 id="{escape(name, quote=True)}">{escape(name)} {_verdict(_worst(records))}</h2>\n<div class="wide"><table>\n'
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


def _worst(records: Sequence[Record]) -> str:
    found = {verdict(record) for record in records}
    return next((each for each in ("failed", "unexpected", "expected") if each in found), "passed")


def _verdict(kind: str) -> str:
    return f'<span class="verdict {kind}">{WORDS.get(kind, kind)}</span>'
