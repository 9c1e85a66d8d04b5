"""rtp-llm: until 20 August 2026 a draft was kept for being the target's sample or for passing p/q, whichever came first.

BOTH TESTS. A draft x was kept where the target's own sample s was x, or where u q(x) < p(x). After a rejection the code emitted s as long
as every draft before had been s, and a token of (p - q)+ otherwise. The draft was the most probable token of q, and q was reported as it
is. Pull 1318 leaves u q < p alone and, for chosen drafts, q = 1 on the token; pull 1295 had proposed it.
"""

from fractions import Fraction
from typing import Any

from ot_draft import trees

from ..by_hand import most_probable, ratio, usual_residual, without
from ..record import CHAIN, NAIVE_TREE, PATH, TARGET_SAMPLE, TOP, AlongPath, Case, Form, Known, Work, biased, greedy

ONE = trees.TreeShape.chains(1, 1)


def either(model: Any, drafts: Any) -> dict[tuple[int, ...], Any]:
    """Distribution of what a round emits, given its path; `same`: every draft so far was the target's sample."""
    path = drafts.tokens if hasattr(drafts, "tokens") else drafts[0]
    law: dict[tuple[int, ...], Any] = {}

    def end(text: tuple[int, ...], following: Any, chance: Any) -> None:
        for y, mass in enumerate(following):
            if mass * chance:
                law[*text, y] = law.get((*text, y), 0) + mass * chance

    same, other = Fraction(1), Fraction(0)
    for i, x in enumerate(path):
        p, q = tuple(model.target(path[:i])), tuple(model.draft(path[:i]))
        test = min(Fraction(1), ratio(p[x], q[x]))
        fails = (1 - p[x]) * (1 - test)
        end(path[:i], without(p, (x,)), same * fails)
        end(path[:i], usual_residual(p, q, x), other * fails)
        same, other = same * p[x], other * (1 - fails) + same * (1 - p[x]) * test
    end(path, model.target(path), same + other)
    return law


def by_hand(length: int, chosen: bool) -> Any:
    def program(chance: Any, p: Any, q: Any, k: int) -> tuple[int, ...]:
        path: tuple[int, ...] = ()
        while len(path) < length:
            path += (most_probable(q(path), 1)[0],) if chosen else (chance.draw(q(path)),)
        equal = True
        for i, x in enumerate(path):
            s = chance.draw(p(path[:i]))
            by_ratio = chance.flip(ratio(p(path[:i])[x], q(path[:i])[x]))
            if s != x and not by_ratio:
                return (*path[:i], s if equal else chance.draw(usual_residual(p(path[:i]), q(path[:i]), x)))
            equal &= s == x
        return (*path, chance.draw(p(path)))

    return program


HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
FILE = "alibaba/rtp-llm rtp_llm/models_py/bindings/cuda/kernels/speculative_sampling/sampling.cu"
TWO = trees.TreeShape.chains(1, 2)
WORK = Work(
    "rtp-llm", "rtp-llm", "", "code of the CUDA kernel at five commits, and of FastTopKSampler; pulls 1129, 1295, 1318",
    "the target's distribution", "none",
    (biased("MTP: either test, greedy draft", AlongPath(either, (1,), 2, TWO, TOP), by_hand(2, True),
            "if (same_token || (do_sample[row_idx] && u * p < q)), and FastTopKSampler's argmax with its softmax", NAIVE_TREE,
            "one test, with q = 1 for a chosen draft", mode=CHAIN, when="sampling, before pull 1318 (20 August 2026)", seen="read, not run",
            code=f"{FILE}@0185dcd, rejection_sampling_kernel", fixed="pull 1318",
            known=(Known(Case(((HALF, HALF),), ((THIRD, 2 * THIRD),), 1), Fraction(1, 12), "one draft, drawn from q",
                         AlongPath(either, length=1), by_hand(1, False)),)),
     Form("p/q, draft's distribution given", PATH, "speculative sampling; Coq: sampling.v", mode=CHAIN,
          when="since pull 1318 (20 August 2026)",
          code=f"{FILE}@4b8d39c"),
     Form("point mass of a chosen draft", TARGET_SAMPLE, "q set to 1; Coq: sampling.v", mode=CHAIN, when="since pull 1318 (20 August 2026)",
          code=f"{FILE}@4b8d39c"),
     greedy("temperature 0 or top-k 1", code=f"{FILE}@4b8d39c")),
    f"{FILE}@4b8d39c", engine="rtp-llm",
)  # fmt: skip
