"""Claims of papers about optimal lossy rules, stated exactly, and whether they hold.

LENIENCE (Leviathan et al. 2023, A.5): accept with min(1, p/(l q)), else norm((p - q)+): no token gets more than p/l. Holds for the l
that are tried (1/5, 1/2, 3/4, 1); and for one draft no rule with that bound accepts more, which is not claimed there.

MENTORED DECODING (Tran-Thien 2023; Tran-Thien and Nock 2026): for one draft, r = clip(q, a p, b p) accepts the most within a bounded
KL(p || r), and within every f-divergence. Holds where it is tried: a bounded ratio and chi-squared (`lossy_frontier`, k = 1); it is a
statement about one draft: for more, clip(q, ...) is not the best, clip(m, ...) is.

STATIC ENSEMBLES (DIVERSED 2026): w p + (1 - w) q "exactly traces the Pareto frontier", acceptance 1 - w TV. Holds for one draft and TV.
Refuted under chi-squared: another distribution accepts as much and is nearer. Refuted for two drafts under TV.

CASCADES (Narasimhan et al. 2025): the OPT rule takes q where max q >= max p - alpha TV(p, q), which minimises, over deferral to q or p in
every context, loss plus alpha times the rejection rate, with 1 - max as the loss. Holds by definition, for each context. The least bias
for its acceptance is another matter: one draft and TV, q and p lie on the frontier; the token-specific variants do not, since
they raise trusted tokens above both p and q.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import lossy
from ot_draft.bias import bias_of, divergence
from proofs_checks.lossy import engine_rules, published_targets

from ..checking import check
from ..random_cases import Case, draw
from ..statement import Statement

__all__ = ["STATEMENTS", "check"]

HALF = Fraction(1, 2)
LENIENCES = (HALF, Fraction(1, 5), Fraction(3, 4), Fraction(1))
FROM_TARGET, TIGHTER = "the residual is p", "p / l with l too large"
ONE_DRAFT, BETWEEN = "for one draft", "only where r lies between p and q"
ONLY_TV, LOWER = "under TV", "the loss without the rejections"
ALPHAS = (Fraction(-1), Fraction(-1, 3), Fraction(0), Fraction(1, 4), Fraction(1))


def draw_one(seed: int) -> Case:
    """Return a random problem with one draft."""
    return replace(draw(seed), k=1)


def draw_two(seed: int) -> Case:
    """Return a random problem with two drafts."""
    return replace(draw(seed), k=2)


def _masses(case: Case) -> tuple[Any, Any]:
    return np.array(case.p, dtype=object), np.array(case.q, dtype=object)


def lenience(case: Case, error: str) -> bool:
    """Return whether no token is above p/l, and sum min(q, p/l) is accepted, which is the frontier of that ratio."""
    p, q = _masses(case)
    factor = 1 / LENIENCES[case.seed % len(LENIENCES)]
    rule = engine_rules.LenientSampling(1 / factor, "target" if error == FROM_TARGET else "excess")
    result = otd.evaluate(rule, case.problem(otd.IID()))
    best = otd.optimal_acceptance(lossy.Ratio(factor=factor)(p, q, 1), q, 1)
    bounded = (result.output <= p * (factor * Fraction(3, 4) if error == TIGHTER else factor)).all()
    accepted = np.minimum(q, factor * p).sum()
    return bool(bounded) and result.acceptance == best == accepted and _on_frontier(case, result)


def _on_frontier(case: Case, result: Any) -> bool:
    lossless = otd.optimal_acceptance(list(case.p), list(case.q), case.k)
    return result.acceptance == lossless + result.bias.total_variation


def ensemble(case: Case, error: str) -> bool:
    """Return whether the ensemble of p and q has alpha(p) + TV, for the number of drafts of the case (one where `error` says so)."""
    case = replace(case, k=1) if error == ONE_DRAFT else case
    p, q = _masses(case)
    r = published_targets.Ensemble(HALF)(p, q)
    lossless = otd.optimal_acceptance(p, q, case.k)
    return otd.optimal_acceptance(r, q, case.k) == min(1, lossless + bias_of(r, p).total_variation)


def ensemble_under_chi_squared(case: Case, error: str) -> bool:
    """Return whether no distribution of the family that is nearer to p, under chi-squared (TV where `error` says so), accepts as much as
    the ensemble.
    """
    p, q = _masses(case)
    r = published_targets.Ensemble(HALF)(p, q)
    name = "tv" if error == ONLY_TV else "chi-squared"
    accepted, spent = otd.optimal_acceptance(r, q, 1), divergence(name, r, p)
    other = lossy.TotalVariation(bias_of(r, p).total_variation)(p, q, 1)  # accepts as much, and r/p is clipped
    same = otd.optimal_acceptance(other, q, 1) >= accepted
    return not (same and divergence(name, other, p) < spent)


def cascade(case: Case, error: str) -> bool:
    """Return whether OPT chooses, of q and p, the one of least loss 1 - max plus alpha times the rejections."""
    p, q = _masses(case)
    distance = bias_of(q, p).total_variation
    for alpha in ALPHAS:
        chosen = published_targets.Cascade("opt", alpha)(p, q)
        deferred = 1 - max(p) + (0 if error == LOWER else alpha * distance)
        taken = 1 - max(q)
        if not (chosen == (q if taken <= deferred else p)).all():
            return False
    return True


def token_cascade(case: Case, error: str) -> bool:
    """Return whether the token-specific cascade lies on the TV frontier (only where r lies between p and q, where `error` says so)."""
    p, q = _masses(case)
    r = published_targets.Cascade("token-v3", Fraction(1, 5))(p, q)
    if error == BETWEEN and not ((np.minimum(p, q) <= r) & (r <= np.maximum(p, q))).all():
        return True
    lossless = otd.optimal_acceptance(p, q, 1)
    return otd.optimal_acceptance(r, q, 1) == lossless + bias_of(r, p).total_variation


def mentored(case: Case, error: str) -> bool:
    """Return whether clip(q, a p, b p), best for one draft, is also best for the case's number of drafts (one where `error` says so)."""
    case = replace(case, k=1) if error == ONE_DRAFT else case
    p, q = _masses(case)
    r = lossy.Ratio(factor=Fraction(3, 2))(p, q, 1)
    best = lossy.Ratio(factor=Fraction(3, 2))(p, q, case.k)
    return otd.optimal_acceptance(r, q, case.k) == otd.optimal_acceptance(best, q, case.k)


METHOD = "Fractions, exact"
STATEMENTS = (
    Statement("lenience", "l = 1/5, 1/2, 3/4, 1: r <= p/l; with one draft no rule with this bound, and none at its TV, accepts more.",
              "Leviathan et al. 2023, A.5 (the bound); this project (that none accepts more)", METHOD, lenience,
              (FROM_TARGET, TIGHTER), draw=draw_one),
    Statement("the OPT deferral of cascades", "It chooses of q and p the one with the smaller sum of loss and alpha times rejections.",
              "Narasimhan et al. 2025", METHOD, cascade, (LOWER,)),
    Statement("mentored decoding with two drafts", "clip(q, a p, b p) has the largest acceptance with two drafts.",
              "Tran-Thien 2023, taken beyond one draft", METHOD, mentored, (ONE_DRAFT,), expected="refuted", draw=draw_two),
    Statement("ensembles trace the frontier with two drafts", "w p + (1 - w) q has the largest acceptance at its TV.",
              "DIVERSED 2026, taken beyond one draft", METHOD, ensemble, (ONE_DRAFT,), expected="refuted", draw=draw_two),
    Statement("ensembles trace the frontier under chi-squared", "No distribution with the ensemble's acceptance is nearer to p.",
              "DIVERSED 2026, taken beyond TV", METHOD, ensemble_under_chi_squared, (ONLY_TV,), expected="refuted", draw=draw_one),
    Statement("token-specific cascades lie on the frontier", "They have the largest acceptance at their TV.",
              "a plausible claim", METHOD, token_cascade, (BETWEEN,), expected="refuted", draw=draw_one),
)  # fmt: skip
