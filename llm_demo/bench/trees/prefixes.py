"""What a model says behind any beginnings of a text's continuation, each read once: many trees that overlap share the passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ot_draft.decoding import CannotDecode
from ot_draft.decoding.cache import SlotCache, causal_mask
from ot_draft.decoding.language_model import language_model

Prefix = tuple[int, ...]

AT_ONCE = 128  # prefixes a pass, to bound memory
SLOTS = 256  # by which the cache grows


class PrefixLogits:
    """Logits of a model behind a context and the prefixes of its continuation that are asked for, each computed once.

    The cache holds every prefix that was read, in the order in which they were, as the nodes of one large tree: a pass reads what is
    missing, of any depth, and what stands on the way there. All logits are kept until this object goes.
    """

    def __init__(self, model: Any, context: Sequence[int], n: int) -> None:
        """model: as in `Pair`; n: the vocabulary that the logits are brought to, -inf where this model scores nothing."""
        self._model, self._length = language_model(model, n), len(context)
        self._model.check_reads_trees()
        if self._model.reads:
            raise CannotDecode(
                "the draft reads the target's hidden states, so that it has no laws by itself: take one that reads tokens only"
            )
        self._slots: dict[Prefix, int] = {(): self._length - 1}  # of the last token of every prefix
        self._logits: dict[Prefix, Tensor] = {}
        self._cache: Any = self._model.cache(self._length + SLOTS)
        tokens = torch.tensor([list(context)], device=self._model.device)
        slots = torch.arange(self._length, device=tokens.device)[None]
        sees = causal_mask(self._length, self._cache.live, tokens.device)
        self._keep([()], self._read(tokens, slots, slots, sees, last=1))

    @property
    def read(self) -> int:
        """How many prefixes were read so far, the empty one among them."""
        return len(self._logits)

    def at(self, prefixes: Iterable[Prefix]) -> list[Tensor]:
        """Logits (n,) of the token that follows the context and each of these prefixes, tuples of token ids."""
        wanted = list(prefixes)
        ways = {prefix[:depth] for prefix in wanted for depth in range(len(prefix) + 1)}
        missing = sorted((way for way in ways if way not in self._logits), key=len)
        for start in range(0, len(missing), AT_ONCE):
            self._add(missing[start : start + AT_ONCE])
        return [self._logits[prefix] for prefix in wanted]

    def _add(self, prefixes: list[Prefix]) -> None:
        """Read prefixes in one pass, the shorter first; all on the way to them are read or among them."""
        device, first = self._model.device, self._length + len(self._slots) - 1
        for place, prefix in enumerate(prefixes):
            self._slots[prefix] = first + place
        if first + len(prefixes) > self._cache.slots_per_row:
            self._grow(first + len(prefixes) + SLOTS)
        self._cache.narrow(first + len(prefixes))
        sees = torch.zeros(len(prefixes), self._cache.live, dtype=torch.bool)
        sees[:, : self._length] = True
        for row, prefix in enumerate(prefixes):
            sees[row, [self._slots[prefix[: depth + 1]] for depth in range(len(prefix))]] = True
        slots = first + torch.arange(len(prefixes), device=device)
        positions = torch.tensor([self._length - 1 + len(prefix) for prefix in prefixes], device=device)
        tokens = torch.tensor([prefix[-1] for prefix in prefixes], device=device)
        self._keep(prefixes, self._read(tokens[None], slots[None], positions[None], sees[None].to(device)))

    @torch.inference_mode()
    def _read(self, tokens: Tensor, slots: Tensor, positions: Tensor, sees: Tensor, last: int = 0) -> Tensor:
        return self._model.spread_logits(self._model.logits(self._cache, tokens, slots, positions, sees, last))

    def _keep(self, prefixes: list[Prefix], logits: Tensor) -> None:
        self._logits.update(zip(prefixes, logits[0], strict=True))

    @torch.inference_mode()
    def _grow(self, slots: int) -> None:
        """A larger cache with what is in this one; it does not move on the way, since nothing else holds it."""
        larger = SlotCache(slots, self._cache.layers)
        read = torch.arange(self._cache.slots_per_row, device=self._model.device)[None]
        larger.slots = read
        for layer, keys in self._cache.keys.items():
            larger.update(keys, self._cache.values[layer], layer)
        self._cache = larger
