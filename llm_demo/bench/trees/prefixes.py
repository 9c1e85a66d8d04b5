"""Logits of a model after a context and arbitrary continuations of it, each computed once: overlapping trees share forward passes."""

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

AT_ONCE = 128  # max. number of prefixes per forward pass, to bound memory
SLOTS = 256  # number of slots by which the cache grows


def behind_places(model: Any, text: Sequence[int], places: Sequence[int], n: int, target: Any) -> list[Tensor]:
    """Return the logits (n,) of the token at each position of a sequence; the positions increase.

    A draft model that reads hidden states gets those of the target at all positions.
    """
    if language_model(model, n).info.reads:
        return list(Pair(target, model).logits_along(text, places)[1])
    prefixes = [tuple(text[places[0] : place]) for place in places]
    return PrefixLogits(model, text[: places[0]], n).at(prefixes)


class PrefixLogits:
    """Logits of a model after a context and each requested prefix of a continuation, each computed once.

    The cache holds all prefixes read so far as the nodes of one large tree, in the order in which they were read. A forward pass reads
    the missing prefixes of any depth, together with their missing ancestors. All logits are kept for the lifetime of this object. A draft
    model that reads hidden states gets the target's in the context, and its own ones after it.
    """

    def __init__(self, model: Any, context: Sequence[int], n: int, target: Any = None, room: int = SLOTS) -> None:
        """Read the context.

        model: as in `Pair`. n: vocabulary size of the logits; tokens that the model does not score get -inf. target: the model whose
        hidden states a draft model reads. Raises CannotDecode for such a draft model without a target. room: initial number of slots
        after the context.
        """
        self._model, self._length = language_model(model, n), len(context)
        if self._model.info.unsupported:
            raise CannotDecode(self._model.info.unsupported)
        self._slots: dict[Prefix, int] = {(): self._length - 1}  # slot of the last token of every prefix
        self._logits: dict[Prefix, Tensor] = {}
        self._cache: Any = self._model.cache(self._length + room)
        tokens = torch.tensor([list(context)], device=self._model.info.device)
        slots = torch.arange(self._length, device=tokens.device)[None]
        attention_mask = causal_mask(self._length, self._cache.live, tokens.device)
        hidden = self._target_hidden(target, n, tokens, slots, attention_mask) if self._model.info.reads else None
        self._keep([()], self._read(tokens, slots, slots, attention_mask, 1, hidden))

    @torch.inference_mode()
    def go_on(self, prefix: Prefix) -> None:
        """Append a prefix to the context and drop all other continuations.

        Raises CannotDecode for a draft model that reads hidden states.
        """
        if self._model.info.reads:
            raise CannotDecode(
                "draft must read tokens only, since the context is extended. Use a draft model with the target's vocabulary."
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
        """Number of prefixes read so far, including the empty one."""
        return len(self._logits)

    def at(self, prefixes: Iterable[Prefix]) -> list[Tensor]:
        """Return the logits (n,) of the next token after the context and each of these prefixes, which are tuples of token ids."""
        wanted = list(prefixes)
        ancestors = {prefix[:depth] for prefix in wanted for depth in range(len(prefix) + 1)}
        missing = sorted((prefix for prefix in ancestors if prefix not in self._logits), key=len)
        # A draft model's own hidden states are known after the forward pass over the preceding position.
        levels = [list(level) for _, level in groupby(missing, key=len)] if self._model.info.reads else [missing]
        for level in levels:
            for start in range(0, len(level), AT_ONCE):
                self._add(level[start : start + AT_ONCE])
        return [self._logits[prefix] for prefix in wanted]

    def _add(self, prefixes: list[Prefix]) -> None:
        """Read prefixes in one forward pass, in the order of their lengths; each of their ancestors has been read or is among them."""
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
        hidden = self._cache.states_at(above) if self._model.info.reads else None
        self._keep(
            prefixes, self._read(tokens[None], slots[None], positions[None], attention_mask[None].to(device), 0, hidden)
        )

    @torch.inference_mode()
    def _read(
        self, tokens: Tensor, slots: Tensor, positions: Tensor, attention_mask: Tensor, last: int, hidden: Tensor | None
    ) -> Tensor:
        output = self._model.forward(self._cache, tokens, slots, positions, attention_mask, last, hidden)
        if output.hidden is not None:
            self._cache.keep_states(output.hidden, slots)
        return self._model.info.expand_to_vocab(output.logits, float("-inf"))

    @torch.inference_mode()
    def _target_hidden(self, target: Any, n: int, tokens: Tensor, slots: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the draft's input from the target's hidden states at the position before each token of the context."""
        if target is None:
            raise CannotDecode(
                "draft reads the target's hidden states, but no target is given. Use a draft model that reads tokens only."
            )
        reader = language_model(target, n, self._model.info.reads)
        read = reader.cache(self._cache.slots_per_row)
        states = reader.forward(read, tokens, slots, slots, attention_mask, last=1).hidden
        assert states is not None
        read.keep_states(states, slots)
        hidden = hidden_before(self._model, read, slots)
        assert hidden is not None
        return hidden

    def _keep(self, prefixes: list[Prefix], logits: Tensor) -> None:
        self._logits.update(zip(prefixes, logits[0], strict=True))

    @torch.inference_mode()
    def _grow(self, slots: int) -> None:
        """Copy the cache into a larger one."""
        larger = SlotCache(slots, self._cache.layers)
        read = torch.arange(self._cache.slots_per_row, device=self._model.info.device)[None]
        larger.slots = read
        for layer, keys in self._cache.keys.items():
            larger.update(keys, self._cache.values[layer], layer)
        if self._model.info.reads:
            larger.keep_states(self._cache.states_at(read), read)
        self._cache = larger
