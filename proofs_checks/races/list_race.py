"""The exponential race of k drafts (list-level race): its exact match probability, and the list matching lemma.

S_i^(l) independent Exp(1). Output = argmin_i min_l S_i^(l)/p_i, draft l = argmin_i S_i^(l)/q_i.

EXACT DISTRIBUTION. Let the output be j, its exponential s in list 1, without loss of generality. Then S_z^(l) = s p_z/p_j + E_z for all
others, E_z being Exp(1) again: a list of which no more is known has weight w(s) = e^{-s/p_j}. Given s the lists are independent, so
P(draft 1 = i, output j) = integral over s of w^k h_i (list 1 has the minimum) + (k - 1) w^k g_i (another list has it), where

    h_j = exp(-s sum_z (q_z/q_j - p_z/p_j)+)
    h_i = integral over v < q_i/q_j - p_i/p_j of s exp(-s (v + sum over z != i, j of ((p_i/p_j + v) q_z/q_i - p_z/p_j)+)) dv
    g_i = integral over v < infinity of the same, with z = j in the sum,

sums of exponentials with rational rates; and P(output j, drafted by nobody) = k times the integral of (w - w h_j)(w - w g_j)^{k-1}.
LEMMA. The match in the list of the minimum alone gives P(match) >= sum_j k / (sum_i max(p_i/p_j, q_i/q_j) + (k - 1)/p_j), and given
the output j at least 1 / (1 + p_j/(k q_j)). (The formulas are derived here; they have what the paper says of its own: exact for
k = 1, for p = q and for a one-hot draft.) The drafts are i.i.d. from q, so no match probability exceeds alpha*.

CHECK. The joint distribution of draft 1 and the output must have the marginals q and p, which no single part of it knows.
"""

from __future__ import annotations

from fractions import Fraction

import ot_draft as otd

from ..checking import check
from ..exponential_sums import Sum, integral, over_delays, plus, power, product
from ..random_cases import Case
from ..statement import Statement

__all__ = ["STATEMENTS", "check", "joint", "lower_bound", "match"]

NO_MEMORY, NO_WINNER = "no start s p_z/p_j in the other lists", "the list of the minimum like the others"
SWAPPED, INDEPENDENT = "(k - 1)/q_j instead of (k - 1)/p_j", "k independent races"
ZERO, ONE = Fraction(0), Fraction(1)


def delayed(case: Case, i: int, j: int, in_race: list[int], end: Fraction | None, start: int = 1) -> Sum:
    """Return the probability, as a sum in s, that token i comes first in a list, before the tokens in_race, with a delay v up to `end`
    (None: infinity).
    """
    p, q = case.p, case.q
    begin = {z: start * p[z] / p[j] for z in (i, *in_race)}

    def exponent(v: Fraction) -> Fraction:
        return v + sum((max(ZERO, (begin[i] + v) * q[z] / q[i] - begin[z]) for z in in_race), ZERO)

    return over_delays(exponent, [begin[z] * q[i] / q[z] - begin[i] for z in in_race if q[z]], end)


def in_winner(case: Case, i: int, j: int) -> Sum:
    """Return h_i: draft i in the list that holds the minimum, given output j at level s."""
    p, q = case.p, case.q
    if i == j:
        late = sum((max(ZERO, b / q[j] - a / p[j]) for a, b in zip(p, q, strict=True)), ZERO) if q[j] else None
        return {} if late is None else {late: ONE}
    if not q[i]:
        return {}
    end = q[i] / q[j] - p[i] / p[j] if q[j] else None
    if end is not None and end <= 0:
        return {}
    return delayed(case, i, j, [z for z in range(len(p)) if z not in (i, j)], end)


def in_other(case: Case, i: int, j: int, error: str = "") -> Sum:
    """Return g_i: draft i in any other list."""
    others = [z for z in range(len(case.p)) if z != i]
    return delayed(case, i, j, others, None, 0 if error == NO_MEMORY else 1) if case.q[i] else {}


def joint(case: Case, error: str = "") -> list[list[Fraction]]:
    """Return P(draft 1 = i, output = j)."""
    n, k = len(case.p), case.k
    law = [[ZERO] * n for _ in range(n)]
    for j in (j for j in range(n) if case.p[j]):
        every = {k / case.p[j]: ONE}  # w^k
        for i in range(n):
            winner = in_other(case, i, j) if error == NO_WINNER else in_winner(case, i, j)
            law[i][j] = integral(product(every, plus(winner, in_other(case, i, j, error), k - 1)))
    return law


def match(case: Case, token: int) -> Fraction:
    """Return P(output = token, and some draft is that token)."""
    p, q, k = case.p, case.q, case.k
    if not p[token] or not q[token]:
        return ZERO
    weight: Sum = {1 / p[token]: ONE}
    missed = product(weight, plus({ZERO: ONE}, in_winner(case, token, token), -1))
    others = product(weight, plus({ZERO: ONE}, in_other(case, token, token), -1))
    return p[token] - k * integral(product(missed, power(others, k - 1)))


def lower_bound(case: Case, token: int, error: str = "") -> Fraction:
    """Return k / (sum_i max(p_i/p_j, q_i/q_j) + (k - 1)/p_j)."""
    p, q = case.p[token], case.q[token]
    if not p or not q:
        return ZERO
    largest = sum((max(a / p, b / q) for a, b in zip(case.p, case.q, strict=True)), ZERO)
    return case.k / (largest + (case.k - 1) / (q if error == SWAPPED else p))


def marginals(case: Case, error: str) -> bool:
    """Return whether draft 1 has distribution q, the output has distribution p."""
    law = joint(case, error)
    return tuple(map(sum, law)) == case.q and tuple(map(sum, zip(*law, strict=True))) == case.p


def lemma(case: Case, error: str) -> bool:
    """Return whether the bound holds, given the output and in total, is exact where the paper states so, and is at most the optimum."""
    tokens = range(len(case.p))
    matches, bounds = [match(case, y) for y in tokens], [lower_bound(case, y, error) for y in tokens]
    whole = sum(matches, ZERO)
    for p, q, exact, bound in zip(case.p, case.q, matches, bounds, strict=True):
        if not bound <= exact or (p and q and exact / p < 1 / (1 + p / (case.k * q))):
            return False
    if error == INDEPENDENT:
        return whole >= 1 - (1 - sum(match(Case(case.p, case.q, 1, 0), y) for y in tokens)) ** case.k
    known = case.k == 1 or case.p == case.q or max(case.q) == 1
    return whole <= otd.optimal_acceptance(list(case.p), list(case.q), case.k) and (not known or matches == bounds)


STATEMENTS = (
    Statement(
        "list-level race: joint law",
        "Draft l has law q and the output has law p, for any number of lists.",
        "Rowan et al. 2025, Proposition 1",
        "Fractions: the race integrated exactly, both marginals",
        marginals,
        (NO_MEMORY, NO_WINNER),
        limit=300,
    ),
    Statement(
        "list matching lemma",
        "P(match) >= sum_j k / (sum_i max(p_i/p_j, q_i/q_j) + (k-1)/p_j); given j, >= 1/(1 + p_j/(k q_j)); at most alpha*.",
        "Rowan et al. 2025, Theorem 1; the form derived here",
        "Fractions: the race integrated exactly",
        lemma,
        (SWAPPED, INDEPENDENT),
        limit=300,
    ),
)
