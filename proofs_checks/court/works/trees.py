"""Recursive rejection of the children of a node: SpecInfer, and the trees of EAGLE.

SPECINFER tests each child against what the refused ones leave of the target. The theorem takes children that are drawn. The paper's trees
may also be expanded by the top tokens of one model; the description does not say which rule is then used. With the same test, and q as it
is, that is not lossless.
EAGLE-1 draws children without replacement and rejects recursively with the q they were drawn by. EAGLE-2 and 3 take the top tokens; their
code sets q = 1: a child x is taken with probability P(x), else P(x) becomes 0 and P is normalised. That is drawing from P, child by
child.
"""

from typing import Any

import ot_draft as ot
from ot_draft import paths

from ..by_hand import likeliest, minus, norm, ratio, without
from ..record import TOP, AlongPath, Form, OneToken, Work, biased

RULE, NAIVE = ot.rules.RecursiveRejection(), ot.rules.NaiveTarget(law=TOP)


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
WORKS = (
    Work(
        "specinfer", "SpecInfer", "Miao et al. 2024", "the library's rule; the choice of children as its trees are described", "lossless",
        "one pass a draft",
        (Form("children drawn from q", OneToken(RULE), "Coq: sampling.v"),
         biased("children are q's top tokens (left open)", OneToken(RULE, (1, 2), TOP), ON_TOP_TOKENS,
                "accept x with probability P(x)/Q(x), where x was chosen and not drawn",
                OneToken(NAIVE, (1, 2)), "with chosen children Q(x) = 1: draw from P, and accept if it is a child")),
    ),
    Work(
        "eagle", "EAGLE-1, EAGLE-2 tree verification", "Li et al. 2024 (EAGLE, EAGLE-2)", "code of both", "lossless",
        "one pass a child (EAGLE-1); none (EAGLE-2)",
        (Form("code of EAGLE-1", OneToken(ot.rules.RecursiveRejectionWithoutReplacement()), "Coq: sampling.v"),
         Form("code of EAGLE-2, q set to 1", OneToken(NAIVE), "the output is a draw from p, whatever was chosen; Coq: sampling.v"),
         Form("tree of EAGLE-2", AlongPath(paths.NaivePath(), (2,), 2, paths.TreeShape.by_level((2, 1)), TOP), "exact checks"),
         biased("top children, the draft's q (left open)", OneToken(RULE, (1, 2), TOP), ON_TOP_TOKENS,
                "acp = px / qx with qx = q(x) for a child that was chosen, not drawn", OneToken(NAIVE, (1, 2)),
                "qx = 1 and P(x) = 0 after a refusal, as the code of EAGLE-2 has it")),
        "SafeAILab/EAGLE eagle/modeling_eagle.py, eagle/model/utils.py@cb7e084, evaluate_posterior",
    ),
)  # fmt: skip
