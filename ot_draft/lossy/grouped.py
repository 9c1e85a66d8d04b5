"""Groups of tokens of nearly equal p/q, without a sort on the host, and compiled passes over the tokens of one row."""

import numpy as np

from ..arrays.compiled import REORDERED, compiled
from ..arrays.ratio_classes import ClassLayout, by_ratio
from ..bias import BLOCK, FDivergence

SHIFT = 15  # bits of a float32's fraction that are dropped: 2^8 groups an octave of p/q
WIDTH = 2.0 ** (SHIFT - 23)  # largest p/q over the smallest in a group, less 1
LOWEST_RATIO, HIGHEST_RATIO = (
    2.0**-24,
    2.0**24,
)  # ratios beyond are one group each: r clips them, at 1 and above, and at the floor
FIRST = int(np.float32(LOWEST_RATIO).view(np.int32)) >> SHIFT
GROUPS = (int(np.float32(HIGHEST_RATIO).view(np.int32)) >> SHIFT) - FIRST + 3


def groups_of(p: np.ndarray, q: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Writes the group of every token of one row, and returns the masses of p and q in every group: (n,), (n,), int (n,) -> (G,), (G,).

    Group 0 holds the tokens with p = 0, the last those with q = 0.
    """
    return by_ratio(p, q, ClassLayout(FIRST - 1, SHIFT, GROUPS - 1), 0.0, 1, group)


def mixture(p, q, group, by_p, by_q, m):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """m = by_p p + by_q q with the factors of every token's group, for one row."""
    for y in range(len(p)):
        c = group[y]
        m[y] = by_p[c] * p[y] + by_q[c] * q[y]


def mixture_without_numba(p, q, group, by_p, by_q, m):  # type: ignore[no-untyped-def]
    m[:] = by_p[group] * p + by_q[group] * q


FLOORS, LEFT = 8, 1e-10  # steps to the floor at most, and what a law may lack, or have too much, where they end
NARROW = 1e-13  # rounding of a ratio


def settle(p, m, idle, floor, ceiling, share, step, r):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """r = clip(m, floor p, ceiling p) + share idle for one row, with the floor moved, and the rest shifted, so that it sums to 1.

    Returns r/p where m was at the floor, and where it was at the ceiling.
    """
    for _ in range(FLOORS):  # Newton's method, each time by no more than a group's width
        mass, low = 0.0, 0.0
        for y in range(len(p)):
            least = floor * p[y]
            v = max(min(m[y], ceiling * p[y]), least)
            mass += v
            low += p[y] if v <= least else 0.0
        if share > 0:
            mass += share * idle.sum()
        if low <= 0 or abs(1 - mass) <= LEFT:
            break
        floor += max(min((1 - mass) / low, floor / step), -floor / step)
    for y in range(len(p)):
        r[y] = max(min(m[y], ceiling * p[y]), floor * p[y])
    if share > 0:
        for y in range(len(p)):
            r[y] += share * idle[y]
    mass, up, down = 0.0, 0.0, 0.0
    for y in range(len(p)):
        mass += r[y]
        up += max(p[y] - r[y], 0.0)
        down += max(r[y] - p[y], 0.0)
    lacks = 1 - mass
    rise = lacks / up if lacks > 0 and up > 0 else 0.0
    fall = lacks / down if lacks < 0 and down > 0 else 0.0
    for y in range(len(p)):
        r[y] += rise * max(p[y] - r[y], 0.0) + fall * max(r[y] - p[y], 0.0)
    return floor + rise * max(1 - floor, 0.0), ceiling + fall * max(ceiling - 1, 0.0)


def unclipped(p, r, low, high, masses, ratios):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """Writes p and r/p of the tokens with p > 0 and low < r/p < high into masses and ratios (n,); returns how many, and p at each end."""
    low, high = low * (1 + NARROW), high * (1 - NARROW)
    count, at_low, at_high = 0, 0.0, 0.0
    for y in range(len(p)):
        at_low += p[y] if r[y] <= low * p[y] else 0.0
        at_high += p[y] if r[y] >= high * p[y] else 0.0
    for y in range(len(p)):
        masses[count], ratios[count] = p[y], r[y]  # to be written over by the next one, where it is none: no branch
        count += (r[y] > low * p[y]) & (r[y] < high * p[y])
    for i in range(count):
        ratios[i] /= masses[i]
    return count, at_low, at_high


def spent_between(p: np.ndarray, r: np.ndarray, ends: tuple[float, float], divergence: FDivergence) -> float:
    """The divergence of r from p, (n,) each, where r/p is `ends` for most tokens: f is computed for the others only."""
    between: np.ndarray = np.empty((2, len(p)))
    count, *masses = compiled(unclipped, REORDERED, "numpy")(p, r, *ends, *between)  # type: ignore[misc]
    clipped = masses @ divergence.value(np.where(np.array(masses) > 0, ends, 1.0))
    parts = [between[:, start : min(start + BLOCK, count)] for start in range(0, count, BLOCK)]
    return float(sum(mass @ divergence.value(ratio) for mass, ratio in parts) + clipped)
