"""Lenient speculative sampling, and SPEC-RL's use of it with a residual that is the target."""

from fractions import Fraction

import ot_draft as ot

from ..by_hand import ratio, single, usual_residual
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work

HALF = Fraction(1, 2)
EXACT = OneToken(ot.rules.SpeculativeSampling(), (1,))


def lenient(p, q, x):  # type: ignore[no-untyped-def]
    return ratio(p[x], HALF * q[x])


WORK = Work(
    name="lenience", title="Lenience; SPEC-RL", paper="Leviathan et al. 2211.17192, A.5; SPEC-RL 2025", read="appendix; description", on_purpose=True,
    claim="no token gets more than p/l (holds); rollouts near the policy", cost="as speculative sampling",
    forms=(
        Form("lenience 1/2", OneToken(ot.rules.lossy.LenientSampling(HALF), (1,)), "exact enumeration; its bound holds: `prove lossy_claims`",
             NOT_LOSSLESS, single(lenient, usual_residual), "accept with min(1, p / (l q))", EXACT, "l = 1"),
        Form("lenience 1/2, the rest from p", OneToken(ot.rules.lossy.LenientSampling(HALF, "target"), (1,)), "exact enumeration", NOT_LOSSLESS,
             single(lenient, lambda p, q, x: p), "after a refusal a fresh draw from p", EXACT, "l = 1 and the residual norm((p - q)+)"),
    ),
)  # fmt: skip
