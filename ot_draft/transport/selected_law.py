"""The distribution of the token that given levels select, in integers: the proof of what a constructed plan attains, at any size.

Whatever the levels are, the selection by them has this law m, and the plan accepts the sum of min(p, m): nothing else of the
construction has to be trusted (docs/theory.md, "Optimal selection"). Of r draws from masses in whole units with prefix sums t,
the chord of t^r from a to b has the slope (t_b^r - t_a^r) / (t_b - t_a), which is a whole number.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise


def selected_law(units: Sequence[int], draws: int, level: Sequence[int], whole: int) -> tuple[list[int], int]:
    """m of every token, and the denominator of all: (N,) masses > 0 along the order, (N - 1,) levels between them -> (N,), int.

    level: in units of 1 / whole, from 0 to 1; one that is 0 keeps nothing apart. draws: at least 1.
    """
    t = [0, *accumulate(units)]
    g = [x**draws for x in t]
    steps = [0] * len(t)  # of m / units, from one token to the next

    def lives(a: int, b: int, time: int) -> None:
        slope = time * ((g[b] - g[a]) // (t[b] - t[a]))
        steps[a] += slope
        steps[b] -= slope

    last = len(units)
    alive = [0, *(i for i in range(1, last) if level[i - 1]), last]
    following = dict(pairwise(alive))
    previous = {b: a for a, b in following.items()}
    born = dict.fromkeys(alive, 0)  # when the interval that begins here came into being
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
