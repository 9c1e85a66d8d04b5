"""The distribution of the selected draft token that is closest to the target under every f-divergence.

The possible distributions m of the selected draft token satisfy m(H) >= Q(all drafts in H) for every token set H (docs/theory.md): the
base polytope of a supermodular function. One of them minimises sum p f(m/p) for every convex f (Fujishige 1980, lexicographically
optimal bases). Order the tokens as the draft law does, smallest p/q first. Let F_i be the mass of p, and g_i the probability that all
drafts are among the first i tokens. m/p is the slope of the least concave majorant of g as a function of F. r = p clip(m/p, a, b) has
the largest acceptance of all distributions whose divergence from p is at most that of r (docs/lossy.md), with

    missing = sum p (m/p - b)+ = max_i (g_i - b F_i),      a = min_i (missing + 1 - g_i) / (1 - F_i):

one minus the acceptance, and the floor for which r sums to 1. Tokens with p = 0 come first; m/p is infinite there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..bias import FDivergence
from ..dispatch import accelerated
from ..laws import DraftLaw, Fact
from .grouped import RatioGroups, mixture
from .slopes import chain_of_groups, finite, slopes_at_once, slopes_of_rows


@dataclass(frozen=True)
class Envelope:
    """Functions of p, q, k and the draft law for targets, by C groups of tokens in the order of the draft law.

    target: (..., C + 1) mass F of p in the first i groups. drafted: (..., C + 1) probability g that all drafts are in them.
    slope: (..., C) ratio m/p by group, decreasing; 0 if p is 0. p, selected: (..., n) target distribution and m in float64 or
    Fractions; selected is 0 on tokens with p = 0. idle: (..., n) m on tokens with p = 0, else 0.
    """

    target: Array
    drafted: Array
    slope: Array
    p: Array
    selected: Array
    idle: Array
    approximate: bool = False  # whether groups hold several tokens

    def light(self) -> Envelope:
        """Copy with groups in floats, as numpy arrays on the CPU, for faster computations by group."""
        groups = {name: xp.host_view(xp.floats(getattr(self, name))) for name in ("target", "drafted", "slope")}
        return replace(self, **groups)

    @cached_property
    def mass(self) -> Array:
        """(..., C) mass of p by group."""
        return self.target[..., 1:] - self.target[..., :-1]

    @cached_property
    def unreachable(self) -> Array:
        """(..., 1) probability that all drafts have p = 0."""
        return xp.max(xp.where(self.target == 0, self.drafted, 0), axis=-1, keepdims=True)

    def missing(self, ceiling: Array) -> Array:
        """(..., 1) one minus the acceptance of r with this ceiling: max_i (g_i - b F_i)."""
        return xp.max(self.drafted - ceiling * self.target, axis=-1, keepdims=True)

    def ceiling(self, missing: Array) -> Array:
        """(..., 1) the ceiling b for this `missing`; the largest m/p if missing <= `unreachable`."""
        bounds = xp.max(xp.divide(self.drafted - missing, self.target, 0), axis=-1, keepdims=True)
        return finite(xp.where(missing <= self.unreachable, xp.max(self.slope, axis=-1, keepdims=True), bounds))

    def floor(self, missing: Array) -> Array:
        """(..., 1) the floor a with sum p (a - m/p)+ = missing; at most 1 if the ceiling is at least 1."""
        left = xp.where(self.target < 1, 1 - self.target, 0)
        return xp.min(xp.divide(missing + 1 - self.drafted, left, missing + 1), axis=-1, keepdims=True)

    def ratio(self, missing: Array) -> Array:
        """(..., C) r/p by group."""
        return self.clipped(self.floor(missing), self.ceiling(missing))

    def clipped(self, floor: Array, ceiling: Array) -> Array:
        """(..., C) m/p by group, clipped to [floor, ceiling]."""
        return _within(self.slope, floor, ceiling)

    def law(self, missing: Array, ceiling: Array | None = None) -> Array:
        """(..., n) r = clip(m, a p, b p) for this `missing`; below `unreachable`, plus a fraction of m on tokens with p = 0."""
        return self.law_and_spent(missing, None, ceiling)[0]

    def law_and_spent(
        self, missing: Array, divergence: FDivergence | None, ceiling: Array | None = None
    ) -> tuple[Array, Array]:
        """`law` (..., n) and its divergence from p (..., 1); 0 without a divergence."""
        floor, ceiling = self.floor(missing), self.ceiling(missing) if ceiling is None else ceiling
        if self.approximate:
            # Without clipping, tokens of a group must not be clipped by its floor or ceiling.
            ceiling = xp.where(missing > self.unreachable, ceiling, 2.0**100 + 0 * ceiling)
            floor = xp.where(missing > 0, floor, 0 * floor)
            return self._settled(floor, ceiling, missing, divergence, step_divisor=64)
        law = self._law(floor, ceiling, missing)
        law = law if xp.is_exact(law) else summing_to_one(law, self.p)
        return law, divergence.between(law, self.p) if divergence else 0 * missing

    def accepted(self, law: Array) -> Array:
        """(..., 1) acceptance of the selected draft token for this output distribution: sum of min(law, m)."""
        return xp.namespace(law).minimum(law, self.selected + self.idle).sum(-1, keepdims=True)

    @accelerated("envelope")
    def _settled(
        self, floor: Array, ceiling: Array, missing: Array, divergence: FDivergence | None, step_divisor: int
    ) -> tuple[Array, Array]:
        """`law_and_spent` after one Newton step for the floor, of at most floor / step_divisor."""
        law = self._law(floor, ceiling, missing)
        low = (self.p * xp.astype(law <= floor * self.p, self.p.dtype)).sum(-1, keepdims=True)
        step = xp.divide(1 - law.sum(-1, keepdims=True), low, 0)
        law = self._law(floor + _within(step, -floor / step_divisor, floor / step_divisor), ceiling, missing)
        law = summing_to_one(law, self.p)
        return law, divergence.between(law, self.p) if divergence else 0 * missing

    def _law(self, floor: Array, ceiling: Array, missing: Array) -> Array:
        law, idle = _within(self.selected, floor * self.p, ceiling * self.p), self.unreachable
        if xp.on_host(idle) and not bool((missing < idle).any()):
            return law
        return law + xp.where(missing < idle, 1 - xp.divide(missing, idle, 1), 0) * self.idle


def _within(x: Array, low: Array, high: Array) -> Array:
    """x clipped to [low, high]; low if low > high."""
    module = xp.namespace(x)
    return module.maximum(module.minimum(x, high), low)


def summing_to_one(law: Array, p: Array) -> Array:
    """The distribution corrected to sum 1, by moving entries toward p: those below p if the sum is too small, else those above."""
    lacks = 1 - law.sum(-1, keepdims=True)
    up, down = xp.excess(p, law), xp.excess(law, p)
    lacking = lacks > 0
    rise = xp.where(lacking, xp.divide(lacks, up.sum(-1, keepdims=True), 0), 0 * lacks)
    fall = xp.where(lacking, 0 * lacks, xp.divide(lacks, down.sum(-1, keepdims=True), 0))
    return xp.maximum(law + rise * up + fall * down, 0)


def envelope(p: Array, q: Array, k: int, law: DraftLaw, max_sorted_tokens: int = 8192) -> Envelope:
    """The envelope of p and q, (..., n) each, for k drafts by the draft law, in float64 or Fractions.

    On the host every token is a group, except for more than max_sorted_tokens floats with independent draft tokens. On a device
    (and on `meta`) the tokens are sorted and grouped without a host sync.
    """
    batch = (*xp.batch_shape(p, q), p.shape[-1])
    if Fact.INDEPENDENT in law.facts and xp.on_host(p) and not xp.is_exact(p) and batch[-1] > max_sorted_tokens:
        return _by_groups(p, q, k, law, RatioGroups())
    # sums of float32 rows may be 1.00001
    p, q = (xp.broadcast_to(x / x.sum(-1, keepdims=True), batch) for x in (xp.double(p), xp.double(q)))
    order = law.cut_order(p, q, k)
    target, drafted = xp.prefix_sums(xp.take_along_axis(p, order)), law.prefix_probabilities(q, order, k)
    target = target / target[..., -1:]  # the last entry is exactly 1
    rank = xp.argsort(order)
    # The steps of g are a possible m for every draft law; for independent draft tokens, so is one proportional to q.
    steps = xp.take_along_axis(xp.where(target[..., 1:] > 0, 0, drafted[..., 1:] - drafted[..., :-1]), rank)
    idle = (
        xp.normalise(xp.where(p > 0, 0, q), 0) * steps.sum(-1, keepdims=True)
        if Fact.INDEPENDENT in law.facts
        else steps
    )
    if xp.on_host(p):
        slope = slopes_of_rows(target, drafted)
        return Envelope(target, drafted, slope, p, p * xp.take_along_axis(slope, rank), idle)
    ends, group = chain_of_groups(target, drafted)
    target, drafted = xp.take_along_axis(target, ends), xp.take_along_axis(drafted, ends)
    slope = slopes_at_once(target, drafted)
    return Envelope(
        target, drafted, slope, p, p * xp.take_along_axis(xp.take_along_axis(slope, group), rank), idle, True
    )


def _by_groups(p: Array, q: Array, k: int, law: DraftLaw, groups: RatioGroups) -> Envelope:
    """The envelope by groups of nearly equal p/q; m is proportional to p or q in a group, which is possible for i.i.d. tokens."""
    batch = xp.batch_shape(p, q)
    rows = [np.array(x, dtype=np.float64) for x in xp.rows(batch, p, q)]
    for law_rows in rows:  # sums of float32 rows may be 1.00001
        np.divide(law_rows, law_rows.sum(-1, keepdims=True), out=law_rows)
    group, masses = np.empty(rows[0].shape, dtype=np.int16), np.zeros((2, len(rows[0]), groups.number))
    for row, (p_row, q_row) in enumerate(zip(*rows, strict=True)):
        masses[:, row] = groups.masses(p_row, q_row, group[row])
    used: np.ndarray = np.asarray(masses.any((0, 1)))  # most groups are empty
    p_mass, q_mass = masses[..., used]
    target = xp.prefix_sums(p_mass)
    target = target / target[..., -1:]
    drafted = law.prefix_probabilities(q_mass, np.broadcast_to(np.arange(q_mass.shape[-1]), q_mass.shape), k)
    slope = slopes_of_rows(target, drafted)
    gain = np.where(p_mass > 0, slope * p_mass, drafted[..., 1:] - drafted[..., :-1])  # the first group has p = 0
    factor, selected = np.zeros((2, len(rows[0]), groups.number)), np.empty_like(rows[0])
    by_p = np.where(_roomy(gain, drafted, np.flatnonzero(used), groups), slope, 0.0)
    factor[..., used] = by_p, np.where(by_p > 0, 0.0, xp.divide(gain, q_mass, 0.0))
    for row, (p_row, q_row) in enumerate(zip(*rows, strict=True)):
        mixture(p_row, q_row, group[row], factor[0, row], factor[1, row], selected[row])
    idle = np.where(rows[0] > 0, 0.0, selected) if used[0] else np.zeros(selected.shape)
    selected = selected - idle if used[0] else selected
    parts: Any = (target, drafted, slope, rows[0], selected, idle)
    columns: Any = (xp.from_view(np.ascontiguousarray(x).reshape(*batch, x.shape[-1]), p) for x in parts)
    return replace(Envelope(*columns), approximate=True)


def of_groups(p: Array, q: Array, k: int, law: DraftLaw) -> Envelope:
    """The envelope for group masses p, q (..., C) in the order of p/q and independent draft tokens, on the host."""
    target = xp.prefix_sums(p)
    order = xp.broadcast_to(xp.arange(p.shape[-1], like=p), tuple(q.shape))
    drafted = law.prefix_probabilities(q, order, k)
    target = target / target[..., -1:]
    slope = slopes_of_rows(target, drafted)
    return Envelope(target, drafted, slope, p, p * slope, 0 * p)


def _roomy(gain: np.ndarray, drafted: np.ndarray, number: np.ndarray, groups: RatioGroups) -> np.ndarray:
    """Groups in which m can be proportional to p: (..., G) -> bool (..., G).

    m proportional to q is always possible, since g is convex in the mass of q. With m proportional to p, its cumulative sum is lower by
    at most a quarter of the group's width, and must stay above g.
    """
    above = xp.prefix_sums(gain) - drafted
    room = np.minimum(above[..., 1:], above[..., :-1])
    return (room > gain * groups.width / 4) & (number > 1) & (number < groups.number - 2)
