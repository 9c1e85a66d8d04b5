"""`ot-draft check`: whether selection rules are lossless, what else was found, and the smallest counterexample."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from ..errors import InvalidArgument, MissingPackage
from .console import one_line, progress_bar, table_console
from .options import DEFAULTS, Place, can_write, can_write_into

if TYPE_CHECKING:
    from ..verify.rule.answers import RuleOutcome
    from ..verify.rule.report import RuleReport


@contextmanager
def nothing_checked() -> Iterator[None]:
    """A refusal inside has the exit status 64."""
    try:
        yield
    except click.ClickException as error:
        error.exit_code = 64  # type: ignore[misc]  # EX_USAGE of sysexits.h; of this error, not of its class
        raise


class CheckCommand(click.Command):
    """A command whose exit status 2 says something else than that it was called in a wrong way."""

    make_context = nothing_checked()(click.Command.make_context)
    invoke = nothing_checked()(click.Command.invoke)


@click.command(cls=CheckCommand, context_settings=DEFAULTS)
@click.argument("targets", nargs=-1, required=True, metavar="RULE...")
@click.option("--max-examples", type=click.IntRange(1), default=100,
              help="Maximum number of problems per property, before shrinking.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, help="Random seed of the problems.")
@click.option("--property", "properties", multiple=True, help="Name of a property to check; repeatable [default: all].")
@click.option("--k", type=click.IntRange(1, 8),
              help="Number of drafts to check, for rules of a fixed number [default: all that the rule takes].")  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit with status 1 for findings, too.")
@click.option("--compare", is_flag=True, help="Also print acceptance, share of the optimum and time per call, together with the "
              "library's rules (not with --json).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON to standard output instead of tables.")
@click.option("--report", "formats", multiple=True, type=click.Choice(["html", "json"]),
              help="Format of a report file to write, ot-report.html or ot-report.json; repeatable.")  # fmt: skip
@click.option("--out", type=Place(file_okay=False), default=Path(), show_default=False,
              help="Output folder of --report [default: current folder].")  # fmt: skip
def check(
    targets: tuple[str, ...], max_examples: int, seed: int, properties: tuple[str, ...], k: int | None, strict: bool, compare: bool,
    as_json: bool, formats: tuple[str, ...], out: Path,
) -> None:  # fmt: skip
    """Check whether rules are lossless, with counterexamples if not.

    Each RULE is tested on many small problems in exact arithmetic. The smallest counterexample is reported.

    RULE is FILE.py:NAME or package.module:NAME, where NAME is a subclass of otd.SelectionRule, a rule, or a function that
    returns one. Arguments are literals, as in 'my_rule.py:MyRule(factor=2)'. RULE can also be the name of a rule of the
    library, such as KSeq. The code is imported and run, so check only rules that you trust.

    Exit status: 0 if nothing failed; 1 if a rule is not lossless, not lossless in floats, or overwrites its arguments;
    2 if only findings were reported (no drafts, empty batches, types, host syncs, claims, a rule that crashes or rejects
    every problem); 64 if nothing was checked (invalid input or a missing package).
    """
    with one_line((MissingPackage, InvalidArgument, OSError)):
        from ..verify.rule.report_files import json_text, report_file, write_reports

        if formats:
            can_write_into("--out", out)
        for file in (report_file(out, name) for name in formats):
            if file.exists():
                can_write("--report", file)
        with redirect_stdout(sys.stderr):  # prints of a rule are not part of the report
            reports = _reports(targets, max_examples, seed, properties, k)
        written = write_reports(formats, reports, out)
    if as_json:
        click.echo(json_text(reports), nl=False)
    else:
        for report in reports:
            _print(report)
        if compare:
            from .beside_library import print_beside_library
            from .rule_target import RulesOfUser, rule_at

            for text, report in zip(targets, reports, strict=True):
                with one_line(), RulesOfUser(text):
                    print_beside_library(rule_at(text).rule, report.answers.refuted)
    for file in written:
        click.echo(f"written: {file}", err=True)
    sys.exit(status_of(reports, strict))


def status_of(reports: Sequence[RuleReport], strict: bool) -> int:
    """The exit status: 1 for a rule that may not be used as it is, 2 for findings (1 if strict), else 0."""
    from ..verify.outcome import Status

    if any(report.answers.refuted for report in reports):
        return 1
    outcomes = [outcome for report in reports for outcome in report.outcomes]
    unseen = any(outcome.evidence.category == "lossless" and outcome.status == Status.SKIPPED for outcome in outcomes)
    findings = unseen or any(report.findings for report in reports)
    return (1 if strict else 2) if findings else 0


def _reports(
    targets: Sequence[str], max_examples: int, seed: int, properties: Sequence[str], k: int | None
) -> list[RuleReport]:
    """Report of each rule, which is called by its name, or by the whole target where two have one name."""
    from ..verify.rule import check_rule
    from ..verify.rule.answers import Answers
    from ..verify.rule.properties import of_category, properties_of
    from .rule_target import rule_at

    rules = {text: rule_at(text) for text in targets}
    names = [target.rule.name for target in rules.values()]
    total = sum(len(properties_of(target.rule, properties or None)) for target in rules.values())
    last, reports = of_category("lossless")[-1].name, []
    with progress_bar(total, "checking", alike=False) as advance:
        for text, target in rules.items():
            name = target.rule.name if names.count(target.rule.name) == 1 else text
            seen: list[RuleOutcome] = []

            def on_outcome(outcome: RuleOutcome, name: str = name, seen: list[RuleOutcome] = seen) -> None:
                advance(name)
                seen.append(outcome)
                if outcome.check == last:  # the verdict on the output distribution, before torch is loaded
                    click.echo(f"{name}: {Answers(seen).lines()[0]}", err=True)

            reports.append(check_rule(target.rule, max_examples, properties or None, seed=seed, on_outcome=on_outcome, name=name,
                                      source=target.source, k=k))  # fmt: skip
    return reports


def _print(report: RuleReport) -> None:
    from ..verify.rule.answers import Lossless

    styles = {  # of lines of the report, by how they begin
        "  crash:": "bold red",
        "  arguments:": "bold red",
        f"  lossless: {Lossless.YES}": "bold green",
        f"  lossless: {Lossless.NOT_DECIDED}": "bold yellow",
        f"  lossless: {Lossless.NO}": "bold red",
        "  passed (": "green",
    }
    console = table_console(120)
    for place, line in enumerate(report.lines()):
        style = next((style for start, style in styles.items() if line.startswith(start)), "")
        console.print(Text(line, style if place else "bold"), soft_wrap=True)
