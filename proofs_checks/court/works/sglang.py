"""SGLang: the target-only tree kernel, whose two thresholds are 1 unless they are set."""

from fractions import Fraction

import ot_draft as ot

from ..by_hand import likeliest, without
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work
from ..rules import TOP

HALF = Fraction(1, 2)
EXACT = OneToken(ot.rules.NaiveTarget(law=TOP), (1, 2))


def thresholds(chance, p, q, k):  # type: ignore[no-untyped-def]
    target, reached, before = p(), 0, 0
    drafts = likeliest(q(), k)
    for x in drafts:
        reached = min(1, reached + target[x] / HALF)
        if chance.flip((reached - before) / (1 - before)):
            return (x,)
        before = reached
        if before == 1:
            break
    return (chance.draw(without(target, drafts)),)


WORK = Work(
    name="sglang", title="SGLang's tree_speculative_sampling_target_only", paper="",
    code="sgl-project/sglang sgl-kernel csrc/speculative/speculative_sampling.cuh (copies of it, by text search)", read="code",
    claim="lossless at thresholds 1", cost="none beyond the target's probabilities",
    forms=(
        Form("thresholds 1", OneToken(ot.rules.lossy.TwoThresholds(1, 1)), "the output is a draw from p, child by child; exact checks"),
        Form("threshold_acc = 1/2", OneToken(ot.rules.lossy.TwoThresholds(1, HALF), (1, 2)), "exact enumeration", NOT_LOSSLESS, thresholds,
             "coin <= prob_acc / threshold_acc", EXACT, "threshold_acc = 1"),
    ),
    on_purpose=True,
)  # fmt: skip
