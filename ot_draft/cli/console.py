"""Output of commands: progress bars, wide tables, JSON, CSV, and errors in one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from threading import Event, Thread
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ..errors import DraftSelectionError

Advance = Callable[..., None]
FIRST, EVERY = 1.0, 10.0  # seconds to the first line of progress without a terminal, and between lines


@contextmanager
def progress_bar(total: int, said: str, alike: bool = True) -> Iterator[Advance]:
    """Show progress on standard error: a bar in a terminal, which disappears at the end, elsewhere a line when it has changed.

    Yields advance(said=None, by=1, to=None, line=""), which moves the bar by or to a number, and prints a line above it. alike: whether
    the items take about the same time. Only then is the remaining time shown, extrapolated from all finished items once there are three
    of them.
    """
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ]
    console = Console(stderr=True)
    bar = Progress(*columns, *([TimeLeft()] if alike else []), console=console, transient=True,
                   disable=not console.is_terminal, speed_estimate_period=inf)  # fmt: skip
    task = bar.add_task(said, total=total, finished=0)
    bar.advance(task, 0)  # starts the clock: the first item counts too
    finished = 0

    def advance(said: str | None = None, by: int = 1, to: int | None = None, line: str = "") -> None:
        nonlocal finished
        if line:
            bar.console.print(line, highlight=False, soft_wrap=True)
        finished += by > 0 or to is not None
        bar.update(task, description=said, completed=to, advance=by if to is None else None, finished=finished)

    with bar if console.is_terminal else _lines(bar.tasks[0], alike):
        yield advance


def _can_extrapolate(task: Task) -> bool:
    """Whether enough items are finished for an estimate of the remaining time."""
    return bool(task.fields["finished"] >= 3)


class TimeLeft(TimeRemainingColumn):
    """Remaining time, empty until enough items are finished."""

    def render(self, task: Task) -> Text:
        return super().render(task) if _can_extrapolate(task) else Text("")


@contextmanager
def _lines(task: Task, alike: bool) -> Iterator[None]:
    """Write progress as lines from a thread, each only if it differs from the last; a quick command writes none."""
    ended = Event()

    def write() -> None:
        wait, last = FIRST, ""
        while not ended.wait(wait):
            seconds = task.time_remaining if alike and _can_extrapolate(task) else None
            left = f", about {seconds:.0f} s left" if seconds else ""
            line = f"{task.description}: {task.completed:,} of {task.total:,}{left}"
            if line != last:
                click.echo(line, err=True)
            wait, last = EVERY, line

    writer = Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


def table_console(width: int) -> Console:
    """Return a console of standard output, of this width without a terminal."""
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
        raise click.UsageError(
            f"out of memory: {error or 'the input is too large'}. Reduce the input or the numbers."
        ) from error
    except tuple(errors) as error:
        if isinstance(error, OSError) and error.filename and error.strerror:
            raise click.UsageError(f"{error.filename}: {error.strerror}. Correct the path.") from error
        raise click.UsageError(" ".join(str(error).split())) from error


def peak_memory() -> str:
    """Return a line with the largest memory that the process has used, models included; "" on Windows, which does not report it."""
    try:
        import resource
    except ImportError:
        return ""
    unit = 1 if sys.platform == "darwin" else 1024
    return f"peak memory: {unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9:.2f} GB"
