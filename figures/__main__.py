"""`ot-draft figures [NAMES]`: compute the data of each figure, write it as CSV, draw SVG and PNG from it, and the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from figures import store, style, tables
from figures.scripts import BY_GROUP, NAMES, named, script
from ot_draft.cli import Command, can_write_into, one_line, progress_bar
from ot_draft.data.plotting import pyplot

FORMATS = ("pdf", "svg", "png")


def several(known: Sequence[str]) -> Callable[[Any, Any, str | None], tuple[str, ...]]:
    """Return the callback of an option that takes some of these words, separated by commas."""

    def read(context: Any, option: Any, text: str | None) -> tuple[str, ...]:
        words = tuple(word.strip() for word in text.split(",")) if text else ()
        if unknown := [word for word in words if word not in known]:
            raise click.BadParameter(
                f"must be some of {', '.join(known)}, got {unknown[0]!r}. Separate them by commas."
            )
        return words

    return read


LIST = f"NAMES (default: all): figures ({', '.join(NAMES)}) or groups ({', '.join(BY_GROUP)})."


@click.command(cls=Command, epilog=LIST)
@click.argument("names", nargs=-1, metavar="[NAMES]...")
@click.option("--full", is_flag=True, help="Compute more points and pairs, which takes minutes to an hour.")
@click.option("--force", is_flag=True, help="Recompute cached figures, too.")
@click.option("--redraw", is_flag=True, help="Redraw the figures from the data of an earlier run.")
@click.option("--report", "report_only", is_flag=True, help="Write only the report, from existing figures.")
@click.option(
    "--format",
    "formats",
    callback=several(FORMATS),
    help="Comma-separated formats for a paper: pdf, svg, png; written to OUT/paper.",
)
@click.option(
    "--width",
    type=click.Choice(list(style.PAPER)),
    help="Width of the figures for a paper, with text of 8 to 9 points [default: page].",
)
@click.option(
    "--caption/--no-caption", default=False, help="Draw the caption below each figure for a paper [default: no]."
)
@click.option(
    "--tables",
    "kinds",
    callback=several(tuple(tables.WRITERS)),
    help="Comma-separated formats of tables with the numbers: latex, csv, markdown.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    help="Number of worker processes [default: one per core].",
)
@click.option(
    "--out",
    default=Path("figures/out"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Output folder.",
)
def main(
    names: tuple[str, ...],
    full: bool,
    force: bool,
    redraw: bool,
    report_only: bool,
    formats: tuple[str, ...],
    width: str | None,
    caption: bool,
    kinds: tuple[str, ...],
    jobs: int,
    out: Path,
) -> None:
    """Create figures and their report.

    NAMES selects figures. The report index.html shows all existing figures, and is written after every figure. A figure is recomputed
    only if its script, its data, the library or --full has changed.
    """
    can_write_into("--out", out)
    out.mkdir(parents=True, exist_ok=True)
    with one_line():
        chosen = () if report_only else named(names)
    if chosen:
        pyplot()  # before minutes of work: MissingPackage
    if (width or caption) and not formats:
        formats = FORMATS[:1]
    from figures import report  # imports joblib, which --help does not need

    with progress_bar(len(chosen), "figures", alike=False) as advance:
        for name in chosen:
            advance(name, by=0)
            if not (force or redraw) and store.is_current(out, name, full):
                click.echo(f"{name}: cached", err=True)
            else:
                start = perf_counter()
                files = make(name, out, full, redraw, jobs)
                summary = f"{name}: {perf_counter() - start:.0f} s, {', '.join(file.name for file in files)}"
                click.echo(summary, err=True)
            for file in for_paper(name, out, formats, width or "page", caption, kinds):
                click.echo(f"  {file}", err=True)
            report.write(out)
            advance()
    click.echo(f"report: {report.write(out)}")


def make(name: str, out: Path, full: bool = False, redraw: bool = False, jobs: int = 1) -> list[Path]:
    """Compute and draw one figure: CSV, SVG and PNG, and a Markdown table if the script has one."""
    module = script(name)
    data = out / f"{name}.csv"
    if redraw and not data.is_file():
        raise click.ClickException(f"--redraw requires {data}. Run without --redraw first.")
    start = perf_counter()
    if not redraw:
        store.record_file(out, name).unlink(missing_ok=True)  # so that an interrupted run does not look complete
        style.write(module.compute(full=full, jobs=jobs), data)
    files = [data, *style.save(module.draw(style.read(data)), out, name)]
    if hasattr(module, "table"):
        files.append(out / f"{name}.md")
        files[-1].write_text(module.table(style.read(data)), encoding="utf-8")
    if not redraw:
        store.write_record(out, name, full, perf_counter() - start)
    return files


def for_paper(
    name: str, out: Path, formats: Sequence[str], width: str, caption: bool, kinds: Sequence[str]
) -> list[Path]:
    """Write images and tables of one figure for a paper, from existing data: OUT/paper/NAME.pdf, NAME.tex, ..."""
    module, rows, folder = script(name), style.read(out / f"{name}.csv"), out / "paper"
    files: list[Path] = []
    if formats or kinds:
        folder.mkdir(exist_ok=True)
    if formats:
        with style.paper(width, caption):
            files += style.save(module.draw(rows), folder, name, formats)
    parts = {"": tables.of_numbers(module.numbers(rows))}
    if kinds and hasattr(module, "table"):
        parts["_table"] = tables.of_markdown(module.table(rows))
    for suffix, writer in (tables.WRITERS[kind] for kind in kinds):
        for part, cells in parts.items():
            files.append(folder / f"{name}{part}{suffix}")
            files[-1].write_text(writer(cells), encoding="utf-8")
    return files


if __name__ == "__main__":
    main()
