"""The law of the selected draft that lies as near to the target as any can, under every f-divergence at once.

A selected draft can have the laws m with m(H) >= Q(all drafts in H) for every token set H (docs/theory.md): the base polytope of a
supermodular function. Among these, one has the ratios m/p as equal as they can be, and it minimises sum p f(m/p) for every convex f
(Fujishige 1980, lexicographically optimal bases). Let the tokens be in the law's order, most over-drafted first, F_i the mass of p and
g_i the probability that all drafts lie among the first i: m runs along the least concave curve over F that stays above g, and m/p is
its slope. So r = p clip(m/p, a, b) has the largest acceptance of all laws no further from p than itself (docs/lossy.md), and

    missing = sum p (m/p - b)+ = max_i (g_i - b F_i),      a = min_i (missing + 1 - g_i) / (1 - F_i),

one minus the acceptance, and the floor that makes r sum to 1. Tokens with p = 0 come first: there m/p is infinite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import (
    Array,
    argsort,
    batch_shape,
    broadcast,
    divide,
    double,
    is_exact,
    largest,
    normalise,
    on_host,
    one,
    prefix_sums,
    small,
    smallest,
    take,
    total,
    unsmall,
    where,
    zero,
)
from ..laws import DraftLaw
from ..rules.compiled import compiled
from .grouped import GROUPS, chain_of_groups, groups_of, slopes_at_once

SORTED = 8192  # tokens up to which floats are sorted; more are put into groups of nearly equal p/q
POLISH = 3


@dataclass(frozen=True)
class Envelope:
    """What a target needs to know of p, q, k and the law, by groups of tokens: C of them, most over-drafted first.

    target: (..., C + 1) mass F of p in the first i groups. drafted: (..., C + 1) probability g that all drafts lie there.
    slope: (..., C) ratio m/p in every group, falling; 0 where p is 0. p, selected: (..., n) the target and the law m, in float64 or
    Fractions; on tokens with p = 0, m is 0. idle: (..., n) law of the selected draft among the tokens with p = 0, times its mass.
    """

    target: Array
    drafted: Array
    slope: Array
    p: Array
    selected: Array
    idle: Array
    approximate: bool = False  # whether groups hold several tokens

    def floats(self) -> Envelope:
        """Itself, or the same in floats where it holds Fractions."""
        if not is_exact(self.target):
            return self
        parts = (self.target, self.drafted, self.slope, self.p, self.selected, self.idle)
        return Envelope(*(x.astype(np.float64) for x in parts))

    @property
    def mass(self) -> Array:
        """(..., C) mass of p in every group."""
        return self.target[..., 1:] - self.target[..., :-1]

    @property
    def unreachable(self) -> Array:
        """(..., 1) probability that all drafts are tokens with p = 0, whose ratio no bound holds."""
        return largest(where(self.target == 0, self.drafted, zero(self.drafted)))

    def missing(self, ceiling: Array) -> Array:
        """(..., 1) one minus the acceptance of the law clipped at this ceiling: max_i (g_i - b F_i)."""
        return largest(self.drafted - ceiling * self.target)

    def ceiling(self, missing: Array) -> Array:
        """(..., 1) the ceiling b at which so much is missing; the largest m/p where less is missing than `unreachable`."""
        bounds = divide(self.drafted - missing, self.target, zero(self.target))
        return where(missing < self.unreachable, largest(self.slope), largest(bounds))

    def floor(self, missing: Array) -> Array:
        """(..., 1) the floor a at which sum p (a - m/p)+ = missing; at most 1 where the ceiling is at least 1."""
        left = where(self.target < 1, 1 - self.target, zero(self.target))
        return smallest(divide(missing + 1 - self.drafted, left, missing + 1))

    def ratio(self, missing: Array) -> Array:
        """(..., C) r/p in every group."""
        return _within(self.slope, self.floor(missing), self.ceiling(missing))

    def law(self, missing: Array, ceiling: Array | None = None) -> Array:
        """(..., n) r = clip(m, a p, b p), where so much is missing; below `unreachable`, a share of m on tokens with p = 0 too."""
        floor, ceiling = self.floor(missing), self.ceiling(missing) if ceiling is None else ceiling
        law = self._law(floor, ceiling, missing)
        if is_exact(self.p):
            return law
        for _ in range(POLISH):  # groups and rounding gave the floor nearly; it is the root of a piecewise linear function
            low = where(law <= floor * self.p, self.p, zero(self.p))
            floor = floor + divide(1 - total(law), total(low), zero(self.p))
            law = self._law(floor, ceiling, missing)
        return law

    def _law(self, floor: Array, ceiling: Array, missing: Array) -> Array:
        law, idle = _within(self.selected, floor * self.p, ceiling * self.p), self.unreachable
        if on_host(idle) and not bool((missing < idle).any()):
            return law
        return law + where(missing < idle, 1 - divide(missing, idle, one(idle)), zero(idle)) * self.idle


def _within(x: Array, low: Array, high: Array) -> Array:
    """x, at least low and at most high; low where they cross."""
    x = where(x > high, high + 0 * x, x)
    return where(x < low, low + 0 * x, x)


def envelope(p: Array, q: Array, k: int, law: DraftLaw) -> Envelope:
    """The envelope of p and q, (..., n) each, for k drafts by the law, in float64 or Fractions.

    On the host every token is a group of its own, but on more than SORTED floats under a law that merges tokens. On a device (and
    on `meta`) the tokens are sorted and grouped without a host sync.
    """
    batch = (*batch_shape(p, q), p.shape[-1])
    p, q = broadcast(double(p), batch), broadcast(double(q), batch)
    if law.merges and on_host(p) and not is_exact(p) and batch[-1] > SORTED:
        return _by_groups(p, q, k, law)
    order = law.order(p, q, k)
    target, drafted = prefix_sums(take(p, order)), law.along(q, order, k)
    if not is_exact(p):
        target = target / target[..., -1:]
    rank = argsort(order)
    # The steps of g are a law of the selected draft under every draft law; where tokens merge, so is one in proportion to q.
    steps = take(where(target[..., 1:] > 0, zero(p), drafted[..., 1:] - drafted[..., :-1]), rank)
    idle = normalise(where(p > 0, zero(q), q), zero(q) * q) * total(steps) if law.merges else steps
    if on_host(p):
        slope = _slopes_of_rows(target, drafted)
        return Envelope(target, drafted, slope, p, p * take(slope, rank), idle)
    ends, group = chain_of_groups(target, drafted)
    target, drafted = take(target, ends), take(drafted, ends)
    slope = slopes_at_once(target, drafted)
    return Envelope(target, drafted, slope, p, p * take(take(slope, group), rank), idle, True)


def _by_groups(p: Array, q: Array, k: int, law: DraftLaw) -> Envelope:
    """By groups of nearly equal p/q; inside a group m is proportional to q, so that a law that merges tokens allows it."""
    rows = [np.reshape(small(x), (-1, x.shape[-1])) for x in (p, q)]
    group, masses = np.zeros(rows[0].shape, dtype=np.int64), np.zeros((2, len(rows[0]), GROUPS))
    for row, (p_row, q_row) in enumerate(zip(*rows, strict=True)):
        masses[:, row] = groups_of(p_row, q_row, group[row])
    p_mass, q_mass = masses
    target = prefix_sums(p_mass)
    target = target / target[..., -1:]
    drafted = law.along(q_mass, np.broadcast_to(np.arange(GROUPS), q_mass.shape), k)
    slope = _slopes_of_rows(target, drafted)
    gain = np.where(p_mass > 0, slope * p_mass, drafted[..., 1:] - drafted[..., :-1])  # the first group has p = 0
    per_draft = np.take_along_axis(divide(gain, q_mass, 0.0), group, -1) * rows[1]
    idle = per_draft * (rows[0] <= 0)
    batch = tuple(p.shape[:-1])
    parts = (target, drafted, slope, rows[0], per_draft - idle, idle)
    return Envelope(*(unsmall(np.ascontiguousarray(x.reshape(*batch, x.shape[-1])), p) for x in parts), approximate=True)


def _slopes_of_rows(target: Array, drafted: Array) -> Array:
    """Slopes of the least concave curve above g over F, row by row on the host: (..., C + 1) twice -> (..., C)."""
    f, g = (np.reshape(small(x), (-1, x.shape[-1])) for x in (target, drafted))
    slope = np.full((len(f), f.shape[-1] - 1), zero(f), dtype=f.dtype)
    sweep = _sweep if is_exact(f) else compiled(_sweep) or _sweep
    for row in range(len(f)):
        sweep(np.ascontiguousarray(f[row]), np.ascontiguousarray(g[row]), np.zeros(f.shape[-1], dtype=np.int64), slope[row])
    return unsmall(slope.reshape(*target.shape[:-1], slope.shape[-1]), target)


def _sweep(f, g, corners, slope):  # type: ignore[no-untyped-def]  # numba compiles this very function
    size = 1  # corners of the curve so far; the first is the origin
    for i in range(1, len(f)):
        while size > 0 and f[corners[size - 1]] == f[i] and g[corners[size - 1]] <= g[i]:
            size -= 1
        while size > 1:
            a, b = corners[size - 2], corners[size - 1]
            if (g[b] - g[a]) * (f[i] - f[b]) > (g[i] - g[b]) * (f[b] - f[a]):
                break
            size -= 1
        corners[size] = i
        size += 1
    for c in range(1, size):
        a, b = corners[c - 1], corners[c]
        if f[b] > f[a]:
            slope[a:b] = (g[b] - g[a]) / (f[b] - f[a])
