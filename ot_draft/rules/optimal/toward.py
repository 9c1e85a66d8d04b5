"""Optimal selection for a target other than p, by the classes that selection makes anyway: the target costs one pass more."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import Array, as_number, batch_shape, broadcast, full, is_exact, small, total, unsmall, where, zero
from ...laws import IID
from ...selection import Selection
from ..coupling import couple
from .choice import choose
from .classes import ClassLayout, classify, layout
from .host import levels_of

NOTHING = 1e-6  # mass of tokens with q = 0 below which it is rounding


def select_toward(target: Any, p: Array, q: Array, drafts: Array, classes: int) -> Selection:
    """`host.select` for the target's law in the place of p."""
    r, rank, level, selected = plan_toward(target, p, q, drafts, layout(classes, drafts.shape[-1]))
    return couple(r, selected, choose(level, rank, drafts), drafts)


def plan_toward(
    target: Any, p: Array, q: Array, drafts: Array, classes: ClassLayout
) -> tuple[Array, Array, Array, Array]:
    """r (..., n), constant times p in every class, and for it what `_plan_rows` gives: class of every token, levels, law of the selected.

    target: one with `ratios`; drafts: int (..., k), i.i.d. from q; on the host.
    """
    batch, n, k = batch_shape(p, q), p.shape[-1], drafts.shape[-1]
    rows = [broadcast(small(x), (*batch, n)).reshape(-1, n) for x in (p, q)]
    kept, rank = np.empty_like(rows[0]), np.zeros(rows[0].shape, dtype=np.int64)
    laws = []
    for row, (p_row, q_row) in enumerate(zip(*rows, strict=True)):
        laws.append(_target_of_row(target, p_row, q_row, k, classes, rank[row], kept[row]))
    present = np.ravel(small(total(as_number(drafts >= 0, p))))
    counts = sorted({int(count) for count in present})
    plans = [_levels_of_rows(laws, rows[1], rank, count, zero(p)) for count in counts]
    shown = unsmall(kept.reshape(*batch, n), p), unsmall(rank.reshape(*batch, n), p)
    level, selected = (unsmall(x.reshape(*batch, x.shape[-1]), p) for x in plans[0])
    number = total(as_number(drafts >= 0, p))
    for count, plan in zip(counts[1:], plans[1:], strict=True):
        level, selected = (
            where(number == count, unsmall(new.reshape(*batch, new.shape[-1]), p), old)
            for new, old in zip(plan, (level, selected), strict=True)
        )
    return (*shown, level, selected)


def _target_of_row(
    target: Any, p: np.ndarray, q: np.ndarray, k: int, classes: ClassLayout, rank: np.ndarray, r: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Writes r and the class of every token; returns the masses of r and q in every class: (C,), (C,)."""
    p_mass, q_mass = classify(p, q, classes, rank)
    rest = p.sum() - p_mass.sum()
    if not is_exact(p) and rest < NOTHING:
        rest = 0.0
    masses = (np.append(p_mass, rest), np.append(q_mass, zero(q_mass)))  # tokens with q = 0 are in no class
    by_p, by_q = target.ratios(*masses, k, IID())
    factor = by_p.astype(p.dtype)
    np.multiply(factor.take(rank, out=r, mode="clip"), p, out=r)
    if rest:
        r[q <= 0] = factor[-1] * p[q <= 0]
    if by_q.any():
        r += by_q.astype(p.dtype)[rank] * q
    return (by_p * masses[0] + by_q * masses[1])[:-1], q_mass


def _levels_of_rows(laws: list[Any], q: np.ndarray, rank: np.ndarray, k: int, nothing: Any) -> tuple[Array, Array]:
    """Levels above the classes (rows, C) and the law of the selected token (rows, n), for k drafts."""
    level = full((len(laws), len(laws[0][0])), nothing, q)
    selected = full(q.shape, nothing, q)
    for row, (r_mass, q_mass) in enumerate(laws if k else ()):
        slope = np.full(len(r_mass), nothing, dtype=r_mass.dtype)
        used = np.flatnonzero(q_mass > 0)
        cuts, slope[used] = levels_of(r_mass[used], q_mass[used], k)
        level[row, used[:-1]] = cuts
        slope.astype(q.dtype).take(rank[row], out=selected[row], mode="clip")
        selected[row] *= q[row]
    return level, selected
