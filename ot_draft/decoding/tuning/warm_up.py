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

# Steps of each drafting, the first of which takes memory and is not counted: numbers of paths, their lengths and how many. They have 2, 5
# and 17 positions of the target: those that pay on a CPU first, in case the time is up. The step back to 2 tells what a change costs.
AUTOREGRESSIVE_STEPS = 3
CHAINS = ((1, 1, 3), (2, 2, 2), (1, 1, 1), (8, 2, 2))
PROMPT = 16  # tokens


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


def measure(pair: Any, batch: int, costs: StepCosts, chains: int, seconds: float) -> None:
    """Let costs learn from steps of a batch of this size: of a few autoregressive ones, and of so many of CHAINS until so many seconds
    are over.

    The first step is not in these seconds: it pays what would be paid in any case, once. Nothing is measured where the models'
    contexts are too small for it. The random numbers are its own, and no text is kept.
    """
    from ..loop import DecodeOptions, decode_steps  # which asks the policy, and so would be imported before itself

    joint, block = Joint(), BlockVerification()
    draftings = [Drafting.autoregressive()] * AUTOREGRESSIVE_STEPS
    for K, L, times in CHAINS[:chains]:
        draftings += [Drafting.chains(K, L, joint if K > 1 else block)] * times
    most = sum(drafting.tree.bounds.length + 1 for drafting in draftings)
    options = DecodeOptions(max_tokens=most, stop=(), graphs=False)
    try:
        steps = decode_steps(pair, [[0] * PROMPT] * batch, WarmUp(draftings, costs), options)
        next(steps)
        began = perf_counter()
        for number, _ in enumerate(steps, 2):
            if number == len(draftings) or (number >= AUTOREGRESSIVE_STEPS and perf_counter() - began > seconds):
                return
    except CannotDecode:
        return
