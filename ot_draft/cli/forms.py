"""In which form a table of rules is printed: options that `compare` and `sweep` have, and the printing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from ..pairs.summary import Summary
from ..pairs.tables import FORMS
from .refused import Refused

HELP = {
    "csv": "as CSV, exact values beside decimals",
    "json": "as JSON",
    "latex": "for LaTeX, with booktabs",
    "markdown": "for Markdown",
}


def form_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--csv, --json, --latex and --markdown, as the arguments `as_csv` and so on; `form_of` makes one of them."""
    for name, text in reversed(HELP.items()):
        command = click.option(f"--{name}", f"as_{name}", is_flag=True, help=f"Print the table {text}.")(command)
    return command


def form_of(flags: dict[str, Any]) -> str:
    """The form that was asked for, "" for a table on the terminal; its flags are taken out. Refused where there are two."""
    chosen = [name for name in HELP if flags.pop(f"as_{name}")]
    if len(chosen) > 1:
        raise Refused(f"--{chosen[0]} and --{chosen[1]} both print to standard output: give one of them")
    return chosen[0] if chosen else ""


def print_form(form: str, tables: Sequence[tuple[Sequence[Summary], str]]) -> None:
    """Summaries with a title each, in a form that is text: one table below the other, of CSV one for all."""
    if form == "csv":
        tables = [([line for lines, _ in tables for line in lines], "")]
    click.echo("\n".join(FORMS[form](*each) for each in tables), nl=False)
