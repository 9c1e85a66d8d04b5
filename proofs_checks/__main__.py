"""`python -m proofs_checks`: check every statement, print one table; exit status 1 if one fails."""

from __future__ import annotations

import importlib
import os
import sys

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from .statement import Outcome

MODULES = ("optimal_selection", "random_orders")


@click.command()
@click.option(
    "--cases", type=click.IntRange(1), default=2100, show_default=True, help="Random problems for a statement."
)
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes [default: one a core].")
def main(cases: int, jobs: int) -> None:
    """Check every statement and print what came out."""
    modules = [importlib.import_module(f"proofs_checks.{name}") for name in MODULES]
    pairs = [(module, statement) for module in modules for statement in module.STATEMENTS]
    outcomes = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(pairs))
        for module, statement in pairs:
            progress.update(task, description=statement.name)
            outcomes.append(module.check(statement, cases, jobs))
            progress.advance(task)
    console = Console()
    (console if console.is_terminal else Console(width=170)).print(table(outcomes))
    sys.exit(not all(outcome.passed for outcome in outcomes))


def table(outcomes: list[Outcome]) -> Table:
    """One row a statement."""
    made = Table("", "statement", "source", "method", "outcome", "planted errors", "s", show_lines=True)
    for outcome in outcomes:
        said = outcome.statement
        mark = "[green]✓[/]" if outcome.passed else "[red]✗[/]"
        made.add_row(
            mark,
            f"[bold]{escape(said.name)}[/]\n{escape(said.claim)}",
            said.source,
            said.method,
            outcome.verdict,
            outcome.controls,
            f"{outcome.seconds:.0f}",
        )
    return made


if __name__ == "__main__":
    main()
