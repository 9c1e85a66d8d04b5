"""Options of servers and the output of a report, for `ot-draft audit` and `ot-draft audit servers`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from ..verify.outcome import Status
from ..verify.server import ServerReport
from .console import one_line, print_json, table_console
from .options import Numbers, Place

Prompt = str | list[int]


class Prompts(click.ParamType):
    """A file of prompts, one per line without empty lines. A line that starts with " or [ is JSON: a string or a list of token ids."""

    name = "file"

    def convert(self, value: Any, param: Any, context: Any) -> list[Prompt]:
        file = click.Path(exists=True, dir_okay=False)
        path, prompts = Path(str(file.convert(value, param, context))), list["Prompt"]()
        with one_line((OSError, UnicodeDecodeError)):
            lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            prompt: Any = line
            if line.lstrip()[0] in '["':
                try:
                    prompt = json.loads(line)
                except ValueError as error:
                    raise click.UsageError(
                        f"{path}, line {number} must be JSON, as its first character says ({error}). Correct it."
                    ) from error
            if not prompt or (type(prompt) is list and not all(type(token) is int for token in prompt)):
                raise click.UsageError(
                    f"{path}, line {number} must be a string or a list of token ids, got {prompt!r}. Correct it."
                )
            prompts.append(prompt)
        if not prompts:
            raise click.UsageError(f"--prompts must hold at least one prompt, got none in {path}. Write one per line.")
        return prompts


def options_of_servers(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of both commands: requests, level, and JSON file."""
    for option in reversed(
        (
            click.option("--model", default="", help="Model name on the server [default: its first model]."),
            click.option("--engine", type=click.Choice(("auto", "vllm", "sglang", "llamacpp", "llama-cpp-python", "openai")),
                         default="auto", show_default=True,
                         help="Engine whose request fields are sent; auto: detected; openai: standard fields only."),
            click.option("--prompts", type=Prompts(),
                         help="File of prompts, one per line: text, JSON string or list of token ids [default: built-in]."),
            click.option("--tokens", type=click.IntRange(1), default=20_000, show_default=True, help="Maximum number of tokens to read."),
            click.option("--lengths", "--length", type=Numbers(65_536),
                         help="Comma-separated max_tokens of requests, used in rotation [default: 16 and 256; audit servers: 2 to 16]."),
            click.option("--timeout", type=click.FloatRange(0.1), default=60.0, show_default=True,
                         help="Timeout per response, in seconds, from connecting to the last byte."),
            click.option("--level", type=float, default=1e-6, show_default=True, help="False-positive rate of the whole test."),
            click.option("--confidence", type=float, default=0.999, show_default=True, help="Confidence level of the bound."),
            click.option("--json", "json_file", type=Place(dir_okay=False),
                         help="Output file of the result as JSON (-: standard output)."),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def say(
    report: ServerReport, json_file: Path | None, table: Table | None, facts: Sequence[tuple[str, str]], said: str
) -> None:
    """Print the text of a report with facts and a table, or its JSON."""
    if json_file == Path("-"):
        print_json(report.record)
        return
    if json_file is not None:
        json_file.write_text(json.dumps(report.record, indent=1) + "\n", encoding="utf-8")
    console = table_console(140)
    styles = {Status.PASSED: "green", Status.FAILED: "bold red", Status.UNDECIDED: "yellow"}
    console.print(said, style=styles[report.outcomes[0].status], highlight=False, markup=False)
    if report.outcomes[0].status != Status.UNDECIDED:
        console.print(report.e_value_meaning, style="dim", highlight=False, markup=False)
    for name, fact in facts:
        console.print(f"{name}: {fact}", style="dim", highlight=False, markup=False)
    if table is not None:
        console.print(table)
