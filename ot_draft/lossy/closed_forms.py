"""Targets in closed form: largest acceptance within a total variation distance, or within a bound of r/p."""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, log
from typing import Any

from .. import arrays as xp
from ..arrays import Array
from ..bias import total_variation
from ..errors import InvalidArgument
from .base import Nearest, budget, toward
from .envelope import Envelope


@dataclass(frozen=True)
class TotalVariation(Nearest):
    """Target distribution r of the largest acceptance within TV(r, p) <= eps: min(1, alpha(p) + eps).

    Several distributions have this acceptance. r is the one that is best under every other f-divergence too, if all drafts have p > 0.

    Parameters
    ----------
    eps : float or Fraction
        Total variation distance from p, in [0, 1]. The result is exact if p, q and eps are.

    References
    ----------
    .. [1] Tran-Thien and Nock, 2026 (one draft token); docs/lossy.md of this project (several).

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction as F
    >>> p, q = np.array([F(1, 2), F(1, 2)]), np.array([F(3, 4), F(1, 4)])
    >>> TotalVariation(F(1, 10))(p, q, k=1)
    array([Fraction(3, 5), Fraction(2, 5)], dtype=object)
    """

    eps: Any

    def __post_init__(self) -> None:
        budget(self.eps, "TotalVariation(eps)", 0, 1)

    @property
    def guarantee(self) -> tuple[str, Any]:
        return "tv", self.eps

    def missing(self, found: Envelope) -> Array:
        beyond = found.missing(1) - xp.number(self.eps, found.target)
        return xp.maximum(beyond, 0)

    def within(self, found: Envelope, missing: Array) -> Array:
        r = super().within(found, missing)
        if xp.is_exact(r):
            return r
        return toward(
            r, found.p, total_variation(r, found.p), float(self.eps)
        )  # with groups, r may exceed the budget slightly


@dataclass(frozen=True)
class Ratio(Nearest):
    """Target distribution r of the largest acceptance with r <= e^delta p for every token.

    The acceptance is min(1, 1 + min over token sets H of e^delta p(H) - Q(all drafts in H)), and KL(r || p) <= delta.

    Parameters
    ----------
    delta : float, optional
        Logarithm of the largest ratio r / p, at least 0.
    factor : float or Fraction, optional
        The largest ratio itself, instead of delta. A Fraction makes the result exact.

    Raises
    ------
    InvalidArgument
        If not exactly one of the arguments is given, or it is out of range.

    References
    ----------
    .. [1] Leviathan et al., 2023, appendix A.5 (one draft token); docs/lossy.md of this project (several).

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction as F
    >>> p, q = np.array([F(1, 2), F(1, 2)]), np.array([F(3, 4), F(1, 4)])
    >>> Ratio(factor=F(6, 5))(p, q, k=1)
    array([Fraction(3, 5), Fraction(2, 5)], dtype=object)
    """

    delta: Any = None
    factor: Any = None

    def __post_init__(self) -> None:
        if (self.delta is None) == (self.factor is None):
            raise InvalidArgument(
                f"Ratio must have either delta or factor, got delta={self.delta!r}, factor={self.factor!r}."
                " Pass one of them; factor is e^delta."
            )
        max_delta = 500  # the square of e^delta does not overflow
        if self.factor is None:
            budget(self.delta, "Ratio(delta)", 0, max_delta)
        else:
            budget(self.factor, "Ratio(factor)", 1, exp(max_delta))

    @property
    def guarantee(self) -> tuple[str, Any]:
        return "ratio", log(self.factor) if self.delta is None else self.delta

    def ceiling(self, x: Array) -> Any:
        """The maximum of r/p, in the number type of x."""
        if self.factor is not None:
            return xp.number(self.factor, x)
        # On Fractions, e^delta is rounded down, so that the budget holds.
        return Fraction(max(exp(self.delta) * (1 - 2.0**-50), 1.0)) if xp.is_exact(x) else exp(self.delta)

    def missing(self, found: Envelope) -> Array:
        return found.missing(self.ceiling(found.target))

    def within(self, found: Envelope, missing: Array) -> Array:
        return found.law(missing, self.ceiling(found.target) + 0 * missing)
