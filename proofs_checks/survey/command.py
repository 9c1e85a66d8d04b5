"""`ot-draft survey [NAMES]`: the verdicts, computed again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ot_draft.cli import Command, one_line
from ot_draft.names import lookup

from . import REGISTER, evaluate_work, pages, true_units, variants

FORMATS = ["text", "markdown", "latex", "json", "csv"]


@click.command(cls=Command)
@click.argument("names", nargs=-1)
@click.option(
    "--details", is_flag=True, help="For NAMES, print the reasoning, counterexamples and a note to the authors."
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True,
              help="Output format.")  # fmt: skip
@click.option("--more", is_flag=True, help="Test ten times as many problems.")
@click.option("--page", type=click.Choice(["verdicts", "variants"]), default="verdicts", show_default=True,
              help="Table to print: verdicts on the works, or variants of tree verification.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Output file [default: standard output].")
@click.option("--data", type=click.Path(file_okay=False, exists=True, path_type=Path),
              help="Folder for the CSV files of the documentation; nothing is printed.")  # fmt: skip
def main(
    names: tuple[str, ...], details: bool, form: str, more: bool, page: str, out: Path | None, data: Path | None
) -> None:
    """Check which published verification rules are lossless.

    NAMES are engines or methods, such as vllm, llama.cpp or eagle-2: one line per rule with its verdict and condition. Without NAMES, the
    verdicts on each work are counted. A rule is lossless if its output distribution is p for every p and q. Every result is recomputed, and
    each counterexample is confirmed by an enumeration that shares no code with the search. Exit status 1 if a result differs from the
    recorded one.
    """
    if data is not None:
        sys.exit(not _write(data, not more))
    if page == "variants":
        sound, table = variants.rows(not more)
        said = pages.shown(form, variants.HEADS, table)
    else:
        with one_line():
            titles = {work.title: name for name, (work, _) in REGISTER.items()}
            chosen = [lookup(name, titles, "NAMES", {each: each for each in REGISTER}) for name in names]
        evaluated = [(REGISTER[name][0], evaluate_work(REGISTER[name][0], not more)) for name in chosen or REGISTER]
        sound = all(one.sound for _, every in evaluated for one in every)
        if form == "json":
            said = json.dumps(pages.as_data(evaluated), indent=1, ensure_ascii=False)
        elif form == "csv":
            said = pages.shown(form, pages.DATA, pages.data(evaluated))
        elif form == "text" and not names:
            said = "\n".join(pages.summary_lines(evaluated))
        elif names and form == "text" and not details:
            said = "\n".join(pages.verdict_lines(evaluated))
        elif names and form == "text":
            said = "\n\n\n".join(pages.record(work, REGISTER[work.name][1], every) for work, every in evaluated)
        else:
            said = pages.shown(form, pages.HEADS, pages.rows(evaluated))
    if out is None:
        click.echo(said)
    else:
        out.write_text(said + "\n", encoding="utf-8")
    sys.exit(not sound)


def _write(folder: Path, quick: bool) -> bool:
    """The files that docs/survey.md shows; whether every result came out as recorded."""
    evaluated = [(work, evaluate_work(work, quick)) for work, _ in REGISTER.values()]
    sound, table = variants.rows(quick)
    plane, again = true_units.rows()
    files = {
        "survey": (pages.DATA, pages.data(evaluated)),
        "survey_variants": (variants.HEADS, table),
        "survey_lossy": (true_units.HEADS, plane),
        "survey_recalibrated": (true_units.AGAIN, again),
    }
    for name, (heads, rows) in files.items():
        (folder / f"{name}.csv").write_text(pages.csv_file(heads, rows), encoding="utf-8")
    return sound and all(one.sound for _, every in evaluated for one in every)
