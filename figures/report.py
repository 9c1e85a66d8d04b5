"""The report: one self-contained page of all figures, with what they claim, whose claim it is, and the numbers side by side."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from figures import published, store, style
from figures.about import About
from figures.report_tables import from_markdown, markdown_table, numbers_table, table
from figures.scripts import BY_GROUP, script
from ot_draft.pairs import Summary, as_summaries, look

STYLE = Path(__file__).with_suffix(".css")
PAGE = "index.html"
SECTIONS = {  # beside the figures
    "comparison": "All rules on real contexts",
    "published": "Published beside ours",
    "proofs": "Proof checks",
}
NO_PICTURES = "optimum by LP"  # of a summary: the check of the line above it
LAWS = {
    "iid": "i.i.d. drafts",
    "hybrid:auto": "hybrid drafts, number of top tokens from q",
    "greedy": "greedy drafts",
    "hub": "the hub's two drafts",
    "without-replacement": "drafts without replacement",
}


def write(out: Path) -> Path:
    """index.html of the figures that lie in `out`, by groups; and what is missing, with the command that makes it."""
    names = [name for group in BY_GROUP.values() for name in group]
    present = [name for name in names if (out / f"{name}.csv").is_file() and (out / f"{name}.svg").is_file()]
    parts = [figure_section(out, name, number) for number, name in enumerate(present, 1)]
    tables = (comparison_section(out / "summary.csv"), published_section(), proofs_section(out / "proofs.json"))
    parts += [part for part in tables if part]
    missing = [name for name in names if name not in present]
    page = out / PAGE
    page.write_text(_page(present, parts, missing), encoding="utf-8")
    return page


def _page(present: Sequence[str], parts: Sequence[str], missing: Sequence[str]) -> str:
    groups = {title: [name for name in names if name in present] for title, names in BY_GROUP.items()}
    links = "".join(
        f"<h2>{title}</h2><ol start={present.index(names[0]) + 1}>{_links({name: about(name).title for name in names})}</ol>"
        for title, names in groups.items()
        if names
    )
    others = {
        name: title for name, title in SECTIONS.items() if any(f'<section id="{name}">' in part for part in parts)
    }
    gaps = f'<p class="made">Not made yet: {_commands(missing)}</p>' if missing else ""
    run = store.where()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Draft selection: figures and numbers</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<h1>Draft selection, recomputed</h1>
<p class="claim">What the papers say about choosing among drafts in speculative decoding, computed again, drawn, and set beside
the published numbers. p is the target, q the draft, k the number of drafts. Acceptance: the probability that the output is a
drafted token. Ours ± standard error, where there is noise; numbers without one are exact or of one fixed problem.</p>
{gaps}<nav>{links}<h2>Tables</h2><ul>{_links(others)}</ul></nav>
</header>
{"".join(parts)}<footer><p>Page of {run["date"]}; {escape(run["versions"])}; {escape(run["machine"])}. All of it again:
<code>make reproduce</code>.</p></footer>
</body>
</html>
"""


def _links(titles: Mapping[str, str]) -> str:
    return "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in titles.items())


def about(name: str) -> About:
    """What the script of a figure says about it; of one that says nothing, its docstring."""
    module = script(name)
    first = (module.__doc__ or name).strip().splitlines()[0]
    description = getattr(module, "ABOUT", About(name.replace("_", " "), first, "this project"))
    assert isinstance(description, About)
    return description


def figure_section(out: Path, name: str, number: int) -> str:
    """One figure: title, claim, source, picture, numbers, command, and where it was made."""
    description, rows = about(name), style.read(out / f"{name}.csv")
    svg, data = ((out / f"{name}{suffix}").read_bytes() for suffix in (".svg", ".csv"))
    numbers = getattr(script(name), "numbers", None)
    comparison = f'<p class="source">{escape(description.comparison)}</p>\n' if description.comparison else ""
    whole = out / f"{name}.md"
    unfolded = from_markdown(whole.read_text(encoding="utf-8")) if whole.is_file() else ""
    record = store.record(out, name)
    full = " --full" if record.get("full") else ""
    facts = (
        f"{record['date']}, {record['seconds']} s; {record['versions']}; {record['machine']}" if record else "no record"
    )
    return f"""<section id="{name}">
<h2>{number}. {escape(description.title)}</h2>
<p class="claim">{escape(description.claim)}</p>
<p class="source">Source: {escape(description.source)}</p>
<figure>
<div class="picture"><img style="--wide: {_width(svg):.0f}px" alt="{escape(description.title)}: {escape(description.claim)}"
 src="data:image/svg+xml;base64,{b64encode(svg).decode()}"></div>
<figcaption>{escape(style.caption_of(out / f"{name}.svg"))}</figcaption>
</figure>
{numbers_table(numbers(rows)) if numbers else ""}{unfolded}{comparison}<p class="made">Again:
<code>ot-draft figures {name} --force{full}</code>
<span class="data">· <a download="{name}.csv" href="data:text/csv;base64,{b64encode(data).decode()}">its data</a></span></p>
<p class="made">Made: {escape(facts)}</p>
</section>
"""


def _width(svg: bytes) -> float:
    """Width of a picture on a phone: so many pixels that its letters can be read. An SVG of matplotlib is in points."""
    start = svg.index(b'viewBox="') + len(b'viewBox="')
    return 0.95 * float(svg[start : svg.index(b'"', start)].split()[2])


def comparison_section(file: Path) -> str:
    """The table of all rules on the real pairs, if `ot-draft compare` has left its summary; empty without."""
    if not file.is_file():
        return ""
    lines = [line for line in as_summaries(style.read(file)) if line.accepted is not None and line.rule != NO_PICTURES]
    columns = list(dict.fromkeys((line.group, line.k) for line in lines))
    head = [("", ""), *(("number", f"T {group}, k = {k}" if group else f"k = {k}") for group, k in columns)]
    body: list[list[tuple[str, str]]] = []
    for law in dict.fromkeys(line.law for line in lines):
        law_lines = [line for line in lines if line.law == law]
        body.append([("", f"<b>{escape(LAWS.get(law, law))}</b>"), *[("number", "")] * len(columns)])
        body += [
            _rule_line([line for line in law_lines if line.rule == rule], columns) for rule in _in_order(law_lines)
        ]
    return f"""<section id="comparison">
<h2>All rules on real contexts</h2>
<p class="claim">Mean acceptance of every rule under its law of the drafts, on the committed pairs of two real models.</p>
{table(head, body)}<p class="made">Again: <code>ot-draft compare figures/data/smollm2_pairs.npz --out figures/out --plot</code></p>
</section>
"""


def _in_order(lines: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(line.rule for line in lines))


def _rule_line(lines: Sequence[Summary], columns: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    acceptances = {(line.group, line.k): f"{float(line.accepted):.4f}" for line in lines}
    name = "optimum" if lines[0].rule == "optimum" else look(lines[0].rule).label
    return [("", escape(name)), *(("number", acceptances.get(column, "")) for column in columns)]


def published_section() -> str:
    """Every work's published numbers beside ours, the tables of docs/published.md."""
    works = "".join(f"<h3>{escape(title)}</h3>\n{markdown_table(text)}" for title, text in published.tables().items())
    return f"""<section id="published">
<h2>{SECTIONS["published"]}</h2>
<p class="claim">Every number with its place in the paper. Ours on the same grid, with another pair or in simulation: ratios within one
work can be compared, speeds and tokens a call cannot. Where a number was not to be had, the line says so.</p>
{works}<p class="made">Again: <code>python -m figures.published</code></p>
</section>
"""


def proofs_section(file: Path) -> str:
    """What the proof checks said, if they have left their rows; empty without."""
    try:
        statements = json.loads(file.read_text(encoding="utf-8"))["statements"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    head = [("", name) for name in ("statement", "source", "method", "outcome")]
    names = ("name", "source", "method", "verdict")
    lines = [[("", _statement(statement, name)) for name in names] for statement in statements]
    return f"""<section id="proofs">
<h2>Proof checks</h2>
<p class="claim">Statements of the papers, and ours, checked by machine: {_counts(statements)}.</p>
{table(head, lines)}<p class="made">Again: <code>ot-draft prove</code></p>
</section>
"""


def _statement(statement: dict[str, Any], name: str) -> str:
    text = escape(str(statement.get(name, "")))
    if name == "name":
        return f"<b>{text}</b><br>{escape(str(statement.get('claim', '')))}"
    mark = "good" if statement.get("passed") else "bad"
    return (
        f'<span class="{mark}">{escape(str(statement.get("outcome", "")))}</span>: {text}'
        if name == "verdict"
        else text
    )


def _counts(statements: Sequence[dict[str, Any]]) -> str:
    outcomes = [str(statement.get("outcome", "?")) for statement in statements]
    return ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(outcomes))


def _commands(names: Sequence[str]) -> str:
    return ", ".join(f"<code>ot-draft figures {name}</code>" for name in names)
