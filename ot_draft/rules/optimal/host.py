"""Optimal selection on the host: a sweep for every row and number of drafts, for all tokens or for classes of them."""

from __future__ import annotations

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...selection import Selection
from ..coupling import couple
from .classes import ClassLayout, choose, classify, layout
from .levels import levels

# Times the number of classes: slopes over less mass are noise. Measured best for 5 to 151,936 classes.
RESOLUTION = 2.0**-44


def select(p: Array, q: Array, drafts: Array, classes: int | None) -> Selection:
    """`select_draft`, coupled with the target."""
    choice, selected = select_draft(p, q, drafts, classes)
    return couple(p, selected, choice, drafts)


def select_draft(p: Array, q: Array, drafts: Array, classes: int | None) -> tuple[Array, Array]:
    """`rule.select_draft`, by all tokens where no number of classes is given."""
    count = xp.total(xp.as_number(drafts >= 0, p))
    grouped = None if classes is None else layout(classes, max(drafts.shape[-1], 1))
    rank, level, selected = by_count(p, q, count, grouped)
    return choose(level, rank, drafts), selected


def by_count(p: Array, q: Array, count: Array, classes: ClassLayout | None) -> tuple[Array, Array, Array]:
    """Class of every token, level above every class, law of the selected token, for every number of drafts that occurs."""
    counts = {int(c) for c in np.ravel(xp.host_view(count))} or {0}
    plans = {c: _plan_rows(p, q, c, classes) for c in sorted(counts)}
    rank, level, selected = plans.popitem()[1]
    for c, other in plans.items():
        rank, level, selected = (
            xp.where(count == c, new, old) for new, old in zip(other, (rank, level, selected), strict=True)
        )
    return rank, level, selected


def _plan_rows(p: Array, q: Array, k: int, classes: ClassLayout | None) -> tuple[Array, Array, Array]:
    batch, n = xp.batch_shape(p, q), p.shape[-1]
    targets, drafts = (xp.broadcast(xp.host_view(x), (*batch, n)).reshape(-1, n) for x in (p, q))
    width = n if classes is None else classes.number
    rank = np.zeros(targets.shape, dtype=np.int64)
    level = xp.full((len(targets), width), 0, targets)
    selected = xp.full(targets.shape, 0, targets)
    for row in range(len(targets) if k else 0):
        slope = _plan_row(targets[row], drafts[row], k, classes, rank[row], level[row])
        slope.astype(selected.dtype).take(rank[row], out=selected[row], mode="clip")
        selected[row] *= drafts[row]
    shapes = ((*batch, n), (*batch, width), (*batch, n))
    rank, level, selected = (x.reshape(s) for x, s in zip((rank, level, selected), shapes, strict=True))
    return xp.from_view(rank, p), xp.from_view(level, p), xp.from_view(selected, p)


def _plan_row(
    p: np.ndarray, q: np.ndarray, k: int, classes: ClassLayout | None, rank: np.ndarray, level: np.ndarray
) -> np.ndarray:
    """Steps 1 to 3 for one row: writes class of every token (n,), level above every class (C,); returns slope m / q (C,)."""
    if classes is None:
        order = xp.argsort(xp.where(q > 0, xp.ratio(p, q), np.inf))
        rank[order] = np.arange(len(p))
        p, q = p[order], q[order]
    else:
        p, q = classify(p, q, classes, rank)
    slope = xp.full(p.shape, 0, xp.double(p[:0]))
    used = np.flatnonzero(q > 0)
    if len(used):
        level[used[:-1]], slope[used] = levels_of(p[used], q[used], k)
    return slope


def levels_of(p: np.ndarray, q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Levels above the classes and slopes m / q, for classes with q > 0 in the order of p/q: (C,), (C,) -> (C - 1,), (C,)."""
    p = np.minimum(p, k * q)  # the selected law is at most k q, so what lies above cannot be reached and may not count
    start = _apart(xp.prefix_sums(q))
    f, t = (xp.prefix_sums(np.add.reduceat(x, start)) for x in (p, q))
    mass = t[-1]
    t = t / mass
    g = t**k
    gain = g - f
    envelope = f + np.minimum(np.maximum.accumulate(gain), np.maximum.accumulate(gain[::-1])[::-1])
    slopes = _steps(envelope) / _steps(t)
    kinks = np.concatenate((0 * t[:1], _steps(slopes), 0 * t[:1]))
    cuts, slopes = levels(t, g, kinks)
    level = xp.full((len(q) - 1,), 0, t)
    level[start[1:] - 1] = cuts[1:-1]
    return level, np.repeat(slopes / mass, np.diff(start, append=len(q)))


def _apart(t: np.ndarray) -> np.ndarray:
    """First class of every group whose mass floats can tell from its neighbours': prefix sums (C + 1,) -> int (groups,).

    On Fractions every class is its own group.
    """
    if xp.is_exact(t):
        return np.arange(len(t) - 1)
    least = RESOLUTION * len(t)
    cell = np.floor(t[:-1] / least)
    first = np.ones(len(cell), dtype=bool)
    first[1:] = _steps(cell) > 0
    (start,) = first.nonzero()  # the first in each cell of a grid
    far = np.ones(len(start), dtype=bool)
    far[1:] = (_steps(t[start]) >= least / 2) & (t[-1] - t[start[1:]] >= least / 2)
    return start[far]


def _steps(x: np.ndarray) -> np.ndarray:
    """Differences of neighbours; on few numbers np.diff takes several times as long."""
    return x[1:] - x[:-1]
