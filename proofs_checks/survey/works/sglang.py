"""SGLang's target-only tree kernel, and where it is not used.

The tree is EAGLE's: the num_draft_tokens - 1 nodes of largest cumulative draft probability among the speculative_eagle_topk most probable
children of each node. No draft probability enters the test. Evaluated on two levels of two children.

One uniform number u goes through the children of a node; a child is taken when u falls into its part of p. Until pulls 7207 (kernel, 15
June 2025) and 7231 (its caller, a day later) the same u, by then known to be above the rejected children's mass s, made the final draw
too: at u (1 - s), by the order of token ids. Where a child of the last node was rejected, that is uniform on [s (1 - s), 1 - s): small ids
lose. Shipped repaired as sgl-kernel 0.1.9 (pull 7232). AMD's aiter had the kernel with one uniform number for a day, in no release. On
other platforms than CUDA sampled requests are verified greedily: on CPU and XPU, and on ROCm without rejection sampling (pull 9127; for
chains on ROCm undone by 37134). min-p is not applied. TRITON. Since pull 26312 chains are verified by kernels in Triton too, with p/q or
by block verification, and the tree kernel has a port. Where rounding leaves the residual without a token they emit the last token of the
vocabulary, whatever its p. LILICORR, a drafter, reports the row that drew each token, and a point mass for a greedy one; the chain kernel
tests it.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import ot_draft as otd
from ot_draft import trees
from proofs_checks.lossy import engine_rules

from ..by_hand import mode, most_probable, norm, ratio, single, without
from ..record import (
    BLOCK,
    CHAIN,
    NAIVE_TREE,
    PATH,
    READ,
    TARGET_SAMPLE,
    TOP,
    TREE,
    TREES,
    AlongPath,
    Case,
    Form,
    Known,
    OneToken,
    Work,
    biased,
    greedy,
)  # fmt: skip
from ..rules import Single, best

HALF = Fraction(1, 2)
CHOSEN = otd.rules.NaiveTarget(law=TOP)
TENTH, FOUR = (Fraction(1, 10),) * 10, (Fraction(1, 4),) * 4
TWO_ONE = trees.TreeShape.by_level(
    (2, 1)
)  # with two children of three tokens one is left, which is then right by itself


def thresholds(chance: Any, p: Any, q: Any, k: int) -> Any:
    target, reached = p(), Fraction(0)
    drafts = most_probable(q(), k)
    for x in drafts:
        before, reached = reached, min(Fraction(1), reached + target[x] / HALF)
        if before < 1 and chance.flip((reached - before) / (1 - before)):
            return (x,)
    return (chance.draw(without(target, drafts)),)


def threshold_walk(chance: Any, p: Any, q: Any, k: int) -> Any:
    """The threshold form down a tree of two levels, two children per node; a leaf's token is the target's own draw."""
    text: tuple[int, ...] = ()
    while len(text) < 2:
        found = thresholds(chance, lambda at=text: p(at), lambda at=text: q(at), 2)
        text += found
        if found[0] not in most_probable(q(text[:-1]), 2):
            return text
    return (*text, chance.draw(p(text)))


def with_one_uniform(p: Any, drafts: list[int]) -> tuple[list[Any], list[Any]]:
    """Mass that takes each draft, and mass of the final draw for each token: the number c, uniform above s, draws at c (1 - s)."""
    taken = [p[x] for x in drafts]
    rest, start, last = 1 - sum(taken), Fraction(0), [Fraction(0)] * len(p)
    for y, mass in enumerate(p):
        if y not in drafts and rest:
            end = start + mass
            last[y] = max(Fraction(0), min(end, rest) - max(start, rest * (1 - rest))) / rest
            start = end
    return taken, last


def one_uniform(model: Any, tree: Any) -> dict[tuple[int, ...], Any]:
    """The walk with a uniform number per node, which makes the final draw too."""
    law: dict[tuple[int, ...], Any] = {}

    def walk(prefix: tuple[int, ...], children: Any, chance: Any) -> None:
        children = [child for child in children if child[0] >= 0]
        taken, last = with_one_uniform(model.target(prefix).tolist(), [token for token, _ in children])
        for (token, below), mass in zip(children, taken, strict=True):
            if mass:
                walk((*prefix, token), below, chance * mass)
        for token, mass in enumerate(last):
            if mass:
                law[*prefix, token] = law.get((*prefix, token), 0) + chance * mass

    walk((), tree.forest, Fraction(1))
    return law


def uniform_walk(*widths: int) -> Callable[..., Any]:
    """The same by intervals of the number, down a tree of the most probable tokens; widths: nodes per parent on each level."""

    def program(chance: Any, p: Any, q: Any, k: int) -> Any:
        text: tuple[int, ...] = ()
        while True:
            target, reached = p(text), Fraction(0)
            drafts = most_probable(q(text), widths[len(text)]) if len(text) < len(widths) else []
            for x in drafts:
                if chance.flip(ratio(target[x], 1 - reached)):
                    text = (*text, x)
                    break
                reached += target[x]
            else:
                ends = [Fraction(0)]
                for y, mass in enumerate(target):
                    ends.append(ends[-1] + (0 if y in drafts else mass) / (1 - reached))
                return (*text, chance.draw(norm([high - max(low, reached) for low, high in pairwise(ends)])))

    return program


CUDA = (
    "sgl-project/sglang sgl-kernel/csrc/speculative/speculative_sampling.cuh@b227f63, TreeSpeculativeSamplingTargetOnly"
)
TARGET_ONLY = (
    "CUDA kernel TreeSpeculativeSamplingTargetOnly, since pulls 7207, 7231; trees of EAGLE, EAGLE-3, standalone and n-gram drafts, whose"
    " children are chosen; temperature, top-k, top-p"
)
OLD = "WissamAntoun/sglang (a copy of upstream), the same file @c278b27 and @ef9a378"
QUARTER = Fraction(1, 4)
QUARTERS = (QUARTER, HALF, QUARTER)
AGAIN = "u = coin * sum_relu_q_minus_p, with the number that has rejected the children"
ONE = AlongPath(one_uniform, (2,), 1, trees.TreeShape.chains(1, 1), TOP)
SEEN = "run: its kernel, compiled for the CPU with one thread, has the same distribution over a grid of uniform numbers"
GREEDY = OneToken(Single(lambda p, q: best(p), lambda p, q: best(p), TOP), (1,))


OPS = "sgl-project/sglang python/sglang/kernels/ops/speculative"
REJECT = f"{OPS}/reject_sampling.py@1d33ae1"
LAST = (
    "exact up to rounding: where the residual's running sum never passes u, the last token of the vocabulary is emitted"
)


def one_uniform_form(name: str, **others: Any) -> Any:
    return biased(name, AlongPath(one_uniform, (2,), 2, TWO_ONE, TOP), uniform_walk(2, 1), AGAIN,
                  AlongPath(trees.NaivePath(), (2,), 2, TWO_ONE, TOP),
                  "a number of its own for the final draw, as pull 7207 has it", rests_on="exact integration over the numbers",
                  known=(Known(Case((QUARTERS,), ((HALF, QUARTER, QUARTER),), 1), Fraction(1, 12), "one child", ONE, uniform_walk(1)),
                         Known(Case((QUARTERS,), (QUARTERS,), 1), Fraction(1, 4), "one child", ONE, uniform_walk(1)),
                         Known(Case((TENTH,), (TENTH,), 1), Fraction(4, 45), "one child", ONE, uniform_walk(1)),
                         Known(Case((FOUR,), (FOUR,), 2), 3 * Fraction(1, 8), "two children per node",
                               AlongPath(one_uniform, (2,), 2, TREE, TOP), uniform_walk(2, 2))), **others)  # fmt: skip


WORKS = (
    Work("sglang", "SGLang", "",
         "code of the kernels and of eagle_utils.py, the first kernel also with one uniform number; wheel of 0.5.23; pulls",
         "lossless at thresholds 1", "none",
         (Form("target-only tree kernel, thresholds 1: a node", OneToken(engine_rules.TwoThresholds(1, 1)),
               "a draw from p, child by child; Coq: sampling.v", mode=TREES, when=TARGET_ONLY),
          Form("target-only tree kernel, thresholds 1: tree", NAIVE_TREE, "a fresh number at every node; exact checks", mode=TREES,
               when=TARGET_ONLY),
          one_uniform_form("target-only tree kernel: uniform number used again", mode=TREES,
                           when="CUDA, before sgl-kernel 0.1.9 (June 2025)", code=OLD, seen=f"{SEEN} (@ef9a378)",
                           fixed="pulls 7207, 7231, 7232 (sgl-kernel 0.1.9)"),
          biased("target-only tree kernel, threshold_acc = 1/2: a node", OneToken(engine_rules.TwoThresholds(1, HALF), (1, 2)), thresholds,
                 "coin <= prob_acc / threshold_acc", OneToken(CHOSEN, (1, 2)), "threshold_acc = 1", on_purpose=True, mode=TREES,
                 when="CUDA, the flag below 1", seen="run: the kernel of @ef9a378, so compiled, on the example"),
          biased("target-only tree kernel, threshold_acc = 1/2: tree",
                 AlongPath(trees.TokenWise(engine_rules.TwoThresholds(1, HALF)), (2,), 2, TREE, TOP),
                 threshold_walk, "coin <= prob_acc / threshold_acc, prob_acc = 0 at every node that is taken", NAIVE_TREE,
                 "threshold_acc = 1", on_purpose=True, mode=TREES, when="CUDA, the flag below 1",
                 seen="run: the kernel of @ef9a378, so compiled, the later number for the last draw, on four distributions over a grid"),
          biased("sampled requests verified greedily", GREEDY,
                 single(lambda p, q, x: int([x] == most_probable(p, 1)), lambda p, q, x: mode(p), mode),
                 "_verify_uses_greedy is true, and argmax of the target is compared", TARGET_SAMPLE, "compare with the target's sample",
                 mode=TREES,
                 when="CPU, XPU, ROCm (chains: until pull 37134)", seen=READ,
                 code="sgl-project/sglang python/sglang/srt/speculative/eagle_utils.py@003ddbc, _verify_uses_greedy",
                 fixed="pull 37134, chains on ROCm only"),
          Form("Triton chain: p/q", PATH, "speculative sampling; Coq: sampling.v", mode=CHAIN,
               when="speculative_use_rejection_sampling, since pull 26312 (May 2026)", condition=LAST,
               code=f"{REJECT}, speculative_sampling_classic_kernel"),
          Form("Triton chain: block verification", AlongPath(trees.BlockVerification()), "block verification; Coq: block.v", mode=BLOCK,
               condition=LAST, when="speculative_use_block_verification, with speculative_use_rejection_sampling",
               code=f"{REJECT}, speculative_sampling_block_kernel"),
          Form("Triton chain: LiLiCorr's drafts", PATH, "speculative sampling; Coq: sampling.v", mode=CHAIN,
               condition=LAST, when="LiLiCorr, temperature above 0", code=f"{OPS}/lilicorr.py@0b79ccf, lilicorr_sample_path; {REJECT}"),
          Form("target-only tree kernel in Triton, thresholds 1: tree", NAIVE_TREE,
               "a fresh number at every node; exact checks", mode=TREES,
               when="Triton kernel _tree_speculative_sampling_target_only_kernel, both thresholds 1; the same drafts",
               code=f"{OPS}/tree_sampling.py@b3939a5"),
          greedy("temperature 0", code=f"{REJECT}; the tree kernels compare with the argmax")),
         CUDA, engine="SGLang",
         remarks="Uniform numbers in [0, 1) are compared with <=: exactly 0 takes a child of mass 0 (until pull 35798)."),
    Work("aiter", "aiter (AMD)", "", "the file and its history", "as SGLang's", "none",
         (one_uniform_form("SGLang's kernel with one uniform number", mode=TREES, when="17 to 18 March 2025, in no release", seen=SEEN,
                        code="ROCm/aiter csrc/include/speculative_sampling.cuh@b1975e9, TreeSpeculativeSamplingTargetOnly",
                        fixed="removed a day later: e5a8467, pull 219"),),
         engine="aiter"),
)  # fmt: skip
