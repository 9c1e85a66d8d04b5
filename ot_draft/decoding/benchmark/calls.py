"""Target calls of a method, and how long each took: of this engine, and of others that answer for themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch

from ..loop import DecodeOptions, decode_steps
from ..methods import Method
from ..pair import Pair
from ..step import Seconds, Step

__all__ = ["Call", "Watch", "calls", "nobody"]

Watch = Callable[[Method, int, Step], None]


@dataclass(frozen=True)
class Call:
    """One target call, for one of the texts that it continued: the text's number, and how many tokens were chosen for it.

    wall: seconds until they were there; seconds: of these, those of the parts of the step, None where they are not known.
    """

    text: int
    chosen: float
    wall: float
    seconds: Seconds | None = None


def nobody(method: Method, text: int, step: Step) -> None:
    """Watch no step."""


@singledispatch
def calls(
    method: Method, pair: Pair, prompts: Sequence[Sequence[int]], options: DecodeOptions, watch: Watch = nobody
) -> Iterator[Call]:
    """Continue a group of prompts, whose numbers are `options.rows`; `watch` sees every step outside the time measured.

    The first step, before which is the prefill, and all steps whose laws are copied for a trace, last as long as their parts. A kind of
    method that another engine decodes registers calls of its own.
    """
    texts = range(len(prompts)) if options.rows is None else options.rows
    begin, first = time.perf_counter(), True
    for step in decode_steps(pair, prompts, method.policy, options):
        wall = step.seconds.total if first or options.laws else time.perf_counter() - begin
        for row, text in enumerate(texts):
            if bool(step.active[row]):
                yield Call(text, float(step.length[row]) + 1, wall, step.seconds)
                watch(method, text, step)
        begin, first = time.perf_counter(), False
