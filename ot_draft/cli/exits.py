"""Exit statuses of commands after invalid input, an internal error, an interrupt or a closed pipe. None of them is a verdict."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import Any, NoReturn

import click

from ..errors import MissingPackage
from ..version import __version__


class ExitStatus(IntEnum):
    """Exit statuses that are not verdicts: EX_SOFTWARE of sysexits.h; 128 and the numbers of SIGINT and SIGPIPE."""

    INTERNAL = 70
    INTERRUPTED = 130
    PIPE_CLOSED = 141


class Ended(SystemExit):
    """Imported code called `os._exit`, whose status would be read as that of the command."""


@contextmanager
def no_way_out() -> Iterator[None]:
    """A context in which `os._exit` raises Ended in this process, so that imported code cannot set the exit status of a command.

    Child processes, such as one that runs a rule, keep `os._exit`.
    """
    ours, real = os.getpid(), os._exit

    def end(status: int) -> NoReturn:
        if os.getpid() != ours:
            real(status)
        raise Ended(f"os._exit({status!r})")

    os._exit = end
    try:
        yield
    finally:
        os._exit = real


class Command(click.Command):
    """A command that ends by `no_verdict` when it is run as a program, not through `ot-draft`."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        with no_verdict():
            return super().invoke(context)


@contextmanager
def no_verdict() -> Iterator[None]:
    """A context in which errors end the command with a status that is not a verdict: 1 and 2 are verdicts of some commands.

    A missing package of an extra: one line with the command that installs it, and status 2. An unexpected exception is an internal error:
    its traceback, a line that says so, and status 70. Ctrl-C: 130. A closed standard output (`| head`): 141, as in other tools.
    `os._exit` ends in status 70, too.
    """
    try:
        try:
            with no_way_out():
                yield
        finally:
            sys.stdout.flush()  # a closed pipe raises here at the latest
    except (click.exceptions.Exit, click.ClickException, click.Abort) as error:
        if type(error) is click.UsageError:
            error.ctx = None  # its message names the argument and a remedy: one line, without the usage of the command
        raise
    except MissingPackage as error:
        raise click.UsageError(str(error)) from error
    except KeyboardInterrupt as error:
        click.echo("interrupted", err=True)
        raise click.exceptions.Exit(ExitStatus.INTERRUPTED) from error
    except Ended as error:
        click.echo(f"error: imported code ended the process by {error}, without a result", err=True)
        raise click.exceptions.Exit(ExitStatus.INTERNAL) from error
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # as rich ends then
            _leave_pipe()
            raise click.exceptions.Exit(ExitStatus.PIPE_CLOSED) from error
        raise
    except BrokenPipeError as error:
        _leave_pipe()
        raise click.exceptions.Exit(ExitStatus.PIPE_CLOSED) from error
    except Exception as error:
        extras = {"sympy": "proofs", "z3": "proofs"}  # of packages that are imported without `optional.load`
        if isinstance(error, ModuleNotFoundError) and error.name in extras:
            raise click.UsageError(str(MissingPackage(error.name, extras[error.name]))) from error
        click.echo(traceback.format_exc().encode(errors="backslashreplace").decode(), err=True)
        said = f"this is a bug in ot_draft {__version__}, and the command has no result"
        click.echo(f"internal error: {said}. Please report it with the command and the lines above.", err=True)
        raise click.exceptions.Exit(ExitStatus.INTERNAL) from error


def _leave_pipe() -> None:
    """Redirect standard output, so that nothing more is written to the closed pipe, also when Python exits."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
