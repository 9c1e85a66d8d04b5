"""Published numbers and ours, on the same grid: `python -m figures.published` writes the tables of docs/published.md from the data."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import click

from figures import style
from figures.published_lines import others
from figures.published_real import SIMULATED, multi_candidate, spectr
from figures.trees import spectr_table_1

PAGE = Path(__file__).parents[1] / "docs" / "published.md"
ITERATIONS = 2000
HEAD = ("where", "what", "published", "ours", "remark")


@cache
def tables() -> dict[str, str]:
    """Return the Markdown table of each work, by title."""
    works = [("SpecTr (2310.15141, NeurIPS 2023)", spectr()), ("MCSD (2401.06706)", multi_candidate()), *others()]
    return {title: style.markdown([HEAD, *(line.cells() for line in lines)]) for title, lines in works}


def page(text: str) -> str:
    """Return the page with new tables: the table under each heading of a work is replaced."""
    for title, made in tables().items():
        place = re.compile(rf"(^## {re.escape(title)}\n.*?)(?:^\|.*?\n)+", re.MULTILINE | re.DOTALL)
        text, done = place.subn(lambda found, made=made: found[1] + made, text, count=1)  # type: ignore[misc]
        if not done:
            raise click.ClickException(f"{PAGE.name} has no table under '## {title}'")
    return text


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 if the page disagrees with the data.")
@click.option("--simulate", is_flag=True, help="Simulate SpecTr's grid again first, which takes two minutes.")
def main(check: bool, simulate: bool) -> None:
    """Write the tables of docs/published.md from the data."""
    if simulate:
        style.write(spectr_table_1.compute(iterations=ITERATIONS), SIMULATED)
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if check and new != old:
        raise click.ClickException(f"{PAGE.name} disagrees with the data. Run python -m figures.published.")
    if not check:
        PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
