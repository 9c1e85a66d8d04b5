"""Optimal selection for i.i.d. and hybrid drafts, in O(n log n + k log k), without a linear program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import (
    Array,
    argsort,
    as_number,
    batch_shape,
    broadcast,
    cleared,
    gather,
    is_exact,
    largest,
    namespace,
    on_host,
    one,
    positions,
    prefix_minimum,
    prefix_sums,
    ratio,
    small,
    suffix_maximum,
    total,
    unsmall,
    where,
    zero,
)
from ...errors import InvalidDrafts
from ...kernels import wanted
from ...laws import IID, DraftLaw, Hybrid, outside
from ...selection import Selection, SelectionRule
from ..coupling import couple
from .classes import Layout, classify, layout
from .device import CLASSES, plan_in_parallel
from .levels import levels

# Times the number of classes: slopes over less mass are noise. Measured best for 5 to 151,936 classes.
RESOLUTION = 2.0**-44
KERNELS = 512  # classes that the GPU's kernels take at most: their work grows with the square


@dataclass(frozen=True)
class Optimal(SelectionRule):
    """Select one draft by levels between the tokens, then couple its token with the target; attains the optimum alpha*.

    law: IID, or Hybrid(top=j) for any j; "auto" is short for Hybrid(top="auto"). classes: None solves exactly; an integer
    groups tokens of nearly equal ratio p/q into about so many classes, which costs acceptance (compare with
    `optimal_acceptance`) and never validity, because the law m of the selected token is that of the levels really used.
    On the host the levels come from a sweep, row by row; on an accelerator from `parallel`, always by classes.
    Output law p, acceptance alpha* (proof and exact check: proofs_checks/optimum/optimal_selection.py).
    """

    law: DraftLaw = IID()
    classes: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.law, str) and self.law == "auto":
            object.__setattr__(self, "law", Hybrid(top="auto"))
        if not isinstance(self.law, IID | Hybrid):
            raise InvalidDrafts(
                f"Optimal(law={self.law!r}): give IID(), Hybrid(top=j) or 'auto'; RandomOrder takes any law"
            )
        if self.classes is not None and not (isinstance(self.classes, int) and self.classes >= 1):
            raise InvalidDrafts(
                f"Optimal(classes={self.classes!r}): give a number of classes >= 1, or None for all tokens"
            )

    @property
    def claims(self) -> tuple[str, ...]:  # type: ignore[override]  # fixed by the fields
        return ("optimal",) if self.classes is None else ("maximal",)

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        if not isinstance(self.law, Hybrid):
            if _on_device(p, drafts, self.classes):
                from .triton import optimal

                return Selection(*optimal(p, q, drafts, *layout(self.classes or CLASSES, drafts.shape[-1])))
            choice, selected = select_draft(p, q, drafts, self.classes)
            return couple(p, selected, choice, drafts)
        fixed = self.law.top_drafts(q, drafts.shape[-1])
        fixed = where(drafts == fixed, drafts, -1)
        drawn = where(fixed >= 0, -1, drafts)
        choice, selected = select_draft(cleared(p, fixed), outside(q, fixed), drawn, self.classes)
        return couple(p, selected, choice, drafts, fixed)

    def toward(self, target: Any, p: Array, q: Array, drafts: Array) -> Selection:
        grouped = getattr(target, "groups", False) and self.classes is not None and self.law.merges
        if not grouped or not on_host(p) or not drafts.shape[-1]:
            return super().toward(target, p, q, drafts)
        from .toward import plan_toward

        r, rank, level, selected = plan_toward(target, p, q, drafts, layout(self.classes, drafts.shape[-1]))
        choice = _choice(small(level), small(gather(rank, drafts)), small(drafts >= 0))
        return couple(r, selected, unsmall(choice, p), drafts)


def select_draft(p: Array, q: Array, drafts: Array, classes: int | None = None) -> tuple[Array, Array]:
    """Which draft is selected, and the law m of the selected token: (..., k), (..., n).

    p: (..., n) target masses with sum at most 1 (a scaled target w p is allowed); drafts: i.i.d. from q, absent
    ones -1. choice_i is the probability, given the drafts, that position i is selected; it sums to 1 (0 without a draft).
    sum_y min(p, m) is the largest that the law m of any selection can reach.
    """
    if _on_device(p, drafts, classes):
        from . import triton as kernels

        return kernels.select_draft(p, q, drafts, *layout(classes or CLASSES, drafts.shape[-1]))
    count = total(as_number(drafts >= 0, p))
    if not on_host(p):
        rank, level, selected = plan_in_parallel(p, q, count, drafts.shape[-1], classes)
    else:
        rank, level, selected = _by_count(
            p, q, count, None if classes is None else layout(classes, max(drafts.shape[-1], 1))
        )
    choice = _choice(small(level), small(gather(rank, drafts)), small(drafts >= 0))
    return unsmall(choice, p), selected


def _on_device(p: Array, drafts: Array, classes: int | None) -> bool:
    return (classes or CLASSES) <= KERNELS and wanted(p, drafts)


def _choice(level: Array, rank: Array, present: Array) -> Array:
    """At level lambda the classes form intervals, cut where level > lambda: the highest that holds a draft wins, its first draft.

    level: (..., C) of the boundary above each class; rank: int (..., k) class of each draft.
    """
    if not rank.shape[-1]:
        return level[..., :0]
    highest = largest(where(present, rank, -1))
    cuts = where(positions(level.shape[-1], rank) < highest, level, zero(level))
    cut = where(present, gather(suffix_maximum(cuts), rank), one(level))
    left = prefix_minimum(cut)
    before = namespace(left).concatenate((0 * left[..., :1] + one(left), left[..., :-1]), -1)
    return before - left


def _by_count(p: Array, q: Array, count: Array, classes: Layout | None) -> tuple[Array, Array, Array]:
    """Class of every token, level above every class, law of the selected token, for every number of drafts that occurs."""
    counts = {int(c) for c in np.ravel(small(count))} or {0}
    plans = {c: _plan_rows(p, q, c, classes) for c in sorted(counts)}
    rank, level, selected = plans.popitem()[1]
    for c, other in plans.items():
        rank, level, selected = (
            where(count == c, new, old) for new, old in zip(other, (rank, level, selected), strict=True)
        )
    return rank, level, selected


def _plan_rows(p: Array, q: Array, k: int, classes: Layout | None) -> tuple[Array, Array, Array]:
    batch, n = batch_shape(p, q), p.shape[-1]
    targets, drafts = (broadcast(small(x), (*batch, n)).reshape(-1, n) for x in (p, q))
    width = n if classes is None else classes.number
    rank = np.zeros(targets.shape, dtype=np.int64)
    level = np.full((len(targets), width), zero(p), dtype=targets.dtype)
    selected = np.full(targets.shape, zero(p), dtype=targets.dtype)
    for row in range(len(targets) if k else 0):
        slope = _plan_row(targets[row], drafts[row], k, classes, rank[row], level[row])
        slope.astype(selected.dtype).take(rank[row], out=selected[row], mode="clip")
        selected[row] *= drafts[row]
    shapes = ((*batch, n), (*batch, width), (*batch, n))
    rank, level, selected = (x.reshape(s) for x, s in zip((rank, level, selected), shapes, strict=True))
    return unsmall(rank, p), unsmall(level, p), unsmall(selected, p)


def _plan_row(
    p: np.ndarray, q: np.ndarray, k: int, classes: Layout | None, rank: np.ndarray, level: np.ndarray
) -> np.ndarray:
    """Steps 1 to 3 for one row: writes class of every token (n,), level above every class (C,); returns slope m / q (C,)."""
    if classes is None:
        order = argsort(where(q > 0, ratio(p, q), np.inf))
        rank[order] = np.arange(len(p))
        p, q = p[order], q[order]
    else:
        p, q = classify(p, q, classes, rank)
    slope = np.full(len(p), zero(p), dtype=object if is_exact(p) else np.float64)
    used = np.flatnonzero(q > 0)
    if len(used):
        level[used[:-1]], slope[used] = levels_of(p[used], q[used], k)
    return slope


def levels_of(p: np.ndarray, q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Levels above the classes and slopes m / q, for classes with q > 0 in the order of p/q: (C,), (C,) -> (C - 1,), (C,)."""
    p = np.minimum(p, k * q)  # the selected law is at most k q, so what lies above cannot be reached and may not count
    start = _apart(prefix_sums(q))
    f, t = (prefix_sums(np.add.reduceat(x, start)) for x in (p, q))
    mass = t[-1]
    t = t / mass
    g = t**k
    gain = g - f
    envelope = f + np.minimum(np.maximum.accumulate(gain), np.maximum.accumulate(gain[::-1])[::-1])
    slopes = _steps(envelope) / _steps(t)
    kinks = np.concatenate((0 * t[:1], _steps(slopes), 0 * t[:1]))
    cuts, slopes = levels(t, g, kinks)
    level = np.full(len(q) - 1, zero(q), dtype=t.dtype)
    level[start[1:] - 1] = cuts[1:-1]
    return level, np.repeat(slopes / mass, np.diff(start, append=len(q)))


def _apart(t: np.ndarray) -> np.ndarray:
    """First class of every group whose mass floats can tell from its neighbours': prefix sums (C + 1,) -> int (groups,).

    On Fractions every class is its own group.
    """
    if is_exact(t):
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
