"""SpecInfer: recursive rejection of the children of a node, each tested against what the refused ones leave of the
target.

The theorem takes children that are drawn. The paper's trees may also be expanded by the top tokens of one model; the description does not
say which rule is then used. With the same test, and q as it is, that is not lossless.
"""

from typing import Any

import ot_draft as ot

from ..by_hand import likeliest, minus, norm, ratio, without
from ..record import TOP, Form, OneToken, Work, biased

RULE = ot.rules.RecursiveRejection()


def recursive(chosen: bool, renormalised: bool) -> Any:
    """The program: children are q's top tokens, or drawn without replacement; tested with q without the refused ones, or with q."""

    def program(chance: Any, p: Any, q: Any, k: int) -> Any:
        target, taken = p(), list[int]()
        for place in range(min(k, len(target))):
            left = without(q(), taken)
            x = likeliest(q(), k)[place] if chosen else chance.draw(left)
            law = left if renormalised else q()
            if chance.flip(ratio(target[x], law[x])):
                return (x,)
            target = norm(minus(target, law), target)
            taken.append(x)
        return (chance.draw(target),)

    return program


ON_TOP_TOKENS = recursive(chosen=True, renormalised=False)


WORK = Work(
    "specinfer", "SpecInfer", "Miao et al. 2024", "the library's rule; the choice of children as its trees are described", "lossless",
    "one pass a draft",
    (Form("children drawn from q", OneToken(RULE), "Coq: sampling.v"),
     biased("children are q's top tokens (a choice left open)", OneToken(RULE, (1, 2), TOP), ON_TOP_TOKENS,
            "accept x with probability P(x)/Q(x), where x was chosen and not drawn",
            OneToken(ot.rules.NaiveTarget(law=TOP), (1, 2)), "with chosen children Q(x) = 1: draw from P, and accept if it is a child")),
)  # fmt: skip
