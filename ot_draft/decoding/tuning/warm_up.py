"""A few steps of a text that nobody reads, before the first one that is read: what a step costs, and what is paid once."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from ...errors import CannotDecode
from ...trees import BlockVerification, Joint
from ..drafting import Drafting
from ..policy import Policy
from ..prompt_lookup import History
from ..step import Step
from .costs import StepCosts


class WarmUp(Policy):
    """Draftings one after the other; costs learn by all steps but the first of each."""

    uses_clock = True
    candidates: tuple[Drafting, ...] = ()

    def __init__(self, draftings: Sequence[Drafting], costs: StepCosts) -> None:
        self.candidates = tuple(dict.fromkeys(draftings))
        self._costs, self._left, self._seen = costs, list(draftings), set[Drafting]()

    def choose(self, texts: History) -> Drafting:
        return self._left[0]

    def observe(self, step: Step, seconds: float) -> None:
        drafting = self._left.pop(0)
        if drafting in self._seen:
            self._costs.learn(step, seconds)
        else:
            self._costs.pass_over(step)
        self._seen.add(drafting)


def measure(
    pair: Any,
    batch: int,
    costs: StepCosts,
    model: bool,
    seconds: float,
    chains: Sequence[tuple[int, int, int]] = ((1, 1, 3), (2, 2, 2), (1, 1, 1), (8, 2, 2)),
) -> None:
    """Let costs learn from steps of a batch of this size: three autoregressive ones, and of a draft model until `seconds` are over.

    chains: numbers of paths, their lengths and how many steps. The first step of each drafting takes memory and is not counted. They have
    2, 5 and 17 positions of the target: those that pay on a CPU come first. The step back to 2 tells what a change costs.

    The first step of all is not in these seconds: it pays what would be paid in any case, once. Nothing is measured where the models'
    contexts are too small for it. The random numbers are its own, and no sequence is kept.
    """
    from ..loop import DecodeOptions, decode_steps  # which asks the policy, and so would be imported before itself

    rules = (BlockVerification(), Joint())
    draftings = [Drafting.autoregressive()] * 3
    for K, L, times in chains if model else ():
        draftings += [Drafting.chains(K, L, rules[K > 1])] * times
    most = sum(drafting.tree.bounds.length + 1 for drafting in draftings)
    options = DecodeOptions(max_tokens=most, stop=(), graphs=False)
    try:
        steps = decode_steps(pair, [[0] * 16] * batch, WarmUp(draftings, costs), options)
        next(steps)
        began = perf_counter()
        for number, _ in enumerate(steps, 2):
            if number == len(draftings) or (number >= 3 and perf_counter() - began > seconds):
                return
    except CannotDecode:
        return
