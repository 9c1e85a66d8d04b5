"""The report's section on published verifiers: results of `ot-draft survey`."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from figures.report_tables import table

# Heading and the name in the rows.
COLUMNS = {"work": "work", "authors' claim": "claim", "rule": "rule", "settings": "when", "sampling": "sampling", "verdict": "verdict",
           "condition": "condition",
           "counterexample": "counterexample", "share of the optimum": "share of the optimum"}  # fmt: skip
MARKS = {
    "lossless": "good",
    "lossless under a condition": "good",
    "lossy by design": "",
    "undecided": "",
}  # any other is "bad"


def survey_section(file: Path) -> str:
    """Return the verdicts if the command has written them; else empty."""
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        lines = [[("", _cell(row, name)) for name in COLUMNS.values()] for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f"""<section id="survey">
<h2>Survey of published verifiers</h2>
<p class="claim">{len({row["name"] for row in rows})} works, {len(rows)} rules: lossless for every p and q that was tried, or not, with the
simplest counterexample, which a second enumeration has confirmed.</p>
{table([("", column) for column in COLUMNS], lines)}<p class="made">Again: <code>ot-draft survey</code>; with the reasoning:
<code>ot-draft survey NAME</code></p>
</section>
"""


def _cell(row: dict[str, Any], name: str) -> str:
    text = escape(str(row[name]))
    return f'<span class="{MARKS.get(row[name], "bad")}">{text}</span>' if name == "verdict" else text
