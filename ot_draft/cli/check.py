"""`ot-draft check`: whether selection rules are lossless, what else was found, and the smallest counterexample."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..errors import InvalidArgument, MissingPackage
from .refused import Refused

if TYPE_CHECKING:
    from ..checks.report import PropertyOutcome, Report
    from .rule_target import NamedRule

NOT_LOSSLESS, FINDINGS, NOTHING_CHECKED = 1, 2, 64  # exit status; 64 is EX_USAGE of sysexits.h
STYLES = {"passed": "green", "failed": "bold red", "skipped": "dim"}
OF_LOSSLESS = {"yes": "bold green", "no": "bold red", "not decided": "bold yellow"}
STYLE_OF_LINES = {"crash": "bold red", "arguments": "bold red"}


class CheckCommand(click.Command):
    """A command whose exit status 2 says something else than that it was called in a wrong way."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parse the command line."""
        try:
            return super().make_context(*arguments, **options)
        except click.ClickException as error:
            error.exit_code = NOTHING_CHECKED  # type: ignore[misc]  # of this error, not of its class
            raise

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(context)
        except click.ClickException as error:
            error.exit_code = NOTHING_CHECKED  # type: ignore[misc]  # of this error, not of its class
            raise


@click.command(cls=CheckCommand)
@click.argument("targets", nargs=-1, required=True, metavar="RULE...")
@click.option("--max-examples", type=click.IntRange(1), default=100, show_default=True,
              help="Largest number of problems a property, before shrinking.")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed tries the same problems."
)
@click.option("--property", "properties", multiple=True, help="Only this property; may be given several times.")
@click.option("--strict", is_flag=True, help="Exit with 1 for findings, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON to standard output instead of tables.")
@click.option("--report", "formats", multiple=True, type=click.Choice(["html", "json", "junit"]),
              help="Write ot-report.html, .json or .xml; may be given several times.")  # fmt: skip
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder for --report [default: here].",
)
def check(
    targets: tuple[str, ...], max_examples: int, seed: int, properties: tuple[str, ...], strict: bool, as_json: bool,
    formats: tuple[str, ...], out: Path
) -> None:  # fmt: skip
    """Is each RULE lossless? Every property on many small problems, in exact arithmetic, and the smallest counterexample.

    RULE: FILE.py:NAME or package.module:NAME, where NAME is a subclass of ot.SelectionRule, a rule, or a function that
    returns one, with literal arguments if need be ('my_rule.py:MyRule(factor=2)'); or the name of a rule of the library
    (KSeq). The code is imported, so check only rules that you would run.

    Exit status: 0 if nothing failed, 1 if a rule is not lossless, not in floats, or overwrites its arguments, 2 if all that
    failed are findings (no drafts, empty batches, types, host syncs, claims, a rule that crashes or refuses everything), 64 if
    nothing was checked: wrong input, or a package is missing.
    """
    try:
        from ..checks.report import as_record
        from ..checks.report_files import json_text, try_places, write_reports

        if formats:
            try_places(formats, out)
        with redirect_stdout(sys.stderr):  # what a rule prints is no part of the report
            reports = _reports(targets, max_examples, seed, properties)
        records = [as_record(name, outcome) for name, report in reports.items() for outcome in report.outcomes]
        written = write_reports(formats, records, out)
    except (MissingPackage, OSError) as error:
        raise Refused(str(error)) from error
    if as_json:
        click.echo(json_text(records), nl=False)
    else:
        for name, report in reports.items():
            _print(name, report)
    for file in written:
        click.echo(f"written: {file}", err=True)
    sys.exit(status_of(list(reports.values()), strict))


def status_of(reports: Sequence[Report], strict: bool) -> int:
    """The exit status."""
    if any(report.answers.refuted for report in reports):
        return NOT_LOSSLESS
    outcomes = [outcome for report in reports for outcome in report.outcomes]
    unseen = any(outcome.category == "lossless" and outcome.status == "skipped" for outcome in outcomes)
    findings = unseen or any(report.findings for report in reports)
    return (NOT_LOSSLESS if strict else FINDINGS) if findings else 0


def _reports(targets: Sequence[str], max_examples: int, seed: int, properties: Sequence[str]) -> dict[str, Report]:
    """Report of each rule, by its name; by the whole target where two rules have one name."""
    from ..checks import Report, check_rule
    from ..checks.answers import answers
    from ..checks.properties import LOSSLESS, properties_of
    from .rule_target import rule_at

    rules = {text: rule_at(text) for text in targets}
    names = [target.rule.name for target in rules.values()]
    try:
        total = sum(len(properties_of(target.rule, properties or None)) for target in rules.values())
    except InvalidArgument as error:
        raise Refused(str(error)) from error
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    reports = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("checking", total=total)
        for text, target in rules.items():
            name = target.rule.name if names.count(target.rule.name) == 1 else text
            progress.update(task, description=name)
            seen: list[PropertyOutcome] = []

            def told(outcome: PropertyOutcome, name: str = name, seen: list[PropertyOutcome] = seen) -> None:
                progress.advance(task)
                seen.append(outcome)
                if outcome.name == LOSSLESS[-1].name:  # the verdict on the law, before torch is loaded
                    progress.console.print(
                        f"{name}: {answers(each.result for each in seen).lines()[0]}", markup=False, soft_wrap=True
                    )

            report = check_rule(target.rule, max_examples, properties or None, seed=seed, on_outcome=told)
            reports[name] = Report(target.rule, tuple(_with_source(each, target) for each in report.outcomes))
    return reports


def _with_source(outcome: PropertyOutcome, target: NamedRule) -> PropertyOutcome:
    """The outcome, its code made from what was given on the command line."""
    if outcome.counterexample is None:
        return outcome
    return replace(outcome, counterexample_code=outcome.counterexample.code(target.rule, target.source))


def _print(name: str, report: Report) -> None:
    """The answers, the smallest counterexample, the table of what did not pass, and the names of what did."""
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    console.print(Text(name, "bold"))
    for line in report.answers.lines():
        style = (
            OF_LOSSLESS[report.lossless] if line.startswith("lossless") else STYLE_OF_LINES.get(line.split(":")[0], "")
        )
        console.print(Text(f"  {line}", style), soft_wrap=True)
    console.print(f"  {report.answers.sentence}", soft_wrap=True)
    for outcome in report.failures[:1]:
        click.echo(f"\n{outcome.heading}: {outcome.statement}\n")
        click.echo(outcome.counterexample_code or outcome.reason)
        if len(report.failures) > 1:
            failed_too = ", ".join(each.name for each in report.failures[1:])
            click.echo(f"# Failed too: {failed_too}. --property NAME shows one of them, --report html all.")
    passed = [outcome for outcome in report.outcomes if outcome.status == "passed"]
    if len(passed) < len(report.outcomes):
        console.print(_table([outcome for outcome in report.outcomes if outcome.status != "passed"]))
    if passed:
        cases, seconds = sum(each.cases for each in passed), sum(each.seconds for each in passed)
        names = ", ".join(each.name for each in passed)
        console.print(Text(f"  passed ({cases:,} cases, {seconds:.1f} s): {names}", STYLES["passed"]))


def _table(outcomes: Sequence[PropertyOutcome]) -> Table:
    table = Table()
    for head in ("property", "verdict", "cases", "seconds", "what was seen"):
        table.add_column(head, justify="right" if head in {"cases", "seconds"} else "left", overflow="fold")
    for outcome in outcomes:
        cells = outcome.name, Text(outcome.status, STYLES[outcome.status]), str(outcome.cases), f"{outcome.seconds:.2f}"
        table.add_row(*cells, Text(outcome.reason))
    return table
