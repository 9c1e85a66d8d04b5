"""Milliseconds of a call of vLLM's rejection sampler and of the plugin's, on batches over 49,152 tokens, in turn, in one process."""

from __future__ import annotations

import json
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from vllm.platforms import current_platform

current_platform.import_kernels()
current_platform.register_triton_kernel_overrides()

from vllm.v1.sample import rejection_sampler as host  # noqa: E402

from ot_draft.integrations import vllm  # noqa: E402
from ot_draft.integrations.chains import CHAIN_RULES  # noqa: E402

N, ROUNDS = 49_152, 15
BATCHES = {
    "1 request": (1, 3, 0.0),
    "8 requests": (8, 3, 0.0),
    "8, half of them greedy": (8, 3, 0.5),
    "32 requests": (32, 3, 0.0),
}


def call(requests: int, length: int, greedy: float) -> tuple[Any, ...]:
    """Arguments of one call: drafts near the target, so that about half of them are accepted."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(requests * length, N, generator=generator)
    q = (logits + torch.randn(logits.shape, generator=generator)).softmax(-1)
    temperature = (torch.arange(requests) >= greedy * requests).float()
    return (
        torch.multinomial(q, 1, generator=generator)[:, 0].int(),
        [length] * requests,
        length,
        (torch.arange(requests) + 1).mul(length).int(),
        q,
        logits,
        torch.zeros(requests, 1, dtype=torch.int32),
        SimpleNamespace(temperature=temperature, all_greedy=False, all_random=greedy == 0, generators={}),
    )


def main() -> None:
    torch.set_num_threads(1)
    samplers = {"own": host.rejection_sample}
    samplers |= {name: partial(vllm.rejection_sample, rule=rule) for name, rule in CHAIN_RULES.items()}
    found: dict[str, dict[str, float]] = {}
    for batch, shape in BATCHES.items():
        given, times = call(*shape), {name: [] for name in samplers}
        for _ in range(ROUNDS):
            for name, sampler in samplers.items():
                begun = time.perf_counter()
                sampler(*given)
                times[name].append(1e3 * (time.perf_counter() - begun))
        found[batch] = {name: round(min(each), 2) for name, each in times.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
