"""One static key-value cache for a batch: every row writes its new tokens after its own context.

S is the number of slots of a row. Slots 0 .. length - 1 of a row hold its context, one token per slot. The nodes of a drafted tree follow,
node i in slot length + i, so that K paths need one cache of the prompt and not K. The attention mask hides later slots, which hold
entries of earlier steps, until they are overwritten.

Accepted nodes are copied after their sequence, instead of a table of their slots. At the shape of Llama 3.1 8B in bfloat16 a slot
has 128 KiB of keys and values (2 x 32 layers x 8 heads x 128 x 2 bytes). A path of four nodes is 0.5 MiB, gathered and written: 2 MiB of
traffic, 0.6 us at an H100's 3.35 TB/s. With draft model and hidden states these are 12 operations, 25 us at about 2 us each (an
estimate), 0.2 % of a step of 16 ms. A table would replace them by at least 8: in each of both caches the table itself, and a cumulative
sum, a comparison and a scatter to find free slots. Nothing is copied on a single path.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor


class Cache(ABC):
    """Keys and values of the tokens that a model has read, in S slots per sequence of a batch.

    live: number of slots that forward passes attend to, all unless `narrow` limits them.
    """

    def __init__(self, slots_per_row: int) -> None:
        self.slots_per_row = self.live = slots_per_row

    def narrow(self, needed: int, multiple: int = 16) -> None:
        """Limit forward passes to the first `needed` slots, rounded up: the other slots are masked, and cost time.

        multiple: of how many slots; fused attention kernels want a multiple of 8.
        """
        self.live = min(needed + -needed % multiple, self.slots_per_row)

    @abstractmethod
    def move(self, sources: Tensor, destinations: Tensor) -> None:
        """Copy slots (B, L) to slots (B, L) of the same row, in place; the destinations of a row differ."""

    @abstractmethod
    def keep_states(self, states: Tensor, slots: Tensor) -> None:
        """Write hidden states (B, T, width) of the tokens just read to their slots (B, T)."""

    @abstractmethod
    def states_at(self, slots: Tensor) -> Tensor:
        """Return the hidden states (B, L, width) in slots (B, L)."""


class SlotCache(Cache):
    """Keys and values of all layers, (B, heads, S, width) each, with as much of transformers' Cache as a model calls.

    It writes where `slots` (B, T) says, which is set before every forward pass: of fixed shape, into
    memory that is taken once and never moves (CUDA graphs keep its address).
    """

    is_compileable = False  # transformers would otherwise compile the model by itself

    def __init__(self, slots_per_row: int, layers: int = 1) -> None:
        """layers: number of equal layers whose memory is allocated, and moved, as one tensor."""
        super().__init__(slots_per_row)
        self.layers = layers
        self.slots: Tensor | None = None
        self.keys: dict[int, Tensor] = {}  # by number of the layer
        self.values: dict[int, Tensor] = {}
        self._pieces: list[Tensor] = []  # (layers, B, heads, S, width) each
        self._free: dict[Any, list[Tensor]] = {}  # of these pieces what no layer has yet, by kind
        self._states: Tensor | None = None  # (1, B, 1, S, width): one more piece
        self._rows: dict[tuple[int, torch.device], Tensor] = {}  # (B, 1) each

    def update(self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write the keys and values (B, heads, T, width) of T new tokens; return those of all live slots."""
        all_keys, all_values = self.memory(layer_idx, keys, values)
        self._write(all_keys, keys)
        self._write(all_values, values)
        return all_keys[:, :, : self.live], all_values[:, :, : self.live]

    def memory(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of all slots of a layer, for kernels that write there; of new ones (B, heads, T, width) the shapes are read."""
        if layer not in self.keys:  # the first pass says of what shape each layer is, on which device
            self.keys[layer], self.values[layer] = self._take("keys", keys), self._take("values", values)
        return self.keys[layer], self.values[layer]

    def keep_states(self, states: Tensor, slots: Tensor) -> None:
        self.slots = slots
        if self._states is None:
            batch, _, width = states.shape
            self._states = states.new_zeros(1, batch, 1, self.slots_per_row, width)
            self._pieces.append(self._states)
        self._write(self._states[0], states[:, None])

    def states_at(self, slots: Tensor) -> Tensor:
        assert self._states is not None
        kept = self._states[0, :, 0]
        return kept[self._rows_of(slots, kept.device), slots.to(kept.device)]

    def _write(self, memory: Tensor, new: Tensor) -> None:
        """New (B, heads, T, width) to where `slots` says. By indices: `scatter_` converts the whole memory where it is of 16 bits."""
        assert self.slots is not None
        places = self._rows_of(self.slots, memory.device), self.slots.to(memory.device)
        memory.transpose(1, 2)[places] = new.transpose(1, 2)

    def _rows_of(self, slots: Tensor, device: torch.device) -> Tensor:
        """Row numbers (B, 1) for slots (B, L)."""
        key = len(slots), device
        if key not in self._rows:
            self._rows[key] = torch.arange(len(slots), device=device)[:, None]
        return self._rows[key]

    def _take(self, name: str, new: Tensor) -> Tensor:
        """Memory for one layer's keys or values, whose widths may differ, in one piece with those of the layers alike."""
        shape = (*new.shape[:2], self.slots_per_row, new.shape[3])
        free = self._free.setdefault((name, shape, new.dtype, new.device), [])
        if not free:
            self._pieces.append(new.new_zeros((self.layers, *shape)))
            free.extend(reversed(self._pieces[-1].unbind()))
        return free.pop()

    def move(self, sources: Tensor, destinations: Tensor) -> None:
        for piece in self._pieces:
            along, rows = piece.transpose(2, 3), self._rows_of(sources, piece.device)
            kept = along[:, rows, sources.to(piece.device)]  # a copy: sources and destinations may overlap
            along[:, rows, destinations.to(piece.device)] = kept

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """0: positions and mask are always given, and must not be derived from the number of tokens seen."""
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """Number of slots that a mask covers, and the first of them."""
        return self.live, 0

    @property
    def bytes(self) -> int:
        """Memory of all keys and values."""
        return sum(piece.numel() * piece.element_size() for piece in self._pieces)


# Names of a model's argument for the cache: since transformers 5.24, and before.
CACHE_NAMES = ("cache", "past_key_values")


def with_cache(model: Any, cache: Any) -> dict[str, Any]:
    """A cache, or None for none, as the model takes it: by the first of CACHE_NAMES that its signature has."""
    return {_cache_name(type(model).forward): cache, "use_cache": cache is not None}


@functools.cache
def _cache_name(forward: Callable[..., Any]) -> str:
    taken = signature(forward).parameters
    return next((name for name in CACHE_NAMES if name in taken), CACHE_NAMES[0])


def tree_mask(attention_mask: Tensor, lengths: Tensor, slots_per_row: int) -> Tensor:
    """Return the mask bool (B, W, S) of nodes that attend to the context, lengths (B,), and to some of the M tree nodes, bool (B, W, M)."""
    edge = torch.zeros_like(attention_mask[..., :1])
    # The first column is for the context, the last for slots after the tree.
    seen = torch.cat((~edge, attention_mask, edge), -1)
    nodes = torch.arange(slots_per_row, device=lengths.device) - lengths[:, None]
    column = (nodes + 1).clamp(0, seen.shape[-1] - 1)
    return seen.gather(2, column[:, None].expand(-1, attention_mask.shape[1], -1))


def causal_mask(tokens: int, slots_per_row: int, device: torch.device) -> Tensor:
    """Return the causal mask bool (1, T, S) of T tokens that fill an empty cache from slot 0 on."""
    slots = torch.arange(slots_per_row, device=device)
    return (slots <= torch.arange(tokens, device=device)[:, None])[None]


@dataclass(frozen=True)
class SequenceBatch:
    """B growing sequences. The last token of a sequence, the root of the next tree, is not in the caches yet.

    tokens: (B, room) the sequences with their prompts, arbitrary after their ends. lengths: (B,) number of tokens in the target's
    cache, one less than in the sequence. emitted: (B,) number of new tokens so far. active: (B,) sequences that have not ended. stop:
    (s,) stop tokens.
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
    ) -> SequenceBatch:
        """Return the sequences of these prompts, of at least one token each; `advance` may get up to depth + 1 tokens."""
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
        """Return the sequences, each (its length,), with a device sync."""
        return [row[: length + 1] for row, length in zip(self.tokens, self.lengths.tolist(), strict=True)]

    def advance(self, length: Tensor, tokens: Tensor) -> Tensor:
        """Append the first length (B,) of tokens (B, L + 1), which were accepted, and the one after them.

        Returns the emitted tokens, (B, L + 1) with -1 beyond: none for a sequence that had ended, and none after a stop token or after the
        maximum number of tokens.
        """
        places = torch.arange(tokens.shape[1], device=tokens.device)
        stops = (tokens[..., None] == self.stop).any(-1) & (places <= length[:, None])
        stopped_before = stops.cumsum(1) - stops.long() > 0
        room = (self.max_tokens - self.emitted)[:, None]
        kept = (places <= length[:, None]) & ~stopped_before & (places < room) & self.active[:, None]
        slots = self.lengths[:, None] + 1 + places
        appended = (places <= length[:, None]) & self.active[:, None]
        self.tokens.scatter_(1, slots, torch.where(appended, tokens, self.tokens.gather(1, slots)))
        self.emitted.add_(kept.sum(1))
        self.active.logical_and_(~(stops & kept).any(1) & (self.emitted < self.max_tokens))
        # A sequence that has ended stays at the root of its last step, so that no later tree after it leaves the model's context.
        self.lengths.add_(torch.where(self.active, length + 1, 0))
        return torch.where(kept, tokens, -1)
