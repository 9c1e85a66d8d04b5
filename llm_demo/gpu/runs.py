"""Two runs on one GPU: phases with time limits and abort rules, and results that are written immediately.

A phase yields rows, and raises `Abort` if continuing is not useful. A required phase that does not finish ends the run. Unused time is
available to later phases. `phases.csv` records how every phase ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from llm_demo.rows import append

DONE, ABORTED, OUT_OF_TIME, SKIPPED = "done", "aborted", "out of time", "not started"


class Abort(Exception):
    """Raised by a phase that should not continue; the message is the reason."""


@dataclass(frozen=True)
class Phase:
    """A part of a run. seconds: time limit, to which unused time of earlier phases is added. required: the run ends if it fails."""

    part: str
    seconds: float
    required: bool = False


RUNS = {
    1: (Phase("check", 75), Phase("kernels", 20), Phase("large", 75)),
    2: (Phase("model", 15, required=True), Phase("train", 465), Phase("bench", 80)),
}
TOTAL = {1: 170.0, 2: 560.0}  # seconds

# Runs a part with a limit in seconds, and returns how it ended, one of the constants above, and why.
Launch = Callable[[str, float], tuple[str, str]]


def in_turn(
    phases: tuple[Phase, ...], total: float, out: Path, launch: Launch, now: Callable[[], float] = time.monotonic
) -> list[str]:
    """Run the phases one after another within `total` seconds; return the names of those that did not finish.

    A phase may use the remaining time, except for the limits of the phases after it.
    """
    begin, failed, ended = now(), [], False
    for number, phase in enumerate(phases):
        left = total - (now() - begin)
        seconds = max(left - sum(after.seconds for after in phases[number + 1 :]), min(phase.seconds, left))
        started = now()
        how, why = (
            launch(phase.part, seconds)
            if seconds > 0 and not ended
            else (SKIPPED, "a phase before it failed" if ended else "")
        )
        row = {
            "phase": phase.part,
            "limit": f"{seconds:.0f}",
            "seconds": f"{now() - started:.1f}",
            "ended": how,
            "why": why,
        }
        append(row, out / "phases.csv")
        if how != DONE:
            failed.append(phase.part)
            ended = ended or phase.required
    return failed
