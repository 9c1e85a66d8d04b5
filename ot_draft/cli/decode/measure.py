"""Methods side by side: interleaved runs on the same prompts, and the wall-clock model's prediction from costs measured before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from statistics import median
from typing import Any

import numpy as np

from ot_draft.cli.decode.methods import Method
from ot_draft.compare import clustered_error
from ot_draft.decoding import Options, Pair, Seconds, Step, decode_steps

WARM_UP, TIMED = 1, 4  # steps of the runs from which costs are taken: the first ones are left out
PARTS = ("draft", "verify", "select", "cache")
OFF = 0.15  # a prediction further off than this is explained
Watch = Callable[[Method, int, Step], None]


@dataclass
class Measured:
    """All steps of one method. accepted, seconds: of every step; prompt: whose step it was; wall: its time, see `timed_steps`."""

    method: Method
    accepted: list[int] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)
    seconds: list[Seconds] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def block_efficiency(self) -> float:
        """Tokens chosen a target call; what a stop or the end cuts off counts as chosen."""
        return 1 + float(np.mean(self.accepted))

    @property
    def error(self) -> float:
        """Its standard error: whole texts are the independent draws, single steps where there is one text."""
        texts = self.prompt if len(set(self.prompt)) > 1 else range(len(self.prompt))
        return 0.0 if not any(self.accepted) else clustered_error(self.accepted, list(texts))

    @property
    def by_position(self) -> list[float]:
        """Share of the steps that accept a token at depth i + 1 among those that accept one at depth i; NaN where none."""
        length, lengths = self.method.drafting.shape.length, np.array(self.accepted)
        reached = [int((lengths >= depth).sum()) for depth in range(length + 1)]
        return [b / a if a else float("nan") for a, b in pairwise(reached)]

    @property
    def step(self) -> float:
        """Seconds a step, all in all."""
        return float(np.mean(self.wall))

    def part(self, name: str) -> float:
        """Seconds a step of one part."""
        return float(np.mean([getattr(seconds, name) for seconds in self.seconds]))

    @property
    def tokens_a_second(self) -> float:
        return self.rate()

    def rate(self, without: int | None = None) -> float:
        """Tokens a second; without one of the prompts, for the jackknife."""
        kept = [i for i, prompt in enumerate(self.prompt) if prompt != without]
        return sum(self.accepted[i] + 1 for i in kept) / sum(self.wall[i] for i in kept)


@dataclass(frozen=True)
class MethodCosts:
    """Seconds of the parts of one step, measured before the runs: medians over all methods with the same tree and law."""

    verify: float
    draft: float
    select: float

    @property
    def step(self) -> float:
        """c_verify(N + 1) + the L draft calls + c_select: the wall-clock model."""
        return self.verify + self.draft + self.select


@dataclass(frozen=True)
class Comparison:
    """What was measured, the plain method first, and the costs by method."""

    rows: list[Measured]
    costs: dict[Method, MethodCosts]

    def speed_up(self, row: Measured) -> tuple[float, float]:
        """Tokens a second over the plain method's, and the jackknife's standard error over prompts (NaN for one)."""
        plain = self.rows[0]
        prompts = sorted(set(row.prompt))
        ratios = np.array([row.rate(prompt) / plain.rate(prompt) for prompt in prompts]) if len(prompts) > 1 else None
        ratio = row.rate() / plain.rate()
        if ratios is None:
            return ratio, float("nan")
        return ratio, float(np.sqrt((len(prompts) - 1) * np.mean((ratios - ratios.mean()) ** 2)))

    def predicted(self, row: Measured) -> float:
        """Block efficiency times the cost of a plain step over that of this method's, by the costs measured before."""
        return row.block_efficiency * self.costs[self.rows[0].method].verify / self.costs[row.method].step

    def reason(self, row: Measured) -> str:
        """Which cost changed most between the costs' measurement and the run, where the prediction is off; else nothing."""
        plain, expected = self.rows[0], self.costs[row.method]
        off = self.speed_up(row)[0] / self.predicted(row) - 1
        if abs(off) <= OFF or row is plain:
            return ""
        before, now = {name: getattr(expected, name) for name in ("verify", "draft", "select")}, {}
        now = {name: row.part(name) for name in before}
        before["cache and loop"], now["cache and loop"] = 0.0, row.step - sum(now.values())
        changes = {name: (now[name] - before[name]) / expected.step for name in before}
        before["plain step"], now["plain step"] = self.costs[plain.method].verify, plain.step
        changes["plain step"] = 1 - plain.step / before["plain step"]
        name = (max if off < 0 else min)(changes, key=lambda part: changes[part])
        return f"{name} {1000 * before[name]:.1f} → {1000 * now[name]:.1f} ms"


def compare_methods(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    methods: Sequence[Method],
    options: Options,
    watch: Watch = lambda method, prompt, step: None,
    progress: Callable[[str], None] = lambda done: None,
) -> Comparison:
    """Every method continues every prompt; they take turns prompt by prompt, in turning order, after a short run of each.

    methods: the plain one first. watch: sees every step, outside the time that is measured.
    """
    costs = _costs(pair, prompts[0], methods, options, progress)
    rows = [Measured(method) for method in methods]
    for number, prompt in enumerate(prompts):
        for turn in range(len(rows)):
            row = rows[(turn + number) % len(rows)]  # so that no method always comes after the same other one
            for step, wall in timed_steps(pair, prompt, row.method, replace(options, rows=[number])):
                row.accepted.append(int(step.length[0]))
                row.prompt.append(number)
                row.seconds.append(step.seconds)
                row.wall.append(wall)
                watch(row.method, number, step)
            progress(f"{row.method.label}, prompt {number + 1}")
    return Comparison(rows, costs)


def timed_steps(pair: Pair, prompt: Sequence[int], method: Method, options: Options) -> Iterator[tuple[Step, float]]:
    """Steps on one text, each with the time until it was there; its parts only where it waited for more.

    That is the first step, before which is the prefill, and all steps whose laws are copied for a trace.
    """
    steps = decode_steps(pair, [prompt], method.drafting, options)
    begin, first = time.perf_counter(), True
    for step in steps:
        wall = time.perf_counter() - begin
        yield step, step.seconds.total if first or options.laws else wall
        begin, first = time.perf_counter(), False


def _costs(
    pair: Pair, prompt: Sequence[int], methods: Sequence[Method], options: Options, progress: Callable[[str], None]
) -> dict[Method, MethodCosts]:
    """Short runs, which also warm up; costs that methods have in common are pooled."""
    pools: dict[Any, list[float]] = {}
    plain = replace(options, laws=False, details=False, stop=(), rows=None)
    for method in (*methods, *methods):  # two rounds: what else the machine does changes slowly
        # Plain steps are the measure of all, and there is one such method only: more of them.
        count = WARM_UP + TIMED * (1 if method.drafting.shape.size else 3)
        steps = list(islice(decode_steps(pair, [prompt], method.drafting, plain), count))
        for step in steps[WARM_UP:] or steps[-1:]:
            for key in _keys(method):
                pools.setdefault(key, []).append(getattr(step.seconds, key[0]))
        progress(f"warm-up: {method.label}")
    return {method: MethodCosts(*(median(pools[key]) for key in _keys(method))) for method in methods}


def _keys(method: Method) -> tuple[tuple[Any, ...], ...]:
    """On what the costs of verify, draft and select depend."""
    drafting = method.drafting
    return ("verify", drafting.shape.size), ("draft", drafting.shape, drafting.law), ("select", method)
