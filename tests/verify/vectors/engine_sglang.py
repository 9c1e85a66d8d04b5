"""SGLang's kernel for chains on the vectors, in Triton's interpreter on a CPU, with the uniform numbers of the vector.

TRITON_INTERPRET=1 ot-draft vectors run tests/verify/vectors/engine_sglang.py:verify --rule sglang-chain --level replay
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.kernels.ops.speculative.reject_sampling import chain_speculative_sampling_triton


def verify(rule: str, case: dict[str, Any], numbers: Any) -> list[int]:
    """Return the emitted tokens of one request: slot 0 is the root, and `predicts` has a token after each accepted slot."""
    drafts = list(case["drafts"])
    slots = len(drafts) + 1
    uniforms = numbers["uniforms"]
    predicts = torch.full((slots,), -1, dtype=torch.int32)
    index = torch.full((1, slots), -1, dtype=torch.int32)
    kept = torch.zeros(1, dtype=torch.int32)
    candidates = torch.tensor([[0, *drafts]], dtype=torch.int64)
    retrieve = torch.arange(slots, dtype=torch.int64)[None]
    coins = torch.tensor([[*uniforms[:-1], 0.5]], dtype=torch.float32)
    final = torch.tensor(uniforms[-1:], dtype=torch.float32)
    p, q = (torch.tensor([case[name]], dtype=torch.float32) for name in "pq")
    chain_speculative_sampling_triton(
        predicts, index, kept, candidates, retrieve, None, None, coins, final, p, q, 1.0, 1.0, True
    )
    return predicts[: int(kept) + 1].tolist()
