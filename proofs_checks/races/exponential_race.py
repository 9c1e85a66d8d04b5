"""The exponential race (Gumbel coupling) of one draft: its exact joint distribution, its match probability, and the bound by total
variation.

E_y independent Exp(1); draft = argmin E/q, output = argmin E/p. TV = total variation distance of p and q.

JOINT DISTRIBUTION. Draft i and output j, i != j: with E_i = a and E_j = r a, r between q_j/q_i and p_j/p_i, every other E_z is at least
a max(q_z/q_i, r p_z/p_j). Integrating over a leaves the integral over r of (1 + r + sum_z max(q_z/q_i, r p_z/p_j))^-2, whose
inside is straight between the places where two terms are equal: each stretch is a difference of two reciprocals, so that the distribution
is rational. Draft and output j: 1 / sum_i max(p_i/p_j, q_i/q_j).
BOUND. max(p_i/p_j, q_i/q_j) <= max(p_i, q_i) / min(p_j, q_j), and sum_i max(p_i, q_i) = 1 + TV, sum_j min(p_j, q_j) = 1 - TV. Hence
the match probability is at least (1 - TV)/(1 + TV); being that of a coupling, it is at most 1 - TV. With two tokens it is 1 - TV.

CHECK. The off-diagonal of the joint distribution by integration, the diagonal by the formula: only if both are right are the marginals
exactly q and p.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from ..checking import check
from ..random_cases import Case
from ..statement import Proof, Statement

__all__ = ["STATEMENTS", "check", "joint", "match"]

SMALLEST, ONE_RACE = "min instead of max", "the others lose the output's race only"
REACHED, HALVED = "the match probability is 1 - TV", "half of TV instead of TV"
SWAPPED = "max(p_j, q_j) in the denominator"


def match(case: Case, token: int, error: str = "") -> Fraction:
    """Return the probability that draft and output are this token."""
    p, q = case.p, case.q
    if not p[token] or not q[token]:
        return Fraction(0)
    extreme = min if error == SMALLEST else max
    return 1 / sum((extreme(a / p[token], b / q[token]) for a, b in zip(p, q, strict=True)), Fraction(0))


def differ(case: Case, i: int, j: int, error: str = "") -> Fraction:
    """Return the probability that the draft is i and the output is j, for i != j, by integration over r = E_j / E_i."""
    p, q = case.p, case.q
    if not q[i] or not p[j]:
        return Fraction(0)
    low, high = q[j] / q[i], p[j] / p[i] if p[i] else None
    if high is not None and low >= high:
        return Fraction(0)
    lines = [(q[z] / q[i] * (error != ONE_RACE), p[z] / p[j]) for z in range(len(p)) if z not in (i, j)]

    def inside(r: Fraction) -> Fraction:
        return 1 + r + sum((max(level, slope * r) for level, slope in lines), Fraction(0))

    bends = [level / slope for level, slope in lines if slope]
    marks = [low, *sorted({r for r in bends if r > low and (high is None or r < high)})]
    marks += [] if high is None else [high]
    mass = Fraction(0)
    for start, end in pairwise(marks):
        mass += (end - start) / (inside(start) * inside(end))
    if high is None:
        mass += 1 / (inside(marks[-1]) * (inside(marks[-1] + 1) - inside(marks[-1])))
    return mass


def joint(case: Case, error: str = "") -> list[list[Fraction]]:
    """Return P(draft = i, output = j)."""
    tokens = range(len(case.p))
    return [[match(case, i, error) if i == j else differ(case, i, j, error) for j in tokens] for i in tokens]


def marginals(case: Case, error: str) -> bool:
    """Return whether the draft has distribution q, the output has distribution p."""
    law = joint(case, error)
    drafts, outputs = tuple(map(sum, law)), tuple(map(sum, zip(*law, strict=True)))
    return drafts == case.q and outputs == case.p


def bound(case: Case, error: str) -> bool:
    """Return whether (1 - TV)/(1 + TV) <= match probability <= 1 - TV."""
    distance = sum((abs(a - b) for a, b in zip(case.p, case.q, strict=True)), Fraction(0)) / 2
    matched = sum((match(case, token) for token in range(len(case.p))), Fraction(0))
    if error == REACHED:
        return matched == 1 - distance
    far = distance / 2 if error == HALVED else distance
    low = (1 - far) / (1 + far)
    return low <= matched <= 1 - distance and (len(case.p) != 2 or matched == 1 - distance)


def any_vocabulary(error: str) -> Proof:
    """Decide the two lemmas that give the bound for every number of tokens."""
    import z3  # a local import, because the survey imports this module without z3

    from ..by_z3 import decide, greatest, is_law, least, reals

    a, b, c, d = z3.Reals("p_i p_j q_i q_j")
    below = greatest(b, d) if error == SWAPPED else least(b, d)
    # The ratios are separate unknowns, so that z3 has polynomials.
    first, second, third = z3.Reals("p_i/p_j q_i/q_j bound")
    premises = [a >= 0, c >= 0, b > 0, d > 0, first * b == a, second * d == c, third * below == greatest(a, c)]
    parts = [("ratio", premises, greatest(first, second) <= third)]
    for n in (2, 3, 4):
        p, q = reals("p", n), reals("q", n)
        high, low = (sum(pick(x, y) for x, y in zip(p, q, strict=True)) for pick in (greatest, least))
        parts.append((f"sums, n = {n}", [*is_law(p), *is_law(q)], high + low == 2))
    return decide(
        "proved for all p, q: the ratio for any n, the sums for n = 2, 3, 4 (any n: max + min = p + q)", parts
    )


STATEMENTS = (
    Statement(
        "exponential race: match probability",
        "sum_j 1 / sum_i max(p_i/p_j, q_i/q_j); the draft has distribution q, the output p.",
        "Daliri et al. 2024",
        "Fractions: the race integrated exactly, both marginals",
        marginals,
        (SMALLEST, ONE_RACE),
    ),
    Statement(
        "exponential race: bound",
        "(1 - TV)/(1 + TV) <= match probability <= 1 - TV, the upper one reached with two tokens.",
        "Daliri et al. 2024",
        "Fractions",
        bound,
        (REACHED, HALVED),
    ),
    Statement(
        "exponential race: bound, any vocabulary",
        "max(p_i/p_j, q_i/q_j) <= max(p_i, q_i)/min(p_j, q_j); the maxima sum to 1 + TV, the minima to 1 - TV.",
        "Daliri et al. 2024",
        "z3, polynomials",
        planted=(SWAPPED,),
        prove=any_vocabulary,
    ),
)
