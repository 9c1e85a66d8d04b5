"""Time of one call: the median of a few, and of one only where a call takes long."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

REPEATS = 5


def seconds_of(call: Callable[[], object], limit: float, warm: bool = True) -> float:
    """Median of the repeats after a first call, which may import or compile; fewer once half the limit is spent.

    warm: False takes a first call that lasts longer than the limit for the answer.
    """
    first = _timed(call)
    times = [first] if first > limit and not warm else []
    while not times or (len(times) < REPEATS and sum(times) <= limit / 2):
        times.append(_timed(call))
    return median(times)


def _timed(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start
