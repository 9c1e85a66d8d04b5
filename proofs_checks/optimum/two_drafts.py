"""Two i.i.d. drafts: the optimum in Khisti's form, and when nothing is ever rejected.

OPTIMUM. alpha_2 = min over S of p(S) + q(S^c)^2 + 2 q(S) q(S^c), S^c being the other tokens: since q(S) + q(S^c) = 1, the last two
terms are 1 - q(S)^2, and this is the least cut.

ACCEPTANCE 1 iff p(H) >= q(H)^2 for every H. p = q has it, but so have others: with two tokens, whenever p_0 >= q_0^2 and
p_1 >= q_1^2. The reason: one of the two drafts is selected first, which can turn q into any distribution m with m(H) >= q(H)^2.

CHECK. Fractions; and for 2, 3 and 4 tokens by z3: there is a flow of value 1 iff the condition holds, for every q.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import z3

import ot_draft as otd

from ..by_z3 import Part, decide, is_law, power, reals, token_sets, total
from ..checking import check
from ..random_cases import Case, draw
from ..statement import Proof, Statement
from .linear_program import Flow

__all__ = ["STATEMENTS", "check", "draw_two"]

ONCE, CUBE = "q(S) q(S^c) once", "p(H) >= q(H)^3"
ONE_TOKEN, ONE_DRAFT = "the condition for sets of one token only", "with one draft"
HALVES = (Fraction(1, 2), Fraction(1, 2))
OTHER = Case((Fraction(1, 4), Fraction(3, 4)), HALVES, 2, 0)
JUST_REFUSED = Case((Fraction(1, 5), Fraction(4, 5)), HALVES, 2, 0)
NAME = "accepted always"


def draw_two(seed: int) -> Case:
    """Return a random problem with two drafts; every other one with p near q, so that acceptance 1 comes up."""
    case = replace(draw(seed), k=2)
    if seed % 2:
        return case
    return replace(case, p=tuple((a + 3 * b) / 4 for a, b in zip(case.p, case.q, strict=True)))


def parts_of(case: Case) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield p(H) and q(H) for every token set H."""
    for H in token_sets(len(case.p)):
        yield sum((case.p[y] for y in H), Fraction(0)), sum((case.q[y] for y in H), Fraction(0))


def optimum(case: Case, error: str) -> bool:
    """Return whether Khisti's form is the optimum, and the optimal rule reaches it without changing the target's distribution."""
    times = 1 if error == ONCE else 2
    value = min(a + (1 - b) ** 2 + times * b * (1 - b) for a, b in parts_of(case))
    evaluation = otd.evaluate(otd.rules.Optimal(), case.problem())
    return evaluation.lossless and evaluation.acceptance == value == otd.optimal_acceptance(
        list(case.p), list(case.q), 2
    )


def condition(case: Case, error: str) -> bool:
    """Return whether the acceptance is 1 iff p(H) >= q(H)^2 for every H."""
    least = otd.optimal_acceptance(list(case.p), list(case.q), 2)
    if error == ONE_TOKEN:
        return (least == 1) == all(a >= b**2 for a, b in zip(case.p, case.q, strict=True))
    return (least == 1) == all(a >= b ** (3 if error == CUBE else 2) for a, b in parts_of(case))


def condition_for_all(error: str) -> Proof:
    """Decide whether Q(both drafts in H) = q(H)^2, and whether, for any Q of two drafts, a flow of value 1 exists iff p(H) >= Q(both in
    H).
    """

    def parts() -> Iterator[Part]:
        for n in (2, 3, 4):
            flow, q = Flow(n, 2), reals("q", n)
            drawn = [q[x[0]] ** 2 if len(x) == 1 else 2 * q[x[0]] * q[x[1]] for x in flow.sets]
            held = {H: [i for i, x in enumerate(flow.sets) if set(x) <= set(H)] for H in token_sets(n)}
            exponent = 3 if error == CUBE else 2
            same = z3.And(*(total(drawn, inside) == power(total(q, H), exponent) for H, inside in held.items()))
            yield f"n = {n}, i.i.d.", is_law(q), same
            enough = [
                total(flow.p, H) >= total(flow.s, inside)
                for H, inside in held.items()
                if error != ONE_TOKEN or len(H) == 1
            ]
            yield f"n = {n}, necessary", [*flow.laws, flow.feasible, flow.value == 1], z3.And(*enough)
            yield f"n = {n}, sufficient", [*flow.laws, *enough], z3.Not(flow.never_reaches(z3.RealVal(1)))

    return decide("proved for all p, q with n = 2, 3, 4", parts())


def only_equal(case: Case, error: str) -> bool:
    """Return whether the acceptance is 1 only for p = q, which is true with one draft."""
    k = 1 if error == ONE_DRAFT else 2
    evaluation = otd.evaluate(otd.rules.Optimal(), replace(case, k=k).problem())
    return not (evaluation.lossless and evaluation.acceptance == 1) or case.p == case.q


STATEMENTS = (
    Statement(
        "Khisti's optimum of two drafts",
        "alpha_2 = min over S of p(S) + q(S^c)^2 + 2 q(S) q(S^c), and the optimal rule reaches it.",
        "Khisti et al. 2024",
        "Fractions, all sets S, all drafts enumerated",
        optimum,
        (ONCE,),
        draw=draw_two,
        limit=300,
    ),
    Statement(
        f"when two drafts are {NAME}",
        "Acceptance 1 iff p(H) >= q(H)^2 for every H.",
        "Khisti et al. 2024",
        "Fractions, all sets H",
        condition,
        (ONE_TOKEN, CUBE),
        first=(JUST_REFUSED,),
        draw=draw_two,
    ),
    Statement(
        f"when two drafts are {NAME}, small vocabularies",
        "There is a coupling of acceptance 1 iff p(H) >= q(H)^2 for every H.",
        "Khisti et al. 2024",
        "z3, polynomials; quantifier over flows eliminated",
        planted=(ONE_TOKEN, CUBE),
        prove=condition_for_all,
    ),
    Statement(
        f"two drafts are {NAME} only where p = q",
        "Acceptance 1 with two drafts requires p = q.",
        "plausible; refuted by Khisti et al. 2024",
        "Fractions, all drafts enumerated",
        only_equal,
        (ONE_DRAFT,),
        expected="refuted",
        first=(OTHER,),
        draw=draw_two,
        limit=100,
    ),
)
