"""Groups of tokens of nearly equal p/q, without a sort on the host, and without a host sync on a device."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, namespace, positions
from ..rules.compiled import REORDERED, compiled

SHIFT = 15  # bits of a float32's fraction that are dropped: 2^8 groups an octave of p/q
WIDTH = 2.0 ** (SHIFT - 23)  # largest p/q over the smallest in a group, less 1
LEAST, MOST = 2.0**-24, 2.0**24  # ratios beyond are one group each: r clips them, at 1 and above, and at the floor
FIRST = int(np.float32(LEAST).view(np.int32)) >> SHIFT
GROUPS = (int(np.float32(MOST).view(np.int32)) >> SHIFT) - FIRST + 3
FLOORS, LEFT = 8, 1e-10  # steps to the floor at most, and what a law may lack, or have too much, where they end
NARROW = 1e-13  # rounding of a ratio
AT_A_TIME = 1024  # tokens in the processor's cache
AT_ONCE = 256  # groups on a device, where every pair of them is looked at


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


def sum_of_least(law, selected, idle):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """Sum of min(law, selected + idle) of one row."""
    accepted = 0.0
    for y in range(len(law)):
        accepted += min(law[y], selected[y] + idle[y])
    return accepted


def chain_of_groups(target: Array, drafted: Array) -> tuple[Array, Array]:
    """Ends of at most AT_ONCE groups along an order, where F and g rise about equally: torch (..., n + 1) twice -> int (..., G + 1).

    Returns the ends and the group of every place of the order, int (..., n). No host sync.
    """
    torch = namespace(target)
    n = target.shape[-1] - 1
    rise = (target + drafted) / (target[..., -1:] + drafted[..., -1:])
    marks = positions(AT_ONCE + 1, target).to(target.dtype) / AT_ONCE
    ends = torch.searchsorted(rise.contiguous(), marks.expand(*target.shape[:-1], AT_ONCE + 1).contiguous()).clamp(
        max=n
    )
    ends = torch.cat((0 * ends[..., :1], ends[..., 1:-1], 0 * ends[..., :1] + n), -1)
    place = positions(n, target).expand(*target.shape[:-1], n).contiguous()
    group = (torch.searchsorted(ends.contiguous(), place, right=True) - 1).clamp(max=AT_ONCE - 1)
    return ends, group


def slopes_at_once(target: Array, drafted: Array) -> Array:
    """Slopes of the least concave curve above g over F, all groups together: torch (..., G + 1) twice -> (..., G).

    That curve's slope at j is the least, over i < j, of the largest slope of a chord from i to some l >= j.
    """
    rise = drafted[..., None, :] - drafted[..., :, None]
    run = target[..., None, :] - target[..., :, None]
    chord = (rise / run).masked_fill(run <= 0, float("-inf"))  # from i (row) to l (column)
    steepest = chord.flip(-1).cummax(-1).values.flip(-1)  # of the chords from i to l >= column
    least = steepest.masked_fill(run <= 0, float("inf")).cummin(-2).values  # over i < column: run > 0
    slope = least.diagonal(offset=1, dim1=-2, dim2=-1)
    return slope.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).clamp(min=0)
