"""`ot-draft survey [NAMES]`: the verdicts, computed again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ot_draft.cli import Command

from . import REGISTER, judge_work, pages, true_units, variants

FORMATS = ["text", "markdown", "latex", "json"]


@click.command(cls=Command)
@click.argument("names", nargs=-1, type=click.Choice(list(REGISTER)), metavar="[NAMES]...")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--more", is_flag=True, help="Many times more problems.")
@click.option("--page", type=click.Choice(["verdicts", "variants", "true-units"]), default="verdicts", show_default=True,
              help="The works; the variants of tree verification; lossy rules in true units.")  # fmt: skip
@click.option("--short", is_flag=True, help="Tables without claims and costs, sorted by what a reader looks for.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write there instead of printing.")
def main(names: tuple[str, ...], form: str, more: bool, page: str, short: bool, out: Path | None) -> None:
    """Judge published verifiers: lossless for every p and q, or not, with the smallest counterexample.

    NAMES: only these works, with the whole reasoning and a note to their authors; without any, the table of all. Every verdict is computed
    again, and each counterexample is confirmed by an enumeration that shares no code with what found it. Exit status 1 where a verdict does
    not come out as recorded.
    """
    if page == "variants":
        sound, said = variants.page(form, not more)
    elif page == "true-units":
        sound, said = True, true_units.page(form)
    else:
        judged = [(REGISTER[name][0], judge_work(REGISTER[name][0], not more)) for name in names or REGISTER]
        sound = all(one.sound for _, every in judged for one in every)
        if form == "json":
            said = json.dumps(pages.as_data(judged), indent=1, ensure_ascii=False)
        elif short:
            said = pages.short(form, judged)
        elif names and form == "text":
            said = "\n\n\n".join(pages.record(work, REGISTER[work.name][1], every) for work, every in judged)
        else:
            said = pages.shown(form, pages.HEADS, pages.rows(judged))
    if out is None:
        click.echo(said)
    else:
        out.write_text(said + "\n", encoding="utf-8")
    sys.exit(not sound)
