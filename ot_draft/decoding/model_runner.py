"""Forward passes of a model over a batch of sequences: prompts, last tokens, and the trees after them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from .cache import Cache, SequenceBatch, causal_mask, tree_mask
from .model import DecoderModel, hidden_before
from .sampling import NodeLaws, NodeLogits, Way


@dataclass(frozen=True)
class ModelRunner:
    """A model with its cache, on the sequences of a batch. target_cache: cache of the target, with hidden states for a draft model.

    read: (B,) number of tokens of each sequence that the target has in the cache, for a draft model that shares it and writes after them.
    """

    model: DecoderModel
    cache: Cache
    sampling: NodeLaws
    texts: SequenceBatch
    target_cache: Cache
    read: Tensor | None = None

    @property
    def recordable(self) -> bool:
        """Whether a CUDA graph can hold a pass: the model is on one device, and no value is read on the host."""
        return self.sampling.recordable and not self.model.info.sharded

    def sharing(self) -> Self:
        """Return the runner in the target's cache."""
        return replace(self, cache=self.target_cache, read=self.texts.lengths)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> None:
        """Read all prompts up to their last token, padded on the right, which the mask hides.

        At least one position is read, so that caches and hidden states are allocated; after a prompt of one token, the root overwrites it.
        """
        if self.read is not None:
            return
        longest = max(max(len(prompt) for prompt in prompts) - 1, 1)
        device = self.model.info.device
        filled = [[*prompt[:-1], *[0] * (longest - len(prompt) + 1)] for prompt in prompts]
        tokens = torch.tensor(filled, dtype=torch.int64, device=device)
        slots = torch.arange(longest, device=device).expand_as(tokens)
        self.cache.narrow(longest)
        attention_mask = causal_mask(longest, self.cache.live, device)
        self._forward(
            tokens, slots, slots, attention_mask, last=1, hidden=hidden_before(self.model, self.target_cache, slots)
        )
        self.cache.narrow(self.cache.slots_per_row)

    def read_last(self, count: int) -> Tensor:
        """Read the last tokens of every sequence up to the root; return logits (B, 1, n or fewer) of the next token.

        The token before the root may be a leaf of the last tree, which the draft model has not read. It is always read, though it is mostly
        in the cache already, to keep the shape fixed.
        """
        lengths, slots = self.texts.lengths, torch.arange(self.cache.live, device=self.texts.lengths.device)
        # Positions before the beginning are clamped: the first token is read several times, into one slot.
        places = lengths[:, None] + torch.arange(1 - count, 1, device=lengths.device)
        places = places.clamp(min=0 if self.read is None else self.read[:, None])
        attention_mask = (slots <= places[..., None]).to(self.model.info.device)
        tokens = self.texts.tokens.gather(1, places)
        hidden = hidden_before(self.model, self.target_cache, places)
        return self._forward(tokens, places, places, attention_mask, last=1, hidden=hidden)

    def read_level(self, read: Tensor, above: Tensor, attention_mask: Tensor, slots: Tensor, depth: int) -> Tensor:
        """Read tokens (B, W) whose parents are in the slots `above` of the trees; return logits (B, W, n or fewer).

        slots: (B, W), where they are written; attention_mask: bool (B, W, S), see `tree_mask`.
        """
        lengths = self.texts.lengths[:, None]
        positions = (lengths + depth).expand_as(slots)
        hidden = self.cache.states_at(lengths + above) if self.model.info.reads else None
        return self._forward(read, lengths + slots, positions, attention_mask, hidden=hidden)

    def read_tree(
        self, tokens: Tensor, parents: Tensor, attention_mask: Tensor, depths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return distributions (B, N + 1, n) after the root and after every draft token (B, N), by one pass; see `laws`.

        attention_mask: bool (B, N + 1, N + 1), the nodes that each node attends to. depths: (B, N + 1). Keys and values of node i go to
        slot length + i of the cache.
        """
        lengths, nodes = (
            self.texts.lengths[:, None],
            torch.arange(attention_mask.shape[1], device=attention_mask.device),
        )
        logits = self._forward(
            tokens=torch.cat((self.texts.last[:, None], tokens), 1),
            slots=lengths + nodes,
            positions=lengths + depths,
            attention_mask=self.tree_mask(attention_mask),
        )
        return self.laws(logits, tokens, lambda row: ways_to(parents[row].tolist(), range(attention_mask.shape[1])))

    def laws(self, logits: Tensor, drafted: Tensor, ways: Callable[[int], Sequence[Way]]) -> tuple[Tensor, Tensor]:
        """Return distributions (B, W, n or fewer) after nodes of drafted trees (B, M), and reasons (B, W): see `NodeLaws.drawable`.

        ways: see `NodeLogits`.
        """
        return self.sampling.drawable(NodeLogits(logits, self.model.info, self.texts, drafted, ways))

    def _forward(
        self, tokens: Tensor, slots: Tensor, positions: Tensor, attention_mask: Tensor, **options: Any
    ) -> Tensor:
        """Logits of one pass, whose hidden states go to the cache."""
        output = self.model.forward(self.cache, tokens, slots, positions, attention_mask, **options)
        if output.hidden is not None:
            self.cache.keep_states(output.hidden, slots)
        return output.logits

    def tree_mask(self, attention_mask: Tensor) -> Tensor:
        """Slots of the cache that nodes see, bool (B, W, S), which see the text and these of the tree's M nodes, bool (B, W, M)."""
        return tree_mask(attention_mask, self.texts.lengths, self.cache.live).to(self.model.info.device)


def ways_to(parents: Sequence[int], nodes: Sequence[int]) -> list[Way]:
    """Return the path from the root's child to each of these nodes; empty for the root and for an absent node."""
    ways = []
    for last in nodes:
        node, way = last, list[int]()
        while node > 0:
            way.append(node)
            node = parents[node - 1] if parents[node - 1] < node else 0  # the parent of an absent node is a later one
        ways.append(tuple(reversed(way)))
    return ways
