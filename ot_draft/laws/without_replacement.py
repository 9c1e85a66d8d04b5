"""Drafts without replacement: no token is drafted twice; and the probability that k of them all lie in a token set.

Small vocabularies: exactly, by a sum over the unordered draft sets. Large ones: by the exponential race. Give token y an arrival time
of rate q_y; the first k arrivals are the drafts. All of them lie in H iff the k-th arrival in H comes before the first
outside, which happens at rate w = 1 - q(H):

    P(all k in H) = integral over t of w exp(-w t) P(N_H(t) >= k) dt,   N_H(t) = number of arrivals in H until t,

a smooth integral, for which the trapezoid in log t converges geometrically. N_H(t) is a sum of independent indicators; the elementary
symmetric functions of their odds are prefix sums over the tokens, so all prefixes H come out of one pass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any, ClassVar

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..dispatch import accelerated
from ..errors import InvalidArgument
from . import sets
from .base import DraftLaw, Fact, outside, padded
from .iid import IID


@dataclass(frozen=True)
class WithoutReplacement(DraftLaw):
    """Draws from q without replacement: k different tokens [1]_ [2]_.

    If fewer than k tokens have mass, the other drafts are drawn with equal probabilities from the tokens that are not drafted
    yet, those of mass 0 [2]_. They are absent (-1) if no token is left. A drafter that stops there, or takes the lowest id, draws by
    another law.

    References
    ----------
    .. [1] Yang et al., "Multi-Candidate Speculative Decoding", 2024.
    .. [2] Chen et al., "Sequoia: Scalable, Robust, and Hardware-aware Speculative Decoding", 2024.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> otd.optimal_acceptance([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=2, law=otd.WithoutReplacement())
    Fraction(1, 1)
    """

    facts: ClassVar[Fact] = Fact.FIRST_FOLLOWS_Q | Fact.ABSENT_ANYWHERE

    def count(self, n: int, k: int) -> int:
        return min(n, k)

    def fixed(self, q: Array, k: int) -> Array:
        """Fixed tokens after the samples, int (j,); empty except for `FixedLast`."""
        return xp.arange(0, like=q)

    def draw(self, q: Array, uniforms: Array) -> Array:
        n, k, fixed = q.shape[-1], uniforms.shape[-1], self.fixed(q, uniforms.shape[-1])
        number, draws = len(fixed), min(n, k) - len(fixed)
        fixed = xp.broadcast_to(fixed, (*xp.batch_shape(q, uniforms), number))
        drawn = draws_outside(q, uniforms[..., :draws], fixed)[..., number:]
        return padded(xp.concat((drawn, fixed), axis=-1) if number else drawn, k)

    def cut_order(self, p: Array, q: Array, k: int) -> Array:
        # Tokens with q = 0 come last, where the fallback draws uniformly: the lightest under p first. A set without all fixed
        # tokens holds no draft tuple.
        fixed, by_target = self.fixed(q, k), xp.argsort(p)
        key = xp.ratio(p, q)
        key = xp.where(xp.members(fixed, q.shape[-1]), -1, key) if len(fixed) else key
        return xp.take_along_axis(by_target, xp.argsort(xp.take_along_axis(key, by_target), stable=True))

    def prefix_probabilities(self, q: Array, order: Array, k: int) -> Array:
        fixed, n = self.fixed(q, k), q.shape[-1]
        if not len(fixed):
            return prefixes(xp.take_along_axis(q, order), k)
        is_fixed = xp.where(xp.take_along_axis(xp.broadcast_to(xp.members(fixed, n), q.shape), order), 1, 0)
        others = xp.argsort(is_fixed, stable=True)[..., : n - len(fixed)]
        masses = prefixes(xp.take_along_axis(q, xp.take_along_axis(order, others)), k - len(fixed))
        held = xp.concat((0 * is_fixed[..., :1], is_fixed.cumsum(-1)), axis=-1)
        return xp.where(held == len(fixed), xp.gather(masses, xp.arange(n + 1, like=q) - held), 0)

    def canonical(self, k: int) -> DraftLaw:
        return IID() if k <= 1 else self

    def conditional(self, q: Array, siblings: Array, index: Array) -> Array:
        if xp.holds_without_sync(index <= 0):
            return q
        return outside(q, xp.where(xp.arange(siblings.shape[-1], like=siblings) < index, siblings, -1))

    def marginals(self, q: Array, k: int) -> None:
        """None: n integrals of O(n)."""

    def set_probabilities(self, q: Array, k: int) -> dict[int, Any]:
        fixed = self.fixed(q, k)
        return sets.chain(sets.bits_of(fixed), self.count(len(q), k) - len(fixed), _next_of(q))


@accelerated("without_replacement")
def draws_outside(q: Array, uniforms: Array, fixed: Array) -> Array:
    """Fixed tokens int (..., j), then for each of m uniforms a draw from q outside all before it: int (..., j + m)."""
    gone = fixed
    for i in range(uniforms.shape[-1]):
        gone = xp.concat((gone, xp.inverse_cdf(outside(q, gone), uniforms[..., i : i + 1])), axis=-1)
    return gone


def prefixes(q: Array, k: int, max_sets: int = 200_000) -> Array:
    """P(all k drafts among the first i tokens), for every i: (..., n) -> (..., n + 1).

    The tokens with q = 0 must not stand before others where fewer than k have q > 0. Exact on Fractions, where the
    number of draft sets is at most max_sets (InvalidArgument beyond); to about 1e-9 in floats for k <= 16.
    """
    k = min(k, q.shape[-1])
    if k == 0:
        return 1 + 0 * xp.prefix_sums(q)
    n, exact = q.shape[-1], xp.is_exact(q)
    size = min(k, n // 2)
    if exact and comb(n, size) > max_sets:
        raise InvalidArgument(
            f"q must be floats for over {max_sets} draft sets, got Fractions and {comb(n, size)} sets of {size} among {n} tokens."
            " Convert p and q to floats."
        )
    host = xp.to_host(q) if exact else xp.to_host(q).astype(np.float64)
    # The sum is 0 where fixed tokens have all mass.
    rows = [_by_sets(row, k) if exact else _by_race(row / (row.sum() or 1), k) for row in host.reshape(-1, n)]
    out = np.array(rows, dtype=host.dtype).reshape(*q.shape[:-1], n + 1)
    return xp.namespace(q).as_tensor(out, device=q.device) if xp.is_torch(q) else out


def _by_sets(q: Array, k: int) -> Array:
    """One row, exact: the probability of each drafted set, added at its last token."""
    out = xp.full((len(q) + 1,), 0, like=q)
    for drawn, probability in sets.chain(0, k, _next_of(q)).items():
        out[drawn.bit_length()] += probability
    return out.cumsum()


def _next_of(q: Array) -> Callable[[int, int], Array]:
    return lambda index, gone: outside(q, np.array(sets.tokens_of(gone), dtype=np.int64))


def _by_race(
    q: np.ndarray,
    k: int,
    max_cells: int = 1 << 14,
    step: float = 0.2,
    certain: float = 36.0,
    max_log: float = 700.0,
) -> np.ndarray:
    """One row, float64: the integral above for every prefix at once, O(n k) per node of log t.

    max_cells: times by tokens in one array. step: of log t; the trapezoid's error falls like exp(-pi^2 / step). certain: an arrival with
    q t over this has happened, as far as float64 can tell. max_log: of a time that is as good as never, and still a float64.
    """
    n, support = len(q), int((q > 0).sum())
    draws = min(k, support)
    out = np.zeros(n + 1)
    # The mass w after each prefix, summed from the far end to keep small ones.
    rate = np.concatenate((np.cumsum(q[::-1])[::-1], [0.0]))
    lowest = rate[rate > 0].min(initial=1.0)
    with np.errstate(divide="ignore"):
        log_q, log_rate = np.log(q), np.log(rate)  # the time itself would overflow where masses are subnormal
    # P(`draws` arrivals before t, and one more now) is at most t^(draws + 1).
    times = np.arange(np.log(1e-17) / (draws + 1), np.log(certain) - np.log(lowest) + step, step)[:, None]
    at_once = max(1, max_cells // n)  # small vocabularies: all times in one array
    for start in range(0, len(times), at_once):
        log_time = times[start : start + at_once]
        if at_once == 1 and (first := _late(q, rate, draws, np.exp(min(log_time[0, 0], max_log)), certain)) is not None:
            expected = np.exp(np.minimum(log_rate[first:] + log_time[0], max_log))
            out[first:] += step * expected * np.exp(-expected)
            continue
        expected = np.exp(np.minimum(log_rate + log_time, max_log))  # arrivals outside each prefix
        arrived = _at_least(np.exp(np.minimum(log_q + log_time, max_log)), draws, certain)
        out += (step * expected * np.exp(-expected) * arrived).sum(0)
    # At w = 0 no token outside arrives. Draws beyond the support are uniform on the other tokens.
    members = np.arange(n + 1)
    supported = np.concatenate(([0], np.cumsum(q > 0)))
    out[rate == 0] = supported[rate == 0] >= draws
    if support < k:
        out = (supported == support).astype(float)
        for already in range(support, k):
            out *= np.maximum(members - already, 0) / (n - already)
    return np.clip(out, 0, 1)


def _late(q: np.ndarray, rate: np.ndarray, k: int, time: float, certain: float) -> int | None:
    """Length of the first prefix whose rest has not certainly arrived, if k of its tokens certainly have; else None.

    Shorter prefixes add nothing at this time; in longer ones k arrivals have happened.
    """
    first = int(np.searchsorted(-rate, -48.0 / time))  # at a rate of w over 48, w exp(-w) is under 1e-19
    return first if np.count_nonzero(q[:first] > certain / time) >= k else None


def _at_least(x: np.ndarray, k: int, certain_from: float) -> np.ndarray:
    """P(at least k of the first i arrivals happened), arrival y with probability 1 - exp(-x_y): (t, n) -> (t, n + 1)."""
    certain = x > certain_from
    if some := bool(certain.any()):
        x = np.where(certain, 0, x)
    kind = np.float64 if k <= 14 else np.longdouble  # odds up to e^36 to the power k - 1 must fit
    odds, none = np.expm1(x).astype(kind, copy=False), np.exp(-_sums(x))
    happened = _sums(certain) if some else np.zeros((1, 1), dtype=np.int64)
    fewer: np.ndarray = none * (happened < k)
    symmetric: np.ndarray = np.ones(none.shape, dtype=kind)
    for j in range(1, k):
        symmetric = _sums(odds * symmetric[:, :-1])
        chance = none * symmetric
        fewer = fewer + (chance * (happened + j < k) if some else chance)
    return np.clip(1 - fewer, 0, 1)


def _sums(x: np.ndarray) -> np.ndarray:
    """Prefix sums from 0 on: (t, n) -> (t, n + 1)."""
    sums = np.zeros((x.shape[0], x.shape[1] + 1), dtype=np.int64 if x.dtype == bool else x.dtype)
    np.cumsum(x, axis=-1, out=sums[:, 1:])
    return sums
