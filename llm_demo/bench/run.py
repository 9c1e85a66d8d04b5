"""The interleaved runs of the bench: all contenders take turns, group of prompts by group of prompts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from llm_demo.bench.costs import Parts
from llm_demo.bench.methods import PEER_ASSISTED, Contender
from llm_demo.bench.peers import assistant, generate
from llm_demo.prompts import Prompt
from ot_draft.compare import clustered_error
from ot_draft.decoding import Options, Pair, Seconds, decode_steps


@dataclass
class Runs:
    """What one contender did. chosen, text: a number for every target call of every text that was going on: tokens chosen
    by it, and whose text it was. steps: milliseconds of a step, the median of each group. seconds: parts of steps, our engine's only.
    """

    contender: Contender
    chosen: list[float] = field(default_factory=list)
    text: list[int] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    seconds: list[Seconds] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)

    @property
    def block_efficiency(self) -> float:
        """Tokens chosen a target call; our engine counts those that a stop or the end cuts off."""
        return float(np.mean(self.chosen))

    @property
    def error(self) -> float:
        """Its standard error; whole texts are the independent draws."""
        return clustered_error(self.chosen, self.text)

    @property
    def parts(self) -> Parts | None:
        """Medians over all steps but the first of each group; None for a peer, of which only whole steps are known."""
        return Parts.of(self.seconds, self.whole) if self.seconds else None

    def speed_up(self, baseline: Runs) -> tuple[float, float]:
        """Tokens a second over the baseline's, and its standard error.

        Block efficiency times the median, over groups, of the ratio of the two times of a step that were measured one after
        the other: what slows the machine down for a while slows both. The error is that of the two factors together.
        """
        ratios = np.array(baseline.steps) / np.array(self.steps)
        ratio = float(np.median(ratios))
        spread = 1.253 * ratios.std(ddof=1) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")  # of a median
        gain = self.block_efficiency * ratio
        error = self.error if any(value != 1 for value in self.chosen) else 0.0
        return gain, gain * float(np.hypot(error / self.block_efficiency, spread / ratio))


def run_all(
    pair: Pair,
    contenders: Sequence[Contender],
    groups: Sequence[Sequence[Prompt]],
    options: Options,
    progress: Callable[[str], None] = lambda done: None,
) -> list[Runs]:
    """Every contender continues every group of prompts; the order of turns moves on by one from group to group."""
    runs = [Runs(each) for each in contenders]
    helper = assistant(pair.draft)
    for number, group in enumerate(groups):
        for turn in range(len(runs)):
            done = runs[(turn + number) % len(runs)]
            if done.contender.method is None:
                _peer(pair, helper, done, group, number, options)
            else:
                _ours(pair, done, group, number, options)
            progress(f"{done.contender.name}, group {number + 1} of {len(groups)}")
    return runs


def _ours(pair: Pair, done: Runs, group: Sequence[Prompt], number: int, options: Options) -> None:
    assert done.contender.method is not None
    rows = [number * len(group) + row for row in range(len(group))]
    steps = decode_steps(
        pair, [prompt.tokens for prompt in group], done.contender.method.drafting, replace(options, rows=rows)
    )
    begin, times = time.perf_counter(), []
    for step in steps:  # a step is over when its values are on the host
        lasted = time.perf_counter() - begin
        if step.number:  # the first one holds the prefill
            times.append(1000 * lasted)
            done.seconds.append(step.seconds)
            done.whole.append(lasted)
        for row, text in enumerate(rows):
            if bool(step.active[row]):
                done.chosen.append(float(step.length[row]) + 1)
                done.text.append(text)
        begin = time.perf_counter()
    done.steps.append(median(times) if times else float("nan"))


def _peer(pair: Pair, helper: object, done: Runs, group: Sequence[Prompt], number: int, options: Options) -> None:
    """One text at a time: assisted generation takes no batch."""
    temperature, length = options.sampling.temperature, done.contender.L
    assisted = helper if done.contender.name == PEER_ASSISTED else None
    times = []
    for row, prompt in enumerate(group):
        text = number * len(group) + row
        made = generate(pair, assisted, prompt.tokens, length, temperature, options.max_tokens, options.seed + text)
        if made.calls > 1:
            times.append(1000 * made.seconds / (made.calls - 1))
        done.chosen += [len(made.tokens) / made.calls] * made.calls
        done.text += [text] * made.calls
    done.steps.append(median(times) if times else float("nan"))
