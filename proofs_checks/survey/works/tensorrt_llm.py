"""TensorRT-LLM's two looser tests.

RELAXED takes a draft among the target's top tokens with p >= max p - delta, between the tokens that begin and end thinking only (outside
delta is 0); the last token is the argmax. Its kernel takes one path of drafts, no tree. TYPICAL samples the target without the tokens
below min(threshold, alpha e^-H), and compares: lossless for that truncated distribution (at temperature 1). In a tree every node has one
such sample, from a random number of its own, for all paths through it; the longest path that agrees with the samples wins.
"""

from fractions import Fraction
from math import exp, log
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import arrays as xp
from ot_draft import trees
from proofs_checks.paths.path_cases import Told

from ..by_hand import mode, most_probable, norm, single, without
from ..record import (
    CHAIN,
    NAIVE_TREE,
    PATH,
    READ,
    TARGET_SAMPLE,
    TOP,
    TREE,
    TYPICAL,
    AlongPath,
    Form,
    OneToken,
    Work,
    biased,
)  # fmt: skip
from ..rules import Single, among, best

DELTA, THRESHOLD, ALPHA = Fraction(3, 5), 0.3, 0.9  # the last two larger than in practice, to show on three tokens


def near_the_best(p: Any, q: Any) -> Any:
    near = among(xp.top_tokens(p, min(10, p.shape[-1])), p) & (
        p >= xp.max(p, axis=-1, keepdims=True) - xp.number(DELTA, p)
    )
    return xp.astype(near, p.dtype)


def unmasked(p: Any, q: Any, k: Any = 1, law: Any = None) -> Any:
    """The target that the typical acceptance samples from."""
    masses = p.astype(float)
    entropy = -(masses * np.log(masses + (masses == 0))).sum(-1, keepdims=True)
    bar = np.minimum(THRESHOLD, ALPHA * np.exp(-entropy))
    return xp.normalise(xp.where(masses >= bar, p, 0 * p), otherwise=p)


def masked_tree(model: Any, tree: Any) -> Any:
    """The walk by one sample per node of the masked target."""
    return trees.NaivePath()(Told(lambda prefix: unmasked(model.target(prefix), None), model.draft), tree)


def masked_by_hand(p: Any) -> Any:
    bar = min(THRESHOLD, ALPHA * exp(sum(float(mass) * log(mass) for mass in p if mass)))
    return norm([mass if float(mass) >= bar else 0 for mass in p])


RELAXED = single(
    lambda p, q, x: int(x in most_probable(p, 10) and p[x] >= max(p) - DELTA), lambda p, q, x: mode(p), mode
)
MASKED = single(lambda p, q, x: masked_by_hand(p)[x], lambda p, q, x: without(masked_by_hand(p), [x]), mode)


def masked_walk(chance: Any, p: Any, q: Any, k: int) -> Any:
    """The longest of four paths that agrees with samples of the nodes, and the sample at its end."""
    samples: dict[tuple[int, ...], int] = {}
    longest: tuple[int, ...] = ()
    for x in most_probable(q(), 2):
        for y in most_probable(q((x,)), 2):
            agreed: tuple[int, ...] = ()
            for token in (x, y):
                if agreed not in samples:
                    samples[agreed] = chance.draw(masked_by_hand(p(agreed)))
                if samples[agreed] != token:
                    break
                agreed = (*agreed, token)
            longest = max(longest, agreed, key=len)
    last = samples[longest] if longest in samples else chance.draw(masked_by_hand(p(longest)))
    return (*longest, last)


WORK = Work(
    "tensorrt", "TensorRT-LLM", "", "code", "for thinking phases; plausible text; none about the distribution",
    "the ten most probable tokens; an entropy",
    (biased("relaxed, top 10, delta 0.6", OneToken(Single(near_the_best, lambda p, q: best(p), TOP), (1,)), RELAXED,
            "accept a draft among the top tokens with p >= max p - delta", TARGET_SAMPLE, "compare with the target's sample",
            when="relaxed acceptance, between the thinking tokens", seen=READ, on_purpose=True, mode=CHAIN,
            code="NVIDIA/TensorRT-LLM mtpKernels.cu@3585984, mtpRelaxedAcceptanceKernel"),
     biased("typical, threshold 0.3, alpha 0.9: a node", OneToken(otd.lossy.Toward(unmasked, otd.rules.NaiveTarget(law=TOP)), (1,)), MASKED,
            "if (prob < threshold) logit = -FLT_MAX, before the target's sample is drawn", TARGET_SAMPLE, "no mask",
            when="typical acceptance", seen=READ, on_purpose=True, mode=TYPICAL,
            code="NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/speculativeDecoding/common.cu@2a9abd9, maskLogitsBasedOnEntropy"),
     biased("typical, threshold 0.3, alpha 0.9: tree", AlongPath(masked_tree, (2,), 2, TREE, TOP), masked_walk,
            "draftToken == targetToken along every path, and reduceMaxInt4 over the lengths; the targets are drawn under the mask",
            NAIVE_TREE, "no mask", when="typical acceptance", seen=READ, on_purpose=True, mode=TYPICAL,
            code="NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/speculativeDecoding/common.cu@2a9abd9, acceptDraftTokensByIdsWithPaths; "
                 "numbers: eagleDecodingKernels.cu@b35ac1b, unpackEagleData"),
     Form("rejection sampling, one model (MTP, draft model, PARD, DFlash)", PATH, "speculative sampling; Coq: sampling.v", mode=CHAIN,
          when="use_rejection_sampling, since pull 15775 (July 2026)",
          code="NVIDIA/TensorRT-LLM pull 15775, which calls FlashInfer's kernel"),
     Form("without rejection sampling", TARGET_SAMPLE, "comparison with the target's sample; Coq: sampling.v", mode=CHAIN,
          when="use_rejection_sampling off; drafts are argmax", code="NVIDIA/TensorRT-LLM pull 15775")),
    "NVIDIA/TensorRT-LLM", engine="TensorRT-LLM",
)  # fmt: skip
