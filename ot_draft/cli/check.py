"""`ot-draft check`: the verdict on selection rules, with the smallest counterexample."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..errors import MissingPackage
from .refused import Refused

if TYPE_CHECKING:
    from ..checks import Outcome, Report
    from .rule_target import Target

STYLES = {"passed": "green", "failed": "bold red", "skipped": "dim"}
DIGITS = Context(prec=17)  # of a float64; unlike a float itself they tell denormal numbers apart
LONG_FRACTION = re.compile(r"\b(?=[\d/]{25})(\d+)/(\d+)\b")  # a law next to a float's last place has hundreds of digits


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="RULE...")
@click.option("--max-examples", type=click.IntRange(1), default=100, show_default=True,
              help="Largest number of problems a property, before shrinking.")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed tries the same problems."
)
@click.option("--property", "properties", multiple=True, help="Only this property; may be given several times.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON to standard output instead of tables.")
@click.option("--report", "kinds", multiple=True, type=click.Choice(["html", "json", "junit"]),
              help="Write ot-report.html, .json or .xml; may be given several times.")  # fmt: skip
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder for --report [default: here].",
)
def check(
    targets: tuple[str, ...], max_examples: int, seed: int, properties: tuple[str, ...], as_json: bool,
    kinds: tuple[str, ...], out: Path
) -> None:  # fmt: skip
    """The verdict on each RULE: every property on many small problems, in exact arithmetic, and the smallest counterexample.

    RULE: FILE.py:NAME or package.module:NAME, where NAME is a subclass of ot.SelectionRule, a rule, or a function that
    returns one, with literal arguments if need be ('my_rule.py:MyRule(factor=2)'); or the name of a rule of the library
    (KSeq). The code is imported, so check only rules that you would run.

    Exit status: 0 if all rules passed, 1 if one failed, 2 for wrong input.
    """
    try:
        from ..checks.reports.records import as_record
        from ..checks.reports.report_files import json_text, write_reports

        reports = _reports(targets, max_examples, seed, properties)
        records = [as_record(name, outcome) for name, report in reports.items() for outcome in report.outcomes]
        written = write_reports(kinds, records, out)
    except (MissingPackage, OSError) as error:
        raise Refused(str(error)) from error
    if as_json:
        click.echo(json_text(records), nl=False)
    else:
        for name, report in reports.items():
            _print(name, report)
    for file in written:
        click.echo(f"written: {file}", err=True)
    sys.exit(0 if all(report.passed for report in reports.values()) else 1)


def _reports(targets: Sequence[str], max_examples: int, seed: int, properties: Sequence[str]) -> dict[str, Report]:
    """Report of each rule, by its name; by the whole target where two rules have one name."""
    from ..checks import Report, check_rule
    from ..checks.rules.properties import properties_of
    from .rule_target import rule_at

    found = {text: rule_at(text) for text in targets}
    names = [target.rule.name for target in found.values()]
    try:
        total = sum(len(properties_of(target.rule, properties or None)) for target in found.values())
    except ValueError as error:
        raise Refused(str(error)) from error
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    reports = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("checking", total=total)
        for text, target in found.items():
            name = target.rule.name if names.count(target.rule.name) == 1 else text
            progress.update(task, description=name)
            report = check_rule(
                target.rule, max_examples, properties or None, seed=seed, on_outcome=lambda _: progress.advance(task)
            )
            reports[name] = Report(target.rule, tuple(_with_source(each, target) for each in report.outcomes))
    return reports


def _with_source(outcome: Outcome, target: Target) -> Outcome:
    """The outcome, its code made from what was given on the command line."""
    if outcome.counterexample is None:
        return outcome
    return replace(outcome, counterexample_code=outcome.counterexample.code(target.rule, target.source))


def readable(reason: str) -> str:
    """The reason with decimals in the place of fractions that nobody can read; short fractions stay exact."""
    return LONG_FRACTION.sub(
        lambda found: f"≈{DIGITS.divide(Decimal(found[1]), Decimal(found[2])).normalize()}", reason
    )


def _print(name: str, report: Report) -> None:
    console = Console()
    console = console if console.is_terminal else Console(width=140)
    table = Table(title=f"{name}: {'passed' if report.passed else 'failed'}", title_justify="left", title_style="bold")
    for head in ("property", "verdict", "cases", "seconds", "what was seen"):
        table.add_column(head, justify="right" if head in {"cases", "seconds"} else "left", overflow="fold")
    for outcome in report.outcomes:
        verdict = Text(outcome.status, STYLES[outcome.status])
        seen = Text(readable(outcome.reason))
        table.add_row(outcome.name, verdict, str(outcome.cases), f"{outcome.seconds:.2f}", seen)
    console.print(table)
    if any(readable(outcome.reason) != outcome.reason for outcome in report.outcomes):
        console.print("≈: a fraction of many digits; --json and --report have all of them.", style="dim")
    for outcome in report.failures[:1]:
        click.echo(f"\nSmallest counterexample to {outcome.name}: {outcome.statement}\n")
        click.echo(outcome.counterexample_code)
        if len(report.failures) > 1:
            others = ", ".join(each.name for each in report.failures[1:])
            click.echo(f"# Failed too: {others}. --property NAME shows one of them, --report html all.")
