"""Optimal selection for a target other than p, by the classes that selection makes anyway: the target costs one pass more."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...laws import IID
from ...selection import Selection
from ..compiled import REORDERED, compiled
from ..coupling import couple
from .classes import ClassLayout, at_levels, choose, classify, layout
from .host import levels_of

NOTHING = 1e-6  # mass of tokens with q = 0 below which it is rounding


def select_toward(target: Any, p: Array, q: Array, drafts: Array, classes: int) -> Selection:
    """`host.select` for the target's law in the place of p. target: one with `ratios`; drafts: int (..., k), i.i.d. from q."""
    batch, n, k = xp.batch_shape(p, q), p.shape[-1], drafts.shape[-1]
    rows = [xp.broadcast(xp.host_view(x), (*batch, n)).reshape(-1, n) for x in (p, q)]
    rank = np.zeros(rows[0].shape, dtype=np.int64)
    laws = [_law_of_row(target, *row, k, layout(classes, k)) for row in zip(rows[0], rows[1], rank, strict=True)]
    number = xp.total(xp.as_number(drafts >= 0, p))
    counts = sorted({int(count) for count in np.ravel(xp.host_view(number))})
    if len(counts) == 1 and not xp.is_exact(p) and compiled(_residual, REORDERED):
        return _in_one_pass(laws, rows, rank, counts[0], p, q, drafts)
    kept = np.empty_like(rows[0])
    level = selected = p  # of the first count, then of the others where they are
    for place, count in enumerate(counts):
        new = [xp.from_view(x.reshape(*batch, -1), p) for x in _written(laws, rows[0], rows[1], rank, count, kept)]
        level, selected = (
            new if not place else (xp.where(number == count, a, b) for a, b in zip(new, (level, selected), strict=True))
        )
    r, rank = (xp.from_view(x.reshape(*batch, n), p) for x in (kept, rank))
    return couple(r, selected, choose(level, rank, drafts), drafts)


def _in_one_pass(
    laws: list[_ClassLaw], rows: list[np.ndarray], rank: np.ndarray, count: int, p: Array, q: Array, drafts: Array
) -> Selection:
    """`couple` where all rows have so many drafts: r and the law of the selected token are known by classes, and never written."""
    batch, left = xp.batch_shape(p, q), np.empty_like(rows[0])
    level, slope = _levels_of_rows(laws, count)
    for row, law in enumerate(laws):
        of_class = law.by_p, law.by_q, law.unseen, slope[row].astype(left.dtype)
        compiled(_residual, REORDERED)(*(x[row] for x in (*rows, rank)), *of_class, left[row])  # type: ignore[misc]
    by_p, by_q = (np.array([getattr(law, name) for law in laws]) for name in ("by_p", "by_q"))
    level, by_p, by_q, slope = (x.reshape(*batch, -1) for x in (level, by_p, by_q, slope.astype(left.dtype)))
    tokens = xp.host_view(drafts)
    own = xp.gather(rank.reshape(*batch, -1), tokens)  # class of every draft
    p_of, q_of = (xp.gather(xp.host_view(x), tokens) for x in (p, q))
    wanted, offered = xp.gather(by_p, own) * p_of + xp.gather(by_q, own) * q_of, xp.gather(slope, own) * q_of
    take = xp.minimum(xp.divide(wanted, offered, 0), 1)
    accept = at_levels(level, own, tokens >= 0) * take
    return Selection(xp.from_view(accept.astype(left.dtype), p), xp.from_view(left.reshape(*batch, -1), p))


class _ClassLaw(NamedTuple):
    """r = by_p p + by_q q in every class (C,), unseen times p on tokens with q = 0; masses of r and q in every class."""

    by_p: np.ndarray
    by_q: np.ndarray
    unseen: Any
    r_mass: np.ndarray
    q_mass: np.ndarray


def _law_of_row(target: Any, p: np.ndarray, q: np.ndarray, rank: np.ndarray, k: int, classes: ClassLayout) -> _ClassLaw:
    """The target of one row by classes; writes the class of every token."""
    p_mass, q_mass = classify(p, q, classes, rank)
    rest = p.sum() - p_mass.sum()
    if not xp.is_exact(p) and rest < NOTHING:
        rest = 0.0
    masses = (np.append(p_mass, rest), np.append(q_mass, 0 * rest))  # tokens with q = 0 are in no class
    by_p, by_q = target.ratios(*masses, k, IID())
    r_mass = by_p * masses[0] + by_q * masses[1]
    unseen = by_p[-1 if rest else 0]
    return _ClassLaw(by_p[:-1].astype(p.dtype), by_q[:-1].astype(p.dtype), unseen, r_mass[:-1], q_mass)


def _levels_of_rows(laws: list[_ClassLaw], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Levels above the classes and slopes m / q, for k drafts: (rows, C) each."""
    nothing = 0 * laws[0].q_mass[0]
    level, slope = (np.full((len(laws), len(laws[0].q_mass)), nothing, dtype=laws[0].r_mass.dtype) for _ in range(2))
    for row, law in enumerate(laws if k else ()):
        used = np.flatnonzero(law.q_mass > 0)
        level[row, used[:-1]], slope[row, used] = levels_of(law.r_mass[used], law.q_mass[used], k)
    return level, slope


def _written(
    laws: list[_ClassLaw], p: np.ndarray, q: np.ndarray, rank: np.ndarray, k: int, r: np.ndarray
) -> tuple[Array, Array]:
    """Writes r (rows, n); levels above the classes (rows, C) and the law of the selected token (rows, n), for k drafts."""
    level, slope = _levels_of_rows(laws, k)
    selected = np.empty_like(q)
    for row, law in enumerate(laws):
        own = rank[row]
        r[row] = np.where(q[row] > 0, law.by_p[own] * p[row] + law.by_q[own] * q[row], law.unseen * p[row])
        selected[row] = slope[row].astype(q.dtype)[own] * q[row]
    return level.astype(q.dtype), selected


def _residual(p, q, rank, by_p, by_q, unseen, slope, left):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """Writes norm((r - m)+), or r where that is 0, for one row: r = by_p p + by_q q (unseen p where q is 0), m = slope q."""
    for y in range(len(p)):
        c = np.uint64(rank[y])  # without a sign there is nothing to be counted from the end
        left[y] = max(by_p[c] * p[y] + (by_q[c] - slope[c]) * q[y], 0.0)
    if unseen != by_p[0]:
        for y in range(len(p)):
            if q[y] <= 0:
                left[y] = unseen * p[y]
    mass = 0.0  # in float64
    for y in range(len(p)):
        mass += left[y]
    if mass > 0:
        share = 1 / mass
        for y in range(len(p)):
            left[y] *= share
        return
    for y in range(len(p)):
        left[y] = by_p[rank[y]] * p[y] + by_q[rank[y]] * q[y] if q[y] > 0 else unseen * p[y]
