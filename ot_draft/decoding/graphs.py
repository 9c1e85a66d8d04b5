"""CUDA graphs: a part of the step is recorded once and then replayed, without the cost of launching its kernels one by one.

Every part works on tensors of fixed shape at fixed addresses (texts, uniforms, tokens, q, caches) and looks at no value on
the way, so that a replay does what the recorded pass did, on what the tensors hold now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import CannotDecode

WARM_UP = 3  # passes before the recording: libraries choose their kernels and take their memory in the first ones


def capture(part: Callable[[], None], device: torch.device) -> Callable[[], Any]:
    """`part` as one CUDA graph; on other devices, `part` itself.

    It is called WARM_UP times before it is recorded: call this where repeating the part does no harm.
    """
    if device.type != "cuda":
        return part
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            part()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            part()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise CannotDecode(f"no CUDA graph can be recorded of this step ({reason}): decode without graphs") from error
    return graph.replay
