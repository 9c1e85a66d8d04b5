"""HSD: block verification on paper, as we read it, and its last test without the cap in the code.

PAPER. Definitions 4 to 6 with the cap, as noted earlier, give r* = R_t / max over i <= t of R_i, the weight w_t = min(1, w_{t-1} p/q) of
block verification; the branch probabilities and residuals are then block verification's as well. So its one-draft rule is that rule.
CODE. The tests of all shorter beginnings use capped ratios (a running maximum); the test of the whole path uses exp(sum of log p - log
q), the uncapped ratio, which is larger where an earlier ratio was above 1. From two drafted tokens on the whole path is accepted too often;
with one the code is lossless. With q = 1 on the path, its EAGLE-3 variant, no ratio is above 1, and this fault is absent. Branch
`backward`, first pass of the loop over drafts. Python refuses the file from 3b1ae00 on (TabError, line 5366 at b8575e2); f3adf7f, the
last version that it reads, has the same test. algorithm.py, the short form, has it too and cannot run (undefined names).
"""

from fractions import Fraction
from typing import Any

from ot_draft import trees

from ..by_hand import minus, norm
from ..record import RUN, AlongPath, Case, Form, Known, Work, biased
from ..rules import chain

BLOCK = AlongPath(trees.BlockVerification())


def code(chance: Any, p: Any, q: Any, k: int, length: int = 2) -> Any:
    path: tuple[int, ...] = ()
    weights, whole = [1], 1
    for _ in range(length):
        x = chance.draw(q(path))
        whole = whole * p(path)[x] / q(path)[x]
        weights.append(min(1, weights[-1] * p(path)[x] / q(path)[x]))
        path = (*path, x)
    if chance.flip(whole):  # block verification flips weights[-1] here
        return (*path, chance.draw(p(path)))
    for i in range(length - 1, 0, -1):
        missing = minus([weights[i] * mass for mass in p(path[:i])], q(path[:i]))
        rest = sum(max(Fraction(0), mass) for mass in missing)
        if rest + 1 - weights[i] == 0 or chance.flip(rest / (rest + 1 - weights[i])):
            return (*path[:i], chance.draw(norm(missing, p(path[:i]))))
    return (chance.draw(norm(minus(p(), q()), p())),)


def toy(p: Fraction, q: Fraction) -> Case:
    return Case(((p, 1 - p),), ((q, 1 - q),), 1)


THIRD = Fraction(1, 3)
WORK = Work(
    "hsd", "HSD", "2601.05724, definitions 4 to 6", "the definitions, second hand; code of one draft",
    "lossless; accepts more than block verification", "two passes over the vocabulary per position",
    (Form("paper, as we read definitions 4 to 6", BLOCK,
          "equal to block verification by algebra; accepting more is impossible, Coq: block_optimal.v"),
     biased("code", AlongPath(chain(lambda ratio, weight: min(1, ratio))), code,
            "probability_ratio = exp(cumsum(log p_i) - cumsum(log q_i)); is_accepted = r <= probability_ratio, of which the last is used",
            BLOCK, "use the capped weight, min(1, w p/q) position by position, in the last test as well", when="two drafted tokens or more",
            seen=f"{RUN} (f3adf7f)",
            known=(Known(toy(THIRD, 2 * THIRD), THIRD / 3),))),
    "ZhouYuxuanYX/Hierarchical-Speculative-Decoding transformers/generation/utils.py@b8575e2 and @f3adf7f, _speculative_sampling",
    undecided=(("several drafts", "how later drafts use rejected ones was not reimplemented"),),
)  # fmt: skip
