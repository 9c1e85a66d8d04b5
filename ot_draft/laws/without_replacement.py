"""Drafts without replacement: no token is drafted twice; and the probability that k of them all lie in a token set.

Small vocabularies: exactly, by a sum over the unordered draft sets. Large ones: by the exponential race. Give token y an arrival time
of rate q_y; the first k arrivals are the drafts. All of them lie in H iff the k-th arrival in H comes before the first
outside, which happens at rate w = 1 - q(H):

    P(all k in H) = integral over t of w exp(-w t) P(N_H(t) >= k) dt,   N_H(t) = number of arrivals in H until t,

a smooth integral, for which the trapezoid in log t converges geometrically. N_H(t) is a sum of independent indicators; the elementary
symmetric functions of their odds are prefix sums over the tokens, so all prefixes H come out of one pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any, ClassVar

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidArgument
from . import sets
from .base import DraftLaw, outside, padded
from .iid import IID

MAX_SETS = 200_000  # draft sets that the exact sum may visit
STEP = 0.2  # of log t; the trapezoid's error falls like exp(-pi^2 / STEP)
CERTAIN = 36.0  # an arrival with q t over this has happened, as far as float64 can tell
CELLS = 1 << 14  # times by tokens in one array
LATE = 700.0  # log of a time that is as good as never, and still a float64


@dataclass(frozen=True)
class WithoutReplacement(DraftLaw):
    """k draws from q without replacement (multi-candidate speculative decoding; Sequoia)."""

    first_follows_q: ClassVar[bool] = True
    absent_anywhere: ClassVar[bool] = True
    remedy: ClassVar[str] = "take TokenWise(RecursiveRejectionWithoutReplacement()) or Traversal()"

    def count(self, n: int, k: int) -> int:
        return min(n, k)

    def probability(self, q: Array, drafts: Array) -> Array:
        return chance_of(q, drafts)

    def draw(self, q: Array, uniforms: Array) -> Array:
        n, k = q.shape[-1], uniforms.shape[-1]
        drafts = xp.broadcast(xp.positions(0, q), (*xp.batch_shape(q, uniforms), 0))
        for i in range(min(n, k)):
            token = xp.inverse_cdf(outside(q, drafts), uniforms[..., i : i + 1])
            drafts = xp.concatenate((drafts, token))
        return padded(drafts, k)

    def order(self, p: Array, q: Array, k: int) -> Array:
        return lightest_first(p, xp.ratio(p, q))  # tokens with q = 0 come last

    def along(self, q: Array, order: Array, k: int) -> Array:
        return prefixes(xp.take(q, order), k)

    @property
    def title(self) -> str:
        return "drafts without replacement"

    def plain(self, k: int) -> DraftLaw:
        return IID() if k <= 1 else self

    def child(self, q: Array, earlier: Array, token: Array, count: int, number: Any = None) -> Array:
        return outside(q, earlier)

    def at_place(self, q: Array, siblings: Array, place: Array, number: Any = None) -> Array:
        if xp.settled(place <= 0):
            return q
        return outside(q, xp.where(xp.positions(siblings.shape[-1], siblings) < place, siblings, -1))

    def drafted(self, q: Array, k: int) -> None:
        return None  # n integrals of O(n)

    def sets(self, q: Array, k: int) -> dict[int, Any]:
        def following(drawn: int) -> Array:
            return outside(q, np.array(sets.tokens_of(drawn), dtype=np.int64))

        return sets.chain(0, self.count(len(q), k), following)


def chance_of(q: Array, drafts: Array, gone: Array | None = None) -> Array:
    """Probability (...) of drafts drawn without replacement, int (..., k), where tokens int (j,) were gone before."""
    probability = xp.full(xp.batch_shape(q, drafts), 1, q)
    for i in range(drafts.shape[-1]):
        before = drafts[..., :i] if gone is None else xp.concatenate((gone, drafts[..., :i]))
        token, left = drafts[..., i : i + 1], outside(q, before)
        drawn = xp.where(xp.total(left) > 0, xp.gather(left, token), xp.as_number(token == -1, q))
        probability = probability * drawn[..., 0]
    return probability


def lightest_first(p: Array, key: Array) -> Array:
    """The tokens by a key, those of one key with the lightest under p first: among tokens with q = 0 the fallback draws uniformly."""
    by_target = xp.argsort(p)
    return xp.take(by_target, xp.argsort(xp.take(key, by_target), stable=True))


def prefixes(q: Array, k: int) -> Array:
    """P(all k drafts among the first i tokens), for every i: (..., n) -> (..., n + 1).

    The tokens with q = 0 must not stand before others where fewer than k have q > 0. Exact on Fractions, where the
    number of draft sets is limited (InvalidArgument beyond); to about 1e-9 in floats for k <= 16.
    """
    k = min(k, q.shape[-1])
    if k == 0:
        return 1 + 0 * xp.prefix_sums(q)
    if xp.is_exact(q):
        return _by_sets(q, k)
    host = xp.to_host(q).astype(np.float64)
    rows = [_by_race(row / row.sum(), k) for row in host.reshape(-1, q.shape[-1])]
    out = np.stack(rows).reshape(*q.shape[:-1], -1) if rows else np.zeros((*q.shape[:-1], q.shape[-1] + 1))
    return xp.namespace(q).as_tensor(out, device=q.device) if xp.is_torch(q) else out


def _by_sets(q: Array, k: int) -> Array:
    """Sum over the sets S of k tokens of P(the drafts are S, in any order), booked at the last token of S."""
    n = q.shape[-1]
    if comb(n, k) > MAX_SETS:
        raise InvalidArgument(
            f"exact probabilities without replacement visit {comb(n, k)} sets of {k} among {n} tokens (limit {MAX_SETS}): give floats"
        )
    heads = (*q.shape[:-1], 1)  # the last axis stays: a 1-D object array would collapse to a bare Fraction
    column = [q[..., y : y + 1] for y in range(n)]
    # Set -> probability that the first draws are this set.
    drawn: dict[tuple[int, ...], Array] = {(): xp.full(heads, 1, q)}
    for size in range(k):
        following = {s: xp.full(heads, 0, q) for s in combinations(range(n), size + 1)}
        for s, probability in drawn.items():
            free = [y for y in range(n) if y not in s]
            left = sum((column[y] for y in free), xp.full(heads, 0, q))
            for y in free:
                key = tuple(sorted((*s, y)))
                share = xp.divide(column[y], left, Fraction(1, len(free)))
                following[key] = following[key] + probability * share
        drawn = following
    out = xp.full((*q.shape[:-1], n + 1), 0, q)
    for s, probability in drawn.items():
        out[..., s[-1] + 1 :] += probability
    return out


def _by_race(q: np.ndarray, k: int) -> np.ndarray:
    """One row, float64: the integral above for every prefix at once, O(n k) per node of log t."""
    n, support = len(q), int((q > 0).sum())
    draws = min(k, support)
    out = np.zeros(n + 1)
    # The mass w after each prefix, summed from the far end to keep small ones.
    rate = np.concatenate((np.cumsum(q[::-1])[::-1], [0.0]))
    lowest = rate[rate > 0].min()
    with np.errstate(divide="ignore"):
        log_q, log_rate = np.log(q), np.log(rate)  # the time itself would overflow where masses are subnormal
    # Before t there have been so many arrivals, and one more now, with a probability of at most t to the power draws + 1.
    times = np.arange(np.log(1e-17) / (draws + 1), np.log(CERTAIN) - np.log(lowest) + STEP, STEP)[:, None]
    at_once = max(1, CELLS // n)  # small vocabularies: all times in one array
    for start in range(0, len(times), at_once):
        log_time = times[start : start + at_once]
        outside = np.exp(np.minimum(log_rate + log_time, LATE))
        arrived = _at_least(np.exp(np.minimum(log_q + log_time, LATE)), draws)
        out += (STEP * outside * np.exp(-outside) * arrived).sum(0)
    # At w = 0 there is no arrival outside. What is left of k beyond the support is drawn uniformly from the other tokens.
    members = np.arange(n + 1)
    supported = np.concatenate(([0], np.cumsum(q > 0)))
    out[rate == 0] = supported[rate == 0] >= draws
    if support < k:
        out = (supported == support).astype(float)
        for already in range(support, k):
            out *= np.maximum(members - already, 0) / (n - already)
    return np.clip(out, 0, 1)


def _at_least(x: np.ndarray, k: int) -> np.ndarray:
    """P(at least k of the first i arrivals happened), arrival y with probability 1 - exp(-x_y): (t, n) -> (t, n + 1)."""
    certain = x > CERTAIN
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
