"""Targets of lossy rules: the distribution r of the output, computed from p and q."""

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidArgument
from ..laws import IID, DraftLaw
from ..problem import check_law
from ..selection import with_fields
from .envelope import Envelope, envelope, of_groups


class Target(ABC):
    """Base class of distributions r that a lossy rule selects for instead of p.

    A lossy rule is a lossless rule for another target distribution. r depends on p, q, the number of draft tokens k and the draft law
    only, not on the drafts. The guarantee of a target holds for every k and draft law; the acceptance is largest for those given.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> class Halfway(otd.lossy.Target):
    ...     def __call__(self, p, q, k=1, law=None):
    ...         return (p + q) / 2
    >>> rule = otd.lossy.Toward(Halfway(), otd.rules.SpeculativeSampling())
    >>> otd.evaluate(rule, otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=1)).acceptance
    Fraction(7, 8)
    """

    @property
    def guarantee(self) -> tuple[str, Any] | None:
        """Guaranteed bound for all p, q, k and draft laws: name of a divergence (`bias.BOUNDED`) and its maximum; None without one."""
        return None

    @abstractmethod
    def __call__(self, p: Array, q: Array, k: int = 1, law: DraftLaw | None = None) -> Array:
        """Return r (..., n) for distributions p, q (..., n), in their number type."""

    @property
    def name(self) -> str:
        """Name in tables and figures."""
        return with_fields(self)


class Nearest(Target):
    """Base class of targets r = clip(m, a p, b p), the family that is optimal under every f-divergence (`envelope`).

    The parameter of the family is `missing`, one minus the acceptance.
    """

    @abstractmethod
    def missing(self, found: Envelope) -> Array:
        """(..., 1) one minus the acceptance of r, in the envelope's kind."""

    def bound(self, found: Envelope, missing: Array) -> Array:
        """(..., 1) upper bound of the acceptance within the budget; by default that of one token set."""
        return 1 - missing

    def within(self, found: Envelope, missing: Array) -> Array:
        """(..., n) r at this value of `missing`, in float64 or Fractions."""
        return found.law(missing)

    def ratios(self, p: Array, q: Array, k: int, law: DraftLaw) -> tuple[Array, Array]:
        """Factors x, y (..., C) of r = x p + y q, for group masses p, q (..., C) in the order of p/q and independent draft tokens.

        The budget holds exactly; within a group r is proportional to p (to q if p is 0).
        """
        found = of_groups(p, q, k, law)
        missing, idle = self.missing(found), found.unreachable
        ratio = found.ratio(missing)
        if not bool((missing < idle).any()):
            return ratio, 0 * q
        steps = xp.where(found.mass > 0, 0, found.drafted[..., 1:] - found.drafted[..., :-1])
        share = xp.where(missing < idle, 1 - xp.divide(missing, idle, 1), 0)
        return ratio, share * xp.divide(steps, q, 0)

    def __call__(self, p: Array, q: Array, k: int = 1, law: DraftLaw | None = None) -> Array:
        law = IID() if law is None else law
        check_law(law, k)
        if k == 0:
            return p
        found = envelope(p, q, k, law)
        return xp.astype(self.within(found, self.missing(found)), p.dtype)


def budget(value: Any, name: str, least: float = 0, most: float = float("inf")) -> Any:
    """Return the budget. Raises InvalidArgument unless it is a number from `least` to `most`."""
    limit = 1e300
    numeric = isinstance(value, int | float | Fraction | np.integer | np.floating) and not isinstance(value, bool)
    if not numeric or not least <= value <= most or abs(value) > limit:  # larger numbers overflow to NaN
        bounds = f"from {least:g} to {min(most, limit):g}"
        shown = (
            repr(value) if not numeric or value != value or abs(value) <= limit else f"a number of size over {limit:g}"
        )
        raise InvalidArgument(f"{name} must be a number {bounds}, got {shown}. Pass a number in this range.")
    return value


def toward(r: Array, p: Array, spent: Array, budget: Any) -> Array:
    """r, or where `spent` (..., 1) exceeds the budget, the mixture of p and r that meets it, because D is convex in r."""
    over = spent > budget
    if xp.holds_without_sync(~over):
        return r
    away = xp.where(over, 1 - budget / xp.where(over, spent, 1), 0)
    step = p - r
    step *= away
    step += r
    return step
