"""Results of the checks as one self-contained HTML page, and as JSON."""

from __future__ import annotations

import json
import platform
import re
from datetime import date
from html import escape
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from .statement import StatementOutcome

Row = tuple[ModuleType, StatementOutcome]
PACKAGES = ("ot_draft", "numpy", "sympy", "z3-solver")
MARKS = {
    "proved": "∎",
    "proved (Coq)": "∎",
    "computed (Coq)": "∎",
    "verified": "✓",
    "refuted": "↯",
    "not checked here": "–",
    "failed": "✗",
}
MEANING = {
    "proved": "proved by machine for the sizes that the row names",
    "proved (Coq)": "proved for every size; Coq read the proof to the end on this machine, and it assumes nothing",
    "computed (Coq)": "computed in Coq's rationals for the cases that the row names, and for no others",
    "verified": "true in every exact case tried",
    "refuted": "a plausible claim that is false, with a counterexample",
    "not checked here": "proved or computed in Coq, and not checked in this run: this machine has no coqc",
    "failed": "did not come out as expected",
}
GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "lambda": "λ", "tau": "τ", "rho": "ρ", "sum": "Σ"}
GROUP = r"\([^()]*\)|\{[^{}]*\}|[A-Za-z0-9]+"  # text of superscripts and subscripts
SIGNS = {" &gt;= ": " ≥ ", " &lt;= ": " ≤ ", " != ": " ≠ ", " - ": " − ", "=&gt;": "⇒", "&lt;=&gt;": "⇔"}

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c6470; --line: #d9dde3; --paper: #fff; --card: #f6f7f9;
  --proved: #0b5cad; --verified: #1a7f4b; --refuted: #9a5b00; --failed: #c0182b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9aa3af; --line: #363c45; --paper: #15181c;
  --card: #1d2127; --proved: #74b3f5; --verified: #63cf98; --refuted: #eab262; --failed: #ff8090; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 84rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { margin: 0 0 .3rem; font-size: 1.7rem; } h2 { margin: 2.2rem 0 .4rem; font-size: 1.1rem; }
.soft, footer { color: var(--soft); font-size: .9rem; } .counts { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; }
table { width: 100%; border-collapse: collapse; table-layout: fixed; font-size: .92rem; }
th { text-align: left; color: var(--soft); font-weight: 600; }
th, td { padding: .5rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
th:nth-child(1) { width: 35%; } th:nth-child(2) { width: 15%; } th:nth-child(3) { width: 23%; } th:nth-child(5) { width: 4rem; }
td:nth-child(5) { text-align: right; font-variant-numeric: tabular-nums; }
td ul { margin: 0; padding-left: 1rem; } td p { margin: .15rem 0 0; } sup, sub { line-height: 0; }
.badge { font-weight: 700; white-space: nowrap; } .proved { color: var(--proved); } .verified { color: var(--verified); }
.refuted { color: var(--refuted); } .failed { color: var(--failed); }
details { margin: .2rem 0 .6rem; } summary { cursor: pointer; color: var(--soft); }
pre { background: var(--card); padding: 1rem; overflow-x: auto; white-space: pre-wrap; font-size: .82rem; }
@media (max-width: 48rem) { body { padding: 1rem; } thead { display: none; } td { display: block; border: 0; padding: .2rem 0; }
  tr { display: block; padding: .8rem 0; border-bottom: 1px solid var(--line); } td:nth-child(5) { text-align: left; }
  td:nth-child(5)::after { content: " s"; } }
@media print { body { max-width: none; padding: 0; font-size: 11px; } tr { break-inside: avoid; } details:not([open]) { display: none; } }
"""


def formula(text: str) -> str:
    """Return plain text as HTML: Greek letters, comparison signs, x^k and x_{i+1} raised and lowered."""
    made = escape(text, quote=False)
    for sign, better in SIGNS.items():
        made = made.replace(sign, better)
    for name, letter in GREEK.items():
        made = re.sub(rf"\b{name}(?=[\W_]|$)", letter, made)
    made = re.sub(r"([αγ])\*", r"\1<sup>∗</sup>", made)
    made = re.sub(rf"\^({GROUP})", lambda found: f"<sup>{_inside(found[1])}</sup>", made)
    return re.sub(
        rf"(?<![\w.])([A-Za-zα-ω])_({GROUP})(?!\w*_|\w*\.py)",
        lambda found: f"{found[1]}<sub>{_inside(found[2])}</sub>",
        made,
    )


def _inside(group: str) -> str:
    return group.strip("{}").replace("-", "−")


def html(rows: list[Row], cases: int) -> str:
    """Return the page: rows by module, with the module's docstring, which has the proof if there is one."""
    outcomes = [outcome for _, outcome in rows]
    modules = list(dict.fromkeys(module for module, _ in rows))
    counts = "".join(
        f'<span><b class="{kind}">{MARKS[kind]} {number} {kind}</b>: {MEANING[kind]}</span>'
        for kind in MARKS
        if (number := sum(outcome.kind == kind for outcome in outcomes))
    )
    seconds = sum(outcome.seconds for outcome in outcomes)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Proof checks</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n</head>\n<body>\n'
        f'<h1>Statements about draft selection, checked by machine</h1>\n<p class="counts">{counts}</p>\n'
        '<p class="soft">p is the target, q the draft, k the number of drafts. Numbers are rational and compared with =.'
        " Every row has controls: the claim with an injected error must come out false; where the claim itself is false,"
        " a repaired one must come out true.</p>\n"
        + "".join(_section(module, [outcome for own, outcome in rows if own is module]) for module in modules)
        + f"<footer><p>{len(rows)} rows, {cases:,} random cases each unless the row says otherwise, {seconds:.0f} s."
        f" {date.today()}, Python {platform.python_version()}, {', '.join(f'{n} {v}' for n, v in versions().items())}."
        " Made by <code>python -m proofs_checks --html</code>.</p></footer>\n</body>\n</html>\n"
    )


def _section(module: ModuleType, outcomes: list[StatementOutcome]) -> str:
    title, _, text = (module.__doc__ or module.__name__).strip().partition("\n")
    proof = f"<details><summary>argument</summary><pre>{escape(text.strip())}</pre></details>\n" if text.strip() else ""
    head = "".join(f"<th>{name}</th>" for name in ("statement", "source, method", "outcome", "controls", "s"))
    body = "".join(_row(outcome) for outcome in outcomes)
    return (
        f"<section>\n<h2>{formula(title)}</h2>\n{proof}<table>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}</tbody>\n</table>\n</section>\n"
    )


def _row(outcome: StatementOutcome) -> str:
    said = outcome.statement
    controls = "".join(f"<li>{formula(line)}</li>" for line in outcome.controls.splitlines())
    verdict = "<br>".join(map(formula, outcome.verdict.splitlines()))
    cells = (
        f"<b>{formula(said.name)}</b><p>{formula(said.text)}</p>",
        f'{formula(said.source)}<p class="soft">{formula(said.method)}</p>',
        f'<span class="badge {outcome.kind}">{MARKS[outcome.kind]} {outcome.kind}</span><p>{verdict}</p>',
        f"<ul>{controls}</ul>",
        f"{outcome.seconds:.1f}",
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"


def versions() -> dict[str, str]:
    """Return the versions of the packages used by the checks."""
    return {name: version(name) for name in PACKAGES}


def record(outcome: StatementOutcome) -> dict[str, Any]:
    """Return one row for JSON."""
    said = outcome.statement
    words = {
        "name": said.name,
        "claim": said.claim,
        "expected": said.expected,
        "source": said.source,
        "method": said.method,
    }
    found = {"outcome": outcome.kind, "verdict": outcome.verdict, "cases": outcome.cases, "passed": outcome.passed}
    controls = {error: outcome.control(error) for error in said.planted}
    return words | found | {"controls": controls, "seconds": round(outcome.seconds, 3)}


def write(rows: list[Row], cases: int, page: Path | None, data: Path | None) -> None:
    """Write the page and the JSON file, each if it is requested."""
    for file in filter(None, (page, data)):
        file.parent.mkdir(parents=True, exist_ok=True)
    if page:
        page.write_text(html(rows, cases), encoding="utf-8")
    if data:
        found = [{"module": module.__name__} | record(outcome) for module, outcome in rows]
        whole = {"cases": cases, "versions": {"python": platform.python_version()} | versions(), "statements": found}
        data.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
