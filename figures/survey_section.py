"""The report's section on published verifiers: what `ot-draft survey` found."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from figures.report_tables import table

COLUMNS = ("work", "rule", "verdict", "counterexample", "share of the optimum")


def survey_section(file: Path) -> str:
    """The verdicts, if the command has left them; empty without."""
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        lines = [[("", _cell(row, column)) for column in COLUMNS] for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f"""<section id="survey">
<h2>Published verifiers, judged</h2>
<p class="claim">{len({row["name"] for row in rows})} works, {len(rows)} rules: lossless for every p and q that was tried, or not, with the
simplest counterexample, which a second enumeration has confirmed.</p>
{table([("", column) for column in COLUMNS], lines)}<p class="made">Again: <code>ot-draft survey</code>; with the reasoning:
<code>ot-draft survey NAME</code></p>
</section>
"""


def _cell(row: dict[str, Any], column: str) -> str:
    text = escape(str(row[column]))
    if column == "work":
        return f"<b>{text}</b><br>{escape(str(row['claim']))}"
    return f'<span class="{"good" if row["sound"] else "bad"}">{text}</span>' if column == "verdict" else text
