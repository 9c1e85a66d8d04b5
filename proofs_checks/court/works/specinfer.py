"""SpecInfer: recursive rejection of the children of a node, each tested against what the refused ones leave of the
target.

The theorem takes children that are drawn. The paper's trees may also be expanded by the top tokens of one model; the description does not
say which rule is then used. With the same test, and q as it is, that is not lossless.
"""

from typing import Any

import ot_draft as ot

from ..by_hand import likeliest, minus, norm, ratio
from ..record import TOP, Form, OneToken, Work, biased

RULE = ot.rules.RecursiveRejection()


def on_top_tokens(chance: Any, p: Any, q: Any, k: int) -> Any:
    target = p()
    for x in likeliest(q(), k):
        if chance.flip(ratio(target[x], q()[x])):
            return (x,)
        target = norm(minus(target, q()), target)
    return (chance.draw(target),)


WORK = Work(
    "specinfer", "SpecInfer", "Miao et al. 2024", "the library's rule; the choice of children as its trees are described", "lossless",
    "one pass a draft",
    (Form("children drawn from q", OneToken(RULE), "Coq: sampling.v"),
     biased("children are q's top tokens (left open)", OneToken(RULE, (1, 2), TOP), on_top_tokens,
            "accept x with probability P(x)/Q(x), where x was chosen and not drawn",
            OneToken(ot.rules.NaiveTarget(law=TOP), (1, 2)), "with chosen children Q(x) = 1: draw from P, and accept if it is a child")),
)  # fmt: skip
