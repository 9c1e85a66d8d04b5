"""Target or draft model at work on the texts: it reads their prompts, the last tokens of each, and the trees behind them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from ..trees.drafting.growing import Growing
from .cache import Cache, SequenceBatch, causal_mask, tree_mask
from .model import DecoderModel, HiddenStateModel, hidden_before
from .sampling import NodeLaws, NodeLogits, Way


@dataclass(frozen=True)
class ModelRunner:
    """A model with its own cache, on the texts of a batch. target_cache: the target's, from which a draft may be given states.

    read: (B,) how many tokens of each text the target has in the cache, for a draft that shares it, and writes behind them only.
    """

    model: DecoderModel
    cache: Cache
    sampling: NodeLaws
    texts: SequenceBatch
    target_cache: Cache
    read: Tensor | None = None

    @property
    def recordable(self) -> bool:
        """Whether a CUDA graph can hold a pass: the model whole on one device, and nobody looks at values on the way."""
        return self.sampling.recordable and not self.model.info.sharded

    def sharing(self) -> Self:
        """The same in the target's cache."""
        return replace(self, cache=self.target_cache, read=self.texts.lengths)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> None:
        """Read all prompts up to their last token; shorter ones are filled up on the right, where the mask hides it.

        One place at least, so that caches and hidden states have their memory: behind a prompt of one token, its root is read over it.
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
        self._forward(tokens, slots, slots, attention_mask, last=1, hidden=self._hidden_before(slots))
        self.cache.narrow(self.cache.slots_per_row)

    def read_last(self, count: int) -> Tensor:
        """Read the last tokens of every text, the root and those before it; logits (B, 1, n or fewer) of what follows them.

        The token before the root may have been a leaf of the last tree, which the draft model has not read. Reading it always,
        though it is mostly in the cache already, keeps the shape fixed.
        """
        lengths, slots = self.texts.lengths, torch.arange(self.cache.live, device=self.texts.lengths.device)
        # Before its beginning a text has no tokens: the first one is read several times, into one slot, from the same tokens.
        places = lengths[:, None] + torch.arange(1 - count, 1, device=lengths.device)
        places = places.clamp(min=0 if self.read is None else self.read[:, None])
        attention_mask = (slots <= places[..., None]).to(self.model.info.device)
        tokens, hidden = self.texts.tokens.gather(1, places), self._hidden_before(places)
        return self._forward(tokens, places, places, attention_mask, last=1, hidden=hidden)

    def read_level(self, growing: Growing, attention_mask: Tensor, slots: Tensor, depth: int) -> Tensor:
        """Logits (B, W, n or fewer) behind the present level of growing trees, which is to stand in these slots behind the texts.

        sees: bool (B, W, M), the slots of the trees that each node sees.
        """
        lengths = self.texts.lengths[:, None]
        positions = (lengths + depth).expand_as(slots)
        reads = isinstance(self.model, HiddenStateModel)
        hidden = self.cache.states_at(lengths + growing.above) if reads else None
        return self._forward(growing.read, lengths + slots, positions, self._tree_mask(attention_mask), hidden=hidden)

    def read_tree(
        self, tokens: Tensor, parents: Tensor, attention_mask: Tensor, depths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Laws (B, N + 1, n) of the token after the root and after every drafted token (B, N), in one pass; see `laws`.

        sees: bool (B, N + 1, N + 1), which nodes each node sees; depths: (B, N + 1). The keys and values of node i come to stand in slot
        length + i of the cache.
        """
        lengths, nodes = (
            self.texts.lengths[:, None],
            torch.arange(attention_mask.shape[1], device=attention_mask.device),
        )
        logits = self._forward(
            tokens=torch.cat((self.texts.last[:, None], tokens), 1),
            slots=lengths + nodes,
            positions=lengths + depths,
            attention_mask=self._tree_mask(attention_mask),
        )
        return self.laws(logits, tokens, lambda row: ways_to(parents[row].tolist(), range(attention_mask.shape[1])))

    def laws(self, logits: Tensor, drafted: Tensor, ways: Callable[[int], Sequence[Way]]) -> tuple[Tensor, Tensor]:
        """Laws (B, W, n or fewer) of what follows nodes of the trees drafted (B, M), and why there is none, (B, W).

        ways: of a row's, see `NodeLogits`. A law that is not there is uniform, see `NodeLaws.drawable`.
        """
        return self.sampling.drawable(NodeLogits(logits, self.model.info, self.texts, drafted, ways))

    def _forward(
        self, tokens: Tensor, slots: Tensor, positions: Tensor, attention_mask: Tensor, **options: Any
    ) -> Tensor:
        """Logits of one pass; its hidden states are kept in the cache."""
        output = self.model.forward(self.cache, tokens, slots, positions, attention_mask, **options)
        if output.hidden is not None:
            self.cache.keep_states(output.hidden, slots)
        return output.logits

    def _hidden_before(self, positions: Tensor) -> Tensor | None:
        """What the model reads of the target at the position before each token, 0 before the first token."""
        return hidden_before(self.model, self.target_cache, positions)

    def _tree_mask(self, attention_mask: Tensor) -> Tensor:
        return tree_mask(attention_mask, self.texts.lengths, self.cache.live).to(self.model.info.device)


def ways_to(parents: Sequence[int], nodes: Sequence[int]) -> list[Way]:
    """The nodes from below the root down to each of these, and to itself; none for the root and for an absent node."""
    ways = []
    for last in nodes:
        node, way = last, list[int]()
        while node > 0:
            way.append(node)
            node = parents[node - 1] if parents[node - 1] < node else 0  # an absent node's stands behind it
        ways.append(tuple(reversed(way)))
    return ways
