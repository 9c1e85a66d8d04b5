"""EARS: the test is loosened by a tolerance that grows with the target's uncertainty, 1 - max p."""

from fractions import Fraction

import ot_draft as ot
from ot_draft import arrays as xp

from ..by_hand import ratio, single, usual_residual
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work
from ..rules import Single

BETA = Fraction(1, 4)


def loosened(p, q, beta=BETA):  # type: ignore[no-untyped-def]
    return xp.minimum(xp.divide(p, q, 0) + xp.number(beta, p) * (1 - xp.largest(p)), 1)


WORK = Work(
    name="ears", title="EARS", paper="2512.13194", read="from its description; tolerance (1 - max p)/4", on_purpose=True,
    claim="higher throughput, small loss of accuracy", cost="as speculative sampling",
    forms=(
        Form("tolerance (1 - max p)/4", OneToken(Single(loosened), (1,)), "exact enumeration", NOT_LOSSLESS,
             single(lambda p, q, x: ratio(p[x], q[x]) + BETA * (1 - max(p)), usual_residual), "accept if u <= p/q + beta (1 - max p)",
             OneToken(ot.rules.SpeculativeSampling(), (1,)), "beta = 0"),
    ),
)  # fmt: skip
