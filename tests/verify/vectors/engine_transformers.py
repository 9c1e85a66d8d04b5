"""transformers' own function for assisted generation on the vectors, with the random numbers of the vector.

cd tests/verify/vectors; ot-draft vectors run engine_transformers.py:verify --rule transformers --known known_transformers.txt
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch
from transformers.generation.utils import _speculative_sampling


def verify(rule: str, case: dict[str, Any], numbers: Any) -> list[int]:
    """Return the emitted tokens for logits that are logarithms of the rows. Only the random numbers of torch are replaced."""
    p, q = (torch.tensor(rows, dtype=torch.float32).log()[None] for rows in (case["p"], case["q"]))
    drafts, drafted = list(case["drafts"]), []
    if isinstance(numbers, int):
        torch.manual_seed(numbers)
        if not drafts:
            drafts = drafted = q[0].softmax(-1).multinomial(1)[:, 0].tolist()
    with ExitStack() as stack:
        if not isinstance(numbers, int):
            uniforms = torch.tensor(numbers["uniforms"], dtype=torch.float32)
            noise = torch.tensor(numbers["noise"][0], dtype=torch.float32)
            stack.enter_context(mock.patch.object(torch, "rand_like", lambda ratio: uniforms.reshape(ratio.shape)))
            stack.enter_context(mock.patch.object(torch, "multinomial", lambda row, num_samples: raced(row, noise)))
        tokens, _ = _speculative_sampling(torch.tensor([drafts]), q, len(drafts), p)
    return drafted + tokens[0].tolist()


def raced(row: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """torch.multinomial for one sample with given exponentials. Raises RuntimeError for an invalid distribution, as it does."""
    if not bool(((row >= 0) & row.isfinite()).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    return (row / noise).argmax(-1, keepdim=True)
