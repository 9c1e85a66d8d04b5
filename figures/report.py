"""The report: one self-contained page of all figures, with claims, sources, and published numbers next to ours."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from figures import store, style
from figures.about import About
from figures.report_sections import SECTIONS, comparison_section, proofs_section, published_section
from figures.report_tables import from_markdown, headline_table, numbers_table
from figures.scripts import BY_GROUP, PAPERS, script
from figures.survey_section import survey_section

STYLE = Path(__file__).with_suffix(".css")
PAGE = "index.html"


def write(out: Path) -> Path:
    """Write index.html with the figures in `out` by group, and the commands of what was not run."""
    groups = {title: [name for name in names if _is_made(out, name)] for title, names in BY_GROUP.items()}
    numbers = {name: number for number, name in enumerate((name for names in groups.values() for name in names), 1)}
    figures = {
        title: [figure_section(out, name, numbers[name]) for name in names] for title, names in groups.items() if names
    }
    tables = {
        "comparison": comparison_section(out / "summary.csv"),
        "published": published_section(),
        "survey": survey_section(out / "survey.json"),
        "proofs": proofs_section(out / "proofs.json"),
    }
    papers = [part for title, parts in figures.items() if title in PAPERS for part in parts]
    others = [part for title, parts in figures.items() if title not in PAPERS for part in parts]
    links = [
        f"<h2>{title}</h2><ol start={numbers[groups[title][0]]}>{_links({name: about(name).title for name in groups[title]})}</ol>"
        for title in figures
    ]
    of_tables = f"<h2>Tables</h2><ul>{_links({name: SECTIONS[name] for name, part in tables.items() if part})}</ul>"
    links.insert(sum(title in PAPERS for title in figures), of_tables)
    parts = [*papers, *list(tables.values())[:2], *others, *list(tables.values())[2:]]
    page = out / PAGE
    page.write_text(
        _page(_headlines(out, list(numbers)), _not_run(groups, tables), "".join(links), "".join(parts)),
        encoding="utf-8",
    )
    return page


def _is_made(out: Path, name: str) -> bool:
    return (out / f"{name}.csv").is_file() and (out / f"{name}.svg").is_file()


def _headlines(out: Path, names: Sequence[str]) -> str:
    """Return the table of the most important numbers and the published ones; empty if none was computed."""
    found = [
        (name, number)
        for name in names
        for number in script(name).numbers(style.read(out / f"{name}.csv"))
        if number.headline
    ]
    return headline_table(found) if found else ""


def _not_run(groups: Mapping[str, Sequence[str]], tables: Mapping[str, str]) -> str:
    """Return the commands of all parts that were not run; empty if there are none."""
    commands: dict[str, str] = {}
    for title, made in groups.items():
        missing = [name for name in BY_GROUP[title] if name not in made]
        whole = title.lower().replace(" ", "-")
        commands |= (
            {f"ot-draft figures {' '.join(missing) if made else whole}": f"{title}, {len(missing)} figures"}
            if missing
            else {}
        )
    commands |= {
        f"ot-draft {command}": SECTIONS[section]
        for section, command in (("survey", "survey"), ("proofs", "prove"))
        if not tables[section]
    }
    if not commands:
        return ""
    items = "".join(f"<li>{escape(what)}: <code>{command}</code></li>" for command, what in commands.items())
    return f'<h2>Not run</h2>\n<p class="made">All of it: <code>make reproduce-all</code>. One part:</p>\n<ul class="made">{items}</ul>\n'


def _page(headlines: str, not_run: str, links: str, parts: str) -> str:
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
<p class="claim">Published results on choosing among drafts in speculative decoding, computed again and compared with the published
numbers. p is the target distribution, q the draft distribution, k the number of draft tokens. Acceptance is the probability that the
output is a drafted token. Ours ± standard error; numbers without one are exact or of one fixed problem.</p>
{headlines}<nav>{links}</nav>
{not_run}</header>
{parts}<footer><p>Page of {run["date"]}; {escape(run["versions"])}; {escape(run["machine"])}. All of it again:
<code>make reproduce</code>, <code>make reproduce-all</code>.</p></footer>
</body>
</html>
"""


def _links(titles: Mapping[str, str]) -> str:
    return "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in titles.items())


def about(name: str) -> About:
    """Return ABOUT of a figure's script, or its docstring if it has none."""
    module = script(name)
    first = (module.__doc__ or name).strip().splitlines()[0]
    description = getattr(module, "ABOUT", About(name.replace("_", " "), first, "this project"))
    assert isinstance(description, About)
    return description


def figure_section(out: Path, name: str, number: int) -> str:
    """Return one figure: title, claim, source, image, numbers, command, and the machine that computed it."""
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
    """Return the width in pixels at which the letters are legible on a phone. An SVG of matplotlib is in points."""
    start = svg.index(b'viewBox="') + len(b'viewBox="')
    return 0.95 * float(svg[start : svg.index(b'"', start)].split()[2])
