"""The lemmas of ../optimal_selection.py as questions to one random case. `error` injects an error in it; "" injects none."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import ot_draft as otd

from ...random_cases import Case
from .curves import (
    Curve,
    curves,
    hull,
    interpolant,
    is_convex,
    kinks,
    law,
    levels_by_chords,
    levels_by_sweep,
    mixture,
    slopes,
    stretches,
)
from .rule import choice_by_intervals, choice_by_minimum, selected_law

BY_DRAFT = "order by q instead of p/q"
ONE_SIDE = "only the running maximum from the left"
ONE_LEVEL = "one level changed"
STRAIGHT = "k = 1"
TOP_DRAFT = "the top draft always"


def least_cut(p: Curve, inside: list[Fraction]) -> Fraction:
    """Return min over H of 1 + p(H) - Q(all drafts in H), over all token sets."""
    return min(
        1 + sum((p[y] for y in H), Fraction(0)) - chance for H, chance in zip(token_sets(len(p)), inside, strict=True)
    )


def token_sets(n: int) -> list[tuple[int, ...]]:
    """Return every set of tokens, by size."""
    return [chosen for size in range(n + 1) for chosen in combinations(range(n), size)]


def inside(q: Curve, k: int) -> list[Fraction]:
    """Return q(H)^k for every token set."""
    return [sum((q[y] for y in H), Fraction(0)) ** k for H in token_sets(len(q))]


def attained(p: Curve, m: Curve) -> Fraction:
    """Return the sum of min(p, m)."""
    return sum(map(min, p, m), Fraction(0))


def bound(case: Case, error: str) -> bool:
    """Return whether the least cut over all token sets is that of a prefix, and the value of the library."""
    p, q, k = case.p, case.q, case.k
    curve = curves(p, q, k, q.__getitem__ if error == BY_DRAFT else None)
    alpha, chosen = otd.optimal_cut(list(p), list(q), k)
    by_prefix = min(1 + f - g for f, g in zip(curve.f, curve.g, strict=True))
    return least_cut(p, inside(q, k)) == by_prefix == alpha == otd.cut_value(case.problem(), chosen)


def envelope(case: Case, error: str) -> bool:
    """Return whether G is convex, above g, from 0 to 1; its increments m reach the bound, and are at most k q.

    G does not change if min(p, k q) replaces p.
    """
    p, q, k = case.p, case.q, case.k
    curve = curves(p, q, k)
    t, g, big = curve.t, curve.g, curve.envelope
    if error == ONE_SIDE:
        big = [f + max(b - a for a, b in zip(curve.f[: i + 1], g[: i + 1], strict=True)) for i, f in enumerate(curve.f)]
    m = law(curve.order, big, len(p))
    above = is_convex(t, big) and all(a >= b for a, b in zip(big, g, strict=True)) and big[0] == 0 and big[-1] == 1
    cut = [min(a, k * b) for a, b in zip(p, q, strict=True)]
    clipped = curves(cut, q, k, lambda y: p[y] / q[y]).envelope
    return above and attained(p, m) == least_cut(p, inside(q, k)) and max(slopes(t, big)) <= k and clipped == big


def cube(case: Case, error: str) -> bool:
    """Return whether exactly g_B >= g is an equality at the breakpoints in B, and exactly kink >= 0 at the others."""
    curve = curves(case.p, case.q, case.k)
    k = 1 if error == STRAIGHT else max(case.k, 2)
    g = [x**k for x in curve.t]
    for B in map(set, token_sets(min(len(g), 7) - 2)):
        cuts = {i + 1 for i in B}
        line = interpolant(curve.t, g, cuts)
        touching = {i for i in range(1, len(g) - 1) if line[i] == g[i]}
        if not cuts == touching == {i for i, kink in kinks(curve.t, line).items() if kink > 0}:
            return False
    return True


def levels(case: Case, error: str) -> bool:
    """Return whether B(lambda) are the vertices of the hull of G - lambda g; the sweep finds the same levels; the integral of g_B is G."""
    curve = curves(case.p, case.q, case.k)
    t, g, big = curve.t, curve.g, curve.envelope
    level = levels_by_chords(t, g, big)
    if error == ONE_LEVEL:
        level = changed(level, case)
    same = level == levels_by_sweep(t, g, big) if not error else True
    low = Fraction(0)
    for length, cuts in stretches(level) if not error else []:
        for now in (low, low + length / 2):  # B does not change from the beginning of a stretch to before its end
            same &= cuts == hull(t, [a - now * b for a, b in zip(big, g, strict=True)])
        low += length
    return same and mixture(t, g, level) == big


def changed(level: Curve, case: Case) -> list[Fraction]:
    """Return the levels with one of them, at an inner breakpoint, moved to the other half of [0, 1]."""
    i = 1 + case.seed % max(len(level) - 2, 1)
    return [*level[:i], (level[i] + Fraction(1, 2)) % 1, *level[i + 1 :]]


def selection(case: Case, error: str) -> bool:
    """Return whether the formula for `choice` is the rule of the intervals, and the distribution of the selected token is m, by
    enumeration.
    """
    curve = curves(case.p, case.q, case.k)
    level = levels_by_chords(curve.t, curve.g, curve.envelope)
    m = law(curve.order, curve.envelope, len(case.p))
    if error == TOP_DRAFT:
        level = [Fraction(1)] * len(level)
    for ranks in product(range(len(curve.order)), repeat=case.k) if not error else []:
        if choice_by_minimum(level, ranks) != choice_by_intervals(level, ranks):
            return False
    return selected_law(case.q, case.k, curve.order, level) == m
