"""Triton kernels for computations over the vocabulary, in fewer launches than array operations.

The array code of `rules` and `arrays` is the reference and the fallback. The kernels are used for float32 tensors on a CUDA device with
at least 4,096 tokens, if triton is installed. Environment variable OT_DRAFT_TRITON: 0 disables the kernels, 1 uses them for every size
and device (TRITON_INTERPRET=1: on the CPU, in Triton's interpreter). Neither changes the output distribution.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import Any


def wanted(mass: Any, index: Any, min_tokens: int = 4096) -> bool:
    """Whether the kernels are used for these masses (..., n), with drafts or uniforms (..., k). No host sync."""
    switch = os.environ.get("OT_DRAFT_TRITON", "")
    on_cuda = getattr(mass, "is_cuda", False)  # first, since most masses are on the CPU
    if switch == "0" or not (on_cuda or switch == "1") or str(mass.dtype) != "torch.float32" or mass.requires_grad:
        return False
    if 0 in (*mass.shape, *index.shape) or mass.device.type == "meta" or not installed():
        return False
    if not on_cuda:
        return True
    # Kernels are launched on the current device, not on that of their tensors.
    here = mass.device.index == sys.modules["torch"].cuda.current_device()
    return here and (mass.shape[-1] >= min_tokens or switch == "1")


@cache
def installed() -> bool:
    """Whether triton can be imported."""
    return find_spec("triton") is not None
