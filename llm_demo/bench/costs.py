"""Costs of the parts of a step, measured by themselves before the bench, and what the wall-clock model makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median

import ot_draft as ot
from llm_demo.bench.methods import Contender
from ot_draft.decoding import Drafting, Options, Pair, Seconds, decode_steps

WARM_UP, TIMED = 2, 7  # steps
OFF = 0.15  # of the predicted speed-up: what differs by more is explained
NOISE = 0.05  # of a step: a cost that changed by less explains nothing
PARTS = ("draft", "verify", "select")


@dataclass(frozen=True)
class Parts:
    """Milliseconds of a step. select: with what keeping the caches takes; rest: of the loop, outside of all parts."""

    draft: float
    verify: float
    select: float
    rest: float = 0.0

    @classmethod
    def of(cls, seconds: Sequence[Seconds], whole: Sequence[float] = ()) -> Parts:
        """Medians over steps, each part by itself."""
        draft, verify, select = (
            1000 * median(values)
            for values in (
                [s.draft for s in seconds],
                [s.verify for s in seconds],
                [s.select + s.cache for s in seconds],
            )
        )
        rest = 1000 * median(whole) - draft - verify - select if whole else 0.0
        return cls(draft, verify, select, rest)

    @property
    def total(self) -> float:
        return self.draft + self.verify + self.select + self.rest


def short_run(pair: Pair, prompts: Sequence[Sequence[int]], drafting: Drafting, options: Options) -> Parts:
    """Parts of a few steps on the prompts, after a few that do not count."""
    steps = decode_steps(pair, prompts, drafting, replace(options, stop=(), rows=None, max_tokens=options.max_tokens))
    kept = [step.seconds for step in islice(steps, WARM_UP + TIMED)]
    return Parts.of(kept[min(WARM_UP, len(kept) - 1) :])


def measure(
    pair: Pair, prompts: Sequence[Sequence[int]], ours: Sequence[Contender], options: Options
) -> dict[str, Parts]:
    """Parts by name of contender, (K, L) included; the baseline among them."""
    found = {}
    for each in ours:
        assert each.method is not None
        found[key(each)] = short_run(pair, prompts, each.method.drafting, options)
    return found


def key(each: Contender) -> str:
    """Name of a line, with its law and size."""
    return f"{each.name} {each.law} {each.K}x{each.L}"


def costs_of(parts: dict[str, Parts], ours: Sequence[Contender]) -> dict[str, ot.paths.Costs]:
    """Costs for the wall-clock model by key: target and draft calls pooled over all rules of one tree, selection its own."""
    plain = parts[key(next(each for each in ours if each.K == 0))].total
    found = {}
    for each in (each for each in ours if each.K):
        alike = [other for other in ours if (other.K, other.L) == (each.K, each.L)]
        drafts = [parts[key(other)].draft for other in alike if other.law == each.law]  # laws take time to draw by
        verify = median(parts[key(other)].verify for other in alike)
        found[key(each)] = ot.paths.Costs(
            verify={1: plain, each.K * each.L + 1: verify},
            draft={each.K: median(drafts) / each.L},
            select={"": parts[key(each)].select},
        )
    return found


def predicted(each: Contender, block_efficiency: float, error: float, costs: ot.paths.Costs) -> float:
    """The wall-clock model's speed-up for this block efficiency."""
    efficiency = ot.paths.Efficiency(each.name, each.K, each.L, block_efficiency, error)
    return ot.paths.plan([efficiency], costs)[0].speed_up


def reason(measured: float, expected: float, before: Parts, now: Parts, plain_before: float, plain_now: float) -> str:
    """Which cost changed most since the costs were measured, where the prediction is off by over OFF; else nothing."""
    if abs(measured / expected - 1) <= OFF:
        return ""
    changes = {name: getattr(now, name) - getattr(before, name) for name in (*PARTS, "rest")}
    # A plain step that became dearer raises the speed-up like a step that became cheaper.
    changes["plain step"] = -(plain_now - plain_before) * before.total / plain_before
    name = (max if measured < expected else min)(changes, key=lambda part: changes[part])
    if abs(changes[name]) < NOISE * before.total:
        return "no cost by so much: noise of the runs"
    if name == "plain step":
        return f"plain step {plain_before:.1f} -> {plain_now:.1f} ms"
    return f"{name} {getattr(before, name):.1f} -> {getattr(now, name):.1f} ms"
