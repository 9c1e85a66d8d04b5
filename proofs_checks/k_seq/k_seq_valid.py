"""K-SEQ: which division factors keep the target's distribution, and what is accepted.

THE RULE. Factor gamma >= 1, b = min(q, p/gamma), beta = sum b. The drafts are taken in order, token y with probability
min(1, p(y) / (gamma q(y))), so that one draft is accepted as y with probability b(y), and k drafts as y with b(y) h, where
h = 1 + (1 - beta) + ... + (1 - beta)^{k-1}: in all p_acc = beta h = 1 - (1 - beta)^k. The output is p iff p(y) >= b(y) h
for every y, what is missing being the residual.

THE SMALLEST FACTOR. gamma beta(gamma) = sum min(gamma q, p) never falls, p_acc never grows in gamma. At gamma = 1
p_acc >= beta, at gamma = k p_acc <= k beta (lemmas in k_seq_share.py). So p_acc - gamma beta decreases (strictly, where
beta > 0) and has a root gamma* in [1, k], and p_acc <= gamma beta, that is h <= gamma, from there on.

VALID. (a) A token that is held back, 0 < p <= gamma q, has b = p/gamma and needs h <= gamma. The others have b = q and need
h <= p/q, which follows from h <= gamma. (b) If no token is held back, all p/q with p, q > 0 lie above gamma; let c be the
least of them. Needed is h <= c. Every factor up to c takes all drafts with p > 0 always: one and the same rule. Together:
*valid iff max(gamma, c) >= gamma**. 'Valid iff gamma >= gamma*' is right in one direction only.

AT gamma* the residual is 0 on all tokens held back. So when it is used, every draft was rejected, hence was held back, and the
output is not drafted: acceptance p_acc exactly, which is also sum min(p, gamma* q).

ANY n BY AGGREGATION. p(y) >= b(y) h speaks of one token y and of beta = sum over the others held back (p/gamma) + over the rest (q) + b(y).
Merging the tokens held back other than y, and the rest other than y, changes neither. So three tokens stand for any number.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import inf

import z3

import ot_draft as otd

from ..by_z3 import Part, decide, is_law, reals
from ..checking import check
from ..random_cases import Case
from ..rational_functions import keeps_the_target
from ..statement import Proof, Statement
from .formulas import (
    PLAIN,
    SHORT,
    AsPublished,
    Solved,
    around_the_smallest,
    covered,
    draw_solved,
    geometric,
    is_valid,
    least_ratio,
    output,
    passed,
)

__all__ = ["STATEMENTS", "check"]

NAIVE, STRICT = "c left out: iff gamma >= gamma*", "max(gamma, c) > gamma*"
BELOW, ABOVE = "gamma* - 1/1000 is valid too", "at gamma = k the residual is not drafted either"
NO_FACTOR, EARLY = "p_acc - beta instead of p_acc - gamma beta", "root in [1, (k + 1)/2]"
LOOSE = "h <= 1.01 gamma"
SPECTR = "Sun et al. 2023 (SpecTr), Theorem 1"


def identity(error: str) -> Proof:
    """Decide whether the output distribution is p, with unknown p, q and 1/gamma."""
    return keeps_the_target(
        partial(output, error=error), ((2, 2), (3, 2), (2, 3), (3, 3)), "proved for n = 2, 3 and k = 2, 3", ("s",)
    )


def residual_for_all(error: str) -> Proof:
    """Decide whether p(y) >= b(y) h for one token y, besides the other tokens held back (index 0) and the rest (index 1)."""

    def parts() -> Iterator[Part]:
        p, q, s = reals("p", 3), reals("q", 3), z3.Real("s")
        premises = [*is_law(p), *is_law(q), s > 0, s <= 1, s * p[0] <= q[0], s * p[1] >= q[1]]
        for k in (2, 3):
            for held in (True, False):
                b = s * p[2] if held else q[2]
                h = geometric(s * p[0] + q[1] + b, k)
                mine = [s * p[2] <= q[2] if held else s * p[2] >= q[2]]
                enough = 100 * s * h <= 101 if error == LOOSE else s * h <= 1
                yield f"k = {k}, enough", [*premises, *mine, enough], p[2] >= b * h
                if held:
                    yield f"k = {k}, needed", [*premises, *mine, p[2] > 0, s * h > 1], p[2] < b * h

    return decide("proved for any n, k = 2 and 3", parts())


def valid_iff(case: Case, error: str) -> bool:
    """Return whether K-SEQ with a fixed factor keeps p iff max(gamma, c) >= gamma*.

    The library's is valid from gamma* on, and with its own factor.
    """
    least = least_ratio(case)
    for factor in {Fraction(1), Fraction(case.k + 1, 2), Fraction(case.k), *around_the_smallest(case)}:
        lossless = otd.evaluate(AsPublished(factor), case.problem()).lossless
        best = factor if error == NAIVE or least == inf else max(factor, Fraction(least))
        beta = covered(case.p, case.q, best)
        predicted = geometric(beta, case.k) < best if error == STRICT else is_valid(case, best)
        if lossless != (predicted or not beta):
            return False
        if is_valid(case, factor) and not otd.evaluate(otd.rules.KSeq(factor), case.problem()).lossless:
            return False
    return otd.evaluate(otd.rules.KSeq(), case.problem()).lossless


def only_if(case: Case, error: str) -> bool:
    """Return whether, for gamma = 1 and beta > 0, gamma* <= 1 if K-SEQ keeps p, which is false."""
    least = least_ratio(case)
    if least == inf or not otd.evaluate(AsPublished(Fraction(1)), case.problem()).lossless:
        return True
    return is_valid(case, max(Fraction(1), Fraction(least)) if error else Fraction(1))


def decreases(case: Case, error: str) -> bool:
    """Return whether p_acc - gamma beta falls on [1, k], from >= 0 to <= 0."""
    last = Fraction(case.k + 1, 2) if error == EARLY else Fraction(case.k)
    factors = [1 + (last - 1) * Fraction(i, 8) for i in range(9)]
    betas = [covered(case.p, case.q, factor) for factor in factors]
    scales = [Fraction(1)] * 9 if error == NO_FACTOR else factors
    values = [passed(case, g) - scale * beta for g, beta, scale in zip(factors, betas, scales, strict=True)]
    falls = all(a > b for a, b in pairwise(values)) or not betas[0] or last == 1
    return falls and values[0] >= 0 >= values[-1]


def accepted(case: Solved, error: str) -> bool:
    """Return whether, at gamma*, draft i is accepted with beta (1 - beta)^{i-1}, and the acceptance is p_acc = sum min(p, gamma* q)."""
    factor = case.factor if error != ABOVE else Fraction(case.k)
    if error == BELOW:
        lower = max(Fraction(1), case.factor - Fraction(1, 1000))
        return case.factor <= 1 or otd.evaluate(otd.rules.KSeq(lower), case.problem()).lossless
    evaluation = otd.evaluate(otd.rules.KSeq(factor), case.problem())
    beta = covered(case.p, case.q, factor)
    by_position = [beta * (1 - beta) ** i for i in range(case.k)]
    whole = sum(by_position, Fraction(0))
    taken = whole == passed(case, factor) and evaluation.accept.tolist() == by_position
    at_root = error == ABOVE or whole == sum(min(a, factor * b) for a, b in zip(case.p, case.q, strict=True))
    return bool(evaluation.lossless and taken and at_root and evaluation.acceptance == whole)


def shown(case: Case) -> str:
    """Return the problem and the violation at gamma = 1, as text."""
    beta = covered(case.p, case.q, Fraction(1))
    return f"{case}: gamma = 1 keeps p, yet p_acc = {passed(case, Fraction(1))} > gamma beta = {beta}"


HALF, WHOLE, NONE = Fraction(1, 2), Fraction(1), Fraction(0)

STATEMENTS = (
    Statement(
        "K-SEQ's output law",
        "The output is p as a rational function of p, q and gamma, for every sign pattern of p/gamma - q.",
        SPECTR,
        "sympy, rational functions, every min split, all drafts enumerated",
        planted=(SHORT, PLAIN),
        prove=identity,
    ),
    Statement(
        "K-SEQ's residual",
        "p(y) >= b(y) h for every y if h <= gamma, otherwise for no token with 0 < p(y) <= gamma q(y); hence valid from gamma* on.",
        SPECTR + "; any n by aggregation",
        "z3, s = 1/gamma, every min split",
        planted=(LOOSE,),
        prove=residual_for_all,
    ),
    Statement(
        "when a fixed factor is valid",
        "K-SEQ keeps p iff max(gamma, c) >= gamma*, c being the least p/q with p, q > 0.",
        "this project",
        "Fractions, all drafts enumerated; factors 1, k, between, and both sides of gamma*",
        valid_iff,
        (NAIVE, STRICT),
        limit=200,
    ),
    Statement(
        "a factor below gamma* is never valid",
        "K-SEQ keeps p only if gamma >= gamma*.",
        SPECTR + ", read literally",
        "Fractions, all drafts enumerated",
        only_if,
        ("max(gamma, c) >= gamma*",),
        expected="refuted",
        first=(Case((WHOLE, NONE), (HALF, HALF), 2, 0),),
        limit=100,
        show=shown,
    ),
    Statement(
        "gamma* lies in [1, k]",
        "p_acc - gamma beta decreases strictly on [1, k] (beta > 0), from >= 0 to <= 0.",
        SPECTR,
        "Fractions, nine factors; the inequalities at the ends: lemmas of K-SEQ's share",
        decreases,
        (NO_FACTOR, EARLY),
    ),
    Statement(
        "K-SEQ's acceptance at gamma*",
        "Draft i is accepted with probability beta (1 - beta)^{i-1}; acceptance p_acc = sum min(p, gamma* q): the "
        "residual is never drafted.",
        "this project; p_acc: " + SPECTR,
        "Fractions, all drafts enumerated, problems with rational gamma*",
        accepted,
        (BELOW, ABOVE),
        draw=draw_solved,
    ),
)
