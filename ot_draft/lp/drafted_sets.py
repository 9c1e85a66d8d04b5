"""The law of the *set* of drafted tokens: what the reduced linear program needs to know of the drafts."""

from __future__ import annotations

from fractions import Fraction
from math import comb

from ..laws import sets
from ..problem import Problem


def drafted_sets(problem: Problem) -> dict[tuple[int, ...], Fraction]:
    """P(the drafted tokens are exactly S), for every S of positive probability; one problem in Fractions.

    Raises InvalidArgument at once where there are too many, since a set is a mask of n bits.
    """
    law, q, k = problem.law, problem.q, problem.k
    support = int((q > 0).sum())
    if problem.n > sets.MAX_TOKENS or comb(support, min(sets.draws(law, q, k), support)) > sets.MAX_SETS:
        raise sets.too_many()
    return {sets.tokens_of(bits): Fraction(mass) for bits, mass in law.sets(q, k).items()}
