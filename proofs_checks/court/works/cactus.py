"""Cactus: the drafted token n is tested against h(n), the target with n raised by sqrt(2 delta p_n (1 - p_n)) and the rest scaled down.

KL(h(n) to p) is bounded for every n. But h(n) depends on what was drafted, and all drafted tokens are raised at once: what is emitted is no h(n),
and its KL is larger. For p uniform on 100 tokens, q uniform on 33 of them, delta = .02: KL(h(n) to p) at most .013, of what is emitted 1.03.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from typing import Any

import numpy as np

import ot_draft as ot
from ot_draft import arrays as xp
from ot_draft import targets

from ..by_hand import minus, norm, ratio
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work

MILLION = 10**6  # roots of Fractions are rounded down to a millionth


def root(x: Any) -> Any:
    return Fraction(isqrt(int(x * MILLION**2)), MILLION)


@dataclass(frozen=True)
class Cactus(ot.SelectionRule):
    """Take the first draft n with probability min(1, h(n)_n / q_n), else draw from norm((h(n) - q)+)."""

    delta: Any = Fraction(1, 8)
    law: ot.DraftLaw = ot.IID()

    def __call__(self, p: Any, q: Any, drafts: Any) -> ot.Selection:
        first = drafts[..., :1]
        mass, exact = xp.gather(p, first), xp.is_exact(p)
        variance = 2 * (self.delta if exact else float(self.delta)) * mass * (1 - mass)
        raised = xp.minimum(mass + (np.vectorize(root, otypes=[object])(variance) if exact else variance**0.5), 1)
        down = xp.divide(1 - raised, 1 - mass, 0)
        is_first = xp.members(first, p.shape[-1], p)
        wanted = xp.where(is_first, raised, down * p)
        accept = xp.minimum(xp.divide(raised, xp.gather(q, first), 0), 1)
        others = 0 * xp.gather(p, drafts[..., 1:])
        residual = xp.normalise(xp.maximum(wanted - q, 0), otherwise=wanted)
        return ot.Selection(xp.concatenate((accept, others)), residual)


def code(chance, p, q, k):  # type: ignore[no-untyped-def]
    target, draft = p(), q()
    n = chance.draw(draft)
    step = 2 * Fraction(1, 8) * target[n] * (1 - target[n])
    raised = min(1, target[n] + Fraction(isqrt(step.numerator * MILLION**2 // step.denominator), MILLION))
    h = [raised if y == n else ratio(1 - raised, 1 - target[n]) * mass for y, mass in enumerate(target)]
    return (n,) if chance.flip(ratio(raised, draft[n])) else (chance.draw(norm(minus(h, draft), h)),)


def promised(p: np.ndarray, delta: float) -> float:
    """The largest KL(h(n) to p): what the knob bounds."""
    raised = [min(1.0, x + sqrt(2 * delta * x * (1 - x))) for x in p.tolist() if 0 < x < 1]
    return max(h * np.log(h / x) + ((1 - h) * np.log((1 - h) / (1 - x)) if h < 1 else 0) for h, x in zip(raised, p[p > 0], strict=False))


RULE = ot.rules.SpeculativeSampling()
WORK = Work(
    name="cactus", title="Cactus", paper="Hao and Mou 2604.04987v1", code="MANGA-UOFA/Cactus cactus/cactus.py (read earlier)",
    read="abstract, code; the theorem's wording not in full", on_purpose=True, claim="a controlled divergence, KL at most delta, from the verifier",
    cost="one pass over the vocabulary",
    forms=(
        Form("code, delta = 1/8", OneToken(Cactus(), (1,)), "exact enumeration, roots rounded to a millionth; KL of the output by `true_units`",
             NOT_LOSSLESS, code, "h(n) = t_n + sqrt(2 delta t_n (1 - t_n)): the budget is spent once for every drafted token n",
             OneToken(ot.rules.Toward(targets.KL(0), RULE), (1,)),
             "within a budget: one r for all tokens, ot.targets.KL(delta), which emits what is asked; delta = 0 is lossless"),
    ),
)  # fmt: skip
