"""A time limit for work that may not return: a thread that watches, and ends the process, which is a child made for the work."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time

CLOCK = 10  # times as many seconds of the clock as of the CPU: a rule may sleep, and the machine may have other work
LOOKS = 0.05  # seconds between two looks
NEVER = (float("inf"), float("inf"))


class NoLimit:
    """Lets work take its time."""

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """The body, however long it takes."""
        yield


class TimeLimit(NoLimit):
    """Ends this process where a body takes too long. alive: called at every look; last: before the end. Both in another thread."""

    def __init__(self, alive: Callable[[], None], last: Callable[[], None]) -> None:
        self._alive, self._last = alive, last
        self._lock, self._until = threading.Lock(), NEVER
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """The body, for so many seconds of the CPU, and CLOCK times as many of the clock."""
        with self._lock:
            self._until = process_time() + seconds, perf_counter() + CLOCK * seconds
        try:
            yield
        finally:
            with self._lock:
                self._until = NEVER

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOKS):
            self._alive()
            with self._lock:  # held to the end: what the body gives meanwhile comes too late
                if process_time() > self._until[0] or perf_counter() > self._until[1]:
                    try:
                        self._last()
                    finally:
                        os._exit(0)
