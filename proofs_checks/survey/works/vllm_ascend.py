"""vLLM Ascend: the second runner's kernel on Ascend NPUs, before and after its uniform number was 0.

Triton on that NPU lacked the generator, and the code set u = 0: every draft with p(x) > 0 was kept, and what came out followed q. Pull
13470 draws u (the snapshot of 18 August 2026 has it), from the seed, the position and the offset from which the draw after a rejection
takes the Gumbel noise of token 0. A rejection means that u is large, so token 0 is drawn too often. Let p be uniform over three tokens and
q = (1/6, 1/6, 2/3): only token 2 is rejected, with probability 1/3, where u > 1/2. The residual is (1/2, 1/2, 0), and token 0 wins against
token 1 with the mean of u, 3/4. The first runner's test is p/q against u. BLOCK. With enable_block_verify, off by
default and for three drafts or more, it accepts up to the last position i with w_i >= u_1 .. u_i, a product of uniform numbers. In
PyTorch w_i is prod min(1, p/q), in Triton min(1, w_(i-1) p/q). That is not block verification. Let p = (1/2, 1/2), q = (1/3, 2/3) and two
drafts. A first draft 1 passes by itself with 3/4, which p needs. It passes with the second too: u_1 > 3/4 and u_1 u_2 <= w_2. In PyTorch
that adds (3/4) ln(4/3) before a second draft 0 and (9/16) ln(4/3) before 1, so that the first token is 1 with 1/2 + (5/12) ln(4/3); in
Triton with 5/9 + (1/4) ln(4/3). Both are irrational and no Fractions.
"""

from typing import Any

from ..by_hand import single, usual_residual
from ..record import CHAIN, PATH, SPECULATIVE, TARGET_SAMPLE, Form, OneToken, Work, biased, greedy
from ..rules import Single

V2 = "vllm-project/vllm-ascend vllm_ascend/worker/v2/spec_decode/rejection_sampler_utils.py"

BLOCK_VERIFY = (
    "not lossless, by an argument outside the enumeration: for p = (1/2, 1/2), q = (1/3, 2/3) and two drafts the first token is 1 with"
    " probability 1/2 + (5/12) ln(4/3) = 0.620 in PyTorch, whose function gives 0.619 when run, and 5/9 + (1/4) ln(4/3) = 0.627 in Triton"
)


SAME_NUMBER = (
    "not lossless, by an argument outside the enumeration: the uniform number of the test is the Gumbel noise of token 0 in the draw after"
    " a rejection; for p = (1/3, 1/3, 1/3), q = (1/6, 1/6, 2/3) the output is (5/12, 1/4, 1/3) if the draft's noise is independent; for"
    " p = (1/4, 1/4, 1/2) and a deterministic draft token 2 it is (3/8, 1/8, 1/2) (read, not run)"
)


def positive(p: Any, q: Any) -> Any:
    return 0 * p + (p > 0)


WORK = Work(
    "vllm-ascend", "vLLM Ascend", "", "code of both runners' kernels; pulls 7808, 13470; issue 13730", "as vLLM's", "one pass per token",
    (biased("second runner: u = 0", OneToken(Single(positive), (1,)), single(lambda p, q, x: int(p[x] > 0), usual_residual),
            "u = tl.full([], 0.0, dtype=tl.float32), so that log p > log u + log q for every p above 0", SPECULATIVE,
            "u uniform on (0, 1)", mode=CHAIN, when="second runner, temperature above 0, before pull 13470 (18 August 2026)",
            code=f"{V2}@cd76505, _probabilistic_rejection_kernel", seen="read, not run", fixed="pull 13470"),
     Form("first runner, draft's law given", PATH, "speculative sampling; Coq: sampling.v", mode=CHAIN,
          when="enable_block_verify off, its default", code="vllm-project/vllm-ascend vllm_ascend/sample/rejection_sampler.py@676e91b"),
     Form("no law given (n-gram, greedy draft)", TARGET_SAMPLE, "q set to 1; Coq: sampling.v", mode=CHAIN,
          when="enable_block_verify off, its default", code="vllm-project/vllm-ascend vllm_ascend/sample/rejection_sampler.py@676e91b"),
     greedy("temperature 0", code=f"{V2}@27a9476")),
    f"{V2}@27a9476", engine="vLLM Ascend",
    undecided=(
        ("second runner, since pull 13470 (18 August 2026)", SAME_NUMBER),
        ("enable_block_verify", BLOCK_VERIFY),
    ),
)  # fmt: skip
