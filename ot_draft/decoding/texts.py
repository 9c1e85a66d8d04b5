"""Where every text of the batch stands: fixed tensors, changed in place, never looked at on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Texts:
    """B growing texts. The last token of a text, the root of the next tree, is not in the caches yet.

    lengths: (B,) tokens in the target's cache. last, before_last: (B,) the root, and the token before it. emitted: (B,)
    tokens produced so far. active: (B,) which texts go on. stop: (s,) tokens after which a text ends.
    """

    lengths: Tensor
    last: Tensor
    before_last: Tensor
    emitted: Tensor
    active: Tensor
    stop: Tensor
    max_tokens: int

    @classmethod
    def after(
        cls, prompts: Sequence[Sequence[int]], stop: Sequence[int], max_tokens: int, device: torch.device
    ) -> Texts:
        """The texts that consist of their prompts, of at least one token each."""

        def column(values: list[int]) -> Tensor:
            return torch.tensor(values, dtype=torch.int64, device=device)

        return cls(
            lengths=column([len(prompt) - 1 for prompt in prompts]),
            last=column([prompt[-1] for prompt in prompts]),
            before_last=column([prompt[-2] if len(prompt) > 1 else prompt[-1] for prompt in prompts]),
            emitted=column([0] * len(prompts)),
            active=torch.ones(len(prompts), dtype=torch.bool, device=device),
            stop=column(list(stop)),
            max_tokens=max_tokens,
        )

    def advance(self, length: Tensor, tokens: Tensor) -> Tensor:
        """Append tokens (B, L + 1), the first length (B,) of which were accepted and are followed by one more.

        Returns what is really emitted, (B, L + 1) with -1 beyond: nothing for a text that had ended, and nothing behind a
        stop token or behind the last token that is allowed.
        """
        places = torch.arange(tokens.shape[1], device=tokens.device)
        stops = (tokens[..., None] == self.stop).any(-1) & (places <= length[:, None])
        stopped_before = stops.cumsum(1) - stops.long() > 0
        room = (self.max_tokens - self.emitted)[:, None]
        kept = (places <= length[:, None]) & ~stopped_before & (places < room) & self.active[:, None]
        last = tokens.gather(1, length[:, None])[:, 0]
        before = tokens.gather(1, (length[:, None] - 1).clamp(min=0))[:, 0]
        self.before_last.copy_(torch.where(self.active, torch.where(length > 0, before, self.last), self.before_last))
        self.last.copy_(torch.where(self.active, last, self.last))
        self.lengths.add_(torch.where(self.active, length + 1, 0))
        self.emitted.add_(kept.sum(1))
        self.active.logical_and_(~(stops & kept).any(1) & (self.emitted < self.max_tokens))
        return torch.where(kept, tokens, -1)
