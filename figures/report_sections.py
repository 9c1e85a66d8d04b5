"""Sections of the report other than the figures: all rules on real pairs, published numbers, proof checks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from figures import about, published, style
from figures.acceptance import acceptance_real
from figures.report_tables import markdown_table, table
from ot_draft.data.plotting import look
from ot_draft.data.summary import Summary

SECTIONS = {  # other than the figures
    "comparison": "All rules on real contexts",
    "published": "Published numbers and ours",
    "proofs": "Proof checks",
    "survey": "Survey of published verifiers",
}
NO_PICTURES = "optimum by LP"  # a check of the line above it in a summary
LAWS = {
    "iid": "i.i.d. draft tokens",
    "hybrid:auto": "hybrid drafting, number of fixed tokens from q",
    "greedy": "greedy drafting",
    "hub": "SpecHub's two draft tokens",
    "without-replacement": "draft tokens without replacement",
}


def comparison_section(file: Path) -> str:
    """Return the table of all rules on the real pairs, from the summary of `ot-draft compare` if it exists, else the stored one."""
    stored = not file.is_file()
    rows = about.as_summaries(style.read(acceptance_real.STORED if stored else file))
    lines = [line for line in rows if line.accepted is not None and line.rule != NO_PICTURES]
    columns = list(dict.fromkeys((line.group, line.k) for line in lines))
    head = [("", ""), *(("number", f"T {group}, k = {k}" if group else f"k = {k}") for group, k in columns)]
    body: list[list[tuple[str, str]]] = []
    for law in dict.fromkeys(line.law for line in lines):
        law_lines = [line for line in lines if line.law == law]
        body.append([("", f"<b>{escape(LAWS.get(law, law))}</b>"), *[("number", "")] * len(columns)])
        body += [
            _rule_line([line for line in law_lines if line.rule == rule], columns) for rule in _in_order(law_lines)
        ]
    errors = [line.error for line in lines if line.error == line.error]
    spread = f" Standard errors over sequences are {min(errors):.3f} to {max(errors):.3f}" if errors else ""
    return f"""<section id="comparison">
<h2>All rules on real contexts</h2>
<p class="claim">Mean acceptance of every rule under its draft law, on the committed pairs of two real models.{spread}; all rules
share the contexts, so that differences within a column have smaller errors.</p>
{table(head, body)}<p class="made">{"Stored in figures/data. " if stored else ""}Again:
<code>ot-draft compare figures/data/smollm2_pairs.npz --out figures/out --plot</code></p>
</section>
"""


def _in_order(lines: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(line.rule for line in lines))


def _rule_line(lines: Sequence[Summary], columns: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    acceptances = {(line.group, line.k): f"{float(line.accepted):.3f}" for line in lines}
    name = "optimum" if lines[0].rule == "optimum" else look(lines[0].rule).label
    return [("", escape(name)), *(("number", acceptances.get(column, "")) for column in columns)]


def published_section() -> str:
    """Return the published numbers of each work and ours, the tables of docs/published.md."""
    works = "".join(f"<h3>{escape(title)}</h3>\n{markdown_table(text)}" for title, text in published.tables().items())
    return f"""<section id="published">
<h2>{SECTIONS["published"]}</h2>
<p class="claim">Every number with its section of the paper. Ours on the same grid, with another pair or in simulation: ratios within one
work can be compared, speeds and tokens per target call cannot. n/a: we have no access to a published number.</p>
{works}<p class="made">Again: <code>python -m figures.published</code></p>
</section>
"""


def proofs_section(file: Path) -> str:
    """Return the number of checked statements with a link to their page, if `ot-draft prove` has written its rows; else empty."""
    try:
        counts = _counts(json.loads(file.read_text(encoding="utf-8"))["statements"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f"""<section id="proofs">
<h2>Proof checks</h2>
<p class="claim">Statements of the papers, and ours, checked by machine: {counts}. <a href="proofs.html">Every statement</a>.</p>
<p class="made">Again: <code>ot-draft prove</code></p>
</section>
"""


def _counts(statements: Sequence[dict[str, Any]]) -> str:
    outcomes = [str(statement.get("outcome", "?")) for statement in statements]
    return ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(outcomes))
