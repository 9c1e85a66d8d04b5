"""Watermarks by races: what full strength costs in acceptance for k drafts, and the two-key scheme of engines.

A key makes the exponentials of k lists. The *watermarked token* is the output of their race (`ListCoupling`): it has the distribution p
over the keys, and depends on no draft. The draft model knows q and the key, not p, so its drafts are the winners of the lists under q. The
verifier sees drafts D and watermarked token w, and emits y. *Strength* is P(y = w), acceptance P(y in D), and y must have the distribution
p over the keys: a transport from the cells (D, w), whose masses are rational, to the tokens, with the profit [y in D] + c [y = w].

THEOREM. For c >= 1 emitting w is best. Proof: any other y has a profit of at most 1 <= c, and w has at least c. Hence each unit of strength
given up buys at most one unit of acceptance, and at full strength the acceptance is the race's own. Without strength it is alpha*.

NUMBERS OF A POSITION. In decoding the numbers belong to a position, and a position that was drafted and not reached is drafted again
from the same ones. A rule whose decision about a draft does not depend on later drafts has not used them. One that looks ahead has.

Strength as information about the key (Hu and Huang; He et al.) is different: if the uniform random numbers of acceptance come from a key
too, the output is a function of the keys under every rule, without a loss of acceptance. The detector must then know which key made which
token.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import factorial, prod

import numpy as np

import ot_draft as otd
from ot_draft import trees
from ot_draft.rules.races import output_distribution

from ..checking import check
from ..random_cases import Case, draw
from ..statement import Statement
from ..transport import transport
from . import exponential_race, list_race

__all__ = ["STATEMENTS", "cells", "check", "draw_small", "frontier_point", "recovered"]

OTHER_LAW, CHEAPER, ONE_KEY = (
    "drafts of the other law",
    "half a unit of strength for one of acceptance",
    "one key for both",
)
LOOKS_AHEAD = "block verification"
TWO_TOKENS = "two tokens, one draft"
Cell = tuple[tuple[int, ...], int]


def draw_small(seed: int) -> Case:
    """Return the case of this number, of those whose drafts are at most 64 tuples."""
    found = (case for number in range(seed * 4, seed * 4 + 400) if len((case := draw(number)).p) ** case.k <= 64)
    return next(found)


def draw_short(seed: int) -> Case:
    """Return the case of this number, of those of 2 to 4 tokens."""
    return next(case for number in range(seed * 3, seed * 3 + 300) if 2 <= len((case := draw(number)).p) <= 4)


def unbiased(case: Case, error: str) -> bool:
    """Return whether both couplings have the output distribution p, and the acceptance of the races' own formulas."""
    rules = otd.rules.GumbelCoupling(), otd.rules.ListCoupling()
    laws = [rule.law for rule in (rules[::-1] if error else rules)]
    found = [otd.evaluate(rule, case.problem(law)) for rule, law in zip(rules, laws, strict=True)]
    if any(tuple(result.output) != case.p for result in found):
        return False
    one, several = (result.acceptance for result in found)
    tokens = range(len(case.p))
    if several != sum((list_race.match(case, token) for token in tokens), Fraction(0)):
        return False
    return case.k > 1 or one == sum((exponential_race.match(case, token) for token in tokens), Fraction(0))


def cells(case: Case) -> dict[Cell, Fraction]:
    """Return the masses of the cells (set of drafts, watermarked token), over the keys."""
    masses: dict[Cell, Fraction] = {}
    for drafts in combinations_with_replacement([z for z, mass in enumerate(case.q) if mass], case.k):
        counts = Counter(drafts)
        ways = factorial(case.k) // prod(factorial(count) for count in counts.values())
        weight = ways * prod((case.q[z] for z in drafts), start=Fraction(1))
        for token, mass in enumerate(output_distribution(case.p, case.q, tuple((z,) for z in drafts))):
            if mass:
                cell = tuple(sorted(counts)), token
                masses[cell] = masses.get(cell, Fraction(0)) + weight * mass
    return masses


def frontier_point(masses: dict[Cell, Fraction], p: tuple[Fraction, ...], price: Fraction) -> tuple[Fraction, Fraction]:
    """Return (acceptance, strength) that maximise acceptance + price * strength, proved optimal."""
    _, plan = transport(masses, dict(enumerate(p)), lambda cell, y: (y in cell[0]) + price * (y == cell[1]))
    accepted = sum((mass for (cell, y), mass in plan.items() if y in cell[0]), Fraction(0))
    return accepted, sum((mass for (cell, y), mass in plan.items() if y == cell[1]), Fraction(0))


def frontier(case: Case, error: str) -> bool:
    """Return whether at price 1 nothing beats full strength, which accepts what the race does.

    At a price near 0 the acceptance is alpha*.
    """
    masses = cells(case)
    own = sum((list_race.match(case, token) for token in range(len(case.p))), Fraction(0))
    price = Fraction(1, 2) if error else Fraction(1)
    if sum(frontier_point(masses, case.p, price)[i] * (price, 1)[1 - i] for i in range(2)) != own + price:
        return False
    return frontier_point(masses, case.p, Fraction(1, 1000))[0] == otd.optimal_acceptance(
        list(case.p), list(case.q), case.k
    )


def both_whole(case: Case, error: str) -> bool:
    """Return whether full strength accepts as much as any lossless rule, which is false; it does with two tokens and one draft."""
    if error and (len(case.p) > 2 or case.k > 1):
        return True
    own = otd.evaluate(otd.rules.ListCoupling(), case.problem()).acceptance
    return bool(own == otd.optimal_acceptance(list(case.p), list(case.q), case.k))


def recovered(case: Case, one_key: bool) -> tuple[Fraction, ...]:
    """Return the output distribution of: a draft by a race under q, accepted with min(1, p/q), else the winner of a race under norm((p -
    q)+).

    one_key: the second race runs on the numbers of the first.
    """
    p, q = case.p, case.q
    left = tuple(max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True))
    whole = sum(left, Fraction(0))
    law = [min(a, b) for a, b in zip(p, q, strict=True)]
    if not whole:
        return tuple(law)
    target = tuple(mass / whole for mass in left)
    together = exponential_race.joint(Case(target, q, 1, 0))
    for i, mass in enumerate(q):
        refused = mass - law_of_taken(p, q, i)
        for j in range(len(p)):
            law[j] += refused * (together[i][j] / mass if one_key else target[j]) if mass else 0
    return tuple(law)


def law_of_taken(p: tuple[Fraction, ...], q: tuple[Fraction, ...], token: int) -> Fraction:
    """Return the mass with which the draft is this token and is accepted."""
    return min(p[token], q[token])


def two_keys(case: Case, error: str) -> bool:
    """Return whether the output has the distribution p."""
    return recovered(case, bool(error)) == case.p


def drafted_again(case: Case, error: str) -> bool:
    """Return whether two tokens of a text without memory follow the target, if each position has one draft, whenever it is drafted.

    There are two drafts per step.
    """
    p, q = (np.array(masses, dtype=object) for masses in (case.p, case.q))
    model = trees.MarkovModel({(): p}, {(): q}, 0)
    rule = trees.BlockVerification() if error else trees.TokenWise(otd.rules.SpeculativeSampling())
    law: dict[tuple[int, ...], Fraction] = {}
    for drafts in product([z for z, mass in enumerate(case.q) if mass], repeat=3):
        mass = prod((case.q[z] for z in drafts), start=Fraction(1))
        for emitted, chance in rule(model, (drafts[:2],)).items():
            later = rule(model, (drafts[1:],)) if len(emitted) == 1 else {(): Fraction(1)}
            for more, follows in later.items():
                text = (*emitted, *more)[:2]
                law[text] = law.get(text, Fraction(0)) + mass * chance * follows
    return all(law.get((a, b), 0) == x * y for a, x in enumerate(case.p) for b, y in enumerate(case.p))


METHOD = "Fractions: the races integrated exactly"
STATEMENTS = (
    Statement(
        "drafts and output of the same races",
        "GumbelCoupling (k first arrivals of one race) and ListCoupling (one winner per race) keep the distribution p over the keys.",
        "Daliri et al. 2024; Rowan et al. 2025; k arrivals: this project",
        METHOD + ", all drafts enumerated",
        unbiased,
        (OTHER_LAW,),
        draw=draw_small,
        limit=100,
    ),
    Statement(
        "strength of a watermark against acceptance",
        "A unit of strength buys at most one of acceptance; full strength accepts what k races do; none, alpha*.",
        "this project; proof in the module; Hu and Huang 2024",
        METHOD + ", a transport from (drafts, watermarked token), each optimum proved by prices",
        frontier,
        (CHEAPER,),
        draw=draw_small,
        limit=100,
    ),
    Statement(
        "full strength and full acceptance",
        "The race of k lists accepts as much as the best lossless rule.",
        "plausible; Hu and Huang 2024 refute it for one draft",
        METHOD,
        both_whole,
        (TWO_TOKENS,),
        expected="refuted",
        draw=draw_small,
        limit=100,
    ),
    Statement(
        "two keys: one for drafts, one for recovery",
        "A draft from one key's race, the token after a rejection from another's, and an independent test: distribution p over keys.",
        "SynthID-Text, supplement; vLLM #56122",
        METHOD,
        two_keys,
        (ONE_KEY,),
    ),
    Statement(
        "numbers that belong to a place",
        "A place that was drafted and not reached may be drafted again from the same numbers, if the rule does not look ahead.",
        "this project",
        "Fractions, three places, all drafts and decisions",
        drafted_again,
        (LOOKS_AHEAD,),
        draw=draw_short,
        limit=100,
    ),
)
