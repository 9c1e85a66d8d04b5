"""The frontier between acceptance and bias: closed forms, the family of distributions that is best, and what engines leave below it.

Let g(H) = Q(all drafts in H). A distribution r is accepted with at most alpha(r) = 1 + min over H of r(H) - g(H), and that is reached.

TV. r(H) <= p(H) + eps for every distribution within eps, so alpha(r) <= alpha(p) + eps for the set H that is best for p. RATIO. r(H) <= b
p(H), so alpha(r) <= 1 + min over H of b p(H) - g(H). Both are reached by r = clip(m, a p, b p) with the distribution m of
`otd.lossy.envelope`. F-DIVERGENCES. m is the element of the base polytope of g with the most equal ratios m/p (Fujishige 1980), hence r of
that form, with one free parameter, is best under every f-divergence. Checked here by Lagrange duality in rationals, for chi-squared, where
everything is rational: with l = 1 / (f'(b) - f'(a)) and c = l (f'(r/p) - f'(a)) on the tokens, falling from 1 to 0 along the order of p/q,
the steps of c are weights on a chain of sets, and for every distribution s within the divergence of r

    alpha(s) <= 1 - sum_j w_j g(H_j) + sum c s <= 1 - sum_j w_j g(H_j) + sum c r = alpha(r).

OWN DISTRIBUTION. A rule's rows couple Q with its output distribution: it is lossless for that, and its acceptance is at most that
distribution's optimum. So it lies under the frontier at its own bias.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import lossy
from ot_draft.bias import bias_of
from proofs_checks.lossy import engine_rules, published_targets

from ..checking import check
from ..random_cases import Case
from ..statement import Statement

__all__ = ["STATEMENTS", "check"]

EPS, FACTOR = Fraction(1, 11), Fraction(5, 3)
DOUBLED, DRAFT_ONLY, UNCAPPED = "twice eps", "m for one draft", "not capped at 1"
UNSCALED, REVERSED, ENGINE_BETTER = "b p not scaled", "the chain reversed", "p instead of the output distribution"
RULES = engine_rules.ALL


def _cuts(case: Case) -> tuple[Any, Any, Any]:
    """Return every token set, bool (2^n, n), its mass under p and the probability that all drafts lie in it."""
    p, q = (np.array(masses, dtype=object) for masses in (case.p, case.q))
    sets = np.array(list(product((False, True), repeat=len(p))))
    return sets, sets @ p, (sets @ q) ** case.k


def total_variation(case: Case, error: str) -> bool:
    """Return whether the target's distribution is within eps and its optimum, over all sets, is min(1, alpha(p) + eps)."""
    sets, mass, inside = _cuts(case)
    p, q = (np.array(masses, dtype=object) for masses in (case.p, case.q))
    r = lossy.TotalVariation(EPS)(p, q, 1 if error == DRAFT_ONLY else case.k)
    best = 1 + min(mass - inside) + EPS * (2 if error == DOUBLED else 1)
    best = best if error == UNCAPPED else min(Fraction(1), best)
    return r.sum() == 1 and 1 + min(sets @ r - inside) == best and bias_of(r, p).total_variation <= EPS


def ratio(case: Case, error: str) -> bool:
    """Return whether the target's distribution is at most b p and its optimum, over all sets, is that of the scaled target, capped at 1."""
    sets, mass, inside = _cuts(case)
    p, q = (np.array(masses, dtype=object) for masses in (case.p, case.q))
    r = lossy.Ratio(factor=FACTOR)(p, q, 1 if error == DRAFT_ONLY else case.k)
    best = 1 + min((1 if error == UNSCALED else FACTOR) * mass - inside)  # at most 1, by the empty set
    return bool(r.sum() == 1 and 1 + min(sets @ r - inside) == best and (r <= FACTOR * p).all())


def chi_squared(case: Case, error: str) -> bool:
    """Return whether no distribution as near under chi-squared accepts more than one of the family, by weak duality."""
    sets, _, inside = _cuts(case)
    p, q = (np.array(masses, dtype=object) for masses in (case.p, case.q))
    r = lossy.Ratio(factor=FACTOR)(p, q, 1 if error == DRAFT_ONLY else case.k)
    used = p > 0
    share = [Fraction(b) / a for b, a in zip(r[used], p[used], strict=True)]
    low, high = min(share), max(share)
    accepted = 1 + min(sets @ r - inside)
    if high == low:  # r is p on its support
        return True
    if (
        low < high < FACTOR
        and accepted < 1 - sum((b for a, b in zip(case.p, case.q, strict=True) if not a), Fraction(0)) ** case.k
    ):
        return True  # the ceiling was not reached: the distribution with the most acceptance there is
    c = np.array(
        [(Fraction(b) / a - low) / (high - low) if a else Fraction(1) for b, a in zip(r, p, strict=True)], dtype=object
    )
    c = 1 - c if error == REVERSED else c
    values = sorted({*c, Fraction(0), Fraction(1)})
    lost = Fraction(0)
    for below, above in pairwise(values):
        lost += (above - below) * sum(
            (b for b, weight in zip(case.q, c, strict=True) if weight >= above), Fraction(0)
        ) ** case.k
    return 1 - lost + (c * r).sum() == accepted


def own_law(case: Case, error: str) -> bool:
    """Return whether every rule of an engine accepts at most the optimum for its own output distribution, and that optimum is within
    alpha(p) + TV.
    """
    for rule in RULES:
        result = otd.evaluate(rule, case.problem(otd.IID()))
        output = list(case.p) if error == ENGINE_BETTER else list(result.output)
        best = otd.optimal_acceptance(output, list(case.q), case.k)
        lossless = otd.optimal_acceptance(list(case.p), list(case.q), case.k)
        if not result.acceptance <= best <= lossless + (0 if error == DOUBLED else result.bias.total_variation):
            return False
    return True


def retargeted(case: Case, error: str) -> bool:
    """Return whether Toward(target, Optimal()) outputs the target's distribution with == and accepts its optimum."""
    problem = case.problem(otd.IID())
    for target in (
        lossy.TotalVariation(EPS),
        lossy.Ratio(factor=FACTOR),
        lossy.KL(0.05),
        published_targets.Lenience(Fraction(1, 2)),
    ):
        rule = otd.lossy.Toward(target, otd.rules.KSeq() if error == DRAFT_ONLY else otd.rules.Optimal())
        result, kept = otd.evaluate(rule, problem), rule.target_kept(problem.p, problem.q, problem.k)
        kept = problem.p if error == ENGINE_BETTER else kept
        if not (result.output == kept).all():
            return False
        if result.acceptance != otd.optimal_acceptance(kept, problem.q, problem.k):
            return False
    return True


METHOD = "Fractions, all token sets"
STATEMENTS = (
    Statement(
        "the frontier under total variation",
        "The largest acceptance within TV eps is min(1, alpha(p) + eps), attained by TotalVariation(eps).",
        "Yin et al. 2024 (one draft); this project",
        METHOD,
        total_variation,
        (DOUBLED, DRAFT_ONLY, UNCAPPED),
    ),
    Statement(
        "the frontier under a bounded ratio",
        "The largest acceptance with r <= b p is 1 + min_H b p(H) - Q(all in H), attained by Ratio.",
        "this project",
        METHOD,
        ratio,
        (UNSCALED, DRAFT_ONLY),
    ),
    Statement(
        "one family of laws for every f-divergence",
        "clip(m, a p, b p) has the largest acceptance of all targets at its chi-squared divergence: Lagrange duality, with ==.",
        "this project; Fujishige 1980",
        METHOD,
        chi_squared,
        (REVERSED, DRAFT_ONLY),
    ),
    Statement(
        "a lossy rule is a lossless rule for another target",
        "Every engine's rule accepts at most the optimum for its output distribution, which is at most alpha(p) + TV.",
        "this project",
        "Fractions, all drafts enumerated",
        own_law,
        (ENGINE_BETTER, DOUBLED),
    ),
    Statement(
        "Toward(target, Optimal())",
        "Outputs exactly the target distribution and accepts exactly its optimum.",
        "this project",
        "Fractions, all drafts enumerated",
        retargeted,
        (ENGINE_BETTER, DRAFT_ONLY),
        limit=150,
    ),
)
