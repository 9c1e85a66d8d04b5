"""What a model says behind any beginnings of a text's continuation, each read once: many trees that overlap share the passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from ot_draft.decoding import CannotDecode, Pair
from ot_draft.decoding.cache import SlotCache, causal_mask
from ot_draft.decoding.language_model import language_model
from ot_draft.decoding.model import hidden_before

Prefix = tuple[int, ...]

AT_ONCE = 128  # prefixes a pass, to bound memory
SLOTS = 256  # by which the cache grows


def behind_places(model: Any, text: Sequence[int], places: Sequence[int], n: int, target: Any) -> list[Tensor]:
    """Logits (n,) of the token at each place of a text, increasing; a draft that reads states is told those of the target all along."""
    if language_model(model, n).info.reads:
        return list(Pair(target, model).logits_along(text, places)[1])
    prefixes = [tuple(text[places[0] : place]) for place in places]
    return PrefixLogits(model, text[: places[0]], n).at(prefixes)


class PrefixLogits:
    """Logits of a model behind a context and the prefixes of its continuation that are asked for, each computed once.

    The cache holds every prefix that was read, in the order in which they were, as the nodes of one large tree: a pass reads what is
    missing, of any depth, and what stands on the way there. All logits are kept until this object goes. A draft that reads the target's
    states is told those along the context, and behind it its own.
    """

    def __init__(self, model: Any, context: Sequence[int], n: int, target: Any = None, room: int = SLOTS) -> None:
        """model: as in `Pair`; n: the vocabulary that the logits are brought to, -inf where this model scores nothing.

        target: whose states a draft reads. CannotDecode for such a draft without one. room: slots after the context at first.
        """
        self._model, self._length = language_model(model, n), len(context)
        if self._model.info.unsupported:
            raise CannotDecode(self._model.info.unsupported)
        self._slots: dict[Prefix, int] = {(): self._length - 1}  # of the last token of every prefix
        self._logits: dict[Prefix, Tensor] = {}
        self._cache: Any = self._model.cache(self._length + room)
        tokens = torch.tensor([list(context)], device=self._model.info.device)
        slots = torch.arange(self._length, device=tokens.device)[None]
        attention_mask = causal_mask(self._length, self._cache.live, tokens.device)
        told = self._told(target, n, tokens, slots, attention_mask) if self._model.info.reads else None
        self._keep([()], self._read(tokens, slots, slots, attention_mask, 1, told))

    @torch.inference_mode()
    def go_on(self, prefix: Prefix) -> None:
        """Append a prefix to the context and drop all other continuations. CannotDecode for a draft that reads states."""
        if self._model.info.reads:
            raise CannotDecode(
                "draft must read tokens only to go on with a text. Use a draft model with the target's vocabulary."
            )
        depth = max(depth for depth in range(len(prefix) + 1) if prefix[:depth] in self._slots)
        sources = [self._slots[prefix[: place + 1]] for place in range(depth)]
        destinations = torch.arange(self._length, self._length + depth)[None]
        self._cache.move(torch.tensor([sources], dtype=torch.int64), destinations)
        logits, self._length = self._logits[prefix[:depth]], self._length + depth
        self._slots, self._logits = {(): self._length - 1}, {(): logits}
        for token in prefix[depth:]:
            self._add([(token,)])
            self._slots, self._logits = {(): self._length}, {(): self._logits[(token,)]}
            self._length += 1

    @property
    def read(self) -> int:
        """How many prefixes were read so far, the empty one among them."""
        return len(self._logits)

    def at(self, prefixes: Iterable[Prefix]) -> list[Tensor]:
        """Logits (n,) of the token that follows the context and each of these prefixes, tuples of token ids."""
        wanted = list(prefixes)
        ways = {prefix[:depth] for prefix in wanted for depth in range(len(prefix) + 1)}
        missing = sorted((way for way in ways if way not in self._logits), key=len)
        # What a draft is told of itself is there after the pass over the place before.
        levels = [list(level) for _, level in groupby(missing, key=len)] if self._model.info.reads else [missing]
        for level in levels:
            for start in range(0, len(level), AT_ONCE):
                self._add(level[start : start + AT_ONCE])
        return [self._logits[prefix] for prefix in wanted]

    def _add(self, prefixes: list[Prefix]) -> None:
        """Read prefixes in one pass, the shorter first; all on the way to them are read or among them."""
        device, first = self._model.info.device, self._length + len(self._slots) - 1
        for place, prefix in enumerate(prefixes):
            self._slots[prefix] = first + place
        if first + len(prefixes) > self._cache.slots_per_row:
            self._grow(first + len(prefixes) + SLOTS)
        self._cache.narrow(first + len(prefixes))
        attention_mask = torch.zeros(len(prefixes), self._cache.live, dtype=torch.bool)
        attention_mask[:, : self._length] = True
        for row, prefix in enumerate(prefixes):
            attention_mask[row, [self._slots[prefix[: depth + 1]] for depth in range(len(prefix))]] = True
        slots = first + torch.arange(len(prefixes), device=device)
        positions = torch.tensor([self._length - 1 + len(prefix) for prefix in prefixes], device=device)
        tokens = torch.tensor([prefix[-1] for prefix in prefixes], device=device)
        above = torch.tensor([[self._slots[prefix[:-1]] for prefix in prefixes]], device=device)
        told = self._cache.states_at(above) if self._model.info.reads else None
        self._keep(
            prefixes, self._read(tokens[None], slots[None], positions[None], attention_mask[None].to(device), 0, told)
        )

    @torch.inference_mode()
    def _read(
        self, tokens: Tensor, slots: Tensor, positions: Tensor, attention_mask: Tensor, last: int, told: Tensor | None
    ) -> Tensor:
        output = self._model.forward(self._cache, tokens, slots, positions, attention_mask, last, told)
        if output.hidden is not None:
            self._cache.keep_states(output.hidden, slots)
        return self._model.info.expand_to_vocab(output.logits, float("-inf"))

    @torch.inference_mode()
    def _told(self, target: Any, n: int, tokens: Tensor, slots: Tensor, attention_mask: Tensor) -> Tensor:
        """What the target says of the place before every token of the context."""
        if target is None:
            raise CannotDecode(
                "the draft reads the target's hidden states, so that it has no laws by itself: take one that reads tokens only"
            )
        teller = language_model(target, n, self._model.info.reads)
        read = teller.cache(self._cache.slots_per_row)
        states = teller.forward(read, tokens, slots, slots, attention_mask, last=1).hidden
        assert states is not None
        read.keep_states(states, slots)
        told = hidden_before(self._model, read, slots)
        assert told is not None
        return told

    def _keep(self, prefixes: list[Prefix], logits: Tensor) -> None:
        self._logits.update(zip(prefixes, logits[0], strict=True))

    @torch.inference_mode()
    def _grow(self, slots: int) -> None:
        """A larger cache with what is in this one; it does not move on the way, since nothing else holds it."""
        larger = SlotCache(slots, self._cache.layers)
        read = torch.arange(self._cache.slots_per_row, device=self._model.info.device)[None]
        larger.slots = read
        for layer, keys in self._cache.keys.items():
            larger.update(keys, self._cache.values[layer], layer)
        if self._model.info.reads:
            larger.keep_states(self._cache.states_at(read), read)
        self._cache = larger
