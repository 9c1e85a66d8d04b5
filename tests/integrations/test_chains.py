"""Chains laid end to end emit what the slow obvious way, on padded chains, emits; with and without drafts in the batch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vllm_calls import RULES, SamplingMetadata  # noqa: E402

from ot_draft.integrations import vllm  # noqa: E402
from ot_draft.integrations.chains import along_chains, along_greedy_chains, number_of_uniforms, one_hot  # noqa: E402
from ot_draft.integrations.chains import with_rejected as given_back  # noqa: E402


class Call:
    """One call of the V1 runner's sampler on m random requests of up to `longest` drafts, over n tokens."""

    def __init__(self, seed: int, m: int, n: int, longest: int, kind: str) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.n, self.lengths = n, torch.randint(0, longest + 1, (m,), generator=generator)
        self.longest = int(self.lengths.max())
        count = int(self.lengths.sum())
        self.logits = 2 * torch.randn(count, n, generator=generator)
        if kind in ("top-k", "grammar"):
            self.logits[torch.rand(count, n, generator=generator) < 0.5] = -torch.inf
            self.logits[:, 0] = 0.0
        near = self.logits.clamp(min=-3) + 0.7 * torch.randn(count, n, generator=generator)
        self.q: Any = near.softmax(-1)
        self.tokens = torch.multinomial(self.q, 1, generator=generator)[:, 0] if count else torch.zeros(0).long()
        if kind == "certain":
            self.q = None
        if kind in ("grammar", "padded"):
            self.tokens[torch.rand(count, generator=generator) < 0.3] = -1
        self.bonus = torch.randint(0, n, (m, 1), generator=generator)
        self.cold = (torch.rand(m, generator=generator) < 0.3) if kind == "mixed" else torch.zeros(m, dtype=torch.bool)

    def fast(self, rule: Any) -> Any:
        before = [x.clone() for x in (self.logits, self.tokens)]
        metadata = SamplingMetadata((~self.cold).float(), bool(self.cold.all()), bool((~self.cold).all()))
        sums = self.lengths.cumsum(0).int()
        emitted = vllm.rejection_sample(
            self.tokens.int(),
            self.lengths.tolist(),
            self.longest,
            sums,
            self.q,
            self.logits,
            self.bonus.int(),
            metadata,
            rule=rule,
        )
        assert emitted.dtype == torch.int32
        assert all(torch.equal(a, b) for a, b in zip(before, (self.logits, self.tokens), strict=True))
        return emitted

    def slow(self, rule: Any, uniforms: Any) -> Any:
        m, n, count = len(self.lengths), self.n, len(self.tokens)
        p = torch.cat((self.logits.softmax(-1), one_hot(self.bonus[:, 0], n, self.logits)))
        start = self.lengths.cumsum(0) - self.lengths
        rows = torch.arange(self.longest + 1).expand(m, -1)
        present = rows < self.lengths[:, None]
        index = torch.where(present, start[:, None] + rows, count + torch.arange(m)[:, None])
        tokens = torch.where(present, self.tokens[index.clamp(max=count - 1)], -1)[:, :-1]
        best = along_greedy_chains(p.argmax(-1)[index], tokens)
        if self.q is None:
            q = one_hot(tokens, n, p)
        else:
            q, tokens = self.q[index[:, :-1].clamp(max=count - 1)], given_back(tokens, present[:, :-1], p[index])
        return torch.where(self.cold[:, None], best, along_chains(rule, p[index], q, tokens, uniforms))


@RULES
@pytest.mark.parametrize("kind", ["plain", "top-k", "grammar", "padded", "certain", "mixed"])
@pytest.mark.parametrize(("m", "n", "longest"), [(400, 7, 3), (150, 300, 5), (6, 49_152, 4)])
def test_tokens_are_those_of_padded_chains(
    rule: Any, kind: str, m: int, n: int, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Call(longest, m, n, longest, kind)
    generator = torch.Generator().manual_seed(m)
    uniforms = torch.rand(m, number_of_uniforms(rule, call.longest), dtype=torch.float64, generator=generator)
    monkeypatch.setattr(vllm, "_uniforms", lambda *_: uniforms)
    differ = (call.fast(rule) != call.slow(rule, uniforms)).any(-1).float().mean().item()
    assert differ <= 3 / m if n > 1000 else differ == 0  # a rounded prefix sum may fall on the other side of a uniform


@RULES
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("temperature", [0.0, 1.0, None])
def test_a_step_without_any_draft_emits_the_bonus_tokens(rule: Any, given: bool, temperature: float | None) -> None:
    """The engine's first step: it reads prompts, nothing was drafted, max_spec_len is 0."""
    hot = None if temperature is None else torch.full((3,), temperature)
    greedy = hot is None or temperature == 0.0
    emitted = vllm.rejection_sample(
        torch.zeros(0, dtype=torch.int32),
        [0, 0, 0],
        0,
        torch.zeros(3, dtype=torch.int32),
        torch.zeros(0, 5) if given else None,
        torch.zeros(0, 5),
        torch.tensor([[4], [0], [2]], dtype=torch.int32),
        SamplingMetadata(hot, greedy, not greedy, {1: torch.Generator()}),
        rule=rule,
    )
    assert (emitted.tolist(), emitted.dtype) == ([[4], [0], [2]], torch.int32)


@RULES
@pytest.mark.parametrize("cold", [0, 1])
def test_of_two_requests_one_has_drafts_and_the_other_another_temperature(rule: Any, cold: int) -> None:
    """What the engine sends when a greedy request joins sampled ones, or the other way round: its first step has no drafts."""
    call = Call(3, 2, 5, 2, "plain")
    call.lengths, call.longest, call.cold = torch.tensor([2, 0]), 2, torch.arange(2) == cold
    call.logits, call.tokens, call.q = (
        x[:1].repeat(2, *[1] * (x.ndim - 1)) for x in (call.logits, call.tokens, call.q)
    )
    emitted = call.fast(rule)
    assert emitted[1].tolist() == [int(call.bonus[1]), -1, -1]
    assert emitted[0, 0] == call.logits[0].argmax() if cold == 0 else emitted[0, 0] >= 0


@RULES
def test_every_draft_refused_or_accepted(rule: Any) -> None:
    """The ends of the range: a draft that equals the target is always accepted, one without mass never."""
    torch.manual_seed(0)
    p = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    q = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    metadata = SamplingMetadata(torch.ones(2), False, True)
    for _ in range(50):
        emitted = vllm.rejection_sample(
            torch.tensor([1, 0, 2, 2]),
            [2, 2],
            2,
            torch.tensor([2, 4]),
            q,
            p.log(),
            torch.tensor([[1], [1]]),
            metadata,
            rule=rule,
        )
        assert emitted.tolist() == [[1, 0, 1], [0, -1, -1]]
