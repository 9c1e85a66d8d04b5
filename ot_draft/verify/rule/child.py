"""A search in a child process: a rule that does not return is stopped, and leaves nothing behind."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any, NamedTuple

from ..outcome import Outcome, RuleEvidence, Status
from .rule_property import RuleProperty
from .search import Search, SearchLimits
from .time_limit import WALL_PER_CPU, TimeLimit


class ChildMessage(NamedTuple):
    """Message of a child: an outcome, or an error of the search. stopped: how the child ended without either."""

    outcome: Outcome[RuleEvidence] | None = None
    error: BaseException | None = None
    stopped: str = ""


def silent_seconds(limits: SearchLimits) -> float:
    """Wall-clock seconds without a message after which the parent ends a child: its rule then blocks all other threads."""
    return WALL_PER_CPU * limits.first_problem_seconds


def can_fork() -> bool:
    """Whether this process can fork a child, which also has classes that exist only here. Elsewhere forks are unsafe."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return (
        sys.platform == "linux"
        and not multiprocessing.current_process().daemon
        and not (cuda and cuda.is_initialized())
    )


class Child(AbstractContextManager["Child"]):
    """Outcomes of properties of one rule, from a child process. It is forked for the first property, and again after it was stopped.

    If this process cannot fork, the search runs in it, without a time limit.
    """

    def __init__(self, search: Search, properties: Sequence[RuleProperty]) -> None:
        self._search, self._properties, self._can_fork = search, properties, can_fork()
        self._process: Any = None
        self._connection: Connection

    def outcome(self, claim: RuleProperty) -> Outcome[RuleEvidence]:
        """The outcome of one of the properties. Raises the errors of the search. Those of the rule are outcomes, except Ctrl-C."""
        if not self._can_fork:
            return self._search.outcome(claim)
        if self._process is None:
            self._begin()
        try:
            self._connection.send(self._properties.index(claim))
            longest = silent_seconds(self._search.limits)
            stuck = ChildMessage(stopped=f"gave no answer, and let nothing else run, for {longest:.0f} s")
            while (answer := self._connection.recv() if self._connection.poll(longest) else stuck) is None:
                pass  # the child is alive
        except (EOFError, ConnectionError):
            answer = ChildMessage(stopped="ended the process that it ran in")
        if answer.outcome is not None:
            if answer.outcome.evidence.interrupted:
                self.close()
            return answer.outcome
        self.close()
        if answer.error is not None:
            raise answer.error
        return claim.outcome(Status.FAILED, decides=False, reason=answer.stopped, crash=answer.stopped)

    def _begin(self) -> None:
        fork = multiprocessing.get_context("fork")
        self._connection, other = fork.Pipe()
        self._process = fork.Process(target=self._serve, args=(other,))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking where there are threads: see _serve
            self._process.start()
        other.close()

    def _serve(self, connection: Connection) -> None:
        """Answer requests in the child until the parent closes the connection."""
        self._connection.close()
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # its threads were not forked with it
        sending, search = Lock(), self._search

        def send(answer: ChildMessage | None) -> None:
            with sending, suppress(ConnectionError):  # the parent closed it
                connection.send(answer)

        search.limit = TimeLimit(lambda: send(None), lambda: send(ChildMessage(search.interrupted())))
        while True:
            try:
                claim = self._properties[connection.recv()]
            except (EOFError, ConnectionError):
                return
            try:
                answer = ChildMessage(search.outcome(claim))
            except BaseException as error:  # Ctrl-C, or a bug of ot_draft
                error.add_note("in the child process:\n" + traceback.format_exc())
                answer = ChildMessage(error=_carried(error))
            send(answer)

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            self._connection.close()
            self._process.join(1.0)
            self._process.kill()
            self._process.join()
            self._process = None

    def __exit__(self, *raised: object) -> None:
        self.close()


def _carried(error: BaseException) -> BaseException:
    """The error, or a RuntimeError with its message if it cannot be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:  # unpickling an error of a foreign class may raise anything
        return RuntimeError("\n".join([f"{type(error).__name__}: {error}", *error.__notes__]))
