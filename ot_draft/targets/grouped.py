"""Groups of tokens of nearly equal p/q, without a sort on the host, and without a host sync on a device."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, namespace, positions
from ..rules.compiled import compiled

SHIFT = 15  # bits of a float32's fraction that are dropped: 2^8 groups an octave of p/q
WIDTH = 2.0 ** (SHIFT - 23)  # largest p/q over the smallest in a group, less 1
LEAST, MOST = 2.0**-24, 2.0**8  # ratios beyond are one group each: r clips them, at 1 and above, and at the floor
FIRST = int(np.float32(LEAST).view(np.int32)) >> SHIFT
GROUPS = (int(np.float32(MOST).view(np.int32)) >> SHIFT) - FIRST + 3
AT_ONCE = 256  # groups on a device, where every pair of them is looked at


def groups_of(p: np.ndarray, q: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Writes the group of every token of one row, and returns the masses of p and q in every group: (n,), (n,), int (n,) -> (G,), (G,).

    Group 0 holds the tokens with p = 0, the last those with q = 0.
    """
    p_mass, q_mass = (compiled(_groups) or _groups_without_numba)(p, q, FIRST, SHIFT, GROUPS, group)
    return p_mass, q_mass


def _groups(p, q, first, shift, count, group):  # type: ignore[no-untyped-def]  # numba compiles this very function
    p_mass, q_mass = np.zeros(count), np.zeros(count)
    for y in range(len(p)):
        if p[y] <= 0:
            c = 0
        elif q[y] <= 0:
            c = count - 1
        else:
            c = min(max((np.float32(min(p[y] / q[y], 1e30)).view(np.int32) >> shift) - first, 0) + 1, count - 2)
        group[y] = c
        p_mass[c] += p[y]
        q_mass[c] += q[y]
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
    """r = clip(m, floor p, ceiling p) + share idle for one row, with the floor moved, and the rest shifted, so that it sums to 1."""
    mass, low = 0.0, 0.0
    for y in range(len(p)):
        v = max(min(m[y], ceiling * p[y]), floor * p[y])
        mass += v + share * idle[y]
        if v <= floor * p[y]:
            low += p[y]
    if low > 0:
        floor += max(min((1 - mass) / low, floor / step), -floor / step)
    mass, up, down = 0.0, 0.0, 0.0
    for y in range(len(p)):
        v = max(min(m[y], ceiling * p[y]), floor * p[y]) + share * idle[y]
        r[y] = v
        mass += v
        up += max(p[y] - v, 0.0)
        down += max(v - p[y], 0.0)
    lacks = 1 - mass
    rise = lacks / up if lacks > 0 and up > 0 else 0.0
    fall = lacks / down if lacks < 0 and down > 0 else 0.0
    for y in range(len(p)):
        r[y] += rise * max(p[y] - r[y], 0.0) + fall * max(r[y] - p[y], 0.0)


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
