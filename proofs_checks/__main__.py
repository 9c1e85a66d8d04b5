"""`python -m proofs_checks`: check every statement, print one table; exit status 1 if one fails."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ot_draft.cli import Command, can_write_into, progress_bar

from . import page
from .statement import StatementOutcome

STATEMENTS = (  # the module of every statement with its folder, in the order of the table
    "optimum.optimal_selection",
    "optimum.random_orders",
    "k_seq.k_seq_valid",
    "k_seq.k_seq_share",
    "rules.recursive_rejection",
    "rules.order_of_rules",
    "optimum.more_drafts",
    "optimum.linear_program",
    "optimum.spectr_bound",
    "optimum.two_drafts",
    "optimum.top_tokens",
    "optimum.cover_property",
    "races.exponential_race",
    "races.list_race",
    "races.watermarks",
    "rules.importance_weighting",
    "optimum.spectr_gbv",
    "lossy.lossy_frontier",
    "lossy.lossy_claims",
    "paths.path_rules",
    "paths.adapted_trees",
    "paths.traversed_trees",
    "paths.selected_siblings",
    "paths.yardstick",
    "paths.expected_rejections",
    "couplings.two_vocabularies",
    "couplings.three_models",
    "couplings.factorised",
    "couplings.scheduled",
    "rules.boundary_uniforms",
    "formal",
)
MODULES = {module.rpartition(".")[2]: module for module in STATEMENTS}
COLOURS = {
    "proved": "green",
    "proved (Coq)": "green",
    "computed (Coq)": "green",
    "verified": "green",
    "refuted": "yellow",
    "not checked here": "dim",
    "failed": "red",
}


@click.command(cls=Command)
@click.argument("names", nargs=-1, type=click.Choice(list(MODULES)), metavar="[NAMES]...")
@click.option(
    "--without", multiple=True, type=click.Choice(list(MODULES)), metavar="NAME", help="Module to omit; repeatable."
)
@click.option(
    "--cases", type=click.IntRange(1), default=600, show_default=True, help="Number of random problems per statement."
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    help="Number of worker processes [default: one per core].",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file: self-contained HTML page of the results.",
)
@click.option("--json", type=click.Path(dir_okay=False, path_type=Path), help="Output file of the results as JSON.")
def main(
    names: tuple[str, ...], without: tuple[str, ...], cases: int, jobs: int, html: Path | None, json: Path | None
) -> None:
    """Check the statements of the theory by computer.

    NAMES selects modules [default: all]. The results are printed.
    """
    chosen = [name for name in names or MODULES if name not in without]
    if not chosen:
        raise click.UsageError("--without must keep at least one module. Omit fewer of them.")
    # Checked before the computation, which takes minutes.
    for option, file in (("--html", html), ("--json", json)):
        if file:
            can_write_into(option, file.parent)
    with progress_bar(len(chosen), "loading", alike=False) as advance:
        pairs = []
        for name in chosen:
            module = importlib.import_module(f"proofs_checks.{MODULES[name]}")
            pairs += [(module, statement) for statement in module.STATEMENTS]
            advance()
    if "formal" in chosen:
        click.echo("Coq proofs that were not compiled before take about four minutes on one core", err=True)
    rows: list[page.Row] = []
    with progress_bar(len(pairs), "statements", alike=False) as advance:
        for module, statement in pairs:
            advance(statement.name, by=0)
            rows.append((module, module.check(statement, cases, jobs)))
            advance()
    console = Console()
    (console if console.is_terminal else Console(width=170)).print(table([outcome for _, outcome in rows]))
    page.write(rows, cases, html, json)
    sys.exit(any(outcome.kind == "failed" for _, outcome in rows))


def table(outcomes: list[StatementOutcome]) -> Table:
    """Return the table, with one row per statement."""
    made = Table("", "statement", "source", "method", "outcome", "controls", "s", show_lines=True)
    for outcome in outcomes:
        said = outcome.statement
        mark = {"failed": "[red]✗[/]", "not checked here": "–"}.get(outcome.kind, "[green]✓[/]")
        made.add_row(
            mark,
            f"[bold]{escape(said.name)}[/]\n{escape(said.text)}",
            escape(said.source),
            escape(said.method),
            f"[{COLOURS[outcome.kind]}]{escape(outcome.verdict)}[/]",
            escape(outcome.controls),
            f"{outcome.seconds:.0f}",
        )
    return made


if __name__ == "__main__":
    main()
