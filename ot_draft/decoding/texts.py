"""Where every text of the batch stands: fixed tensors, changed in place, never looked at on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Texts:
    """B growing texts. The last token of a text, the root of the next tree, is not in the caches yet.

    tokens: (B, room) the texts, prompts included, with anything behind their ends. lengths: (B,) tokens in the target's cache,
    one less than the text has. emitted: (B,) tokens produced so far. active: (B,) which texts go on. stop: (s,) tokens after which a
    text ends.
    """

    tokens: Tensor
    lengths: Tensor
    emitted: Tensor
    active: Tensor
    stop: Tensor
    max_tokens: int

    @classmethod
    def after(
        cls, prompts: Sequence[Sequence[int]], stop: Sequence[int], max_tokens: int, depth: int, device: torch.device
    ) -> Texts:
        """The texts that consist of their prompts, of at least one token each; `advance` will get up to depth + 1 tokens."""
        room = max(len(prompt) for prompt in prompts) + max_tokens + 2 * depth + 1

        def integers(values: list[Any]) -> Tensor:
            return torch.tensor(values, dtype=torch.int64, device=device)

        return cls(
            tokens=integers([[*prompt, *[0] * (room - len(prompt))] for prompt in prompts]),
            lengths=integers([len(prompt) - 1 for prompt in prompts]),
            emitted=integers([0] * len(prompts)),
            active=torch.ones(len(prompts), dtype=torch.bool, device=device),
            stop=integers(list(stop)),
            max_tokens=max_tokens,
        )

    @property
    def last(self) -> Tensor:
        """(B,) the root of the next tree."""
        return self.tokens.gather(1, self.lengths[:, None])[:, 0]

    def so_far(self) -> list[Tensor]:
        """The texts, each (its length,): a wait for the device."""
        return [row[: length + 1] for row, length in zip(self.tokens, self.lengths.tolist(), strict=True)]

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
        slots = self.lengths[:, None] + 1 + places
        appended = (places <= length[:, None]) & self.active[:, None]
        self.tokens.scatter_(1, slots, torch.where(appended, tokens, self.tokens.gather(1, slots)))
        self.lengths.add_(torch.where(self.active, length + 1, 0))
        self.emitted.add_(kept.sum(1))
        self.active.logical_and_(~(stops & kept).any(1) & (self.emitted < self.max_tokens))
        return torch.where(kept, tokens, -1)
