"""DIVERSED: the target is an ensemble of target and draft; here with a fixed weight, which its head learns."""

from fractions import Fraction

import ot_draft as ot
from ot_draft import targets

from ..by_hand import single, usual_residual, usual_test
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work

HALF = Fraction(1, 2)
RULE = ot.rules.SpeculativeSampling()


def mixed(p, q):  # type: ignore[no-untyped-def]
    return [HALF * a + HALF * b for a, b in zip(p, q, strict=True)]


WORK = Work(
    name="diversed", title="DIVERSED, static ensemble", paper="2604.07622", read="from its description; weight 1/2", on_purpose=True,
    claim="traces the frontier of acceptance and total variation (holds for one draft)", cost="one pass more",
    forms=(
        Form("weight 1/2", OneToken(ot.rules.Toward(targets.Ensemble(HALF), RULE), (1,)), "exact enumeration; `prove lossy_claims`", NOT_LOSSLESS,
             single(lambda p, q, x: usual_test(mixed(p, q), q, x), lambda p, q, x: usual_residual(mixed(p, q), q, x)),
             "the target distribution is w p + (1 - w) q", OneToken(RULE, (1,)), "w = 1"),
    ),
)  # fmt: skip
