"""`frontier`: the largest acceptance at each distance from the target distribution, with certificates."""

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


def target_within(text: str) -> Nearest:
    """The target with the largest acceptance within a budget such as "tv=0.05", "kl=0.02", "ratio=0.3" (r <= e^0.3 p) or "tv=1/20".

    Raises InvalidArgument for an invalid budget.
    """
    name, _, value = text.partition("=")
    if name.strip() not in TARGETS:
        raise InvalidArgument(f"budget must name one of {', '.join(TARGETS)}, got {text!r}. Write it as tv=0.05.")
    try:
        return TARGETS[name.strip()](Fraction(value.strip()))
    except (ValueError, ZeroDivisionError) as error:
        raise InvalidArgument(
            f"budget must be a divergence and a number, got {text!r} ({error}). Write it as tv=0.05."
        ) from None


@dataclass(frozen=True)
class Frontier:
    """Largest acceptance at each distance from the target: no lossy rule accepts more than `bound`, and one accepts `acceptance`.

    The bound is proved by token sets (tv, ratio: one; f-divergences: a chain of them with weights).

    Attributes
    ----------
    divergence : str
        Name of the divergence.
    budget : array of shape (m,)
        Values of the divergence; for "ratio" the logarithm of the ratio.
    acceptance, bound : array of shape (..., m)
        Exact on Fractions for "tv" and "ratio".
    """

    divergence: str
    budget: np.ndarray
    acceptance: Any
    bound: Any

    @property
    def gap(self) -> Any:
        """(..., m) bound minus acceptance, which bounds the distance from the optimum."""
        return self.bound - self.acceptance


def frontier(
    p: Any,
    q: Any,
    k: int = 2,
    law: DraftLaw | None = None,
    divergence: str = "kl",
    budgets: Sequence[Any] | None = None,
) -> Frontier:
    """Return the largest acceptance within each budget of a divergence from p, with a proved bound.

    Parameters
    ----------
    p, q : array_like of shape (..., n)
        Target and draft distributions over n tokens.
    k : int, default=2
        Number of draft tokens.
    law : DraftLaw, optional
        Draft law, i.i.d. by default.
    divergence : {"kl", "tv", "ratio", "reverse-kl", "chi-squared"}
        Divergence of the output distribution r from p. The budget of "ratio" is delta in r <= e^delta p.
    budgets : sequence of m numbers, optional
        Budgets, at least 0. The default is 33 values from 0 to where the acceptance no longer grows.

    Returns
    -------
    Frontier

    Raises
    ------
    InvalidArgument
        If the divergence is unknown, or budgets is not a list of numbers of at least 0.
    InvalidDistribution
        If p or q is not a probability vector, or their shapes differ.

    References
    ----------
    .. [1] docs/lossy.md of this project.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> curve = frontier([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=1, divergence="tv", budgets=[0, F(1, 10), F(1, 4)])
    >>> [str(alpha) for alpha in curve.acceptance]
    ['3/4', '17/20', '1']
    """
    if divergence not in TARGETS:
        raise InvalidArgument(f"divergence must be one of {', '.join(TARGETS)}, got {divergence!r}. Use one of them.")
    if budgets is not None and (np.ndim(budgets) != 1 or not len(budgets)):
        raise InvalidArgument(
            f"budgets must be a non-empty list of numbers >= 0, got {budgets!r}. Pass at least one number."
        )
    problem = Problem(p, q, k, law)
    found = envelope(problem.p, problem.q, problem.k, problem.law)
    grid = np.asarray(_grid(found.light(), divergence) if budgets is None else budgets)
    targets = [TARGETS[divergence](value) for value in grid]
    missing = [target.missing(found) for target in targets]
    laws = (target.within(found, lost) for target, lost in zip(targets, missing, strict=True))
    acceptance = xp.concat([found.accepted(r) for r in laws], axis=-1)  # of the selected draft token
    bound = xp.concat([target.bound(found, lost) for target, lost in zip(targets, missing, strict=True)], axis=-1)
    return Frontier(divergence, grid, acceptance, bound)


def _grid(found: Envelope, divergence: str, points: int = 33) -> list[float]:
    """Budgets at which the acceptance rises in equal steps; medians over the batch."""
    most, least = found.missing(1), 0 * found.unreachable
    if divergence == "tv":
        values = [most * step / (points - 1) for step in range(points)]
    else:
        if divergence == "ratio" or F_DIVERGENCES[divergence].steepest == inf:
            least = found.unreachable + 0.0
        rising = [most + (least - most) * step / (points - 1) for step in range(points)]
        if divergence == "ratio":
            values = [logarithm(found.ceiling(missing)) for missing in rising]
        else:
            values = [spent_at(found, F_DIVERGENCES[divergence], missing)[0] for missing in rising]
    middle = [float(np.median(xp.to_host(each))) for each in values]
    return [max(value, 0.0) for value in np.maximum.accumulate(middle)]
