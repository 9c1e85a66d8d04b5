"""What the commands print and how they refuse: progress bars, wide tables, JSON, CSV, and errors in one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..errors import DraftSelectionError
from .refused import Refused

Advance = Callable[..., None]
FIRST, EVERY = 1.0, 10.0  # seconds to the first line of progress where there is no terminal, and from one to the next


@contextmanager
def progress_bar(total: int, said: str) -> Iterator[Advance]:
    """A bar on standard error, which is gone at the end; where that is no terminal, a line now and then with the time that is left.

    Gives advance(said=None, by=1, to=None), which moves it by or to a number.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    if not console.is_terminal:
        with _lines(total, said) as advance_lines:
            yield advance_lines
        return
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(said, total=total)

        def advance(said: str | None = None, by: int = 1, to: int | None = None) -> None:
            bar.update(task, description=said, completed=to, advance=by if to is None else None)

        yield advance


@contextmanager
def _lines(total: int, said: str) -> Iterator[Advance]:
    """The same in lines, by a thread of their own: one step of the work may take minutes. A command that is quick writes none."""
    done, start, ended = 0, monotonic(), Event()

    def advance(now_said: str | None = None, by: int = 1, to: int | None = None) -> None:
        nonlocal done, said
        said, done = now_said or said, done + by if to is None else to

    def write() -> None:
        wait = FIRST
        while not ended.wait(wait):
            left = f", about {(monotonic() - start) * (total - done) / done:.0f} s left" if 0 < done < total else ""
            click.echo(f"{said}: {done:,} of {total:,}{left}", err=True)
            wait = EVERY

    writer = Thread(target=write, daemon=True)
    writer.start()
    try:
        yield advance
    finally:
        ended.set()
        writer.join()


def table_console(width: int) -> Console:
    """Standard output, of this width where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def print_json(content: Any) -> None:
    """On standard output."""
    click.echo(json.dumps(content, indent=1))


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of one kind on standard output, the names of their columns first."""
    from ..data.tables import csv_text

    click.echo(csv_text(rows), nl=False)


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
