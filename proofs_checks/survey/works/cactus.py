"""Cactus: the drafted token n is tested against h(n), the target with n raised by sqrt(2 delta p_n (1 - p_n)) and the
rest scaled down.

KL(h(n) to p) is near delta, for every n: h(n)_n comes from an expansion of second order, and delta = .02 gives up to .026, .1 up to .118.
But h(n) depends on what was drafted, and all drafted tokens are raised at once: what is emitted is not h(n), and its KL is larger.
p uniform on 100 tokens, q on 33 of them, delta = .02: KL(h(n) to p) is .013, of what is emitted 1.03.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, log, sqrt
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import arrays as xp
from ot_draft import lossy

from ..by_hand import minus, norm, ratio
from ..record import RUN, OneToken, Work, biased
from ..rules import among

MILLION = 10**6  # roots of Fractions are rounded down to a millionth
ROOT = np.vectorize(lambda x: Fraction(isqrt(int(x * MILLION**2)), MILLION), otypes=[object])


@dataclass(frozen=True)
class Cactus(otd.SelectionRule):
    """Take the first draft n with probability min(1, h(n)_n / q_n), else draw from norm((h(n) - q)+)."""

    delta: Any = Fraction(1, 8)
    law: otd.DraftLaw = otd.IID()

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        first = drafts[..., :1]
        mass = xp.gather(p, first)
        variance = 2 * xp.number(self.delta, p) * mass * (1 - mass)
        raised = xp.minimum(mass + (ROOT(variance) if p.dtype == object else np.sqrt(variance)), 1)
        down = xp.divide(1 - raised, 1 - mass, 0)
        wanted = xp.where(among(first, p), raised, down * p)
        accept = xp.minimum(xp.divide(raised, xp.gather(q, first), 0), 1)
        accept = xp.concat((accept, 0 * xp.gather(p, drafts[..., 1:])), axis=-1)
        return otd.Selection(accept, xp.normalise(xp.maximum(wanted - q, 0), otherwise=wanted))


def code(chance: Any, p: Any, q: Any, k: int) -> Any:
    target, draft = p(), q()
    n = chance.draw(draft)
    step = 2 * Fraction(1, 8) * target[n] * (1 - target[n])
    raised = min(1, target[n] + Fraction(isqrt(step.numerator * MILLION**2 // step.denominator), MILLION))
    h = [raised if y == n else ratio(1 - raised, 1 - target[n]) * mass for y, mass in enumerate(target)]
    return (n,) if chance.flip(ratio(raised, draft[n])) else (chance.draw(norm(minus(h, draft), h)),)


def promised(p: Any, delta: float) -> float:
    """The largest KL(h(n) to p): what the knob is about."""
    raised = [(x, min(1.0, x + sqrt(2 * delta * x * (1 - x)))) for x in p.tolist() if 0 < x < 1]
    return max(h * log(h / x) + ((1 - h) * log((1 - h) / (1 - x)) if h < 1 else 0) for x, h in raised)


WORK = Work(
    "cactus", "Cactus", "Hao and Mou 2604.04987v1", "abstract and code; the theorem was not read in full",
    "a controlled divergence from the verifier", "one pass over the vocabulary",
    (biased("code, delta = 1/8", OneToken(Cactus(), (1,)), code,
            "h(n) = t_n + sqrt(2 delta t_n (1 - t_n)): the budget is spent once for every drafted token n",
            OneToken(otd.lossy.Toward(lossy.KL(0), otd.rules.SpeculativeSampling()), (1,)),
            "one r for all tokens, otd.lossy.KL(delta), whose KL is what is asked; at delta = 0 the distribution is the target's",
            when="every delta above 0", seen=RUN,
            rests_on="exact enumeration, roots rounded to a millionth; the KL: `--page true-units`"),),
    "MANGA-UOFA/Cactus cactus/cactus.py@3b01b81, solve_constraint, _get_accepted, _get_recovered_probs", on_purpose=True,
)  # fmt: skip
