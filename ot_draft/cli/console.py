"""What the commands print and how they refuse: progress bars, wide tables, JSON, CSV, and errors in one line."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..errors import DraftSelectionError
from .refused import Refused

Advance = Callable[..., None]
EVERY = 10.0  # seconds between two lines of progress


@contextmanager
def progress_bar(total: int, said: str) -> Iterator[Advance]:
    """A bar on standard error, which is gone at the end; where that is no terminal, a line every ten seconds.

    Gives advance(said=None, by=1, to=None), which moves it by or to a number.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(total, said)
        return
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(said, total=total)

        def advance(said: str | None = None, by: int = 1, to: int | None = None) -> None:
            bar.update(task, description=said, completed=to, advance=by if to is None else None)

        yield advance


def _lines(total: int, said: str) -> Advance:
    start = last = monotonic()
    done = 0

    def advance(now_said: str | None = None, by: int = 1, to: int | None = None) -> None:
        nonlocal done, last, said
        said, done, now = now_said or said, done + by if to is None else to, monotonic()
        if now - last >= EVERY and 0 < done < total:
            last, left = now, (now - start) * (total - done) / done
            click.echo(f"{said}: {done:,} of {total:,}, about {left:.0f} s left", err=True)

    return advance


def table_console(width: int) -> Console:
    """Standard output, of this width where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def print_json(content: Any) -> None:
    """On standard output."""
    click.echo(json.dumps(content, indent=1))


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of one kind on standard output, the names of their columns first."""
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def without_nan(content: Any) -> Any:
    """The same for JSON, which knows no NaN: None in its place."""
    if isinstance(content, dict):
        return {name: without_nan(value) for name, value in content.items()}
    if isinstance(content, list):
        return [without_nan(value) for value in content]
    return None if isinstance(content, float) and content != content else content


@contextmanager
def one_line(errors: Iterable[type[Exception]] = (DraftSelectionError, OSError)) -> Iterator[None]:
    """Errors of the library, and of files, as one line of the command; and that the memory is too small."""
    try:
        yield
    except BrokenPipeError:  # no file is wrong: nobody reads the output any more
        raise
    except MemoryError as error:
        raise Refused(f"the memory is too small: {error or 'give less, or smaller numbers'}") from error
    except tuple(errors) as error:
        raise Refused(" ".join(str(error).split())) from error
