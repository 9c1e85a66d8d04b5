"""MARS: the target's second token is taken where its mass is near the first's; else speculative sampling."""

from fractions import Fraction

import ot_draft as ot
from ot_draft import arrays as xp

from ..by_hand import likeliest, ratio, single, usual_residual, usual_test
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work
from ..rules import Single, capped_ratio

MARGIN = Fraction(9, 10)


def second_counts(p, q):  # type: ignore[no-untyped-def]
    two = xp.top_tokens(p, 2)
    second = xp.positions(p.shape[-1], p) == two[..., 1:]
    near = xp.gather(p, two[..., 1:]) >= xp.number(MARGIN, p) * xp.gather(p, two[..., :1])
    return xp.where(second & near, 1 + 0 * p, capped_ratio(p, q))


def margin(p, q, x):  # type: ignore[no-untyped-def]
    first, second = likeliest(p, 2)
    return 1 if x == second and ratio(p[second], p[first]) >= MARGIN else usual_test(p, q, x)


WORK = Work(
    name="mars", title="MARS", paper="Song et al. 2601.15498v1", read="from the abstract only; margin as a ratio of masses, .9", on_purpose=True,
    claim="generation quality preserved; no claim about the law", cost="the two likeliest tokens",
    forms=(
        Form("margin on the second token", OneToken(Single(second_counts), (1,)), "exact enumeration", NOT_LOSSLESS,
             single(margin, usual_residual), "relax rejection where the margin between the two likeliest tokens is small",
             OneToken(ot.rules.SpeculativeSampling(), (1,)), "leave the margin out"),
    ),
)  # fmt: skip
