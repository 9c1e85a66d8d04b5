"""Triton kernels for the passes over the vocabulary: what array operations do in many launches, in a few.

They answer the same questions as the array code of `rules` and `arrays`, which stays the reference and the fallback. They
are taken for float32 tensors on a CUDA device, of 4,096 tokens or more, where triton is installed. The environment
variable OT_DRAFT_TRITON is for whoever runs a program: 0 never takes them, 1 takes them whatever the size and the device (Triton's
interpreter runs them on the CPU, under TRITON_INTERPRET=1). It is no field of a rule, because it does not change the law.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import Any


def wanted(mass: Any, index: Any, min_tokens: int = 4096) -> bool:
    """Whether the kernels take these masses (..., n), with these drafts or uniforms (..., k). No host sync."""
    switch = os.environ.get("OT_DRAFT_TRITON", "")
    on_cuda = getattr(mass, "is_cuda", False)  # the first question, since most masses are on the CPU
    if switch == "0" or not (on_cuda or switch == "1") or str(mass.dtype) != "torch.float32" or mass.requires_grad:
        return False
    if 0 in (*mass.shape, *index.shape) or mass.device.type == "meta" or not installed():
        return False
    if not on_cuda:
        return True
    # Kernels start on the current device, wherever their tensors are.
    here = mass.device.index == sys.modules["torch"].cuda.current_device()
    return here and (mass.shape[-1] >= min_tokens or switch == "1")


@cache
def installed() -> bool:
    """Whether triton can be imported."""
    return find_spec("triton") is not None
