"""frontier(p, q, k, law, divergence): the most acceptance at every distance from the target, with certificates."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from .. import arrays as xp
from ..bias import F_DIVERGENCES, logarithm
from ..errors import InvalidArgument
from ..laws import DraftLaw
from ..problem import Problem
from .base import Nearest
from .closed_forms import Ratio, TotalVariation
from .divergence import KL, ChiSquared, ReverseKL, spent_at
from .envelope import Envelope, envelope

TARGETS = {"tv": TotalVariation, "ratio": Ratio, "kl": KL, "reverse-kl": ReverseKL, "chi-squared": ChiSquared}
POINTS = 33  # of a curve where no budgets are given


def target_within(text: str) -> Nearest:
    """The target of the most acceptance within a budget in words: "tv=0.05", "kl=0.02", "ratio=0.3" (r <= e^0.3 p), "tv=1/20".

    Raises InvalidArgument for what is no such budget.
    """
    name, _, value = text.partition("=")
    try:
        return TARGETS[name.strip()](Fraction(value.strip()))
    except (KeyError, ValueError, ZeroDivisionError):
        raise InvalidArgument(
            f"budget {text!r}: give a divergence and a number, as in tv=0.05; divergences: {', '.join(TARGETS)}"
        ) from None


@dataclass(frozen=True)
class Frontier:
    """The curve: no lossy rule within `budget` of the target accepts more than `bound`, and one accepts `acceptance`.

    budget: (m,) of the divergence; a ratio's is its logarithm. acceptance, bound: (..., m), exact on Fractions for tv and ratio. The
    bound is proved by token sets (tv, ratio: one; f-divergences: a chain of them with weights) and holds whatever computed it.
    """

    divergence: str
    budget: np.ndarray
    acceptance: Any
    bound: Any

    @property
    def gap(self) -> Any:
        """(..., m) how far the acceptance could be from the best: bound less acceptance."""
        return self.bound - self.acceptance


def frontier(
    p: Any,
    q: Any,
    k: int = 2,
    law: DraftLaw | None = None,
    divergence: str = "kl",
    budgets: Sequence[Any] | None = None,
) -> Frontier:
    """The most acceptance within each budget of `divergence` from p: "tv", "ratio", "kl" (r from p), "reverse-kl" or "chi-squared".

    p, q: (..., n), validated as in `Problem`. budgets: POINTS of them from 0 to where the acceptance no longer grows, if None. A ratio's
    budget is delta, for r <= e^delta p. Raises InvalidArgument for an unknown divergence, no list of budgets, or a budget below 0.
    """
    if divergence not in TARGETS:
        raise InvalidArgument(f"divergence is {divergence!r}: give one of {', '.join(TARGETS)}")
    if budgets is not None and (np.ndim(budgets) != 1 or not len(budgets)):
        raise InvalidArgument(f"budgets is {budgets!r}: give a list of numbers >= 0")
    problem = Problem(p, q, k, law)
    found = envelope(problem.p, problem.q, problem.k, problem.law)
    grid = np.asarray(_grid(found.light(), divergence) if budgets is None else budgets)
    targets = [TARGETS[divergence](value) for value in grid]
    missing = [target.missing(found) for target in targets]
    laws = (target.within(found, lost) for target, lost in zip(targets, missing, strict=True))
    acceptance = xp.concat([found.accepted(r) for r in laws], axis=-1)  # by the law m of the selected draft
    bound = xp.concat([target.bound(found, lost) for target, lost in zip(targets, missing, strict=True)], axis=-1)
    return Frontier(divergence, grid, acceptance, bound)


def _grid(found: Envelope, divergence: str) -> list[float]:
    """Budgets at which the acceptance rises in equal steps, in the middle row of a batch."""
    most, least = found.missing(1), 0 * found.unreachable
    if divergence == "tv":
        values = [most * step / (POINTS - 1) for step in range(POINTS)]
    else:
        if divergence == "ratio" or F_DIVERGENCES[divergence].steepest == inf:
            least = found.unreachable + 0.0
        rising = [most + (least - most) * step / (POINTS - 1) for step in range(POINTS)]
        if divergence == "ratio":
            values = [logarithm(found.ceiling(missing)) for missing in rising]
        else:
            values = [spent_at(found, F_DIVERGENCES[divergence], missing)[0] for missing in rising]
    middle = [float(np.median(xp.to_host(each))) for each in values]
    return [max(value, 0.0) for value in np.maximum.accumulate(middle)]
