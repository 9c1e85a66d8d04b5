"""The command line `ot-draft`: one module a command, loaded when the command is called."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import click

from .. import __version__
from ..errors import MissingPackage
from ..extras import how_to_install
from .console import progress_bar
from .options import Numbers, can_write_into, parts, whole_numbers
from .refused import Command, Refused, no_verdict

__all__ = [
    "Command",
    "Numbers",
    "Refused",
    "can_write_into",
    "decode_command",
    "main",
    "parts",
    "progress_bar",
    "whole_numbers",
]

MODULES = {"audit": "audit", "capture": "capture.command", "check": "check", "compare": "compare", "conform": "conform",
           "decode": "decode.command", "plan": "plan", "replay": "replay", "skip": "decode.skip", "sweep": "sweep",
           "vectors": "vectors"}  # fmt: skip
COMMANDS = {name: f"ot_draft.cli.{module}:{name}" for name, module in MODULES.items()}
CLONE = {  # not installed with the package
    "survey": "proofs_checks.survey.command:main",
    "figures": "figures.__main__:main",
    "prove": "proofs_checks.__main__:main",
}
PURPOSE = {  # of these commands, for the help where they are not
    "survey": "Survey of published verifiers: lossless, or not and where.",
    "figures": "Make the figures and tables.",
    "prove": "Check the statements of the theory by machine.",
}
NEEDS = {  # package and extra without which a command does nothing
    "capture": ("transformers", "llm"),
    "check": ("hypothesis", "check"),
    "conform": ("transformers", "llm"),
    "decode": ("transformers", "llm"),
    "skip": ("transformers", "llm"),
    "sweep": ("pyarrow", "sweep"),
}
EXTRAS = {"sympy": "proofs", "z3": "proofs"}  # of packages that are imported without a word of their own


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

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what works here, and how to get the rest."""
        missing = {name: how_to_install(*needed) for name, needed in NEEDS.items() if find_spec(needed[0]) is None}
        missing |= {
            name: f"in a clone, python -m ot_draft {name}"
            for name, place in CLONE.items()
            if find_spec(place.partition(".")[0]) is None
        }
        here = [name for name in self.list_commands(context) if name not in missing]
        if missing:
            formatter.write_paragraph()
            with formatter.section(f"Here work {', '.join(here)}. For the others"):
                formatter.write_dl(sorted(missing.items()))

    def invoke(self, context: click.Context) -> object:
        """Run the command; a package that is not installed is one line with its extra, whichever command misses it."""
        with no_verdict():
            try:
                return super().invoke(context)
            except MissingPackage as error:
                raise Refused(str(error)) from error
            except ModuleNotFoundError as error:
                if error.name not in EXTRAS:
                    raise
                raise Refused(str(MissingPackage(error.name, EXTRAS[error.name]))) from error


def _outside_a_clone(name: str, folder: str) -> click.Command:
    def refuse(arguments: tuple[str, ...]) -> None:
        raise Refused(
            f"ot-draft {name} runs {folder}/ of the repository, which is not here: "
            f"run  python -m ot_draft {name}  in the folder of a clone"
        )

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["arguments"], nargs=-1)],
        context_settings={"ignore_unknown_options": True},
        help=f"{PURPOSE[name]}\n\nRuns {folder}/ of the repository, which is not installed with the package: in the folder of a "
        f"clone, python -m ot_draft {name}.",
        short_help=f"{PURPOSE[name][:-1]} (in a clone).",
    )


def decode_command() -> click.Command:
    """`ot-draft decode`, for the demo of a clone, which runs it with other defaults."""
    from .decode.command import decode

    return decode


@click.command(cls=LazyGroup)
@click.version_option(__version__)
def main() -> None:
    """Draft selection in speculative decoding: optimum, rules, checks.

    Every command: exit status 2 for wrong input (check: 64), 70 for an error of ours, 130 for Ctrl-C, 141 where the reader of the
    output went away.
    """
