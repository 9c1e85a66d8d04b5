"""The slopes of optimal selection's levels the slow, obvious way, to hold the sweep and the array code against."""

from __future__ import annotations

import numpy as np


def slopes_of(t: np.ndarray, g: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Slope over every interval of the integral of g_{B(lambda)}, for any levels: (N + 1,) each -> (N,). Exact on Fractions.

    The slow, obvious way, in N^2 / 2 steps: the chord from a to b is there while both live and all between are dead.
    The levels of the two ends are not read.
    """
    last = len(t) - 1
    alive = [t[last], *level[1:last], t[last]]
    slope = np.array([0 * t[0]] * last, dtype=t.dtype)
    for a in range(last):
        between = 0 * t[0]
        for b in range(a + 1, last + 1):
            lasts = min(alive[a], alive[b]) - between
            if lasts > 0:
                slope[a:b] += lasts * (g[b] - g[a]) / (t[b] - t[a])
            between = max(between, alive[b])
    return slope
