"""SpecInfer: recursive rejection of the children of a node, each tested against what the refused ones leave of the target.

The theorem takes children that are drawn. The paper's trees may also be expanded by the top tokens of one model; the description does not say
which rule is then used. With the same test, and q as it is, that is not lossless.
"""

import ot_draft as ot

from ..by_hand import likeliest, minus, norm, ratio
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work
from ..rules import TOP


def on_top_tokens(chance, p, q, k):  # type: ignore[no-untyped-def]
    target = p()
    for x in likeliest(q(), k):
        if chance.flip(ratio(target[x], q()[x])):
            return (x,)
        target = norm(minus(target, q()), target)
    return (chance.draw(target),)


WORK = Work(
    name="specinfer", title="SpecInfer's multi-step speculative sampling", paper="Miao et al. 2305.09781, Algorithm 2, Theorem 4.2",
    read="paper's algorithm", claim="lossless", cost="one pass over the vocabulary a draft",
    forms=(
        Form("children drawn from q", OneToken(ot.rules.RecursiveRejection()), "SpecInfer, Theorem 4.2; in Coq for every n and k"),
        Form("children are q's top tokens (a choice left open)", OneToken(ot.rules.RecursiveRejection(), (1, 2), TOP),
             "exact enumeration", NOT_LOSSLESS, on_top_tokens,
             "Algorithm 2: accept x with probability P(x)/Q(x), where x was chosen and not drawn",
             OneToken(ot.rules.NaiveTarget(law=TOP), (1, 2)), "with chosen children set Q(x) = 1: draw from P and accept if it is a child"),
    ),
)  # fmt: skip
