"""Distribution of the token that given levels select, in integers, which proves the value of a constructed plan.

For any levels, the selected token has this distribution m, and the plan accepts the sum of min(p, m). No other property of the
construction is needed (docs/theory.md, "Optimal selection"). For r samples from integer masses with prefix sums t, the chord of t^r
from a to b has the slope (t_b^r - t_a^r) / (t_b - t_a), which is an integer.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise


def selected_law(units: Sequence[int], draws: int, level: Sequence[int], whole: int) -> tuple[list[int], int]:
    """Numerators (N,) and common denominator of m, from masses (N,) > 0 in the order of p/q and levels (N - 1,) between them.

    level: in units of 1 / whole, from 0 to 1; a level of 0 separates nothing. draws: at least 1.
    """
    t = [0, *accumulate(units)]
    g = [x**draws for x in t]
    steps = [0] * len(t)  # differences of m / units between neighbouring tokens

    def lives(a: int, b: int, time: int) -> None:
        slope = time * ((g[b] - g[a]) // (t[b] - t[a]))
        steps[a] += slope
        steps[b] -= slope

    last = len(units)
    alive = [0, *(i for i in range(1, last) if level[i - 1]), last]
    following = dict(pairwise(alive))
    previous = {b: a for a, b in following.items()}
    born = dict.fromkeys(alive, 0)  # level at which the interval that begins here was formed
    for i in sorted(alive[1:-1], key=lambda i: level[i - 1]):
        now, a, b = level[i - 1], previous[i], following[i]
        if now >= whole:
            break
        lives(a, i, now - born[a])
        lives(i, b, now - born[i])
        born[a], following[a], previous[b] = now, b, a
    a = 0
    while a < last:
        lives(a, following[a], whole - born[a])
        a = following[a]
    return [mass * slope for mass, slope in zip(units, accumulate(steps), strict=False)], whole * t[last] ** draws
