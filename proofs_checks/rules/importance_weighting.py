"""Importance weighting: the distribution of the picked draft as an integral; and target sampling, which is valid under every draft law.

IMPORTANCE WEIGHTING (Khisti et al.). Of k i.i.d. drafts one is picked with probability w(x_i) / sum_j w(x_j). Since 1/c is the
integral of e^{-tc} over t > 0, and the drafts are independent, the picked token's distribution is

    m(y) = k q(y) w(y) * integral over t > 0 of e^{-t w(y)} (sum_z q(z) e^{-t w(z)})^{k-1} dt,

a sum of exponentials with rational rates, hence rational. The pick, then the maximal coupling of m with p: output p, acceptance at
least sum min(p, m). What is rejected may still fall on another draft, so that sum min(p, m) is what `accept` adds up to.

TARGET SAMPLING. Draw y from p: accepted where y was drafted, in all sum_y p(y) P(y is drafted), whatever distribution the drafts have.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft.laws import probability_inside

from ..branches import Chance, law_of
from ..checking import check
from ..exponential_sums import Sum, integral, power
from ..exponential_sums import product as times
from ..optimum.linear_program import problems
from ..random_cases import Case
from ..statement import Statement

__all__ = ["STATEMENTS", "by_integral", "check"]

POWER_K, BY_TARGET, RATIO = (
    "the power k instead of k - 1",
    "p instead of m as the picked distribution",
    "weights q/p in the rule",
)
COUNTED, K_SEQ = "k q(y) instead of P(y is drafted)", "K-SEQ instead"


def weights_of(case: Case) -> tuple[Fraction, ...]:
    """Return p/q, or other rational weights, positive wherever p is."""
    ratios = tuple(a / b if b else Fraction(0) for a, b in zip(case.p, case.q, strict=True))
    whole = np.random.default_rng([11, case.seed]).integers(1, 5, len(case.p)).tolist()
    return ratios if case.seed % 2 == 0 else tuple(Fraction(w) for w in whole)


def by_integral(case: Case, w: tuple[Fraction, ...], error: str = "") -> list[Fraction]:
    """Return m(y) by the integral."""
    others: Sum = {}
    for mass, weight in zip(case.q, w, strict=True):
        if mass:
            others[weight] = others.get(weight, Fraction(0)) + mass
    rest = power(others, case.k if error == POWER_K else case.k - 1)
    return [
        case.k * mass * weight * integral(times({weight: Fraction(1)}, rest)) if mass and weight else Fraction(0)
        for mass, weight in zip(case.q, w, strict=True)
    ]


def by_enumeration(case: Case, w: tuple[Fraction, ...]) -> list[Fraction]:
    """Return m(y) over all draft tuples, by its definition; -1 if all weights are 0 and nothing is picked."""

    def pick(chance: Chance) -> int:
        drafts = [chance.draw(case.q) for _ in range(case.k)]
        whole = sum((w[x] for x in drafts), Fraction(0))
        return drafts[chance.draw([w[x] / whole for x in drafts])] if whole else -1

    law = law_of(pick)
    return [law.get(y, Fraction(0)) for y in range(len(case.q))]


def picked(case: Case, error: str) -> bool:
    """Return whether the integral is the enumeration; the rule outputs exactly p, and takes its picked draft with sum min(p, m)."""
    w = weights_of(case)
    m = by_integral(case, w, error)
    weights = tuple(1 / x if x else x for x in w) if error == RATIO else w
    rule = otd.rules.ImportanceWeighted(lambda p, q: 0 * p + np.array(weights, dtype=object))
    evaluation = otd.evaluate(rule, case.problem())
    taken = sum(map(min, case.p, case.p if error == BY_TARGET else m), Fraction(0))
    best = otd.optimal_acceptance(list(case.p), list(case.q), case.k)
    return (
        m == by_enumeration(case, w)
        and evaluation.lossless
        and evaluation.accept.sum() == taken
        and evaluation.acceptance <= best
    )


def target_sampling(case: Case, error: str) -> bool:
    """Return whether, under every draft law, the output is exactly p and the acceptance is sum_y p(y) P(y is drafted)."""
    for problem in problems(case):
        rule = otd.rules.KSeq() if error == K_SEQ else otd.rules.NaiveTarget()
        evaluation = otd.evaluate(rule, problem)
        if not evaluation.lossless or evaluation.acceptance != sum(problem.p * drafted(problem, error == COUNTED)):
            return False
    return True


def drafted(problem: otd.Problem, expected: bool) -> Any:
    """Return P(y is drafted) = 1 - P(all drafts lie outside {y}), for every y; or k q(y), the expected number of drafts y if i.i.d."""
    if expected:
        return problem.k * problem.q
    return 1 - probability_inside(problem.law, problem.q, ~np.eye(problem.n, dtype=bool), problem.k)


STATEMENTS = (
    Statement(
        "importance weighting: law of the picked draft",
        "m(y) = k q w times the integral of e^{-tw(y)} (sum q e^{-tw})^{k-1}; taken is sum min(p, m); the output is p.",
        "Khisti et al. 2024",
        "Fractions: integrated exactly; all drafts enumerated",
        picked,
        (POWER_K, BY_TARGET, RATIO),
        limit=300,
    ),
    Statement(
        "target sampling is valid under every law",
        "Output p, acceptance sum_y p(y) P(y is drafted): i.i.d., without replacement, hybrid and hub drafts.",
        "Miao et al. 2024 (SpecInfer), section 4.3",
        "Fractions, all drafts enumerated",
        target_sampling,
        (COUNTED, K_SEQ),
        limit=200,
    ),
)
