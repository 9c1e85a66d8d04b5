"""Speculative cascades: the target is replaced, context by context, by the draft's law where deferring is not worth its rejections."""

from fractions import Fraction

import ot_draft as ot
from ot_draft import targets

from ..by_hand import minus, single, usual_residual, usual_test
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work

ALPHA = Fraction(1, 10)
RULE = ot.rules.SpeculativeSampling()


def deferred(p, q):  # type: ignore[no-untyped-def]
    distance = sum(max(0, difference) for difference in minus(p, q))
    return q if max(q) >= max(p) - ALPHA * distance else p


WORK = Work(
    name="cascades", title="Speculative cascades (OPT)", paper="Narasimhan et al. 2405.19261, Algorithm 4", read="paper's description",
    on_purpose=True, claim="lossless for its own target, of q and p by context", cost="one pass more than speculative sampling",
    forms=(
        Form("OPT, alpha = .1", OneToken(ot.rules.Toward(targets.Cascade("opt", ALPHA), RULE), (1,)), "exact enumeration", NOT_LOSSLESS,
             single(lambda p, q, x: usual_test(deferred(p, q), q, x), lambda p, q, x: usual_residual(deferred(p, q), q, x)),
             "the target distribution is q where max q >= max p - alpha TV(p, q)", OneToken(RULE, (1,)), "always defer to p"),
    ),
)  # fmt: skip
