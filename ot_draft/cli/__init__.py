"""The command line `ot-draft`: one module a command, loaded when the command is called."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from ..extras import how_to_install
from ..names import did_you_mean
from ..version import __version__
from .console import one_line, progress_bar
from .exits import Command, no_verdict
from .options import Numbers, can_write_into, parts, whole_numbers

__all__ = [
    "Command",
    "Numbers",
    "can_write_into",
    "decode_command",
    "main",
    "one_line",
    "parts",
    "progress_bar",
    "whole_numbers",
]

GOALS = {  # commands by what a user wants, in the order of the help, with their modules
    "Start here": {"compare": "compare", "check": "check", "decode": "decode.command"},
    "Measure and plan": {
        "plan": "plan",
        "sweep": "sweep",
        "capture": "capture.command",
        "replay": "replay",
        "skip": "decode.skip",
    },
    "Test engines and servers": {"audit": "audit", "conform": "conform", "vectors": "vectors"},
}
COMMANDS = {name: f"ot_draft.cli.{module}:{name}" for modules in GOALS.values() for name, module in modules.items()}
CLONE = {  # not installed with the package
    "figures": "figures.__main__:main",
    "prove": "proofs_checks.__main__:main",
    "survey": "proofs_checks.survey.command:main",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used: `ot-draft compare` does not import transformers."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS | CLONE)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        place = (COMMANDS | CLONE).get(name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        if not _is_here(name):
            return _outside_a_clone(name)
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        """Find the command; an unknown name is an error with the closest ones."""
        try:
            return super().resolve_command(context, args)
        except click.UsageError as error:
            raise click.UsageError(
                f"{error.message} {did_you_mean(args[0], COMMANDS | CLONE)}".rstrip(), context
            ) from error

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by goal, the most used first."""
        for goal, names in {**GOALS, "Reproduce the papers": CLONE}.items():
            with formatter.section(goal):
                room = formatter.width - 6 - max(map(len, COMMANDS))
                commands = {name: self.get_command(context, name) for name in names}
                formatter.write_dl(
                    [(name, command.get_short_help_str(room)) for name, command in commands.items() if command]
                )

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what works here, and how to get the rest."""
        needs = {  # package and extra without which a command does nothing
            "capture": ("transformers", "llm"),
            "check": ("hypothesis", "check"),
            "conform": ("transformers", "llm"),
            "decode": ("transformers", "llm"),
            "skip": ("transformers", "llm"),
            "sweep": ("pyarrow", "sweep"),
        }
        missing = {name: how_to_install(*needed) for name, needed in needs.items() if find_spec(needed[0]) is None}
        missing |= dict.fromkeys((name for name in CLONE if not _is_here(name)), "run in the folder of a clone")
        here = [name for name in self.list_commands(context) if name not in missing]
        if missing:
            formatter.write_paragraph()
            with formatter.section(f"Available commands: {', '.join(here)}. To enable the others"):
                formatter.write_dl(sorted(missing.items()))

    def invoke(self, context: click.Context) -> object:
        """Run the command."""
        with no_verdict():
            return super().invoke(context)


def _is_here(name: str) -> bool:
    """Whether the command can be imported; the clone in the current folder is found although the library is installed."""
    module = (COMMANDS | CLONE)[name].partition(":")[0]
    if find_spec(module.partition(".")[0]) is not None:
        return True
    clone = Path.cwd()
    if not (clone / "ot_draft").is_dir() or not clone.joinpath(*module.split(".")).with_suffix(".py").is_file():
        return False
    sys.path.append(str(clone))  # last: the installed library stays the one that is used
    return True


def _outside_a_clone(name: str) -> click.Command:
    where = f"ot-draft {name} must be run in the folder of a clone"
    purpose = {
        "survey": "Check which published verification rules are lossless.",
        "figures": "Create figures and their report.",
        "prove": "Check the statements of the theory by computer.",
    }[name]

    def refuse(arguments: tuple[str, ...]) -> None:
        raise click.UsageError(f"{where}, got {Path.cwd()}. Change to the folder of a clone.")

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["arguments"], nargs=-1)],
        context_settings={"ignore_unknown_options": True},
        help=f"{purpose}\n\n{where}: the package does not install its files.",
    )


def decode_command() -> click.Command:
    """`ot-draft decode`, for the demo of a clone, which runs it with other defaults."""
    from .decode.command import decode

    return decode


@click.command(cls=LazyGroup)
@click.version_option(__version__)
def main() -> None:
    """Draft selection in speculative decoding: optimum, rules, checks.

    Exit status of every command: 2 invalid input (check: 64), 70 internal error, 130 interrupted, 141 broken pipe.
    """
