"""The law of the *set* of drafted tokens: what the reduced linear program needs to know of the drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import comb, lcm
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import InvalidDrafts
from ..exact import all_drafts
from ..laws import IID, Hub, Hybrid, WithoutReplacement, outside
from ..problem import Problem

MAX_SETS = 200_000  # more rows than any of the solvers takes in minutes
MAX_TOKENS = 5_000


def drafted_sets(problem: Problem) -> dict[tuple[int, ...], Fraction]:
    """P(the drafted tokens are exactly S), for every S of positive probability; one problem in Fractions.

    The library's laws draw one token after another, so that the set drafted so far is a Markov chain and the n^k tuples
    need not be visited: sum_{j<=k} C(n, j) sets. Any other law is enumerated.
    """
    law, q, k = problem.law, problem.q, problem.k
    support = int((q > 0).sum())
    draws = int((law.top_drafts(q, k) < 0).sum()) if type(law) is Hybrid else min(k, 2) if type(law) is Hub else k
    if problem.n > MAX_TOKENS or comb(support, min(draws, support)) > MAX_SETS:  # at once: a set is a mask of n bits
        raise _too_many()
    if type(law) is IID:
        masses = _independent(0, q, k)
    elif type(law) is Hybrid:
        fixed = law.top_drafts(q, k)
        draws = int((fixed < 0).sum()) if (fixed >= 0).sum() < problem.n else 0
        masses = _independent(_bits(fixed), outside(q, fixed), draws)
    elif type(law) is WithoutReplacement:
        masses = _chain(0, law.count(problem.n, k), lambda drawn: outside(q, np.array(_tokens(drawn), dtype=np.int64)))
    else:
        masses = _enumerated(problem)
    return {_tokens(bits): Fraction(mass) for bits, mass in masses.items()}


def _independent(start: int, q: Array, draws: int) -> dict[int, Fraction]:
    """i.i.d. draws from q on top of the starting set. In integers: one denominator, so that no sum needs a gcd."""
    unit = lcm(*(mass.denominator for mass in q))
    numerators = [int(mass * unit) for mass in q]
    counts = _chain(start, draws, lambda drawn: numerators)
    return {bits: Fraction(count, unit**draws) for bits, count in counts.items()}


def _chain(start: int, draws: int, following: Callable[[int], Iterable[Any]]) -> dict[int, Any]:
    """Law of the set after the draws; `following` gives the weight of every next token. Sets are bit masks."""
    masses: dict[int, Any] = {start: 1}
    for _ in range(draws):
        after: dict[int, Any] = {}
        for drawn, mass in masses.items():
            for token, share in enumerate(following(drawn)):
                if share:
                    bits = drawn | 1 << token
                    after[bits] = after.get(bits, 0) + mass * share
            if len(after) > MAX_SETS:
                raise _too_many()
        masses = after
    return masses


def _too_many() -> InvalidDrafts:
    return InvalidDrafts(
        f"the linear program has over {MAX_SETS} draft sets or {MAX_TOKENS} tokens: ot.optimal_acceptance gives the"
        " optimum without it"
    )


def _enumerated(problem: Problem) -> dict[int, Fraction]:
    masses: dict[int, Fraction] = {}
    for tuples in all_drafts(problem):
        for drafts, mass in zip(tuples, problem.law.probability(problem.q[None, :], tuples), strict=True):
            if mass:
                bits = _bits(drafts)
                masses[bits] = masses.get(bits, Fraction(0)) + mass
    total = sum(masses.values())
    if total != 1:
        raise InvalidDrafts(f"{problem.law.name}: the probabilities of all draft tuples sum to {total} instead of 1")
    return masses


def _bits(drafts: Iterable[Any]) -> int:
    """Bit mask of the drafted tokens; absent drafts (-1) leave no bit."""
    bits = 0
    for token in drafts:
        bits |= 1 << int(token) if token >= 0 else 0
    return bits


def _tokens(bits: int) -> tuple[int, ...]:
    return tuple(token for token in range(bits.bit_length()) if bits >> token & 1)
