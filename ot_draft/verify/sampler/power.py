"""Statistical power: the number of samples that detect a given bias, and the bias that a finished run would have detected.

Both errors are bounded: a correct sampler is rejected, and a biased one is accepted, with probability at most 1e-6. A bias is a total
variation distance. For `otd.check_sampler` and similar checks it is the distance between the tested and the correct distribution, in the
direction that is hardest to detect, on one problem. For an audit it is the error of the probability of an event of probability 1/2, at
every token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import InvalidArgument
from ...laws import IID
from ...problem import Problem
from ..corners import LabelledProblem
from ..e_values import MISS, missed
from ..report import Report
from .black_box import BlackBox
from .samplers import DraftSampler, PathStepSampler, StepSampler, TokenSampler
from .trial import Trial


def detectable_bias(run: Report[Any]) -> dict[str, float]:
    """Return the bias that a finished run would have missed with probability 1e-6 at most.

    Parameters
    ----------
    run : Report
        Report of `check_sampler`, `check_draws`, `check_step` or `ot_draft.verify.engine.suite.conform`, or `Audit().report()`.

    Returns
    -------
    bias : dict of str to float
        Total variation distance by name of the check; 1.0 if no bias is detected with that probability.

    Examples
    --------
    >>> import ot_draft as otd
    >>> sampler = lambda p, q, drafts, generator: int(generator.choice(len(p), p=p))
    >>> report = otd.check_sampler(sampler, [otd.Problem([0.5, 0.5], [0.5, 0.5])], samples=1000)
    >>> detectable_bias(report)["output_distribution"] < 0.2
    True
    """
    return run.detectable_bias


def required_samples(
    bias: float, n: int = 2, k: int = 1, check: str = "check_sampler", *, problems: int = 1, batched: bool = False, level: float = 1e-6
) -> int:  # fmt: skip
    """Return the number of samples after which a check has found a bias, except with probability 1e-6.

    More than 64 tokens are counted in 64 classes: neighbours in p / q, ids modulo 64, random classes. Only a bias between such
    classes counts.

    Parameters
    ----------
    bias : float
        Total variation distance of the distribution, above 0 and below 1.
    n, k : int
        Number of tokens, and of i.i.d. draft tokens.
    check : str, default="check_sampler"
        "check_sampler", "check_draws", "check_step" or "check_step, path": the samples are calls per problem, for `samples=` with
        `seconds=None` and `false_alarm=level`. "audit": the samples are tokens, whatever n and k are.
    problems : int, default=1
        Number of problems of the check.
    batched : bool, default=False
        Whether the checked function is called with batches.
    level : float, default=1e-6
        Probability that a correct sampler is rejected.

    Returns
    -------
    samples : int

    Raises
    ------
    InvalidArgument
        If no number of samples is enough, or an argument is out of range.

    Examples
    --------
    >>> required_samples(0.1, 16)
    4000
    """
    if not 0 < bias < 1 or not 0 < level < 1 or min(n, problems) < 1 or k < 0:
        raise InvalidArgument(
            f"bias and level must be above 0 and below 1, n and problems at least 1, and k at least 0, got bias={bias}, n={n}, k={k},"
            f" problems={problems}, level={level}. Correct these arguments."
        )
    if check == "audit":
        from ..server.audit import Audit
        from ..server.wealth import Wealth

        wealth = Wealth(Audit().tolerance)
        return _least(lambda tokens: float(wealth.missed(min(bias, 0.5), tokens, 0, level)), 1)
    # The function is never called.
    boxes: dict[str, Callable[[], BlackBox]] = {
        "check_sampler": lambda: TokenSampler(print, batched, None),
        "check_draws": lambda: DraftSampler(print, batched),
        "check_step": lambda: StepSampler(print, batched, None),
        "check_step, path": lambda: PathStepSampler(print, batched, None),
    }
    if check not in boxes:
        raise InvalidArgument(f"check must be one of {', '.join([*boxes, 'audit'])}, got {check!r}. Use one of them.")
    flat = np.full(n, 1 / n)
    cases = [LabelledProblem(str(i), Problem(flat, flat, k, IID())) for i in range(problems)]
    trial = Trial(boxes[check](), [cases], 1 << 40, level, 0)
    views = [(view.share, int((view.laws[0] > 0).sum(-1).max()), len(view.laws[0])) for view in trial.main[0].views]

    def worst(samples: int) -> float:
        return max(missed(bias, int(share * samples), cells, 1 / trial.limit, each) for share, cells, each in views)

    return _least(worst, trial.turns)


def _least(miss: Callable[[int], float], step: int, max_samples: int = 1 << 40) -> int:
    """The least multiple of step from which on a bias is missed with probability MISS at most."""
    most = 1
    while miss(most * step) > MISS:
        most *= 2
        if most * step > max_samples:
            raise InvalidArgument(f"no number of samples up to {max_samples:,} is enough. Pass a larger bias.")
    least = most // 2  # not enough, or 0
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if miss(middle * step) <= MISS else (middle, most)
    return most * step
