"""Options that several commands have, and where they may write."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field, fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

# Settings of an option, or of all options of a command, whose help says the default.
DEFAULTS: dict[str, Any] = {"show_default": True}


class Numbers(click.ParamType):
    """Distinct positive integers up to `most`, such as 1,2,4,8.

    Some rules take seconds per pair for 256 draft tokens, and minutes for more.
    """

    name = "numbers"

    def __init__(self, most: int = 256) -> None:
        self._most = most

    def convert(self, value: Any, param: Any, context: Any) -> tuple[int, ...]:
        numbers = whole_numbers(value)
        option = param.opts[0] if param is not None else "numbers"
        if not numbers or len(set(numbers)) < len(numbers):
            raise click.UsageError(
                f"{option} must be distinct positive integers, got {value!r}. Separate them by commas, as in 1,2,4,8."
            )
        if max(numbers) > self._most:
            raise click.UsageError(
                f"{option} must be integers of at most {self._most}, got {value!r}. Use smaller numbers."
            )
        return numbers


class Place(click.Path):
    """A file or a folder, as a `Path`. An empty string raises UsageError instead of meaning the current folder."""

    def __init__(self, **about: Any) -> None:
        super().__init__(path_type=Path, **about)

    def convert(self, value: Any, param: Any, context: Any) -> Any:
        if value == "":
            remedy = "Use . for the current folder." if self.dir_okay else "Pass a file name."
            raise click.UsageError(f"{param.get_error_hint(context)} must be a path, got ''. {remedy}")
        return super().convert(value, param, context)


def whole_numbers(value: Any) -> tuple[int, ...]:
    """Whole numbers from 1 on between commas; () if it is anything else."""
    try:
        numbers = value if isinstance(value, tuple) else tuple(int(part) for part in value.split(","))
    except ValueError:
        return ()
    return numbers if min(numbers, default=0) >= 1 else ()


def parts(text: str) -> list[str]:
    """The parts between the commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def option(*names: str, **settings: Any) -> Any:
    """A field of a dataclass that is an option of a command; names, settings: as in `click.option`."""
    return field(metadata={"option": (names, settings)})


def with_options(*groups: tuple[str, type]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of a command that are fields of dataclasses; the command is given one object of each, by these names."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def called(**values: Any) -> Any:
            return command(
                **{name: kind(**{each.name: values[each.name] for each in fields(kind)}) for name, kind in groups}
            )

        for _, kind in reversed(groups):
            for each in reversed(fields(kind)):
                names, settings = each.metadata["option"]
                called = click.option(*names, each.name, **settings)(called)
        return called

    return decorated


FORMS = {"csv": "as CSV, with exact values and decimals", "json": "as JSON", "latex": "as LaTeX with booktabs",
         "markdown": "as Markdown"}  # fmt: skip


def form_options(*forms: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--csv and so on, as the arguments `as_csv` and so on, of which `form_of` makes one."""

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(forms):
            option = click.option(f"--{name}", f"as_{name}", is_flag=True, help=f"Print the table {FORMS[name]}.")
            command = option(command)
        return command

    return with_options


def form_of(flags: dict[str, Any]) -> str:
    """Return the requested form, "" for a table on the terminal, and remove its flags; raises UsageError for two forms."""
    chosen = [name for name in FORMS if flags.pop(f"as_{name}", False)]
    if len(chosen) > 1:
        raise click.UsageError(f"--{chosen[0]} and --{chosen[1]} both print to standard output. Use one of them.")
    return chosen[0] if chosen else ""


def can_write(option: str, file: Path) -> None:
    """Raise UsageError if the file cannot be written, before the work; an existing file is not changed."""
    place = Path(os.path.realpath(file))
    try:
        if not place.parent.is_dir():
            raise click.UsageError(f"{option} {file} must be in an existing folder. Create {place.parent} first.")
        new = not place.exists()
        if new or place.is_file():  # others, as pipes and devices, would take notice
            place.open("ab").close()
        if new:
            place.unlink()
    except OSError as error:
        raise click.UsageError(
            f"{option} must be a writable file, got {str(file)!r} ({error.strerror}). Use another path."
        ) from error


def can_write_into(option: str, folder: Path) -> None:
    """Raise UsageError if the folder cannot be created or written into; a folder that did not exist is removed again."""
    probe = folder / f".ot-draft-{os.getpid()}"
    try:
        new = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
        for each in new:  # the innermost first
            each.rmdir()
    except OSError as error:
        raise click.UsageError(
            f"{option} must be a writable folder, got {str(folder)!r} ({error.strerror}). Use another path."
        ) from error
