"""The sweep for the levels: the only sequential part of optimal selection.

Breakpoints 0 = t_0 < t_1 < ... < t_N = 1 carry a convex g. For a set B of them let g_B be the piecewise-linear interpolant of g on B
and the two ends. Given a convex G >= g with the same ends and the same breakpoints, the sweep finds levels c in [0, 1] with

    G = integral over lambda in [0, 1] of g_{B(lambda)},   B(lambda) = {i : c_i > lambda}.

Every breakpoint starts with its kink (change of slope) in G; while it lives it loses, per unit of lambda, the kink of
g_{B(lambda)} at its place, which depends on its two living neighbours only; it dies, at c_i, when nothing is left.
"""

from heapq import heapify, heappop, heappush

import numpy as np

from ...dispatch import for_floats


def levels(
    t: np.ndarray, g: np.ndarray, kinks: np.ndarray, min_compiled_size: int = 17
) -> tuple[np.ndarray, np.ndarray]:
    """Levels of the breakpoints, and the slopes that they really give: (N + 1,), (N + 1,), (N + 1,) -> (N + 1,), (N,).

    kinks holds G's kink at every interior breakpoint (entries 0 and N are not read). The slopes are those of the integral
    above over each interval, from the levels as rounded, so that they are right for these levels whatever G was.
    Exact on Fractions. min_compiled_size: number of breakpoints from which a compiled sweep is faster.
    """
    if len(t) >= min_compiled_size and (sweep := for_floats(_sweep, t)) is not _sweep:
        level, slope = sweep(t, g, kinks, np.zeros(len(t)), np.zeros(len(t)))
        return level, slope
    zeros = [0 * t[0] for _ in t]
    level, slope = _sweep(t.tolist(), g.tolist(), kinks.tolist(), zeros, zeros.copy())
    return np.array(level, dtype=t.dtype), np.array(slope, dtype=t.dtype)


def _sweep(t, g, kinks, level, slope):  # type: ignore[no-untyped-def]
    last = len(t) - 1
    left = [i - 1 for i in range(last + 1)]
    right = [i + 1 for i in range(last + 1)]
    born = [0 * t[0] for _ in range(last + 1)]  # lambda at which the interval that starts here came into being
    seen = [0 * t[0] for _ in range(last + 1)]  # lambda up to which a breakpoint's loss is booked
    rest = [kinks[i] for i in range(last + 1)]
    rate = [0 * t[0] for _ in range(last + 1)]
    version = [0 for _ in range(last + 1)]
    for i in range(1, last):
        if rest[i] <= 0:
            right[left[i]], left[right[i]] = right[i], left[i]
            version[i] = -1
    one = t[last]
    deaths = [(one + one, 0, 0)]  # 2: later than all that matters
    for i in range(1, last):
        if version[i] == 0:
            a, b = left[i], right[i]
            rate[i] = (g[b] - g[i]) / (t[b] - t[i]) - (g[i] - g[a]) / (t[i] - t[a])
            if rest[i] < rate[i] * one:  # else it lives to the end
                deaths.append((rest[i] / rate[i], i, 0))
    heapify(deaths)
    while True:
        now, i, stamp = heappop(deaths)
        if now >= one:
            break
        if version[i] != stamp:
            continue
        level[i] = now
        version[i] = -1
        a, b = left[i], right[i]
        share = (g[i] - g[a]) / (t[i] - t[a]) * (now - born[a])
        slope[a] += share
        slope[i] -= share
        share = (g[b] - g[i]) / (t[b] - t[i]) * (now - born[i])
        slope[i] += share
        slope[b] -= share
        born[a] = now
        right[a], left[b] = b, a
        for j in (a, b):
            if 0 < j < last:
                rest[j] -= rate[j] * (now - seen[j])
                seen[j] = now
                c, d = left[j], right[j]
                rate[j] = (g[d] - g[j]) / (t[d] - t[j]) - (g[j] - g[c]) / (t[j] - t[c])
                version[j] += 1
                if rate[j] > 0 and rest[j] < rate[j] * (one - now):
                    heappush(deaths, (now + max(rest[j], 0 * one) / rate[j], j, version[j]))
    i = 0
    while i < last:
        b = right[i]
        share = (g[b] - g[i]) / (t[b] - t[i]) * (one - born[i])
        slope[i] += share
        slope[b] -= share
        if i > 0:
            level[i] = one
        i = b
    for i in range(1, last):
        slope[i] += slope[i - 1]
    return level, slope[:last]
