"""SpecTr's bound over token sets O is not only a bound: its minimum is the optimum, always.

k i.i.d. drafts from q; Q(x) = q(x_1) .. q(x_k); {x} the tokens of the draft tuple x.

BOUND (SpecTr). For every O, alpha* <= b(O) = sum over y in O of min(p(y), 1 - (1 - q(y))^k) + sum over x of min(Q(x), p({x} - O)).
Accepted outputs in O: at most p(y), and at most the probability that y is drafted. Accepted outputs outside O, given x: at most Q(x),
and at most p of what was drafted outside O.

WHERE IT IS TIGHT. b(O) <= p(O) + sum over x not inside O of Q(x) = p(O) + 1 - q(O)^k, since {x} - O is empty for x inside O. The
right side is the cut of O, and the least cut is alpha* (linear_program.py). So b(O) = alpha* for O = a token set of the minimum
cut, whatever p, q and k are; hence min over O of b(O) = alpha*. Other O can be tight too: b(O) may lie below its cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from math import factorial, prod

import ot_draft as otd

from ..by_z3 import Part, decide, least, token_sets, total
from ..checking import check
from ..random_cases import Case
from ..statement import Proof, Statement
from .linear_program import SIZES, Flow

__all__ = ["STATEMENTS", "bounds", "check"]

ALL_DRAWN, EQUAL = "q(y)^k instead of 1 - (1 - q(y))^k", "b(O) = alpha* for every O"
EMPTY, EVERY = "attained by O empty", "attained by O = all tokens"
OUTSIDE, TOKENS_ONLY = "p({x}) instead of p({x} - O)", "the drafts that hold tokens outside O omitted"


def bounds(case: Case, drafted: Callable[[Fraction, int], Fraction]) -> dict[tuple[int, ...], Fraction]:
    """Return b(O) for every O; drafted(q(y), k) is the probability that y is among the drafts."""
    p, q, k, n = case.p, case.q, case.k, len(case.p)
    tuples = [  # in any order: all of an order have the same Q(x) and {x}
        (
            factorial(k) // prod(factorial(x.count(y)) for y in set(x)),
            prod((q[y] for y in x), start=Fraction(1)),
            set(x),
        )
        for x in combinations_with_replacement(range(n), k)
    ]
    values = {}
    for H in token_sets(n):
        alone = sum((min(p[y], drafted(q[y], k)) for y in H), Fraction(0))
        others = (number * min(mass, sum((p[y] for y in x.difference(H)), Fraction(0))) for number, mass, x in tuples)
        values[H] = alone + sum(others, Fraction(0))
    return values


def some_draft(mass: Fraction, k: int) -> Fraction:
    """Return the probability that a token of this mass is among k i.i.d. drafts."""
    return 1 - (1 - mass) ** k


def every_draft(mass: Fraction, k: int) -> Fraction:
    """Return the probability that all k i.i.d. drafts are this token."""
    return mass**k


def bound(case: Case, error: str) -> bool:
    """Return whether every b(O) is at least the optimum and at most the cut of O."""
    alpha = otd.optimal_acceptance(list(case.p), list(case.q), case.k)
    for H, value in bounds(case, every_draft if error == ALL_DRAWN else some_draft).items():
        cut = 1 + sum((case.p[y] for y in H), Fraction(0)) - sum((case.q[y] for y in H), Fraction(0)) ** case.k
        if not alpha <= value <= (alpha if error == EQUAL else cut):
            return False
    return True


def tight(case: Case, error: str) -> bool:
    """Return whether the least b(O) is the optimum, and O = the token set of the minimum cut has it."""
    alpha, chosen = otd.optimal_cut(list(case.p), list(case.q), case.k)
    values = bounds(case, some_draft)
    every = tuple(range(len(case.p)))
    H = {EMPTY: (), EVERY: every}.get(error, tuple(y for y in every if chosen[y]))
    return values[H] == alpha == min(values.values())


def any_law(error: str) -> Proof:
    """Decide, for all draft laws, whether no flow exceeds b(O) and b(O) is at most the cut of O; x is the set of its tokens."""

    def parts() -> Iterator[Part]:
        for n, k in SIZES:
            flow = Flow(n, k)
            for H, cut in zip(token_sets(n), flow.cuts(), strict=True):
                drafted = [total(flow.s, [i for i, x in enumerate(flow.sets) if y in x]) for y in range(n)]
                value = sum(least(flow.p[y], drafted[y]) for y in H)
                for s, x in zip(flow.s, flow.sets, strict=True):
                    outside = [y for y in x if y not in H or error == OUTSIDE]
                    value = value + (0 if error == TOKENS_ONLY else least(s, total(flow.p, outside)))
                yield f"n = {n}, k = {k}, O = {H}, bound", [*flow.laws, flow.feasible], flow.value <= value
                yield f"n = {n}, k = {k}, O = {H}, cut", flow.laws, value <= cut

    return decide("proved for all p and all draft laws, (n, k) = " + ", ".join(map(str, SIZES)), parts())


STATEMENTS = (
    Statement(
        "SpecTr's bound",
        "alpha* <= b(O) = sum in O of min(p, 1-(1-q)^k) + sum over x of min(Q(x), p({x} - O)) for every O; b(O) <= 1 + p(O) - q(O)^k.",
        "Sun et al. 2023 (SpecTr)",
        "Fractions, all sets O and all draft tuples",
        bound,
        (ALL_DRAWN, EQUAL),
        limit=300,
    ),
    Statement(
        "SpecTr's bound is tight",
        "min over O of b(O) = alpha* for all p, q, k, attained by the token set of the minimum cut.",
        "this project (proof in the file)",
        "proof by hand; Fractions, all sets O and all draft tuples",
        tight,
        (EMPTY, EVERY),
        limit=300,
    ),
    Statement(
        "SpecTr's bound is tight, any draft law",
        "Every flow is at most b(O), and b(O) at most the cut of O; the minimum of these cuts is alpha*.",
        "this project",
        "z3, linear real arithmetic",
        planted=(OUTSIDE, TOKENS_ONLY),
        prove=any_law,
    ),
)
