"""Groups of tokens of nearly equal p/q, without a sort on the host, and without a host sync on a device."""

from __future__ import annotations

import numpy as np

from ..rules.compiled import REORDERED, compiled

SHIFT = 15  # bits of a float32's fraction that are dropped: 2^8 groups an octave of p/q
WIDTH = 2.0 ** (SHIFT - 23)  # largest p/q over the smallest in a group, less 1
LEAST, MOST = 2.0**-24, 2.0**24  # ratios beyond are one group each: r clips them, at 1 and above, and at the floor
FIRST = int(np.float32(LEAST).view(np.int32)) >> SHIFT
GROUPS = (int(np.float32(MOST).view(np.int32)) >> SHIFT) - FIRST + 3
AT_A_TIME = 1024  # tokens in the processor's cache


def groups_of(p: np.ndarray, q: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Writes the group of every token of one row, and returns the masses of p and q in every group: (n,), (n,), int (n,) -> (G,), (G,).

    Group 0 holds the tokens with p = 0, the last those with q = 0.
    """
    p_mass, q_mass = (compiled(_groups, REORDERED, "numpy") or _groups_without_numba)(p, q, FIRST, SHIFT, GROUPS, group)
    return p_mass, q_mass


def _groups(p, q, first, shift, count, group):  # type: ignore[no-untyped-def]  # numba compiles this very function
    p_mass, q_mass, least = np.zeros(count), np.zeros(count), np.float64(1e-300)
    keys = np.empty(AT_A_TIME, dtype=np.float32)
    for start in range(0, len(p), AT_A_TIME):
        stop = min(start + AT_A_TIME, len(p))
        for y in range(start, stop):
            keys[y - start] = min(p[y] / max(q[y], least), 1e30)
        bits = keys.view(np.int32)
        for y in range(start, stop):
            c = min(max((bits[y - start] >> shift) - first, 0) + 1, count - 2)
            group[y] = 0 if p[y] <= 0 else (count - 1 if q[y] <= 0 else c)
        for y in range(start, stop):
            p_mass[group[y]] += p[y]
            q_mass[group[y]] += q[y]
    return p_mass, q_mass


def _groups_without_numba(p, q, first, shift, count, group):  # type: ignore[no-untyped-def]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        key = np.minimum(p / q, 1e30).astype(np.float32).view(np.int32) >> shift
    inner = np.clip(key - first, 0, count - 3) + 1
    group[:] = np.where(p <= 0, 0, np.where(q <= 0, count - 1, inner))
    return np.bincount(group, p, count), np.bincount(group, q, count)


def mixture(p, q, group, by_p, by_q, m):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """m = by_p p + by_q q with the factors of every token's group, for one row."""
    for y in range(len(p)):
        c = group[y]
        m[y] = by_p[c] * p[y] + by_q[c] * q[y]


def mixture_without_numba(p, q, group, by_p, by_q, m):  # type: ignore[no-untyped-def]
    m[:] = by_p[group] * p + by_q[group] * q
