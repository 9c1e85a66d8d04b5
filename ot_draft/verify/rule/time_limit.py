"""A time limit for work that may not return: a thread ends the process, which is a child process for this work."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time

WALL_PER_CPU = 10  # max. ratio of wall-clock to CPU time: a rule may sleep, and the machine may have other work


class NoLimit:
    """No time limit."""

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Run the body without a limit."""
        yield


class TimeLimit(NoLimit):
    """Ends this process if a body takes too long.

    alive: called every `interval_seconds`; last: before the end. Both are called in another thread.
    """

    _never = (float("inf"), float("inf"))

    def __init__(self, alive: Callable[[], None], last: Callable[[], None], interval_seconds: float = 0.05) -> None:
        self._alive, self._last, self._interval = alive, last, interval_seconds
        self._lock, self._until = threading.Lock(), self._never
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Limit the body to `seconds` of CPU time, and WALL_PER_CPU times as many of wall-clock time."""
        with self._lock:
            self._until = process_time() + seconds, perf_counter() + WALL_PER_CPU * seconds
        try:
            yield
        finally:
            with self._lock:
                self._until = self._never

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(self._interval):
            self._alive()
            with self._lock:  # held to the end: a result of the body meanwhile comes too late
                if process_time() > self._until[0] or perf_counter() > self._until[1]:
                    try:
                        self._last()
                    finally:
                        os._exit(0)
