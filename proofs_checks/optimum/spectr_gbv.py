"""SpecTr-GBV's claimed optimum of K i.i.d. drafts is less than the acceptance of a lossless rule.

The paper bounds the accepted length of every rule for K i.i.d. drafted blocks, and claims to reach the bound. Its proof takes the
drafts for independent *given the output*. For blocks of one token (L = 1) that gives, given the output y, the probability
min(1, q(y)/p(y)) that one draft is y, and as the claimed optimum

    c = sum over y of p(y) (1 - (1 - min(1, q(y)/p(y)))^K).

(Reconstructed from that step of the proof; it is the single-draft optimum for K = 1.) But a rule couples the output with all
drafts at once, and only the drafts' own distribution must be i.i.d.: optimal selection accepts 15/16 where c = 7/8, for a draft Ber(1/4)
and a target Ber(1/2) with K = 2.

NEVER TOO LARGE, for all n and K. f(t) = 1 - (1 - t)^K is concave with f(0) = 0. For any H, the tokens of H give at most p(H), and by
Jensen the others at most f(sum of min(p, q) outside H) <= f(1 - q(H)) = 1 - q(H)^K. So c <= 1 + p(H) - q(H)^K; in Coq:
formal/one_token/spectr_gbv.v.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import ot_draft as otd

from ..by_z3 import Part, decide, is_law, least, power, reals
from ..checking import check
from ..random_cases import Case
from ..statement import Proof, Statement

__all__ = ["STATEMENTS", "check", "claimed"]

EXAMPLE = Case((Fraction(1, 2), Fraction(1, 2)), (Fraction(3, 4), Fraction(1, 4)), 2, 0)
ONE_DRAFT, BELOW = "with one draft", "c is at most the optimum"
ABOVE, STRICT = "c is at least the optimum", "c is less than the optimum"


def claimed(case: Case, k: int) -> Fraction:
    """Return the claimed optimum c."""
    pairs = zip(case.p, case.q, strict=True)
    return sum((p * (1 - (1 - min(Fraction(1), q / p)) ** k) for p, q in pairs if p), Fraction(0))


def largest(case: Case, error: str) -> bool:
    """Return whether the optimal rule, which outputs exactly p, accepts no more than c."""
    if error == BELOW:
        return claimed(case, case.k) <= otd.optimal_acceptance(list(case.p), list(case.q), case.k)
    k = 1 if error == ONE_DRAFT else case.k
    evaluation = otd.evaluate(otd.rules.Optimal(), otd.Problem(list(case.p), list(case.q), k))
    return not (evaluation.lossless and evaluation.acceptance > claimed(case, k))


def shown(case: Case) -> str:
    """Return a counterexample, with both values."""
    optimum = otd.optimal_acceptance(list(case.p), list(case.q), case.k)
    return f"{case}: a lossless rule accepts {optimum}, claimed {claimed(case, case.k)}"


def two_tokens(error: str) -> Proof:
    """Decide whether c is at most every cut, for n = 2 and K = 2, 3, 4."""

    def parts() -> Iterator[Part]:
        p, q, ratio = reals("p", 2), reals("q", 2), reals("r", 2)
        premises = [
            *is_law(p),
            *is_law(q),
            *(mass > 0 for mass in p),
            *(r * a == b for r, a, b in zip(ratio, p, q, strict=True)),
        ]
        for k in (2, 3, 4):
            c = sum(a * (1 - power(1 - least(1, r), k)) for a, r in zip(p, ratio, strict=True))
            optimum = least(1, *(1 + a - power(b, k) for a, b in zip(p, q, strict=True)))
            yield f"K = {k}", premises, {ABOVE: c >= optimum, STRICT: c < optimum}.get(error, c <= optimum)

    return decide("proved for all p, q with n = 2, K = 2, 3, 4", parts())


STATEMENTS = (
    Statement(
        "SpecTr-GBV's largest acceptance",
        "No lossless rule keeps more than c = sum of p (1 - (1 - min(1, q/p))^K) of K i.i.d. drafts of one token.",
        "Lin et al. 2026 (SpecTr-GBV), L = 1, reconstructed",
        "Fractions, all drafts enumerated",
        largest,
        (ONE_DRAFT, BELOW),
        expected="refuted",
        first=(EXAMPLE,),
        limit=200,
        show=shown,
    ),
    Statement(
        "SpecTr-GBV's value is never too large, two tokens",
        "c <= 1 + p(H) - q(H)^K for every H: the claimed optimum errs on one side only.",
        "this project",
        "z3, polynomials",
        planted=(ABOVE, STRICT),
        prove=two_tokens,
    ),
)
