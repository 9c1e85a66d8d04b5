"""The report: one self-contained page of all figures, with what they claim, whose claim it is, and the numbers side by side."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from figures import store, style
from figures.about import About
from figures.report_sections import SECTIONS, comparison_section, proofs_section, published_section
from figures.report_tables import from_markdown, numbers_table
from figures.scripts import BY_GROUP, script
from figures.survey_section import survey_section

STYLE = Path(__file__).with_suffix(".css")
PAGE = "index.html"


def write(out: Path) -> Path:
    """index.html of the figures that lie in `out`, by groups; and what is missing, with the command that makes it."""
    names = [name for group in BY_GROUP.values() for name in group]
    present = [name for name in names if (out / f"{name}.csv").is_file() and (out / f"{name}.svg").is_file()]
    parts = [figure_section(out, name, number) for number, name in enumerate(present, 1)]
    tables = (
        comparison_section(out / "summary.csv"),
        published_section(),
        proofs_section(out / "proofs.json"),
        survey_section(out / "survey.json"),
    )
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


def _commands(names: Sequence[str]) -> str:
    return ", ".join(f"<code>ot-draft figures {name}</code>" for name in names)
