"""Optimal selection on the host: a sweep for every row and number of drafts, for all tokens or for classes of them.

For a target other than p, too, by the classes that selection makes anyway: the target costs one pass more.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...arrays.ratio_classes import ClassLayout, classify, layout
from ...dispatch import accelerated, for_floats
from ...laws import IID
from ...selection import Selection
from .classes import at_levels, choose
from .levels import levels

Draws = dict[
    int, Any
]  # probabilities of the numbers of i.i.d. drafts, {k: 1} for k of them; what is missing to 1 selects nothing
# Times the number of classes: slopes over less mass are noise. Measured best for 5 to 151,936 classes.
RESOLUTION = 2.0**-44


def selection_probabilities(p: Array, q: Array, drafts: Array, classes: int | None) -> tuple[Array, Array]:
    """`rule.selection_probabilities`, by all tokens where no number of classes is given."""
    count = xp.astype(drafts >= 0, p.dtype).sum(-1, keepdims=True)
    grouped = None if classes is None else layout(classes, max(drafts.shape[-1], 1))
    rank, level, selected = by_count(p, q, count, grouped)
    return choose(level, rank, drafts), selected


def by_count(p: Array, q: Array, count: Array, classes: ClassLayout | None) -> tuple[Array, Array, Array]:
    """Class of every token, level above every class, law of the selected token, for every number of drafts that occurs."""
    batch = xp.batch_shape(p, q)
    targets, drafts = xp.rows(batch, p, q)
    rank, p_mass, q_mass = classes_of(targets, drafts, classes)

    def plan(k: int) -> tuple[Array, ...]:
        level, slope = (x.astype(drafts.dtype) for x in levels_of_rows(p_mass, q_mass, {k: 1}))
        law = np.empty_like(drafts)
        for row, own in enumerate(rank):
            slope[row].take(own, out=law[row], mode="clip")
            law[row] *= drafts[row]
        return tuple(xp.from_view(x.reshape(*batch, x.shape[-1]), p) for x in (level, law))

    return xp.from_view(rank.reshape(*batch, rank.shape[-1]), p), *by_number(count, plan)


def by_number(count: Array, plan: Callable[[int], tuple[Array, ...]]) -> tuple[Array, ...]:
    """In every row what the plan of its number of drafts, (..., 1), says; one is made for each number that occurs."""
    numbers = sorted({int(c) for c in np.ravel(xp.host_view(count))} or {0})
    parts = plan(numbers[0])
    for k in numbers[1:]:
        parts = tuple(xp.where(count == k, *pair) for pair in zip(plan(k), parts, strict=True))
    return parts


def classes_of(p: np.ndarray, q: np.ndarray, classes: ClassLayout | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class of every token, int (R, n), and masses p and q of every class, in the order of p/q, (R, C) each: p, q (R, n)."""
    few = classes is not None and classes.number < np.iinfo(np.int16).max  # a quarter of the memory of a numpy index
    rank = np.empty(p.shape, dtype=np.int16 if few else np.int64)
    if classes is None:  # every token its own
        order = xp.argsort(xp.where(q > 0, xp.ratio(p, q), np.inf))
        np.put_along_axis(rank, order, np.arange(p.shape[-1])[None], -1)
        return rank, xp.take_along_axis(p, order), xp.take_along_axis(q, order)
    masses = [classify(p_row, q_row, classes, own) for p_row, q_row, own in zip(p, q, rank, strict=True)]
    p_mass, q_mass = np.reshape(masses, (len(p), 2, classes.number + 1)).swapaxes(0, 1)
    return rank, p_mass, q_mass


def levels_of_rows(p: np.ndarray, q: np.ndarray, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Levels above the classes, and slopes m / q: masses (R, C) -> (R, C) each, 0 where q is 0."""
    level, slope = (xp.full(q.shape, 0, like=xp.double(q[:, :0])) for _ in range(2))
    for row in range(len(q) if any(draws) else 0):
        used = np.flatnonzero(q[row] > 0)
        if len(used):
            level[row, used[:-1]], slope[row, used] = levels_of(p[row, used], q[row, used], draws)
    return level, slope


def levels_of(p: np.ndarray, q: np.ndarray, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Levels above the classes and slopes m / q, for classes with q > 0 in the order of p/q: (C,), (C,) -> (C - 1,), (C,)."""
    p, q = xp.double(p), xp.double(q)
    t, g, kinks, f, behind = xp.full((5, len(q) + 1), 0, like=q)
    start, group = np.zeros((2, len(q)), dtype=np.int64)
    chances = np.array(list(draws.values()), dtype=q.dtype)
    if xp.is_exact(q):  # every class is its own group
        groups, mass = _curves(p, q, list(draws), chances, 0, start, group, f, t, g, behind, kinks)
    else:
        curves, least = for_floats(_curves, q), RESOLUTION * (len(q) + 1)
        groups, mass = curves(p, q, np.array(list(draws)), chances, least, start, group, f, t, g, behind, kinks)
    cuts, slopes = levels(t[: groups + 1], g[: groups + 1], kinks[: groups + 1])
    level = xp.full((len(q) - 1,), 0, like=q)
    level[start[1:groups] - 1] = cuts[1:-1]
    return level, (slopes / mass)[group]


def _curves(p, q, numbers, chances, least, start, group, f, t, g, behind, kinks):  # type: ignore[no-untyped-def]
    """Writes f, t, g and the kinks of the envelope G at the ends of the groups, and returns their number and q's mass.

    All are 0 at first. behind: memory. group: that of every class. start: first class of every group whose mass floats can tell from its
    neighbours': the first in each cell of a grid of step `least`, if it is not too near to the one before or to the end.
    """
    nothing, most = 0 * q[0], 0 * q[0]
    for i in range(len(numbers)):
        most += numbers[i] * chances[i]
    mass, groups, before, cell = nothing, 0, nothing, -1
    for c in range(len(q)):
        mass += q[c]
    here = nothing
    for c in range(len(q)):
        if least == 0 or c == 0:
            start[groups] = c
            groups += 1
        elif int(here / least) > cell:
            if here - before >= least / 2 and mass - here >= least / 2:
                start[groups] = c
                groups += 1
            before = here
        cell = int(here / least) if least > 0 else 0
        here += q[c]
    for i in range(groups):
        p_part, q_part = nothing, nothing
        for c in range(start[i], start[i + 1] if i + 1 < groups else len(q)):
            p_part += min(p[c], most * q[c])  # m is at most k q: what lies above cannot be reached and may not count
            q_part += q[c]
            group[c] = i
        f[i + 1], t[i + 1] = f[i] + p_part, t[i] + q_part
    mass = t[groups]
    for i in range(groups + 1):
        t[i] /= mass
        for j in range(len(numbers)):
            g[i] += chances[j] * t[i] ** numbers[j]
    highest = g[groups] - f[groups]
    for i in range(groups, -1, -1):
        highest = max(highest, g[i] - f[i])
        behind[i] = highest
    highest, envelope, slope = g[0] - f[0], nothing, nothing
    for i in range(groups + 1):
        highest = max(highest, g[i] - f[i])
        above = f[i] + min(highest, behind[i])
        if i:
            steep = (above - envelope) / (t[i] - t[i - 1])
            kinks[i - 1] = steep - slope if i > 1 else nothing
            slope = steep
        envelope = above
    return groups, mass


def selection_by_classes(p: Array, q: Array, drafts: Array, classes: int, target: Any = None) -> Selection:
    """`selection_probabilities` by classes, coupled with p, or with the target's law r in its place. target: one with `ratios`.

    r and the distribution m of the selected token are known by classes, r = by_p p + by_q q and m = slope q, and never written.
    drafts: int (..., k), i.i.d. from q.
    """
    k, batch = drafts.shape[-1], xp.batch_shape(p, q)
    rows = targets, proposals = xp.rows(batch, p, q)
    rank, p_mass, q_mass = classes_of(targets, proposals, layout(classes, max(k, 1)))
    factors = (1 + 0 * p_mass, 0 * p_mass) if target is None else target.ratios(p_mass, q_mass, k, IID())
    r_mass = factors[0] * p_mass + factors[1] * q_mass
    by_p, by_q = (x.astype(targets.dtype) for x in factors)
    tokens = xp.host_view(drafts)
    p_of, q_of = (xp.gather(xp.host_view(x), tokens) for x in (p, q))
    own = xp.gather(rank.reshape(*batch, rank.shape[-1]), tokens)  # class of every draft

    def of_drafts(of_class: np.ndarray) -> np.ndarray:
        return xp.gather(of_class.reshape(*batch, of_class.shape[-1]), own)

    def plan(count: int) -> tuple[Array, ...]:
        level, slope = (x.astype(by_p.dtype) for x in levels_of_rows(r_mass, q_mass, {count: 1}))
        left = np.empty_like(targets)
        for row in zip(*rows, rank, by_p, by_q, slope, left, strict=True):
            _residual_by_classes(*row)
        wanted = of_drafts(by_p) * p_of + of_drafts(by_q) * q_of
        take = xp.minimum(xp.divide(wanted, of_drafts(slope) * q_of, 0), 1)
        accept = at_levels(level.reshape(*batch, level.shape[-1]), own, tokens >= 0) * take
        return accept.astype(left.dtype), left.reshape(*batch, left.shape[-1])

    accept, residual = by_number((tokens >= 0).sum(-1, keepdims=True), plan)
    return Selection(xp.from_view(accept, p), xp.from_view(residual, p))


@accelerated("optimal")
def _residual_by_classes(
    p: np.ndarray,
    q: np.ndarray,
    rank: np.ndarray,
    by_p: np.ndarray,
    by_q: np.ndarray,
    slope: np.ndarray,
    left: np.ndarray,
) -> None:
    """Writes norm((r - m)+) of one row into left, or r where that is 0; r = by_p p + by_q q and m = slope q by the classes."""
    r = by_p[rank] * p + by_q[rank] * q
    left[:] = xp.normalise(xp.maximum(r - slope[rank] * q, 0), r)
