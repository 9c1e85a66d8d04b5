"""Wagner et al.: the exact method reorders the computation; the sigmoid form replaces both softmaxes element by element.

With normalised logits and scale 1 the sigmoid of log p is p / (1 + p). The test and the residual use these numbers in the place of p and q.
"""

import ot_draft as ot

from ..by_hand import minus, norm, ratio, single
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work
from ..rules import Single, capped_ratio, left


def sigmoid(p):  # type: ignore[no-untyped-def]
    return p / (1 + p)


def squashed(masses):  # type: ignore[no-untyped-def]
    return [mass / (1 + mass) for mass in masses]


WORK = Work(
    name="wagner", title="Optimized speculative sampling, sigmoid form", paper="Wagner et al. 2406.11016", on_purpose=True,
    read="from its description; scale 1, normalised logits", claim="exact: identical; sigmoid: minor decline in accuracy",
    cost="no softmax over the vocabulary",
    forms=(
        Form("exact", OneToken(ot.rules.SpeculativeSampling(), (1,)), "the same rule in another order"),
        Form("sigmoid", OneToken(Single(lambda p, q: capped_ratio(sigmoid(p), sigmoid(q)), lambda p, q: left(sigmoid(p), sigmoid(q))), (1,)),
             "exact enumeration", NOT_LOSSLESS,
             single(lambda p, q, x: ratio(squashed(p)[x], squashed(q)[x]), lambda p, q, x: norm(minus(squashed(p), squashed(q)), norm(squashed(p)))),
             "sigmoid in the place of softmax in test and residual", OneToken(ot.rules.SpeculativeSampling(), (1,)), "softmax"),
    ),
)  # fmt: skip
