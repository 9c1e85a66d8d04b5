"""Slopes of the least concave majorant of g as a function of F: by row on the host, and vectorised by groups on a device."""

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..dispatch import for_floats


def slopes_of_rows(target: Array, drafted: Array) -> Array:
    """Slopes (..., C) of the least concave majorant of g = drafted over F = target, (..., C + 1) each, by row on the host."""
    f, g = (np.reshape(xp.host_view(x), (-1, x.shape[-1])) for x in (target, drafted))
    slope = xp.full((len(f), f.shape[-1] - 1), 0, like=f)
    sweep = for_floats(_sweep, f)
    with np.errstate(over="ignore"):
        for row in range(len(f)):
            rising, corners = np.ascontiguousarray(g[row]), np.zeros(f.shape[-1], dtype=np.int64)
            sweep(np.ascontiguousarray(f[row]), rising, corners, slope[row])
    return xp.from_view(finite(slope).reshape(*target.shape[:-1], slope.shape[-1]), target)


def finite(ratio: Array) -> Array:
    """Ratios clipped to 1e150, because ratios to subnormal masses overflow."""
    return ratio if xp.is_exact(ratio) else xp.minimum(ratio, 1e150)  # its square is finite


def _sweep(f, g, corners, slope):  # type: ignore[no-untyped-def]
    size = 1  # number of corners so far; the first is the origin
    for i in range(1, len(f)):
        while size > 0 and f[corners[size - 1]] == f[i] and g[corners[size - 1]] <= g[i]:
            size -= 1
        while size > 1:
            a, b = corners[size - 2], corners[size - 1]
            if (g[b] - g[a]) * (f[i] - f[b]) > (g[i] - g[b]) * (f[b] - f[a]):
                break
            size -= 1
        corners[size] = i
        size += 1
    for c in range(1, size):
        a, b = corners[c - 1], corners[c]
        if f[b] > f[a]:
            slope[a:b] = (g[b] - g[a]) / (f[b] - f[a])


def chain_of_groups(target: Array, drafted: Array, max_groups: int = 256) -> tuple[Array, Array]:
    """Ends int (..., G + 1) of at most max_groups groups of ranks with about equal increments of F + g; and the group of each rank.

    target, drafted: torch (..., n + 1). Groups: int (..., n). No host sync. Later work is quadratic in max_groups.
    """
    torch = xp.namespace(target)
    n = target.shape[-1] - 1
    rise = (target + drafted) / (target[..., -1:] + drafted[..., -1:])
    marks = xp.arange(max_groups + 1, like=target).to(target.dtype) / max_groups
    marks = marks.expand(*target.shape[:-1], max_groups + 1).contiguous()
    ends = torch.searchsorted(rise.contiguous(), marks).clamp(max=n)
    ends = torch.cat((0 * ends[..., :1], ends[..., 1:-1], 0 * ends[..., :1] + n), -1)
    place = xp.arange(n, like=target).expand(*target.shape[:-1], n).contiguous()
    group = (torch.searchsorted(ends.contiguous(), place, right=True) - 1).clamp(max=max_groups - 1)
    return ends, group


def slopes_at_once(target: Array, drafted: Array) -> Array:
    """Slopes (..., G) of the least concave majorant of g over F, torch (..., G + 1) each, vectorised.

    The slope at j is the minimum over i < j of the maximum over l >= j of the slope of the chord from i to l.
    """
    rise = drafted[..., None, :] - drafted[..., :, None]
    run = target[..., None, :] - target[..., :, None]
    chord = (rise / run).masked_fill(run <= 0, float("-inf"))  # from i (row) to l (column)
    steepest = chord.flip(-1).cummax(-1).values.flip(-1)  # of the chords from i to l >= column
    least = steepest.masked_fill(run <= 0, float("inf")).cummin(-2).values  # over i < column: run > 0
    slope = least.diagonal(offset=1, dim1=-2, dim2=-1)
    return slope.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).clamp(min=0)
