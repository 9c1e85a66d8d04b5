"""vLLM Ascend: the samplers of its two runners on Ascend NPUs.

FIRST RUNNER. p/q against uniform numbers; the exponentials of the recovered token are separate. SECOND RUNNER. Triton on that NPU lacked
the generator, and the code set u = 0: every draft token with p(x) > 0 was kept. Pull 13470 (18 August 2026) draws u from the seed, the
position and offset 0. The draw after a rejection takes the Gumbel noise of token 0 from the same three numbers. A rejection means that u
is large, so that token 0 is drawn too often. Let a be the ratio p/q of the rejected token and r the residual's mass of token 0: token 0
wins with u^((1 - r)/r), and is recovered with r (1 - a^(1/r)), where r (1 - a) is due. Pull 15573 (September 2026) draws from the
residual by its distribution function at the same u, which is then uniform on (a, 1); the open pulls 16370 and 16920 separate the two.
BLOCK. With enable_block_verify, off by default and for three draft tokens or more, the first runner accepts up to the last position i with
w_i >= u_1 .. u_i, a product of uniform numbers. In PyTorch w_i is prod min(1, p/q), in Triton min(1, w_(i-1) p/q). That is not block
verification. Let p = (1/2, 1/2), q = (1/3, 2/3) and two drafts. A first draft token 1 passes by itself with 3/4, which p needs. It passes
with the second too: u_1 > 3/4 and u_1 u_2 <= w_2. In PyTorch that adds (3/4) ln(4/3) before a second draft token 0 and (9/16) ln(4/3)
before 1, so that the first token is 1 with 1/2 + (5/12) ln(4/3); in Triton with 5/9 + (1/4) ln(4/3). ENTROPY. With enable_entropy_verify a
draft token is kept where p/q >= tau u, tau = min(0.95, exp(-0.4 H)) with the target's entropy H.
"""

from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..by_hand import minus, norm, ratio, single, usual_residual
from ..record import (
    BLOCK,
    BUG,
    BY_DESIGN,
    CHAIN,
    PATH,
    SPECULATIVE,
    TARGET_SAMPLE,
    TYPICAL,
    Argued,
    Coupled,
    Form,
    OneToken,
    Work,
    biased,
    greedy,
)  # fmt: skip
from ..rules import Single

V1 = "vllm-project/vllm-ascend vllm_ascend/sample/rejection_sampler.py@676e91b"
V2 = "vllm-project/vllm-ascend vllm_ascend/worker/v2/spec_decode/rejection_sampler_utils.py"


def positive(p: Any, q: Any) -> Any:
    return 0 * p + (p > 0)


def one_number(p: Any, q: Any, k: int) -> Any:
    """The uniform number of the test, given that it is above p/q, also draws from norm((p - q)+) by its distribution function."""
    kept = [min(a, b) for a, b in zip(p, q, strict=True)]
    ends = [Fraction(0), *accumulate(norm(minus(p, q), p))]
    output = list(kept)
    for x, mass in enumerate(q):
        bar = min(Fraction(1), ratio(p[x], mass))
        for y, (low, high) in enumerate(pairwise(ends)):
            output[y] += mass * max(Fraction(0), high - max(low, bar))
    return output, sum(kept)


def one_number_by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    x = chance.draw(q())
    bar = p()[x] / q()[x]
    if chance.flip(bar):
        return (x,)
    left, reached = [], Fraction(0)
    for mass in usual_residual(p(), q(), x):
        before, reached = reached, reached + mass
        left.append(max(reached, bar) - max(before, bar))  # the part of its interval that is above the bar
    return (chance.draw(norm(left)),)


GUMBEL = (
    "the uniform number of the test is the Gumbel noise of token 0 in the draw after a rejection; for p = (1/4, 1/4, 1/2) and a"
    " deterministic draft token 2 the output is (3/8, 1/8, 1/2)"
)
PRODUCTS = (
    "the acceptance compares products of uniform numbers; with two draft tokens the first token is 1 with probability"
    " 1/2 + (5/12) ln(4/3) = 0.620 in PyTorch, and 5/9 + (1/4) ln(4/3) = 0.627 in Triton"
)
ENTROPY = "a draft token is accepted with min(1, p/(q tau)), tau = min(0.95, exp(-0.4 H)); here tau = 2^(-2/5)"
HALVES = ("1/2, 1/2", "1/3, 2/3")
WORK = Work(
    "vllm-ascend", "vLLM Ascend", "",
    "code of both runners at 676e91b, cd76505, 27a9476 and 182b75e; pulls 7808, 13470, 15573, 16370, 16920",
    "as vLLM's", "one pass per token",
    (biased("second runner: u = 0", OneToken(Single(positive), (1,)), single(lambda p, q, x: int(p[x] > 0), usual_residual),
            "u = tl.full([], 0.0, dtype=tl.float32), so that log p > log u + log q for every p above 0", SPECULATIVE,
            "u uniform on (0, 1)", mode=CHAIN, when="second runner, temperature above 0, before pull 13470 (18 August 2026)",
            code=f"{V2}@cd76505, _probabilistic_rejection_kernel", seen="read, not run", fixed="pull 13470"),
     biased("second runner: the same number in the draw after a rejection",
            Coupled(one_number, in_floats=lambda p, q: np.minimum(p, q).sum()), one_number_by_hand,
            "uniform = tl.rand(tl.randint(seed, position), ..), which is also u of the test at that position", SPECULATIVE,
            "a number of its own for the draw, as the open pull 16370 has it", rests_on="exact integration over the number", mode=CHAIN,
            when="second runner, temperature above 0, since pull 15573 (opened 2 September 2026)",
            code="vllm-project/vllm-ascend pull 16370", seen="not read: the threads of pulls 15573, 16370 and 16920 quote it"),
     Form("first runner, draft's distribution given", PATH, "speculative sampling; Coq: sampling.v", mode=CHAIN,
          when="enable_block_verify and enable_entropy_verify off, their default", code=V1),
     Form("no distribution given (n-gram, greedy draft)", TARGET_SAMPLE, "q set to 1; Coq: sampling.v", mode=CHAIN,
          when="first runner; enable_block_verify and enable_entropy_verify off, their default", code=V1),
     greedy("temperature 0", code=f"{V1}; {V2}@27a9476")),
    f"{V1}; {V2}@27a9476", engine="vLLM Ascend",
    argued=(
        Argued("second runner: the test's number is noise of token 0", CHAIN,
               "second runner, temperature above 0, pull 13470 (18 August 2026) to 15573 (opened 2 September)", BUG, GUMBEL,
               ("1/3, 1/3, 1/3", "1/6, 1/6, 2/3", "1", "1/12"), f"{V2}@27a9476, _probabilistic_rejection_kernel, _npu_gumbel_block_argmax",
               "run: its kernels, in an interpreter: 4,000 draws each gave (.421, .246, .333) and (.374, .128, .498)"),
        Argued("enable_block_verify", BLOCK, "first runner, three draft tokens or more", BUG, PRODUCTS, (*HALVES, "1", "(5/12) ln(4/3)"),
               f"{V1}, rejection_random_sample_block_verify_pytorch", "run: the PyTorch function gives 0.619"),
        Argued("enable_entropy_verify", TYPICAL, "first runner; posterior_threshold 0.95 and posterior_alpha 0.4, the defaults", BY_DESIGN,
               ENTROPY, (*HALVES, "1", "2^(-3/5) - 1/2"), f"{V1}, rejection_random_sample_pytorch", "read, not run"),
    ),
)  # fmt: skip
