"""Targets with the largest acceptance within an f-divergence of p: KL, reverse KL, chi-squared."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf
from typing import Any, ClassVar

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..bias import F_DIVERGENCES, TINY, FDivergence
from .base import Nearest, budget, toward
from .envelope import Envelope


@dataclass(frozen=True)
class WithinDivergence(Nearest):
    """Base class: r has the largest acceptance within D(r, p) <= eps for one f-divergence.

    r/p is m/p clipped to an interval [a, b], where m is the distribution of the selected draft token; `frontier` certifies it. r is 0
    where p is 0, unless the divergence is finite there. On Fractions r is rational and sums to 1 exactly, and b is rounded so that the
    budget holds.
    """

    eps: Any

    divergence: ClassVar[FDivergence]

    def __post_init__(self) -> None:
        budget(self.eps, f"{type(self).__name__}(eps)", 0)

    @property
    def guarantee(self) -> tuple[str, Any]:
        return self.divergence.name, self.eps

    def missing(self, found: Envelope) -> Array:
        if self.eps == 0:
            return found.missing(1)
        missing = missing_at(found.light(), self.divergence, float(self.eps))
        if not xp.is_exact(found.target):
            return xp.from_view(missing, found.target)
        # Rounded up to a grid: independent of the order of float sums, and within the budget.
        grid = 2**36
        rational = np.vectorize(lambda lost: Fraction(ceil(lost * grid) + 1, grid), otypes=[object])(missing)
        most = found.missing(1)
        return xp.maximum(xp.minimum(rational, most), _least(found, self.divergence))

    def within(self, found: Envelope, missing: Array) -> Array:
        eps = float(self.eps)
        r, spent = found.law_and_spent(missing, self.divergence)
        for _ in range(
            2 if found.approximate else 0
        ):  # corrections of `missing` by all tokens after the search by groups
            _, fall = spent_at(found, self.divergence, missing)
            better = xp.maximum(missing + xp.divide(spent - eps, fall, 0.0), _least(found, self.divergence))
            if xp.holds_without_sync(abs(better - missing) <= 1e-7):  # not worth another correction
                break
            missing = better
            r, spent = found.law_and_spent(missing, self.divergence)
        if not xp.is_exact(r):
            return toward(r, found.p, spent, eps)
        # On Fractions the divergence is computed from float logarithms, with a relative error of at most 2^-40 of the budget.
        return toward(r, found.p, np.vectorize(Fraction, otypes=[object])(spent), Fraction(eps * (1 - 2.0**-40)))

    def bound(self, found: Envelope, missing: Array) -> Array:
        """Upper bound by Lagrange duality, valid for any multiplier l of the budget and weights w of a chain of token sets.

        1 - sum_j w_j g_j + l eps + mu + l sum p f*((c - mu)/l), where c is 1 at the ceiling, 0 at the floor and l f' + mu between,
        and w its steps down. For KL this is the Donsker-Varadhan bound.
        """
        kind, found, divergence = found.target, found.light(), self.divergence
        missing = xp.host_view(xp.floats(missing))
        _, fall = spent_at(found, divergence, missing)
        multiplier = xp.divide(1, fall, 0)
        low = divergence.slope(found.floor(missing))
        ratio = xp.where(found.mass > 0, found.ratio(missing), found.ceiling(missing))
        ratio = xp.maximum(ratio, TINY)  # f'(0) may be infinite
        weight = multiplier * (divergence.slope(ratio) - low)
        weight = xp.where((found.mass > 0) & (weight < 1), weight, 1.0 + 0 * weight)
        conjugate = ratio * divergence.slope(ratio) - divergence.value(ratio)
        # Summation by parts: w_j = c_j - c_{j+1}.
        lost = (weight * (found.drafted[..., 1:] - found.drafted[..., :-1])).sum(-1, keepdims=True)
        bound = 1 - lost + multiplier * (float(self.eps) - low + (found.mass * conjugate).sum(-1, keepdims=True))
        free = 1 - _least(found, divergence)
        tight = 1 - found.missing(1)  # budget 0: r = p
        return xp.from_view(xp.where((fall > 0) & bool(self.eps > 0), xp.minimum(bound, free), tight), kind)


@dataclass(frozen=True)
class KL(WithinDivergence):
    """Target distribution r of the largest acceptance within KL(r || p) <= eps nats. Over a sequence, KL adds up.

    Parameters
    ----------
    eps : float
        Budget of the divergence, at least 0.

    References
    ----------
    .. [1] Tran-Thien and Nock, 2026 (one draft token); docs/lossy.md of this project (several).

    Examples
    --------
    >>> import numpy as np
    >>> p, q = np.array([0.5, 0.5]), np.array([0.75, 0.25])
    >>> KL(0.02)(p, q, k=1).round(3)
    array([0.6, 0.4])
    """

    divergence = F_DIVERGENCES["kl"]


@dataclass(frozen=True)
class ReverseKL(WithinDivergence):
    """Target distribution r of the largest acceptance within KL(p || r) <= eps nats, as mentored decoding bounds it for one draft token.

    Parameters
    ----------
    eps : float
        Budget of the divergence, at least 0.

    References
    ----------
    .. [1] Tran-Thien, mentored decoding, 2023 (one draft token); docs/lossy.md of this project (several).

    Examples
    --------
    >>> import numpy as np
    >>> p, q = np.array([0.5, 0.5]), np.array([0.75, 0.25])
    >>> ReverseKL(0.02)(p, q, k=1).round(3)
    array([0.599, 0.401])
    """

    divergence = F_DIVERGENCES["reverse-kl"]


@dataclass(frozen=True)
class ChiSquared(WithinDivergence):
    """Target distribution r of the largest acceptance within sum (r - p)^2 / p <= eps.

    Parameters
    ----------
    eps : float
        Budget of the divergence, at least 0.

    References
    ----------
    .. [1] Tran-Thien and Nock, 2026 (one draft token); docs/lossy.md of this project (several).

    Examples
    --------
    >>> import numpy as np
    >>> p, q = np.array([0.5, 0.5]), np.array([0.75, 0.25])
    >>> ChiSquared(0.02)(p, q, k=1).round(3)
    array([0.571, 0.429])
    """

    divergence = F_DIVERGENCES["chi-squared"]


def missing_at(
    found: Envelope,
    divergence: FDivergence,
    eps: float,
    max_steps: int = 60,
    budget_tolerance: float = 1e-13,
    group_tolerance: float = 2.0**-33,
) -> Array:
    """(..., 1) `missing` at which the divergence of r is eps; the smallest possible one if it never reaches eps.

    The divergence is convex and decreasing in `missing`: Newton's method in a bracket. found: in floats.
    The search ends where the divergence is within budget_tolerance * eps of eps. By groups of tokens it also ends after a step of at most
    group_tolerance, because the result is not more exact than that.
    """
    least = _least(found, divergence)
    low, high = least, found.missing(1)
    enough = spent_at(found, divergence, least)[0] <= eps
    missing = (low + high) / 2
    nearest = group_tolerance if found.approximate else 2.0**-52
    for _ in range(max_steps):
        spent, fall = spent_at(found, divergence, missing)
        low, high = xp.where(spent > eps, missing, low), xp.where(spent > eps, high, missing)
        newton = missing + xp.divide(spent - eps, fall, 0.0)
        newton = xp.where((newton > low) & (newton < high), newton, (low + high) / 2)
        following = xp.where(abs(spent - eps) <= budget_tolerance * eps, missing, newton)
        done = xp.on_host(missing) and xp.holds_without_sync(enough | (abs(following - missing) <= nearest))
        missing = following
        if done:
            break
    return xp.where(enough, least, missing)


def _least(found: Envelope, divergence: FDivergence) -> Array:
    """Smallest `missing` of finite divergence: probability that all drafts have p = 0, or 0 if r > 0 is possible there."""
    return found.unreachable if divergence.steepest == inf else 0 * found.unreachable


def spent_at(found: Envelope, divergence: FDivergence, missing: Array) -> tuple[Array, Array]:
    """The divergence of r at this `missing`, and minus its derivative, f'(ceiling) - f'(floor): (..., 1) each."""
    mass, floor, ceiling = found.mass, found.floor(missing), found.ceiling(missing)
    ratio = xp.where(mass > 0, found.clipped(floor, ceiling), 1.0 + 0 * mass)  # empty groups: f(1) = 0
    top = divergence.slope(ceiling)
    if divergence.steepest < inf:
        top = xp.where(missing < found.unreachable, divergence.steepest + 0 * top, top)
    return (mass * divergence.value(ratio)).sum(-1, keepdims=True), top - divergence.slope(floor)
