"""vLLM: the rejection sampler of V1, and the way of its second runner before a fix.

NOISE. In the second runner the Gumbel noise that drew the draft was used again for the recovered token (pull 54282). Given the refused draft
x, the noise of the others is no longer fresh: what is recovered is the winner of a race of the same exponentials. Its law is rational.
"""

from fractions import Fraction

import numpy as np

import ot_draft as ot

from ...races import exponential_race
from ...random_cases import Case
from ..by_hand import minus, norm, single
from ..defendants import Coupled, OneToken
from ..record import NOT_LOSSLESS, Form, Work
from ..rules import TOP, Single

RULE = ot.rules.SpeculativeSampling()
RATE = Fraction(3, 5)


def used_again(p, q, k):  # type: ignore[no-untyped-def]
    """Draft x with q; kept with min(1, p/q); else argmin E/(p - q)+ of the exponentials whose argmin E/q was x."""
    rest = norm(minus(p, q), p)
    race = exponential_race.joint(Case(tuple(rest), q, 1, 0))
    kept = [min(a, b) for a, b in zip(p, q, strict=True)]
    refused = [1 - min(Fraction(1), a / b) if b else Fraction(0) for a, b in zip(p, q, strict=True)]
    output = [kept[y] + sum(r * race[x][y] for x, r in enumerate(refused)) for y in range(len(p))]
    return output, sum(kept)


def race_by_hand(chance, p, q, k):  # type: ignore[no-untyped-def]
    """Three tokens at most: the draft x won with E_x = t q_x, t exponential; each other exponential is t q_y and a fresh one more."""
    target, draft = p(), q()
    x = chance.draw(draft)
    if chance.flip(target[x] / draft[x]):
        return (x,)
    rest = norm(minus(target, draft))
    others = [y for y, mass in enumerate(rest) if mass]
    if len(others) == 1:
        return (others[0],)
    a, b = others
    ahead = draft[b] / rest[b] - draft[a] / rest[a]  # how far a is ahead at the start, in units of t
    both = rest[a] + rest[b]
    if ahead >= 0:
        wins = 1 - rest[b] / both / (1 + rest[a] * ahead)
    else:
        wins = rest[a] / both / (1 - rest[b] * ahead)
    return (a,) if chance.flip(wins) else (b,)


WORK = Work(
    name="vllm", title="vLLM's rejection samplers", paper="",
    code="vllm-project/vllm vllm/v1/sample/rejection_sampler.py@0097a7b; second runner: pull 54282, its description", read="code of V1; pull's text",
    claim="strictly follows Leviathan et al.", cost="one pass over the vocabulary a token",
    forms=(
        Form("V1, draft_probs given", OneToken(RULE, (1,)), "speculative sampling; in Coq"),
        Form("V1, draft_probs None (n-gram)", OneToken(ot.rules.NaiveTarget(law=TOP), (1,)), "q set to 1 for a token that is no draw; exact checks"),
        Form("synthetic acceptance at rate 3/5 (for benchmarks)", OneToken(Single(lambda p, q: 0 * p + RATE, lambda p, q: p), (1,)),
             "exact enumeration", NOT_LOSSLESS, single(lambda p, q, x: RATE, lambda p, q, x: p),
             "acceptance by a given rate, whatever p says", OneToken(RULE, (1,)), "standard acceptance: the rate is what min(p, q) gives", on_purpose=True),
        Form("second runner before pull 54282: noise used again", Coupled(used_again, in_floats=lambda p, q: np.minimum(p, q).sum()), "exact integration of the race", NOT_LOSSLESS, race_by_hand,
             "the recovered token takes the Gumbel noise that drew the draft", OneToken(RULE, (1,)), "fresh noise; acceptance stays as it is"),
    ),
)  # fmt: skip
