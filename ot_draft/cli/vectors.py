"""`ot-draft vectors`: run or show test vectors for draft verifiers."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from ..names import did_you_mean
from .console import progress_bar, table_console
from .options import DEFAULTS, Place

if TYPE_CHECKING:
    from ..verify.vectors.run import VectorReport


@click.group(invoke_without_command=True)
@click.pass_context
def vectors(context: click.Context) -> None:
    """Run or show test vectors for draft verifiers.

    There are three levels: replays, output distributions, and drafting with verification. The vectors follow the conventions of engines.
    They are JSON files with a schema, and come with readers in Python, C++, JavaScript and Rust (docs/vectors.md).
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@vectors.command(context_settings=DEFAULTS)
@click.argument("target", metavar="MODULE:FUNCTION")
@click.option("--rule", "rules", multiple=True, help="Name of a rule whose vectors are run; repeatable [default: all].")
@click.option("--level", "levels", multiple=True, type=click.Choice(["replay", "distribution", "joint"]),
              help="Level of the vectors to run; repeatable [default: all].")  # fmt: skip
@click.option("--from", "folder", type=Place(exists=True, file_okay=False), show_default=False,
              help="Folder of the vectors [default: those of the package].")  # fmt: skip
@click.option(
    "--known",
    type=Place(dir_okay=False, exists=True),
    help="File of vectors that are expected to fail, one id per line, with # for comments.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON to standard output instead of a table.")
def run(
    target: str, rules: tuple[str, ...], levels: tuple[str, ...], folder: Path | None, known: Path | None, as_json: bool
) -> None:
    """Test FUNCTION with the vectors.

    FUNCTION(rule, case, numbers) returns the emitted tokens. MODULE is a file or a module, which is imported. The three arguments are
    described in docs/vectors.md. Exit status: 0 if only vectors of --known failed, 1 if another vector failed or a vector of --known
    passed, 2 for invalid input.
    """
    from ..verify.vectors.files import CORPUS, read
    from ..verify.vectors.run import LEVELS, selected
    from ..verify.vectors.run import run as run_vectors

    place = folder or CORPUS
    corpus = read(place)
    strange = [rule for rule in rules if rule not in corpus]
    if strange or not corpus:
        raise click.UsageError(
            f"--rule must be one of {', '.join(corpus) or '(none)'} in {place}, got {', '.join(strange)!r}. Correct --rule or --from."
        )
    function, known_ids = _function(target), _known(known)
    if not (chosen := selected(place, rules, levels or LEVELS)):
        raise click.UsageError("--rule and --level must select at least one vector, got none. Remove one of them.")
    with progress_bar(len(chosen), "vectors") as advance:
        report = run_vectors(
            function, target, place, rules, levels or LEVELS, known_ids, lambda outcome: advance(outcome.check)
        )
    if as_json:
        click.echo(report.json(), nl=False)
    else:
        _print(report)
    sys.exit(report.exit_status)


def _print(report: VectorReport) -> None:
    console, table = table_console(140), Table("rule", "vectors", "failed", "first failure")
    wrong = report.wrong
    for rule in dict.fromkeys(each.evidence.rule for each in report.outcomes):
        number = sum(each.evidence.rule == rule for each in report.outcomes)
        failed = [each for each in wrong if each.evidence.rule == rule]
        first = f"{failed[0].check}: {failed[0].evidence.reason}" if failed else ""
        table.add_row(rule, str(number), Text(str(len(failed)), "bold red" if failed else "green"), Text(first))
    console.print(table)
    for each in report.repaired:
        console.print(f"{each.check}: passed, but is in --known", markup=False)
    if bugs := report.suspected_bugs:
        console.print(f"suspected bugs, all of whose vectors failed: {', '.join(bugs)}", soft_wrap=True, markup=False)
    console.print(f"{len(report.outcomes)} vectors, {len(wrong)} failed", markup=False)


def _function(target: str) -> Any:
    from .rule_target import module_at  # which needs the checks, and they Hypothesis

    place, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier():
        raise click.UsageError(
            f"MODULE:FUNCTION must be FILE.py:FUNCTION or package.module:FUNCTION, got {target!r}. Correct it."
        )
    function = getattr(module_at(place), name, None)
    if not callable(function):
        raise click.UsageError(f"{place} must define the function {name!r}. Correct the name.")
    return function


def _known(file: Path | None) -> set[str]:
    lines = file.read_text().splitlines() if file else []
    return {name for line in lines if (name := line.partition("#")[0].strip())}


@vectors.command(context_settings=DEFAULTS)
@click.argument("name", required=False)
def show(name: str | None) -> None:
    """Show a vector, the convention of a rule, or a bug.

    NAME is the id of a vector, a rule, or a bug, which is shown with the vectors that detect it. Without NAME, the list of all
    is shown, with the folders of the JSON files and of the readers.
    """
    from ..verify.vectors.files import read, read_conventions, read_faults

    corpus, faults = read(), read_faults()
    by_id = {vector["id"]: vector for vectors in corpus.values() for vector in vectors}
    if name is None:
        _list(corpus, faults)
    elif name in by_id:
        click.echo(json.dumps(by_id[name], indent=1))
    elif name in corpus:
        click.echo("\n".join(f"{part}: {text}" for part, text in read_conventions()[name].items()))
        click.echo(f"{len(corpus[name])} vectors: {corpus[name][0]['id']} to {corpus[name][-1]['id']}")
    elif name in faults:
        fault = faults[name]
        click.echo(f"{fault['description']}\n{fault['source'] or 'injected fault'}\nin {', '.join(fault['rules'])}")
        click.echo(f"detected by {' '.join(fault['vectors'])}")
    else:
        remedy = did_you_mean(name, (*corpus, *faults)) or "List rules and bugs with: ot-draft vectors show"
        raise click.UsageError(f"NAME must be a vector, rule or bug, got {name!r}. {remedy}")


def _list(corpus: dict[str, list[dict[str, Any]]], faults: dict[str, dict[str, Any]]) -> None:
    from ..verify.vectors.files import CORPUS

    console, table = table_console(120), Table("rule", "replay", "distribution", "joint")
    for rule, vectors in corpus.items():
        levels = Counter(vector["level"] for vector in vectors)
        table.add_row(rule, *(str(levels[level]) for level in ("replay", "distribution", "joint")))
    console.print(table)
    shown = Table("bug", "vectors", "description")
    for name, fault in faults.items():
        shown.add_row(name, str(len(fault["vectors"])), fault["description"])
    console.print(shown)
    click.echo(f"files: {CORPUS}")
    readers = CORPUS.parent / "readers"
    click.echo(f"readers: {readers} ({', '.join(sorted(file.name for file in readers.glob('read.*')))})")
