"""`ot-draft survey [NAMES]`: the verdicts, computed again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ot_draft.cli import Command

from . import REGISTER, evaluate_work, pages, true_units, variants

FORMATS = ["text", "markdown", "latex", "json"]


@click.command(cls=Command)
@click.argument("names", nargs=-1, type=click.Choice(list(REGISTER)), metavar="[NAMES]...")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True,
              help="Output format.")  # fmt: skip
@click.option("--more", is_flag=True, help="Test many more problems.")
@click.option("--page", type=click.Choice(["verdicts", "variants", "true-units"]), default="verdicts", show_default=True,
              help="Page to print: verdicts on the works, variants of tree verification, or lossy rules in true units.")  # fmt: skip
@click.option("--short", is_flag=True, help="Print shorter tables by kind of work, without claims and costs.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Output file [default: standard output].")
def main(names: tuple[str, ...], form: str, more: bool, page: str, short: bool, out: Path | None) -> None:
    """Check whether published verification rules are lossless for every p and q, and report the smallest counterexamples.

    NAMES selects works and prints the full reasoning and a note to their authors. Without NAMES, the table of all works is printed. Every
    result is recomputed, and each counterexample is confirmed by an enumeration that shares no code with the search. Exit status 1 if a
    result differs from the recorded one.
    """
    if page == "variants":
        sound, said = variants.page(form, not more)
    elif page == "true-units":
        sound, said = True, true_units.page(form)
    else:
        evaluated = [(REGISTER[name][0], evaluate_work(REGISTER[name][0], not more)) for name in names or REGISTER]
        sound = all(one.sound for _, every in evaluated for one in every)
        if form == "json":
            said = json.dumps(pages.as_data(evaluated), indent=1, ensure_ascii=False)
        elif short:
            said = pages.short(form, evaluated)
        elif names and form == "text":
            said = "\n\n\n".join(pages.record(work, REGISTER[work.name][1], every) for work, every in evaluated)
        else:
            said = pages.shown(form, pages.HEADS, pages.rows(evaluated))
    if out is None:
        click.echo(said)
    else:
        out.write_text(said + "\n", encoding="utf-8")
    sys.exit(not sound)
