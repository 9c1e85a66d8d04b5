"""A draft that is itself drafted for: TriForce, and what composes losslessly.

If a small model drafts for a middle one by a lossless rule, what comes out follows the middle model's distribution m, and may be tested
with m against the target: composition. TRIFORCE's code does not do that. In Middle_Spec a token of the small model is kept with min(1,
m/s), and after a rejection the next is drawn from m, and not from norm((m - s)+). What comes out follows min(m, s) + (1 - sum min(m, s))
m, and is reported as m. Here s is uniform. Middle_Spec_Dist has the same line.
"""

from fractions import Fraction
from typing import Any

from ..by_hand import minus, norm, ratio
from ..record import RUN, Case, Coupled, Form, Known, Work, biased


def middle(m: Any, error: bool) -> list[Fraction]:
    """The distribution of the middle draft: a uniform token tested against m; error: m is drawn from after a rejection."""
    small = [Fraction(1, len(m))] * len(m)
    kept = [min(a, b) for a, b in zip(m, small, strict=True)]
    rest = list(m) if error else [max(Fraction(0), a - b) for a, b in zip(m, small, strict=True)]
    whole = sum(rest)
    return [a + (1 - sum(kept)) * b / whole if whole else a for a, b in zip(kept, rest, strict=True)]


def composed(p: Any, q: Any, k: int, error: bool = False) -> Any:
    """Speculative sampling that is told q, of drafts that follow `middle`: output distribution, and mass that is accepted."""
    drafted = middle(q, error)
    taken = [d * min(Fraction(1), a / b) if b else Fraction(0) for d, a, b in zip(drafted, p, q, strict=True)]
    rest = norm([a - b for a, b in zip(p, q, strict=True)], p)
    return [t + (1 - sum(taken)) * r for t, r in zip(taken, rest, strict=True)], sum(taken)


def from_middle(chance: Any, p: Any, q: Any, k: int) -> Any:
    small = [Fraction(1, len(q()))] * len(q())
    x = chance.draw(small)
    if not chance.flip(q()[x] / small[x]):
        x = chance.draw(q())
    return (x,) if chance.flip(ratio(p()[x], q()[x])) else (chance.draw(norm(minus(p(), q()), p())),)


HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
RIGHT = Coupled(composed, (1,), (("the rest of m from m itself", lambda p, q, k: composed(p, q, k, True)),))
WORK = Work(
    "triforce", "TriForce", "Sun et al. 2404.11912", "code", "lossless, hierarchical", "two rules instead of one",
    (Form("composition of two lossless rules", RIGHT, "the middle draft follows m; Coq: a draft may itself be drafted for"),
     biased("code", Coupled(lambda p, q, k: composed(p, q, k, True)), from_middle,
            "else: pred_token_idx = sample(verify_prob[n]), where max_fn(verify_prob[n] - speculation_prob) is due", RIGHT,
            "the residual in Middle_Spec, as the outer loop has it", when="sampling", seen=f"{RUN} (Middle_Spec)",
            known=(Known(Case(((HALF, HALF),), ((THIRD, 2 * THIRD),), 1), Fraction(1, 24)),))),
    "Infini-AI-Lab/TriForce utils/decoding.py@164c8c0, Middle_Spec, Middle_Spec_Dist, TriForce",
)  # fmt: skip
