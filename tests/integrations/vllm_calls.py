"""Batches of requests, and vLLM's calls of its rejection samplers on them, for the contract tests of the adapter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from host_models import Tables, drawn

from ot_draft.integrations import vllm, vllm_runner_v2
from ot_draft.integrations.chains import CHAIN_RULES

LENGTH = 3
N = 3
RULES = pytest.mark.parametrize("rule", CHAIN_RULES.values(), ids=CHAIN_RULES)


@dataclass
class SamplingMetadata:
    """The fields of vllm.v1.sample.metadata.SamplingMetadata that the adapter reads."""

    temperature: Any
    all_greedy: bool = False
    all_random: bool = True
    generators: dict[int, Any] = field(default_factory=dict)


@dataclass
class Batch:
    """Drafts (m, L), -1 beyond each request's own, the laws at their nodes, and one bonus token each."""

    lengths: np.ndarray
    drafts: np.ndarray
    p: np.ndarray  # (m, L + 1, n)
    q: np.ndarray  # (m, L, n)
    bonus: np.ndarray

    @classmethod
    def random(
        cls,
        target: Tables,
        draft: Tables,
        rows: int,
        generator: np.random.Generator,
        chance: bool = True,
        padded: float = 0.0,
        lost: float = 0.0,
    ) -> Batch:
        """chance: whether drafts are drawn, or the draft's argmax. padded: how often a draft is -1, what follows is of no meaning.

        lost: how often the law of a draft is NaN, and the draft token 0, as argmax has it.
        """
        lengths = generator.integers(0, LENGTH + 1, rows)
        drafts, p, q = np.zeros((rows, 0), int), [], []
        for _ in range(LENGTH):
            p.append(target.after(drafts))
            q.append(draft.after(drafts))
            tokens = drawn(q[-1], generator) if chance else q[-1].argmax(-1)
            if lost:
                gone = generator.random(rows) < lost
                q[-1], tokens = np.where(gone[:, None], np.nan, q[-1]), np.where(gone, 0, tokens)
            drafts = np.column_stack((drafts, tokens))
        p.append(target.after(drafts))
        p = np.stack(p, 1)
        bonus = drawn(p[np.arange(rows), lengths], generator)
        pad = generator.random(drafts.shape) < padded
        p[:, 1:][pad.cumsum(1) > 0] = 1 / N  # behind a padded draft logits are of another text
        drafts[pad] = -1
        return cls(lengths, drafts, p, np.stack(q, 1), bonus)

    def refused_by_grammar(self) -> None:
        """Put -1 in the place of the first draft without target mass and all that follow it, as vLLM does."""
        mass = np.take_along_axis(self.p[:, :-1], self.drafts[..., None], -1)[..., 0]
        self.drafts[(mass == 0).cumsum(1) > 0] = -1

    @property
    def there(self) -> np.ndarray:
        return np.arange(LENGTH) < self.lengths[:, None]


def run_v1(batch: Batch, rule: Any, given: bool = True, temperature: Any = None, generators: Any = None) -> Any:
    """The V1 runner's call: flat arrays, a list of lengths, bonus tokens."""
    m, there = len(batch.lengths), batch.there
    hot = np.ones(m) if temperature is None else temperature
    metadata = SamplingMetadata(torch.tensor(hot), bool((hot == 0).all()), bool((hot > 0).all()), generators or {})
    return vllm.rejection_sample(
        torch.tensor(batch.drafts[there], dtype=torch.int32),
        batch.lengths.tolist(),
        int(batch.lengths.max()),
        torch.tensor(batch.lengths.cumsum(), dtype=torch.int32),
        torch.tensor(batch.q[there], dtype=torch.float32) if given else None,
        torch.tensor(batch.p[:, :-1][there], dtype=torch.float32).log(),
        torch.tensor(batch.bonus[:, None], dtype=torch.int32),
        metadata,
        rule=rule,
    )


def run_v2(
    batch: Batch, rule: Any, given: bool = True, temperature: Any = None, seeds: Any = None, position: Any = None
) -> Any:
    """The V2 runner's call: request states in another order than the batch, a padding row at the end, junk where no draft is."""
    m = len(batch.lengths)
    hot = np.full(m, 1.0) if temperature is None else temperature
    states = np.random.default_rng(5).permutation(m)
    there = np.column_stack((np.full(m, True), batch.there))
    inputs = np.column_stack((np.zeros(m, int), batch.drafts))[there]
    junk = np.where(batch.there[..., None], np.log(batch.q), np.nan)
    draft_logits = np.empty_like(junk)
    draft_logits[states] = junk * np.where(hot == 0, 1, hot)[:, None, None]  # kept before temperature
    by_state = {name: np.empty(m) for name in ("temperature", "seed")}
    by_state["temperature"][states] = hot
    by_state["seed"][states] = np.arange(m) if seeds is None else seeds
    root = np.full(m, 7) if position is None else position
    ends = np.append(0, (batch.lengths + 1).cumsum())
    sampled, number = vllm_runner_v2.rejection_sample(
        torch.tensor(batch.p[there], dtype=torch.float32).log(),
        torch.tensor(draft_logits, dtype=torch.float32) if given else None,
        torch.tensor(inputs, dtype=torch.int32),
        torch.tensor(np.append(ends, ends[-1]), dtype=torch.int32),
        torch.tensor((root[:, None] + np.arange(LENGTH + 1))[there]),
        torch.tensor(np.append(states, -1), dtype=torch.int32),
        torch.tensor(np.repeat(states, batch.lengths + 1), dtype=torch.int32),
        torch.tensor(np.tile(np.arange(LENGTH + 1), (m, 1))[there], dtype=torch.int32),
        torch.tensor(by_state["temperature"], dtype=torch.float32),
        torch.tensor(by_state["seed"], dtype=torch.int64),
        LENGTH,
        rule=rule,
    )
    assert sampled.shape == (m + 1, LENGTH + 1)
    assert (sampled.dtype, number.dtype) == (torch.int64, torch.int32)
    assert ((sampled >= 0).sum(-1) == number).all()
    return sampled[:-1]


RUNNERS = pytest.mark.parametrize("run", [run_v1, run_v2])
