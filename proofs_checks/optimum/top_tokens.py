"""Drafts that hold the draft model's top tokens: the optimum in closed form, and SpecHub is greedy drafting with two drafts.

Greedy drafting: the first k - 1 drafts are the top tokens T of q, the last is drawn from q' = q outside T, normalised (uniform
there, if q has no mass left). SpecHub: k = 2, a = arg max q; the pair (i, a) with probability q(i), (a, i) with q(a) q(i)/(1 - q(a)).

OPTIMUM p(T) + sum outside T of min(p(y), q'(y)), for both. Upper bound: a set H that does not hold T has cut 1 + p(H) >= 1; one
that does has 1 + p(H) - q'(H - T), least for H - T = {y : p(y) < q'(y)}, and there it is the formula. Reached: take the drawn
token with probability min(1, p/q'), else draw from p on T and (p - q')+ elsewhere. SpecHub's pair is {a, i} with probability
q(i) + q(a) q(i)/(1 - q(a)) = q(i)/(1 - q(a)) = q'(i): greedy drafting in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import z3

import ot_draft as otd

from ..by_z3 import Part, decide, is_law, least, reals, token_sets, total
from ..checking import check
from ..random_cases import Case, draw
from ..statement import Proof, Statement

__all__ = ["STATEMENTS", "check", "closed_form"]

UNSCALED, LOWEST, IID_RULE = "q outside T not normalised", "T the lowest tokens", "the rule for i.i.d. drafts"
ALONE, DOUBLED = "(i, a) without (a, i)", "(a, i) as likely as (i, a)"
OUTSIDE = (1, 2, 3, 4)  # number of tokens outside T


def draw_two(seed: int) -> Case:
    """Return a random problem with two drafts and at least two tokens."""
    case = replace(draw(seed), k=2)
    return case if len(case.p) > 1 else draw_two(seed + 7)


def closed_form(case: Case, error: str = "") -> Fraction:
    """Return p(T) + sum outside T of min(p, q')."""
    ranked = sorted(range(len(case.p)), key=lambda y: (-case.q[y], y), reverse=error == LOWEST)
    top, rest = ranked[: case.k - 1], ranked[case.k - 1 :]
    left = sum((case.q[y] for y in rest), Fraction(0))
    drawn = {y: case.q[y] / (left if error != UNSCALED else 1) if left else Fraction(1, len(rest)) for y in rest}
    return sum((case.p[y] for y in top), Fraction(0)) + sum((min(case.p[y], drawn[y]) for y in rest), Fraction(0))


def greedy(case: Case, error: str) -> bool:
    """Return whether the closed form is the draft law's optimum; Greedy outputs exactly p and accepts it."""
    law = otd.Hybrid(top=-1)
    value = closed_form(case, error)
    rule = otd.rules.RecursiveRejection() if error == IID_RULE else otd.rules.Greedy()
    evaluation = otd.evaluate(rule, case.problem(law))
    return evaluation.lossless and evaluation.acceptance == value == otd.optimal_acceptance(
        list(case.p), list(case.q), case.k, law
    )


def hub(case: Case, error: str) -> bool:
    """Return whether SpecHub has the optimum of greedy drafting, SpecHub and Optimal(Hybrid(1)) reach it under their draft laws."""
    value = closed_form(case, error)
    rule = otd.rules.RecursiveRejection() if error == IID_RULE else otd.rules.SpecHub()
    spec_hub = otd.evaluate(rule, case.problem(otd.SpecHubLaw()))
    hybrid = otd.evaluate(otd.rules.Optimal(otd.Hybrid(top=1)), case.problem(otd.Hybrid(top=1)))
    alpha = otd.optimal_acceptance(list(case.p), list(case.q), 2, otd.SpecHubLaw())
    return spec_hub.lossless and hybrid.lossless and spec_hub.acceptance == hybrid.acceptance == alpha == value


def all_masses(error: str) -> Proof:
    """Decide whether the closed form is the least cut, for T as one token and up to 4 tokens outside it."""

    def parts() -> Iterator[Part]:
        for number in OUTSIDE:
            p, drawn = reals("p", number + 1), reals("q", number)  # p_0 is p(T)
            scale = z3.Real("rest") if error == UNSCALED else z3.RealVal(1)
            value = p[0] + sum(least(a, b * scale) for a, b in zip(p[1:], drawn, strict=True))
            cuts = [1 + p[0] + total(p[1:], H) - total(drawn, H) for H in token_sets(number)]
            is_least = z3.And(value <= 1, *(value <= cut for cut in cuts), z3.Or(*(value == cut for cut in cuts)))
            yield f"{number} tokens outside T", [*is_law(p), *is_law(drawn), scale > 0, scale <= 1], is_least

    return decide("proved for all p, q, k with up to 4 tokens outside T", parts())


def same_pairs(error: str) -> Proof:
    """Decide whether q(i) + q(a) q(i)/(1 - q(a)) = q(i)/(1 - q(a)) for every q(a) < 1."""
    top, rest = z3.Reals("top rest")
    second = {ALONE: z3.RealVal(0), DOUBLED: rest}.get(error, top * rest / (1 - top))
    premises = [top >= 0, top < 1, rest >= 0, rest <= 1 - top]
    return decide("proved for all q, any n", [("a pair", premises, rest + second == rest / (1 - top))])


STATEMENTS = (
    Statement(
        "optimum of greedy drafting",
        "p(T) + sum outside T of min(p, q'), and Greedy reaches it.",
        "Hu et al. 2025",
        "Fractions, all drafts enumerated",
        greedy,
        (UNSCALED, LOWEST, IID_RULE),
    ),
    Statement(
        "optimum of greedy drafting, all masses",
        "p(T) + sum outside T of min(p, q') is the minimum of all cuts.",
        "Hu et al. 2025",
        "z3, linear real arithmetic",
        planted=(UNSCALED,),
        prove=all_masses,
    ),
    Statement(
        "optimum of SpecHub",
        "That of greedy drafting with k = 2; SpecHub and Optimal(Hybrid(1)) reach it.",
        "Sun et al. 2024 (SpecHub)",
        "Fractions, all drafts enumerated",
        hub,
        (UNSCALED, LOWEST, IID_RULE),
        draw=draw_two,
    ),
    Statement(
        "SpecHub's pairs are those of greedy drafting",
        "The pair {a, i}, in either order, has probability q(i)/(1 - q(a)).",
        "Sun et al. 2024 (SpecHub)",
        "z3, polynomials",
        planted=(ALONE, DOUBLED),
        prove=same_pairs,
    ),
)
