"""`ot-draft conform`: test whether an engine keeps the target distribution under speculative decoding."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from ..errors import InvalidArgument
from ..optional import require
from .console import one_line, table_console
from .options import Place


@click.command()
@click.argument("engine", required=False)
@click.option(
    "--set", "options", multiple=True, metavar="NAME=VALUE", help="Option for the start of the engine; repeatable."
)
@click.option("--tokens", "sizes", multiple=True, type=click.IntRange(8, 2000), default=(8, 2000), show_default=True,
              help="Vocabulary size of the tiny model pair, in tokens; repeatable.")  # fmt: skip
@click.option(
    "--requests",
    type=click.IntRange(400),
    help="Number of requests of the first kind; others scale with it [default: set by the adapter].",
)
@click.option("--level", type=click.FloatRange(0, 0.1, min_open=True), default=1e-6, show_default=True,
              help="False-positive rate: probability that a correct engine has a WRONG row.")  # fmt: skip
@click.option("--seconds", default=900.0, show_default=True, help="Timeout per call of the engine, in seconds.")
@click.option(
    "--models",
    type=Place(),
    help="Folder to write the tiny model pairs to. Without ENGINE, the command only writes them.",
)
@click.option("--json", "json_file", type=Place(), help="Output file of the table as JSON.")
def conform(
    engine: str | None, options: tuple[str, ...], sizes: tuple[int, ...], requests: int | None, level: float,
    seconds: float, models: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Test the completions of ENGINE with a tiny pair of models.

    The completions are compared with the exact distribution of every sampling setting.

    ENGINE: vllm, transformers or multi-draft, in a clone also llama.cpp; the URL of a server that serves the pair of --models; or an
    adapter, FILE.py or package.module, with start, complete and stop (docs/conform.md). It runs in its own process.

    Exit status: 0 if every tested row has the right distribution, 1 if a row is WRONG, 2 if a row crashed or is undecided,
    or if no row was tested.
    """
    require("torch", "transformers", "scipy", extra="llm")
    from ..verify.engine.suite import conform as run
    from ..verify.engine.suite import word
    from ..verify.engine.tiny_pair import write
    from ..verify.outcome import Status

    for n in sizes if models else ():
        click.echo(f"{n} tokens: {' '.join(map(str, write(Path(models, str(n)), n)))}", err=True)  # type: ignore[arg-type]
    if engine is None:
        if models is None:
            raise click.UsageError("ENGINE or --models is required. Pass one of them.")
        return
    given = dict(each.partition("=")[::2] for each in options)
    if not all(name.isidentifier() and value for name, value in given.items()):
        raise click.UsageError(f"--set must be NAME=VALUE, got {', '.join(options)}. Write it as drafts=ngram.")
    engine, given = _known(engine, given, models, sizes)
    with one_line((InvalidArgument,)):
        report = run(engine, given, sizes, requests, level, seconds, models,
                     lambda row: click.echo(f"{word(row)}: {row.check}", err=True))  # fmt: skip
    styles = {Status.PASSED: "green", Status.FAILED: "bold red", Status.UNDECIDED: "yellow", Status.CRASHED: "bold magenta",
              Status.SKIPPED: "dim"}  # fmt: skip
    console, table = table_console(150), Table("row", "tried", "evidence", "bias seen", "verdict")
    for name, value in report.tried.items():
        console.print(f"{name}: {value}", markup=False, soft_wrap=True)
    for row in report.outcomes:
        distance = row.evidence.distance
        seen = "" if distance is None else f"{distance:.2g}"
        table.add_row(
            *map(Text, (row.check, row.evidence.sent, row.evidence.reason, seen)), Text(word(row), styles[row.status])
        )
    console.print(table)
    console.print(report.sentence, soft_wrap=True)
    if json_file is not None:
        json_file.write_text(report.json())
    sys.exit(report.exit_status)


def _known(
    engine: str, given: dict[str, str], models: Path | None, sizes: tuple[int, ...]
) -> tuple[str, dict[str, str]]:
    """Return the adapter and its options; raises UsageError without one."""
    from ..verify.engine.adapter import engines

    if engine.startswith(("http://", "https://")):
        if models is None or len(sizes) != 1:
            remedy = "Write the pair with --models FOLDER --tokens 8, serve it, and pass both options with the URL."
            raise click.UsageError(f"--models and a single --tokens are required for a URL. {remedy}")
        engine, given = "ot_draft.verify.engine.engines.server", given | {"url": engine}
    if engine not in (known := engines()) and "." not in engine:
        raise click.UsageError(
            f"ENGINE must be one of {', '.join(known)}, a URL, FILE.py or a module, got {engine!r}. Use one of them."
        )
    if engine.endswith(".py") and not Path(engine).is_file():
        raise click.UsageError(f"ENGINE must be an existing file, got {engine!r}. Correct the path.")
    return engine, given
