"""`ot-draft conform`: does an engine keep its target's law under speculation? A suite for its developers."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from ..optional import require
from .console import table_console
from .options import Place
from .refused import Refused


@click.command()
@click.argument("engine", required=False)
@click.option("--set", "options", multiple=True, metavar="NAME=VALUE", help="Of the engine's start; several times.")
@click.option("--tokens", "sizes", multiple=True, type=click.IntRange(8, 2000), default=(8, 2000), show_default=True,
              help="Vocabulary of the tiny pair; several times.")  # fmt: skip
@click.option("--requests", type=click.IntRange(400), help="Of the first kind, others in proportion [the engine's].")
@click.option("--level", type=click.FloatRange(0, 0.1, min_open=True), default=1e-6, show_default=True,
              help="Probability that a right engine has a WRONG row.")  # fmt: skip
@click.option("--seconds", default=900.0, show_default=True, help="The longest that one call of the engine may take.")
@click.option(
    "--models", type=Place(), help="Folder of the tiny pairs, written if need be. Without ENGINE that is all."
)
@click.option("--json", "json_file", type=Place(), help="Write the table there as JSON.")
def conform(
    engine: str | None, options: tuple[str, ...], sizes: tuple[int, ...], requests: int | None, level: float,
    seconds: float, models: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Put a tiny pair of models into ENGINE, and hold its texts to the law that every setting should give.

    ENGINE: vllm, transformers or multi-draft, in a clone also llama.cpp; the address of a server that serves the pair of --models; or an
    adapter, FILE.py or package.module, with start, complete and stop (docs/integrations.md). It runs in its own process.

    Exit status: 0 if all that was tried kept its law, 1 if a row is WRONG, 2 if one crashed or was not decided, or nothing
    was judged.
    """
    require("torch", "transformers", "scipy", extra="llm")
    from ..verify.engine.suite import CRASHED, KEPT, NOT_TRIED, UNDECIDED, WRONG
    from ..verify.engine.suite import conform as run
    from ..verify.engine.tiny_pair import write

    for n in sizes if models else ():
        click.echo(f"{n} tokens: {' '.join(map(str, write(Path(models, str(n)), n)))}", err=True)  # type: ignore[arg-type]
    if engine is None:
        if models is None:
            raise Refused("name an engine, or a folder for the pairs by --models")
        return
    given = dict(each.partition("=")[::2] for each in options)
    if not all(name.isidentifier() and value for name, value in given.items()):
        raise Refused(f"--set {' --set '.join(options)}: give NAME=VALUE")
    engine, given = _known(engine, given, models, sizes)
    report = run(engine, given, sizes, requests, level, seconds, models,
                 lambda row: click.echo(f"{row.verdict}: {row.name}", err=True))  # fmt: skip
    styles = {KEPT: "green", WRONG: "bold red", UNDECIDED: "yellow", CRASHED: "bold magenta", NOT_TRIED: "dim"}
    console, table = table_console(150), Table("row", "tried", "evidence", "bias seen", "verdict")
    for name, value in report.facts.items():
        console.print(f"{name}: {value}", markup=False, soft_wrap=True)
    for row in report.rows:
        seen = "" if row.bias_seen is None else f"{row.bias_seen:.2g}"
        table.add_row(*map(Text, (row.name, row.tried, row.evidence, seen)), Text(row.verdict, styles[row.verdict]))
    console.print(table)
    console.print(report.sentence, soft_wrap=True)
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(report) | {"sentence": report.sentence}, indent=1) + "\n")
    sys.exit(report.status)


def _known(
    engine: str, given: dict[str, str], models: Path | None, sizes: tuple[int, ...]
) -> tuple[str, dict[str, str]]:
    """The adapter and its options; Refused where there is none."""
    from ..verify.engine.adapter import engines

    if engine.startswith(("http://", "https://")):
        if models is None or len(sizes) != 1:
            remedy = "write it with --models FOLDER --tokens 8, serve it, and name both here"
            raise Refused(f"a server holds one pair: {remedy}")
        engine, given = "ot_draft.verify.engine.engines.server", given | {"url": engine}
    if engine not in (known := engines()) and "." not in engine:
        remedy = f"{', '.join(known)}; or give an address, FILE.py or a module"
        raise Refused(f"{engine} is no engine that is known: {remedy}")
    if engine.endswith(".py") and not Path(engine).is_file():
        raise Refused(f"{engine} is not there: give the file of an adapter")
    return engine, given
