"""Tests that engines publish for their own samplers, rewritten: would they have found a bug?

vLLM V1: with 10 tokens, the L2 distance of the emitted frequencies to the target must shrink 20 times as much as that to another law when
10 samples become 100,000. vLLM V2: chi-square at 4,096 tokens and 41,000 trials below df + 10 sqrt(2 df). TensorRT-LLM 6542: KL below .01.
mlx-lm and others: equal texts at temperature 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import log
from typing import Any

import torch

TRIALS, VOCABULARY = 41_000, 4096


def of_a_sampler(verify: Callable[[Any, Any, Any], Any]) -> dict[str, bool]:
    """Whether the tests that call the sampler pass. verify: laws p, q (m, n) and drafts int (m,) to emitted tokens (m,)."""
    return {"L2 shrinks": _shrinks(verify), "10 sigma": _ten_sigma(verify)}


def _frequencies(verify: Any, p: Any, q: Any, samples: int) -> Any:
    """Emitted tokens' frequencies, drafts drawn by the test itself."""
    counts = torch.zeros(len(p), dtype=torch.float64)
    for begin in range(0, samples, 4096):
        m = min(4096, samples - begin) if len(p) < 100 else min(1000, samples - begin)
        for part in range(0, min(4096, samples - begin), m):
            rows = min(m, min(4096, samples - begin) - part)
            drafts = q.expand(rows, -1).multinomial(1)[:, 0]
            counts += verify(p.expand(rows, -1), q.expand(rows, -1), drafts).bincount(minlength=len(p))
    return counts


def _shrinks(verify: Any) -> bool:
    generator = torch.Generator().manual_seed(3)
    p, q, other = torch.rand(3, 10, generator=generator).double().softmax(-1)
    to_target, to_other = [], []
    for samples in (10, 100, 1000, 10_000, 100_000):
        found = _frequencies(verify, p, q, samples) / samples
        to_target.append(float((found - p).norm()))
        to_other.append(float((found - other).norm()))
    return to_target[0] / to_target[-1] > 20 * to_other[0] / to_other[-1]


def _ten_sigma(verify: Any) -> bool:
    generator = torch.Generator().manual_seed(4)
    p, q = torch.randn(2, VOCABULARY, generator=generator).double().softmax(-1)
    counts, expected = _frequencies(verify, p, q, TRIALS), p * TRIALS
    freedom = VOCABULARY - 1
    return bool(((counts - expected) ** 2 / expected).sum() < freedom + 10 * (2 * freedom) ** 0.5)


def kl_is_small(law: dict[Any, float], texts: Sequence[Sequence[int]]) -> bool:
    """Whether the KL divergence of the second tokens' frequencies from their law is below .01."""
    masses: Counter[int] = Counter()
    for text, mass in law.items():
        masses[text[1]] += mass  # type: ignore[assignment]
    counts = Counter(text[1] for text in texts if len(text) > 1)
    total = sum(counts.values())
    return (
        all(token in masses for token in counts)
        and sum(c / total * log(c / total / masses[t]) for t, c in counts.items()) < 0.01
    )
