"""Works that put another distribution r(p, q) in the target's place, and then select losslessly for r.

CASCADES take q for r in the contexts where the draft is trusted. MENTORED DECODING takes clip(q, a p, b p), the best for one draft within
a divergence; here with the bound r <= 3/2 p, which is rational. DIVERSED mixes p and q, with a weight that its head learns and that is
1/2 here; transformers has it as assistant_ensemble_weight. Each keeps its own r, and says so; compared with p it is not lossless.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import ot_draft as otd
from ot_draft import lossy
from proofs_checks.lossy import published_targets

from ..by_hand import minus, single, usual_residual, usual_test
from ..record import SPECULATIVE, OneToken, Work, biased

ALPHA, BOUND, HALF = Fraction(1, 10), Fraction(3, 2), Fraction(1, 2)


def deferred(p: Any, q: Any) -> Any:
    distance = sum(max(Fraction(0), rest) for rest in minus(p, q))
    return q if max(q) >= max(p) - ALPHA * distance else p


def clipped(p: Any, q: Any) -> Any:
    """max(min(q, 3/2 p), a p), a such that it sums to 1: the sum is straight between the places where a p overtakes a token."""
    top = [min(y, BOUND * x) for x, y in zip(p, q, strict=True)]

    def mass(a: Fraction) -> Fraction:
        return sum((max(t, a * x) for t, x in zip(top, p, strict=True)), Fraction(0))

    marks = sorted({Fraction(0), BOUND, *(t / x for t, x in zip(top, p, strict=True) if x)})
    for low, high in pairwise(marks):
        if mass(low) <= 1 <= mass(high) and mass(low) < mass(high):
            a = low + (1 - mass(low)) / (mass(high) - mass(low)) * (high - low)
            return [max(t, a * x) for t, x in zip(top, p, strict=True)]
    return top


def mixed(p: Any, q: Any) -> Any:
    return [HALF * a + HALF * b for a, b in zip(p, q, strict=True)]


def toward(
    name: str,
    target: Any,
    r: Callable[..., Any],
    line: str,
    fix: str,
    rests_on: str = "exact enumeration; `prove lossy_claims`",
    **others: Any,
) -> Any:
    program = single(lambda p, q, x: usual_test(r(p, q), q, x), lambda p, q, x: usual_residual(r(p, q), q, x))
    rule = otd.lossy.Toward(target, otd.rules.SpeculativeSampling())
    return biased(name, OneToken(rule, (1,)), program, line, SPECULATIVE, fix, rests_on=rests_on, **others)


WORKS = (
    Work("cascades", "Speculative cascades (OPT)", "Narasimhan et al. 2025", "the library's target",
         "lossless for its own target, q or p by context", "one pass more than speculative sampling",
         (toward("OPT, alpha = 0.1", published_targets.Cascade("opt", ALPHA), deferred,
                 "the target is q where max q >= max p - alpha TV(p, q)",
                 "always defer to p"),), on_purpose=True),
    Work("mentored", "Mentored decoding", "Tran-Thien 2023; Tran-Thien and Nock 2026", "the library's target",
         "most acceptance of one draft within a divergence (holds)", "a root search per token",
         (toward("r <= 3/2 p", lossy.Ratio(factor=BOUND), clipped, "the target is clip(q, a p, b p)", "a = b = 1"),), on_purpose=True),
    Work("diversed", "DIVERSED, static ensemble", "2604.07622", "from its description; its form in transformers",
         "traces the frontier of acceptance and total variation (holds for one draft)", "one pass more",
         (toward("weight 1/2", published_targets.Ensemble(HALF), mixed, "the target is w p + (1 - w) q", "w = 1",
                seen="run: 5.24.0's own function, over all its random numbers, has the same distribution",
                when="transformers since 5.14: assistant_ensemble_weight below 1",
                code="transformers 5.24.0 generation/utils.py, _speculative_sampling"),), on_purpose=True),
)  # fmt: skip
