"""Mentored decoding: the target becomes clip(q, a p, b p), within a divergence budget. Here with a bound on r/p, which is rational."""

from fractions import Fraction

import ot_draft as ot
from ot_draft import targets

from ..by_hand import single, usual_residual, usual_test
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work

BOUND = Fraction(3, 2)
RULE = ot.rules.SpeculativeSampling()


def clipped(p, q):  # type: ignore[no-untyped-def]
    """clip(q, a p, 3/2 p), a such that it sums to 1; and where q lacks mass below 3/2 p, the rest of it goes where a p does."""
    top = [min(y, BOUND * x) for x, y in zip(p, q, strict=True)]

    def mass(a):  # type: ignore[no-untyped-def]
        return sum(max(t, a * x) for t, x in zip(top, p, strict=True))

    marks = sorted({Fraction(0), BOUND, *(t / x for t, x in zip(top, p, strict=True) if x)})
    for low, high in zip(marks, marks[1:], strict=False):
        if mass(low) <= 1 <= mass(high):
            slope = mass(high) - mass(low)
            a = low + ((1 - mass(low)) / slope * (high - low) if slope else 0)
            return [max(t, a * x) for t, x in zip(top, p, strict=True)]
    return p


WORK = Work(
    name="mentored", title="Mentored decoding", paper="Tran-Thien 2023; Tran-Thien and Nock 2026", read="description", on_purpose=True,
    claim="most acceptance of one draft within a divergence of the target", cost="a root search a token",
    forms=(
        Form("r <= 3/2 p", OneToken(ot.rules.Toward(targets.Ratio(factor=BOUND), RULE), (1,)), "exact enumeration; `prove lossy_claims`",
             NOT_LOSSLESS, single(lambda p, q, x: usual_test(clipped(p, q), q, x), lambda p, q, x: usual_residual(clipped(p, q), q, x)),
             "the target distribution is clip(q, a p, b p)", OneToken(RULE, (1,)), "a = b = 1"),
    ),
)  # fmt: skip
