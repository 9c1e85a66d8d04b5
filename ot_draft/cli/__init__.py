"""The command line `ot-draft`: one module a command, loaded when the command is called."""

from __future__ import annotations

import importlib

import click

from .. import __version__
from .options import Numbers, parts, whole_numbers
from .refused import Refused

__all__ = ["Numbers", "Refused", "main", "parts", "whole_numbers"]

COMMANDS = {
    "check": "ot_draft.cli.check:check",
    "compare": "ot_draft.cli.compare:compare",
    "plan": "ot_draft.cli.plan:plan",
    "sweep": "ot_draft.cli.sweep:sweep",
}
CLONE = {  # not installed with the package
    "capture": "llm_demo.capture_command:capture",
    "decode": "llm_demo.decode_command:decode",
    "figures": "figures.__main__:main",
    "prove": "proofs_checks.__main__:main",
}


class LazyGroup(click.Group):
    """Commands are imported when they are named: `ot-draft compare` loads no transformers."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(COMMANDS | CLONE)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        place = (COMMANDS | CLONE).get(name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        try:
            command: click.Command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            folder = module.partition(".")[0]
            if name in CLONE and error.name == folder:
                return _outside_a_clone(name, folder)
            raise
        return command


def _outside_a_clone(name: str, folder: str) -> click.Command:
    def refuse(arguments: tuple[str, ...]) -> None:
        raise Refused(f"ot-draft {name} runs {folder}/ of the repository, which is not here: call it in a clone")

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["arguments"], nargs=-1)],
        context_settings={"ignore_unknown_options": True},
        help=f"Runs {folder}/ of a clone of the repository.",
    )


@click.command(cls=LazyGroup)
@click.version_option(__version__)
def main() -> None:
    """Draft selection in speculative decoding: optimum, rules, checks."""
