"""The curves and levels of the proof in ../optimal_selection.py: plain Fractions, every definition taken literally.

Nothing is shared with ot_draft/rules, and nothing is fast. A curve is the list of its values at the breakpoints 0 .. N.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise, product

Curve = Sequence[Fraction]


@dataclass(frozen=True)
class Curves:
    """Tokens with q > 0 in some order, and the curves over their prefixes."""

    order: list[int]
    t: Curve
    f: Curve
    g: Curve
    envelope: Curve


def curves(p: Curve, q: Curve, k: int, key: Callable[[int], Fraction] | None = None) -> Curves:
    """Return the curves of steps 1 and 2, in the order of p/q (or of another key)."""
    order = sorted((y for y in range(len(q)) if q[y] > 0), key=key or (lambda y: p[y] / q[y]))
    t, f = (list(accumulate((x[y] for y in order), initial=Fraction(0))) for x in (q, p))
    g = [x**k for x in t]
    gain = [a - b for a, b in zip(g, f, strict=True)]
    envelope = [f[i] + min(max(gain[: i + 1]), max(gain[i:])) for i in range(len(t))]
    return Curves(order, t, f, g, envelope)


def slopes(t: Curve, h: Curve) -> list[Fraction]:
    """Return the slope of every step."""
    return [(h[i + 1] - h[i]) / (t[i + 1] - t[i]) for i in range(len(t) - 1)]


def is_convex(t: Curve, h: Curve) -> bool:
    """Return whether slopes never fall."""
    return all(a <= b for a, b in pairwise(slopes(t, h)))


def chord(t: Curve, h: Curve, a: int, i: int, b: int) -> Fraction:
    """Return the value at breakpoint i of the straight line from a to b."""
    return h[a] + (h[b] - h[a]) * (t[i] - t[a]) / (t[b] - t[a])


def interpolant(t: Curve, h: Curve, cuts: set[int]) -> list[Fraction]:
    """Return h_B, which is straight between the breakpoints of B and the two ends."""
    kept = sorted(cuts | {0, len(t) - 1})
    return [*(chord(t, h, a, i, b) for a, b in pairwise(kept) for i in range(a, b)), h[-1]]


def hull(t: Curve, h: Curve) -> set[int]:
    """Return the inner vertices of the lower convex hull, by the definition: strictly below the chord of any two around them."""
    last = len(t) - 1
    return {
        i for i in range(1, last) if all(h[i] < chord(t, h, a, i, b) for a in range(i) for b in range(i + 1, last + 1))
    }


def levels_by_chords(t: Curve, g: Curve, envelope: Curve) -> list[Fraction]:
    """Return c_i = min(1, least ratio of the chords' height above G and above g); 0 where G is straight. The ends have level 1."""
    last = len(t) - 1
    level = [Fraction(1)] * (last + 1)
    for i in range(1, last):
        for a, b in product(range(i), range(i + 1, last + 1)):
            over, under = (chord(t, h, a, i, b) - h[i] for h in (envelope, g))
            if over <= 0:
                level[i] = Fraction(0)
            elif under > 0:
                level[i] = min(level[i], over / under)
    return level


def levels_by_sweep(t: Curve, g: Curve, envelope: Curve) -> list[Fraction]:
    """Return the levels by a sweep: a breakpoint starts with its kink of G, loses that of g_B per unit of lambda, and is removed at 0."""
    last, now = len(t) - 1, Fraction(0)
    level = [Fraction(1)] * (last + 1)
    left = kinks(t, envelope)
    while True:
        for i in [i for i in left if left[i] <= 0]:
            level[i] = now
            del left[i]
        rate = kinks(t, interpolant(t, g, set(left)))
        step = min((left[i] / rate[i] for i in left), default=Fraction(1))
        if now + step >= 1:
            return level
        now += step
        left = {i: left[i] - step * rate[i] for i in left}


def kinks(t: Curve, h: Curve) -> dict[int, Fraction]:
    """Return the change of slope at every inner breakpoint."""
    steps = slopes(t, h)
    return {i: steps[i] - steps[i - 1] for i in range(1, len(t) - 1)}


def stretches(level: Curve) -> list[tuple[Fraction, set[int]]]:
    """Return the stretches of lambda in [0, 1] on which B(lambda) = {i : c_i > lambda} does not change: length, B."""
    marks = sorted({Fraction(0), Fraction(1), *level})
    inner = range(1, len(level) - 1)
    return [(high - low, {i for i in inner if level[i] > low}) for low, high in pairwise(marks)]


def mixture(t: Curve, g: Curve, level: Curve) -> list[Fraction]:
    """Return the integral of g_B(lambda) over lambda in [0, 1]."""
    total = [Fraction(0)] * len(t)
    for length, cuts in stretches(level):
        total = [a + length * b for a, b in zip(total, interpolant(t, g, cuts), strict=True)]
    return total


def law(order: Sequence[int], curve: Curve, n: int) -> list[Fraction]:
    """Return the increments of a curve as masses of tokens."""
    masses = [Fraction(0)] * n
    for i, y in enumerate(order):
        masses[y] = curve[i + 1] - curve[i]
    return masses
