"""How far one law is from another: total variation, Kullback-Leibler either way, and the largest ratio.

Every one but the ratio is an f-divergence D(r, p) = sum p f(r/p), with f(1) = 0 and f convex.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log
from typing import Any

import numpy as np

from . import arrays as xp
from .arrays import Array
from .errors import InvalidArgument

__all__ = ["bias_of", "divergence", "total_variation"]

TINY = 1e-300  # stands in for 0 under a logarithm


@dataclass(frozen=True)
class FDivergence:
    """sum p f(r/p): its name, f, f', f' at infinity, and its value for two laws (..., n) -> (..., 1)."""

    name: str
    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    steepest: float
    between: Callable[[Array, Array], Array]


def logarithm(x: Array) -> Array:
    """Natural logarithm; on Fractions the float nearest to it, of any size."""
    if xp.is_exact(x):
        logs = np.vectorize(lambda m: log(m.numerator) - log(m.denominator) if m > 0 else -inf, otypes=[np.float64])
        return logs(x)
    return xp.namespace(x).log(x)


def total_variation(r: Array, p: Array) -> Array:
    """sum (r - p)+, exact on Fractions: (..., n), (..., n) -> (..., 1)."""
    return abs(r - p).sum(-1, keepdims=True) / 2


def kl(r: Array, p: Array, block_tokens: int = 1 << 14) -> Array:
    """KL(r || p) = sum r log(r/p) in nats; infinite where r lies on a token with p = 0: (..., n), (..., n) -> (..., 1).

    block_tokens: tokens at a time on the host; a block that fits the cache needs no fresh memory.
    """
    if xp.is_exact(r):  # the ratio may be beyond a float
        with np.errstate(invalid="ignore"):
            logs = logarithm(r) - logarithm(p)
        return xp.where(r > 0, xp.floats(r) * xp.where(r > 0, logs, 0.0), 0.0).sum(-1, keepdims=True)
    one_way, other = xp.host_view(xp.floats(r)), xp.host_view(xp.floats(p))
    n = r.shape[-1]
    ends = [*range(0, n, block_tokens), n] if xp.on_host(one_way) else [0, n]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        parts = ((one_way[..., start:stop], other[..., start:stop]) for start, stop in pairwise(ends))
        sums = (xp.where(a > 0, a * xp.namespace(a).log(a / b), 0.0).sum(-1, keepdims=True) for a, b in parts)
        return xp.from_view(sum(sums), r)


def chi_squared(r: Array, p: Array) -> Array:
    """sum (r - p)^2 / p, exact on Fractions; infinite where r lies on a token with p = 0: (..., n), (..., n) -> (..., 1)."""
    sums = xp.divide((r - p) ** 2, p, 0).sum(-1, keepdims=True)
    beyond = ((r > 0) & (p == 0)).any(-1)[..., None]
    return xp.where(beyond, inf, sums)


def largest_ratio(r: Array, p: Array) -> Array:
    """The largest r/p among tokens with r > 0; infinite where p is 0 there. Exact on Fractions: (..., n), (..., n) -> (..., 1)."""
    return xp.max(xp.where(r > 0, xp.ratio(r, p), 0), axis=-1, keepdims=True)


def _log(x: Array) -> Array:
    return xp.namespace(x).log(xp.maximum(x, TINY))


F_DIVERGENCES = {
    each.name: each
    for each in (
        FDivergence("kl", lambda x: x * _log(x), lambda x: _log(x) + 1, inf, kl),
        FDivergence(
            "reverse-kl",
            lambda x: xp.where(x > 0, -_log(x), inf),
            lambda x: -1 / xp.maximum(x, TINY),
            0.0,
            lambda r, p: kl(p, r),
        ),
        FDivergence("chi-squared", lambda x: (x - 1) ** 2, lambda x: 2 * (x - 1), inf, chi_squared),
    )
}
BOUNDED: dict[str, Callable[[Array, Array], Array]] = {  # what a budget can be given in
    "tv": total_variation,
    "ratio": lambda r, p: logarithm(largest_ratio(r, p)),
    **{name: each.between for name, each in F_DIVERGENCES.items()},
}


def divergence(name: str, r: Array, p: Array) -> Array:
    """The divergence of this name, one of `BOUNDED`, of r from p: (..., n), (..., n) -> (...). A ratio is given as its logarithm."""
    if name not in BOUNDED:
        raise InvalidArgument(f"divergence must be one of {', '.join(BOUNDED)}, got {name!r}. Use one of them.")
    return BOUNDED[name](r, p)[..., 0]


@dataclass(frozen=True)
class Bias:
    """Distances of an output law r from the target p; everything (...).

    total_variation and ratio (the largest r/p) are exact on Fractions. kl: KL(r || p), reverse_kl: KL(p || r), in nats, as floats: infinite
    where the first law lies on a token that the second never gives.
    """

    total_variation: Any
    kl: Any
    reverse_kl: Any
    ratio: Any


def bias_of(r: Array, p: Array) -> Bias:
    """The bias of a law r against the target p: (..., n) each, one kind."""
    parts = (total_variation(r, p), kl(r, p), kl(p, r), largest_ratio(r, p))
    return Bias(*(x[..., 0] if xp.is_torch(x) else np.asarray(x)[..., 0][()] for x in parts))
