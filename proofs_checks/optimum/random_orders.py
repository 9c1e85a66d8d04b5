"""Random orders: under every draft law, optimal selection is a random order of the tokens.

THEOREM. Let X be the drafts, at least one of them, under any joint distribution, and b(H) = P(all drafts in H). Some random order of the
tokens, drawn apart from the drafts, is optimal: select the draft that stands last in it, and couple the selected token
maximally with p. At most n orders are needed.

1. DISTRIBUTIONS OF A SELECTED DRAFT. m is the distribution of the selected token for some way of selecting one draft iff m(H) >= b(H)
   for all H and m is a distribution. Necessary: if all drafts lie in H, so does the selected one. Sufficient: a selection is a flow from
   draft sets S to tokens y in S that takes P(S) from every S and m(y) to every y; by Hall's theorem it exists iff every family of
   sets finds room in its tokens, that is, iff b(H) = P(S inside H) <= m(H) for all H.

2. ACCEPTANCE. alpha* = max of sum min(p, m) over these m. A maximal coupling of m and p attains sum min(p, m). Conversely take a
   valid rule, and select its output where it was drafted, else the first draft: the distribution m of what is selected is at least
   the mass a(y) that the rule accepts on y, and a <= p, so the acceptance sum a <= sum min(p, m).

3. b IS CONVEX: b(A u B) + b(A n B) >= b(A) + b(B), since the events 'all drafts in A' and 'in B' meet in 'all in A n B', and
   either implies 'all in A u B'. So the m of 1 are the core of a convex game, and the extreme points of the core are the
   vectors m_i = b({y_1..y_i}) - b({y_1..y_{i-1}}), one for each order y_1, y_2, ... (Shapley 1971; Edmonds 1970). This m is the
   distribution of the draft that stands last: it is y_i iff all drafts are among the first i tokens and not among the first i - 1.

4. By 2 and 3 the best m is a mixture of orders; of at most n by Caratheodory, as the core lies in a space of n - 1 dimensions. QED.

For i.i.d. drafts `Optimal` finds such a mixture in closed form (optimal_selection.py): at level lambda, intervals in the order of p/q,
and inside an interval the order in which the tokens happened to be drawn. Without replacement no closed form is known;
`RandomOrder` finds the mixture by column generation. It is valid for any list of orders, and reports its distance from alpha*.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np

import ot_draft as otd

from ..random_cases import Case, check_on_random_cases
from ..statement import Statement

LAWS = (otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=1), otd.SpecHubLaw())
CLOSE = Fraction(1, 10**9)  # what column generation may leave; rounding its weights costs about 1e-12
CONCAVE, FIRST, INDEPENDENT = "<= instead of >=", "the draft that stands first", "probabilities of i.i.d. drafts"
check = check_on_random_cases


def _problems(case: Case) -> list[otd.Problem]:
    """Return the case under every draft law that is defined for it and leaves no draft absent."""
    laws = [law for law in LAWS if not (isinstance(law, otd.SpecHubLaw) and case.k != 2)]
    return [case.problem(law) for law in laws if law.count(len(case.p), case.k) == case.k]


def _drafted(problem: otd.Problem) -> dict[int, Fraction]:
    """Return the probability of every set of drafted tokens, as a bit mask, by enumerating all drafts."""
    n, k = problem.n, problem.k
    tuples = np.stack([np.arange(n**k) // n**i % n for i in range(k)], -1)
    masses: dict[int, Fraction] = {}
    for drafts, mass in zip(tuples, problem.law.probability(problem.q[None, :], tuples), strict=True):
        bits = int(np.bitwise_or.reduce(1 << drafts))
        masses[bits] = masses.get(bits, Fraction(0)) + mass
    return masses


def _inside(problem: otd.Problem) -> list[Fraction]:
    """Return b(H) for every H, as a bit mask: sums over subsets."""
    drafted = _drafted(problem)
    b = [drafted.get(bits, Fraction(0)) for bits in range(1 << problem.n)]
    for token in range(problem.n):
        b = [x + b[bits ^ 1 << token] if bits >> token & 1 else x for bits, x in enumerate(b)]
    return b


def convex(case: Case, error: str) -> bool:
    """Return whether b(H + x + y) + b(H) >= b(H + x) + b(H + y) for all H and x, y outside: the local form of convexity."""
    for problem in _problems(case):
        b = _inside(problem)
        for x, y in combinations(range(problem.n), 2):
            for bits in (bits for bits in range(len(b)) if not bits & (1 << x | 1 << y)):
                gain = b[bits | 1 << x | 1 << y] + b[bits] - b[bits | 1 << x] - b[bits | 1 << y]
                if (gain > 0) if error == CONCAVE else (gain < 0):
                    return False
    return True


def last_in_order(case: Case, error: str) -> bool:
    """Return whether the last draft in any order has the increments of b as its distribution, as the draft law's own formula does."""
    for problem in _problems(case):
        order = np.random.default_rng(case.seed).permutation(problem.n)
        pick = min if error == FIRST else max
        law = [Fraction(0)] * problem.n
        for bits, mass in _drafted(problem).items():
            law[pick(i for i, token in enumerate(order) if bits >> int(token) & 1)] += mass
        formula = otd.IID() if error == INDEPENDENT else problem.law
        if law != np.diff(formula.prefix_probabilities(problem.q, order, problem.k)).tolist():
            return False
    return True


def optimal(case: Case, error: str) -> bool:
    """Return whether RandomOrder outputs exactly p, and accepts alpha* up to CLOSE, never more."""
    for problem in _problems(case):
        rule = otd.rules.RandomOrder(otd.IID() if error == INDEPENDENT else problem.law, tolerance=1e-10)
        evaluation = otd.evaluate(rule, problem)
        best = otd.optimal_acceptance(problem.p, problem.q, problem.k, problem.law)
        if not evaluation.lossless or not best - CLOSE <= evaluation.acceptance <= best:
            return False
    return True


STATEMENTS = (
    Statement(
        "the chance to hold all drafts is convex",
        "b(A u B) + b(A n B) >= b(A) + b(B) for b(H) = P(all drafts in H): i.i.d., without replacement, hybrid, hub.",
        "this project, proof 3 for every law; Shapley 1971 for what follows",
        "Fractions, all sets",
        convex,
        (CONCAVE,),
    ),
    Statement(
        "the draft that stands last",
        "For any order its distribution is the increments of b along it; `law.prefix_probabilities` computes them.",
        "this project; proof 3",
        "Fractions, all drafts",
        last_in_order,
        (FIRST, INDEPENDENT),
    ),
    Statement(
        "a random order is optimal",
        "i.i.d., without replacement, hybrid, SpecHub: RandomOrder outputs exactly p and accepts alpha* up to 1e-9, never more.",
        "this project, proof 4 for every law",
        "Fractions, all drafts",
        optimal,
        (INDEPENDENT,),
    ),
)
