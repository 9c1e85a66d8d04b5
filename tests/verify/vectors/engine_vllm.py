"""The kernels of vLLM's V1 runner on the vectors, in Triton's interpreter on a CPU, with the random numbers of the vector.

    TRITON_INTERPRET=1 ot-draft vectors run tests/verify/vectors/engine_vllm.py:verify --rule vllm-v1 --rule vllm-v1-chosen --level replay

The token after the last draft token is the engine's ordinary sample, an argument of these kernels: the argmax of p/E.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.triton_utils import HAS_TRITON
from vllm.v1.sample.rejection_sampler import rejection_random_sample_kernel, sample_recovered_tokens_kernel

if not HAS_TRITON:
    raise ImportError("this build of vLLM disables Triton, as the CPU wheel does. Install the GPU wheel.")


def verify(rule: str, case: dict[str, Any], numbers: Any) -> list[int]:
    """Return the emitted tokens of one request."""
    drafts, n = case["drafts"], len(case["p"][0])
    p = torch.tensor(case["p"], dtype=torch.float32)
    q = None if case["q"] is None else torch.tensor(case["q"], dtype=torch.float32)
    recovery, bonus = (torch.tensor(row, dtype=torch.float32) for row in numbers["noise"])
    tokens, ends = torch.tensor(drafts, dtype=torch.int32), torch.tensor([len(drafts)], dtype=torch.int32)
    recovered, out = torch.zeros_like(tokens), torch.full((len(drafts) + 1,), -1, dtype=torch.int32)
    last, chosen = (p[-1] / bonus).argmax().to(torch.int32)[None], q is None
    sample_recovered_tokens_kernel[(1, len(drafts))](
        recovered, ends, tokens, q, p, recovery.reciprocal(), n, BLOCK_SIZE=8192, NO_DRAFT_PROBS=chosen, USE_FP64_GUMBEL=False
    )  # fmt: skip
    coins, greedy = torch.tensor(numbers["uniforms"], dtype=torch.float32), torch.tensor([False])
    rejection_random_sample_kernel[(1,)](
        out, ends, tokens, q, p, last, recovered, coins, greedy, len(drafts), n, None, NO_DRAFT_PROBS=chosen, SYNTHETIC_MODE=False
    )  # fmt: skip
    return [token for token in out.tolist() if token != -1]
