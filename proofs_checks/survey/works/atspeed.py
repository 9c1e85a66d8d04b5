"""AtSpeed: K sequences at once, verified as a set; its relaxed sampling verification.

N drafted continuations, drawn without replacement from q, are tested with min(1, p/q) each; where K or more pass, K of them are taken at
random, else the missing ones are drawn from (p - q)+ without those that passed. What is due are K draws of the target without replacement.
With N > K this is another distribution already for K = 1: the probabilities p/q are right for one draw. Evaluated for K = 1.
"""

from fractions import Fraction
from itertools import permutations, product
from math import prod
from typing import Any

import ot_draft as otd

from ..by_hand import minus, norm, ratio, without
from ..record import RUN, Case, Coupled, Known, OneToken, Work, biased


def relaxed(p: Any, q: Any, k: int) -> Any:
    """Distribution of the token, of k drafts; mass that comes from a draft."""
    output, kept = [Fraction(0)] * len(p), Fraction(0)
    for drafts in permutations(range(len(q)), min(k, len(q))):
        mass = prod(without(q, drafts[:i])[x] for i, x in enumerate(drafts))
        for passes in product((False, True), repeat=len(drafts)):
            accept = [min(Fraction(1), ratio(p[x], q[x])) for x in drafts]
            chance = mass * prod(a if yes else 1 - a for a, yes in zip(accept, passes, strict=True))
            taken = [x for x, yes in zip(drafts, passes, strict=True) if yes]
            kept += chance if taken else 0
            last = [Fraction(taken.count(y), len(taken)) for y in range(len(p))] if taken else norm(minus(p, q), p)
            output = [a + chance * b for a, b in zip(output, last, strict=True)]
    return output, kept


def by_draws(chance: Any, p: Any, q: Any, k: int) -> Any:
    drafts, passed = list[int](), list[int]()
    for _ in range(min(k, len(q()))):
        drafts.append(chance.draw(without(q(), drafts)))
    for x in drafts:
        if chance.flip(ratio(p()[x], q()[x])):
            passed.append(x)
    if not passed:
        return (chance.draw(norm(minus(p(), q()), p())),)
    return (passed[chance.draw([Fraction(1, len(passed))] * len(passed))],)


THIRD = Fraction(1, 3)
WORK = Work(
    "atspeed", "AtSpeed, relaxed sampling", "Lin et al. 2410.05165", "abstract and code", "a relaxed verification of K sequences",
    "one pass over the vocabulary per beam",
    (biased("code, K = 1 of N = 2", Coupled(relaxed, (2,)), by_draws,
            "is_accepted = rand <= p/q for every draft; randperm(accepted)[:beam_size]",
            OneToken(otd.rules.RecursiveRejectionWithoutReplacement(), (2,)), "test the drafts in turn, each with the last residual",
            when="sampling, more drafts than beams", seen=f"{RUN} (verify)",
            known=(Known(Case(((THIRD, 2 * THIRD),), ((THIRD, 2 * THIRD),), 2), THIRD / 2),)),),
    "Linxyhaha/AtSpeed code/beamSD.py@93bc886", on_purpose=True,
)  # fmt: skip
