"""`python -m figures [NAMES]`: compute the data of each figure, write it as CSV, and draw SVG and PNG from it."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from time import perf_counter

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from figures import style

# Run times first, before the other figures warm the machine.
NAMES = (
    "run_time",
    "classes",
    "construction",
    "khisti_figure_2",
    "acceptance_bernoulli",
    "acceptance_random",
    "acceptance_real",
    "hybrid",
    "without_replacement",
)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES), metavar="[NAMES]...")
@click.option("--full", is_flag=True, help="More points, pairs and patience: from minutes to an hour.")
@click.option("--redraw", is_flag=True, help="Draw from the data that an earlier run left, compute nothing.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes [default: one a core].")
@click.option("--out", default=Path("figures/out"), show_default=True, type=click.Path(file_okay=False, path_type=Path))
def main(names: tuple[str, ...], full: bool, redraw: bool, jobs: int, out: Path) -> None:
    """Make the figures NAMES, all without any: run_time, classes, construction, khisti_figure_2, acceptance_bernoulli,
    acceptance_random, acceptance_real, hybrid, without_replacement."""
    out.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("figures", total=len(names or NAMES))
        for name in names or NAMES:
            progress.update(task, description=name)
            start = perf_counter()
            files = make(name, out, full, redraw, jobs)
            progress.console.print(f"{name}: {perf_counter() - start:.0f} s, {', '.join(file.name for file in files)}")
            progress.advance(task)


def make(name: str, out: Path, full: bool = False, redraw: bool = False, jobs: int = 1) -> list[Path]:
    """Compute and draw one figure: its CSV, SVG and PNG, and a table (Markdown) where the script has one."""
    script = importlib.import_module(f"figures.{name}")
    data = out / f"{name}.csv"
    if redraw and not data.is_file():
        raise click.ClickException(f"{data} is not there: run without --redraw first")
    if not redraw:
        style.write(script.compute(full=full, jobs=jobs), data)
    files = [data, *style.save(script.draw(style.read(data)), out, name)]
    if hasattr(script, "table"):
        files.append(out / f"{name}.md")
        files[-1].write_text(script.table(style.read(data)), encoding="utf-8")
    return files


if __name__ == "__main__":
    main()
