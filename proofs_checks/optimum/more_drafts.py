"""More drafts: alpha_k grows with k, to p(supp q); what each further draft adds.

GROWS. alpha_k = min over H of 1 + p(H) - Q_k(all drafts in H). Where the first k of k + 1 drafts have the distribution of k drafts (i.i.d.
drafts, drafts without replacement), 'all k + 1 in H' implies 'the first k in H', so that every cut grows with k, and so does the least.
Greedy drafting, k - 1 top tokens T and one draw from q outside T: alpha_k = p(T) + sum outside T of min(p, q/(1 - q(T))). When T takes
in the next token y, p(y) replaces min(p(y), ..), and q/(1 - q(T)) grows on the others.

LIMIT, i.i.d. drafts. H = supp q gives alpha_k <= p(supp q). Every H with q(H) < 1 has q(H) <= 1 - q_min, q_min being the least mass > 0,
and the others contain supp q. So min(p(supp q), 1 - (1 - q_min)^k) <= alpha_k <= p(supp q): the limit is p(supp q), 1 iff supp p lies in
supp q. Without replacement alpha_k >= p(supp q) as soon as k reaches the size of supp q, and 1 for k >= n.

WHAT A DRAFT ADDS, i.i.d. drafts: alpha_{k+1} - alpha_k falls with k, as 1 + p(H) - q(H)^k is concave in k for every H, and the least
of concave functions is concave. Without replacement this is false: the first draft can take the token that p has no use for, and make room.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import ot_draft as otd

from ..checking import check
from ..random_cases import Case
from ..statement import Statement

__all__ = ["STATEMENTS", "check"]

OWN = "this project"
IID, WITHOUT, GREEDY = otd.IID(), otd.WithoutReplacement(), otd.Hybrid(-1)
STRICT, MIXED = "strictly", "k drafts without replacement against k + 1 i.i.d. drafts"
ALWAYS, FINITE = "the limit is 1", "p(supp q) is reached at k = n"
ONE_LESS, FOR_IID = "1 at k = n - 1 already", "the same for i.i.d. drafts"
SAME_WITHOUT, HALVED = "the same without replacement", "at most half as much"


def optima(case: Case, law: otd.DraftLaw) -> list[Fraction]:
    """Return alpha_1, alpha_2, ... to two more than there are tokens, at most six."""
    return [optimum(case, k, law) for k in range(1, min(6, len(case.p) + 2) + 1)]


def optimum(case: Case, k: int, law: otd.DraftLaw) -> Fraction:
    """Return alpha_k, at the token set that certifies it."""
    p, q = list(case.p), list(case.q)
    value, chosen = otd.optimal_cut(p, q, k, law)
    assert value == otd.cut_value(otd.Problem(p, q, k, law), chosen), f"{case}: the token set gives another value"
    return Fraction(value)


def grows(case: Case, error: str) -> bool:
    """Return whether alpha_{k+1} >= alpha_k for the three draft laws."""
    if error == MIXED:
        return all(a <= b for a, b in zip(optima(case, WITHOUT), optima(case, IID)[1:], strict=False))
    values = [optima(case, law) for law in (IID, WITHOUT, GREEDY)]
    return all((a < b or a == 1) if error == STRICT else a <= b for row in values for a, b in pairwise(row))


def least_cut(case: Case, k: int) -> Fraction:
    """Return min over all H of 1 + p(H) - q(H)^k, for i.i.d. drafts."""
    sums = [(Fraction(0), Fraction(0))]
    for a, b in zip(case.p, case.q, strict=True):
        sums += [(x + a, y + b) for x, y in sums]
    return min(1 + x - y**k for x, y in sums)


def limit(case: Case, error: str) -> bool:
    """Return whether min(p(supp q), 1 - (1 - q_min)^k) <= alpha_k <= p(supp q), up to k = 256, over all token sets."""
    reached = sum((a for a, b in zip(case.p, case.q, strict=True) if b), Fraction(0))
    least = min(b for b in case.q if b)
    if error == FINITE:
        return least_cut(case, len(case.p)) == reached
    top = Fraction(1) if error == ALWAYS else reached
    return all(min(top, 1 - (1 - least) ** k) <= least_cut(case, k) <= top for k in (1, 2, case.k, 16, 256))


def runs_out(case: Case, error: str) -> bool:
    """Return whether the optimum without replacement is p(supp q) from k = |supp q| on, and 1 from k = n on; up to k = n + 2."""
    n, support = len(case.p), sum(b > 0 for b in case.q)
    reached = sum((a for a, b in zip(case.p, case.q, strict=True) if b), Fraction(0))
    law = IID if error == FOR_IID else WITHOUT
    last = n - 1 if error == ONE_LESS and n > 1 else n
    values = {k: optimum(case, k, law) for k in range(min(support, last), n + 3)}
    return all(value >= reached for k, value in values.items() if k >= support) and all(
        value == 1 for k, value in values.items() if k >= last
    )


def adds_less(case: Case, error: str) -> bool:
    """Return whether alpha_{k+1} - alpha_k falls with k for i.i.d. drafts."""
    return falls(optima(case, WITHOUT if error == SAME_WITHOUT else IID), 2 if error == HALVED else 1)


def adds_less_without(case: Case, error: str) -> bool:
    """Return whether alpha_{k+1} - alpha_k falls with k without replacement, for q > 0, so that no draft is forced."""
    return min(case.q) == 0 or falls(optima(case, IID if error == FOR_IID else WITHOUT))


def falls(values: list[Fraction], times: int = 1) -> bool:
    """Return whether each gain is at least `factor` times the next."""
    gains = [b - a for a, b in pairwise(values)]
    return all(a >= times * b for a, b in pairwise(gains))


def shown(case: Case) -> str:
    """Return p and q, and the optima."""
    masses = str(case).rpartition(", k =")[0]
    return f"{masses}: alpha_1, alpha_2, ... = {', '.join(map(str, optima(case, WITHOUT)))}"


STATEMENTS = (
    Statement(
        "alpha_k grows with k",
        "alpha_{k+1} >= alpha_k for i.i.d. drafts, drafts without replacement, and greedy drafting.",
        "Sun et al. 2023 (SpecTr) for i.i.d. drafts",
        "Fractions, each alpha certified by its token set",
        grows,
        (STRICT, MIXED),
    ),
    Statement(
        "the limit of alpha_k",
        "i.i.d. drafts: min(p(supp q), 1 - (1 - q_min)^k) <= alpha_k <= p(supp q).",
        "folklore",
        "Fractions, all 2^n token sets, k up to 256",
        limit,
        (ALWAYS, FINITE),
    ),
    Statement(
        "drafts without replacement run out",
        "alpha_k >= p(supp q) from k = |supp q| on, and 1 from k = n on (k up to n + 2).",
        "folklore; Chen et al. 2024 (Sequoia)",
        "Fractions, each alpha certified by its token set",
        runs_out,
        (ONE_LESS, FOR_IID),
    ),
    Statement(
        "each i.i.d. draft adds less than the one before",
        "alpha_{k+1} - alpha_k does not increase with k.",
        OWN,
        "Fractions, each alpha certified by its token set",
        adds_less,
        (SAME_WITHOUT, HALVED),
    ),
    Statement(
        "each draft without replacement adds less than the one before",
        "alpha_{k+1} - alpha_k does not increase with k.",
        "a plausible guess",
        "Fractions, each alpha certified by its token set",
        adds_less_without,
        (FOR_IID,),
        expected="refuted",
        show=shown,
        limit=200,
    ),
)
