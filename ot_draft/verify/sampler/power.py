"""Power as an interface: how many samples find a bias of this size, and what bias a finished run would have found.

Both errors are bounded: a right sampler is rejected, and a biased one kept, with probability 1e-6 at most. A bias is a total variation
distance. Of a run of `otd.check_sampler` and its like it is the distance of the tested law from the right one, in the direction that is
hardest to see, on one problem. Of an audit it is the error of the probability of an event of probability 1/2, in every token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ...errors import InvalidArgument
from ...laws import IID
from ...problem import Problem
from ..corners import LabelledProblem
from ..e_values import MISS, missed
from .black_box import BlackBox
from .samplers import DraftSampler, PathStepSampler, StepSampler, TokenSampler
from .trial import Trial

MAX_SAMPLES = 1 << 40  # samples: more are not asked for
BOXES: dict[str, Callable[[bool], BlackBox]] = {
    "check_sampler": lambda batched: TokenSampler(print, batched, None),
    "check_draws": lambda batched: DraftSampler(print, batched),
    "check_step": lambda batched: StepSampler(print, batched, None),
    "check_step, path": lambda batched: PathStepSampler(print, batched, None),
}  # the function is never called
AUDIT = "audit"


class Run(Protocol):
    """A finished run: a `SamplerReport`, an audit's `Verdict` or a report of `conform`."""

    @property
    def bias_seen(self) -> dict[str, float]:
        """Of each thing that was looked at, the bias that would have been found but with probability 1e-6."""


def bias_seen(run: Run) -> dict[str, float]:
    """What a finished run would have found but with probability 1e-6: a total variation distance by what was looked at.

    run: what `otd.check_sampler`, `otd.check_draws` or `otd.check_step` returned, `otd.Audit().verdict()`, or a report of
    `ot_draft.verify.engine.suite.conform`. 1.0 where nothing was sure to be found. The run's own false alarms have the
    probability that it was given.
    """
    return run.bias_seen


def samples_for(
    bias: float, n: int = 2, k: int = 1, check: str = "check_sampler", *, problems: int = 1, batched: bool = False, level: float = 1e-6
) -> int:  # fmt: skip
    """Samples after which `check` has found a law of n tokens that is `bias` off, but with probability 1e-6.

    bias: total variation distance, above 0 and below 1. check: "check_sampler", "check_draws" or "check_step" on so many problems with k
    drafts, i.i.d., or "check_step, path": calls a problem, for `samples=`, with `seconds=None` and `false_alarm=level`. "audit": tokens,
    at that level, whatever n and k are. InvalidArgument where no number is enough, or an argument makes no sense.

    More than 64 tokens are counted in 64 classes: neighbours in p / q, ids modulo 64, random classes. Only a bias between such classes
    counts.
    """
    if not 0 < bias < 1 or not 0 < level < 1 or min(n, problems) < 1 or k < 0:
        raise InvalidArgument(
            f"bias={bias}, n={n}, k={k}, problems={problems}, level={level}: give 0 < bias < 1, 0 < level < 1, counts"
        )
    if check == AUDIT:
        from ..server.audit import TOLERANCE
        from ..server.wealth import Wealth

        wealth = Wealth(TOLERANCE)
        return _least(lambda tokens: float(wealth.missed(min(bias, 0.5), tokens, 0, level)), 1)
    if check not in BOXES:
        raise InvalidArgument(f"check is {check!r}: choose among {', '.join([*BOXES, AUDIT])}")
    flat = np.full(n, 1 / n)
    cases = [LabelledProblem(str(i), Problem(flat, flat, k, IID())) for i in range(problems)]
    trial = Trial(BOXES[check](batched), [cases], MAX_SAMPLES, level, 0)
    views = [(view.share, int((view.laws[0] > 0).sum(-1).max()), len(view.laws[0])) for view in trial.main[0].views]

    def worst(samples: int) -> float:
        return max(missed(bias, int(share * samples), cells, 1 / trial.limit, each) for share, cells, each in views)

    return _least(worst, trial.turns)


def _least(miss: Callable[[int], float], step: int) -> int:
    """The least multiple of step from which on a bias is missed with probability MISS at most."""
    most = 1
    while miss(most * step) > MISS:
        most *= 2
        if most * step > MAX_SAMPLES:
            raise InvalidArgument(f"no number of samples up to {MAX_SAMPLES:,} is enough: give a larger bias")
    least = most // 2  # not enough, or 0
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if miss(middle * step) <= MISS else (middle, most)
    return most * step
