"""The results of ../optimal_selection.py as questions to one random case. `error` injects an error in it; "" injects none."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np

import ot_draft as otd

from ...random_cases import Case
from .curves import curves, law, levels_by_chords, mixture
from .lemmas import BY_DRAFT, attained, changed, inside, least_cut, token_sets
from .rule import ByLevels, by_levels

ALL_ONE = "all levels 1, m not recomputed"
STALE = "one level changed, m not recomputed"
WRONG_LAW = "the rule for i.i.d. drafts"
NORMALISED = "p normalised outside T"
UNSCALED = "levels and m of p"


def optimal(case: Case, error: str) -> bool:
    """Return whether the library's rule outputs exactly p and attains the bound.

    Without ties in p/q it decides as the proof does, on every draft.
    """
    own = by_levels(case.p, case.q, case.k, error == BY_DRAFT)
    rules = [own] if error else [otd.rules.Optimal(), own]
    results = [otd.evaluate(rule, case.problem()) for rule in rules]
    alpha = least_cut(case.p, inside(case.q, case.k))
    if not all(result.lossless and result.acceptance == alpha for result in results):
        return False
    ratios = [case.p[y] / case.q[y] for y in own.order]
    return bool(error) or len(set(ratios)) < len(ratios) or same_decisions(case, *rules)


def same_decisions(case: Case, first: otd.SelectionRule, second: otd.SelectionRule) -> bool:
    """Return whether two rules return the same on every draft tuple that may occur."""
    p, q = (np.array(x, dtype=object) for x in (case.p, case.q))
    support = [y for y in range(len(q)) if q[y] > 0]
    drafts = np.array(list(product(support, repeat=case.k)))
    by_first, by_second = (rule(p[None], q[None], drafts) for rule in (first, second))
    return bool((by_first.accept == by_second.accept).all() and (by_first.residual == by_second.residual).all())


def any_levels(case: Case, error: str) -> bool:
    """Return whether any order and any levels in [0, 1] keep p exactly, if m is their own distribution.

    Also m(H) >= q(H)^k, and no acceptance exceeds the bound.
    """
    p, q, k = case.p, case.q, case.k
    curve, level = curves(p, q, k), []
    if error:
        level = levels_by_chords(curve.t, curve.g, curve.envelope)
        m = law(curve.order, curve.envelope, len(p))
        level = changed(level, case) if error == STALE else [Fraction(1)] * len(level)
    else:
        generator = np.random.default_rng([1, case.seed])
        random = generator.random(len(q)).tolist()
        curve = curves(p, q, k, lambda y: Fraction(random[y]))
        level = [Fraction(int(c), 6) for c in generator.integers(0, 7, len(curve.t))]
        m = law(curve.order, mixture(curve.t, curve.g, level), len(p))
        chances = zip(token_sets(len(q)), inside(q, k), strict=True)
        if not all(sum((m[y] for y in H), Fraction(0)) >= chance for H, chance in chances):
            return False
    result = otd.evaluate(ByLevels(tuple(curve.order), tuple(level), tuple(m)), case.problem())
    return result.lossless and (bool(error) or result.acceptance <= least_cut(p, inside(q, k)))


def hybrid(case: Case, error: str) -> bool:
    """Return whether under every number of top tokens, "auto" included, the library's rule outputs exactly p and attains the optimum."""
    for top in (*range(case.k + 1), "auto"):
        drafted = otd.Hybrid(top)
        value, alpha = hybrid_values(case, drafted, error == NORMALISED)
        if value != alpha or alpha != otd.optimal_acceptance(list(case.p), list(case.q), case.k, drafted):
            return False
        if error != NORMALISED:
            rule = otd.rules.Optimal() if error == WRONG_LAW else otd.rules.Optimal(drafted)
            result = otd.evaluate(rule, case.problem(drafted))
            if not (result.lossless and result.acceptance == alpha):
                return False
    return True


def hybrid_values(case: Case, drafted: otd.Hybrid, normalised: bool) -> tuple[Fraction, Fraction]:
    """Return p(T) + sum over the rest of min(p, m), with m written out; and the least cut over all token sets."""
    p, q, n = case.p, case.q, len(case.p)
    top = {y for y in drafted.fixed_drafts(np.array(q, dtype=object), case.k).tolist() if y >= 0}
    rest, r = [y for y in range(n) if y not in top], case.k - len(top)
    left = sum((q[y] for y in rest), Fraction(0))
    free = [Fraction(0) if y in top else q[y] / left if left else Fraction(1, len(rest)) for y in range(n)]
    chances = [
        chance * (top <= set(H)) for H, chance in zip(token_sets(n), inside(free, r if rest else 0), strict=True)
    ]
    target = [Fraction(0) if y in top else p[y] for y in range(n)]
    whole = sum(target, Fraction(0)) if normalised else Fraction(1)
    scaled = [x / whole if whole else x for x in target]
    curve = curves(scaled, free, r)
    m = law(curve.order, curve.envelope, n) if rest and r else [Fraction(0)] * n
    return sum((p[y] for y in top), Fraction(0)) + attained(target, m), least_cut(p, chances)


def scaled_target(case: Case, error: str) -> bool:
    """Return whether for w p the accepted mass is min over H of 1 + w p(H) - q(H)^k; accepted and left over together are exactly w p."""
    q = np.array(case.q, dtype=object)
    rule = by_levels(case.p, case.q, case.k) if error == UNSCALED else otd.rules.Optimal()
    drafts = np.array(list(product([y for y in range(len(q)) if q[y] > 0], repeat=case.k)))
    weight = otd.IID().probability(q[None], drafts)
    for w in (Fraction(0), Fraction(1, 2), Fraction(5, 6)):
        p = w * np.array(case.p, dtype=object)
        selection = rule(p[None], q[None], drafts)
        mass = weight[:, None] * selection.accept
        accepted = np.array([mass[drafts == y].sum() for y in range(len(q))], dtype=object)
        alpha = accepted.sum()
        left = (w - alpha) * selection.residual.reshape(-1, len(q))[0]
        if alpha != least_cut(p.tolist(), inside(case.q, case.k)) or (accepted + left != p).any():
            return False
    return True
