"""Target or draft model at work on the texts: it reads their prompts, drafts a tree level by level, or reads a whole one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .cache import SlotCache, TreeMask, causal_mask
from .draft_plan import Drafting
from .language_model import LanguageModel
from .node_laws import NodeLaws, NodeLogits, Way
from .texts import Texts


@dataclass(frozen=True)
class Reader:
    """A model with its own cache, on the texts of a batch."""

    model: LanguageModel
    cache: SlotCache
    sampling: NodeLaws
    texts: Texts
    target_cache: SlotCache | None = field(
        default=None, kw_only=True
    )  # of a draft that reads what the target keeps there

    @property
    def recordable(self) -> bool:
        """Whether a CUDA graph can hold a pass: the model whole on one device, and nobody looks at values on the way."""
        return self.sampling.recordable and not self.model.spread

    def prefill(self, prompts: Sequence[Sequence[int]]) -> None:
        """Read all prompts up to their last token; shorter ones are filled up on the right, where the mask hides it."""
        longest = max(len(prompt) for prompt in prompts) - 1
        device = self.model.device
        filled = [[*prompt[:-1], *[0] * (longest - len(prompt) + 1)] for prompt in prompts]
        tokens = torch.tensor(filled, dtype=torch.int64, device=device)
        slots = torch.arange(longest, device=device).expand_as(tokens)
        self.cache.narrow(longest)
        mask = causal_mask(longest, self.cache.live, self.model.dtype, device)
        if longest:
            self.model.logits(self.cache, tokens, slots, slots, mask, last=1, before=self._before(slots))
        self.cache.narrow(self.cache.slots_per_row)

    def read_last(self, count: int) -> Tensor:
        """Read the last tokens of every text; logits (B, 1, n or fewer) of what follows them."""
        tokens, slots, positions, mask = self._last(count)
        return self.model.logits(self.cache, tokens, slots, positions, mask, last=1, before=self._before(slots))

    def read_by(self, root: int, length: int) -> int:
        """How many tokens of a text are read for good after a step: root is the place of its root, length what it has now.

        The last two are read in every step. Where drafted tokens stood for states of the target, those accepted are read again.
        """
        return length - 2 if self.target_cache is None else min(root + 1, length - 2)

    def _before(self, places: Tensor) -> Tensor | None:
        """What a draft that reads hidden states is told before tokens at these places of the texts (B, T), which the target has passed."""
        if self.target_cache is None:
            return None
        features = self.target_cache.states_at((places - 1).clamp(min=0))
        told = self.model.model.fused(features.to(self.model.device))
        return told.masked_fill((places == 0)[..., None].to(told.device), 0)

    def _own(self, slots: Tensor) -> Tensor | None:
        """What it is told before drafted tokens whose parents are in these slots (B, T): its own states."""
        return None if self.target_cache is None else self.cache.states_at(slots)

    def _laws(self, logits: Tensor, drafted: Tensor, ways: Callable[[int], Sequence[Way]]) -> Tensor:
        """Laws (B, W, n or fewer) of what follows nodes of the trees drafted (B, M); ways: of a row's, see `NodeLogits`."""
        return self.sampling.laws(NodeLogits(logits, self.model, self.texts, drafted, ways))

    def _last(self, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Tokens, slots, positions and mask of the last tokens of every text, the root and those before it.

        The token before the root may have been a leaf of the last tree, which the draft model has not read. Reading it always,
        though it is mostly in the cache already, keeps the shape fixed.
        """
        lengths, slots = self.texts.lengths, torch.arange(self.cache.live, device=self.texts.lengths.device)
        # Before its beginning a text has no tokens: the first one is read several times, into one slot, from the same tokens.
        places = (lengths[:, None] + torch.arange(1 - count, 1, device=lengths.device)).clamp(min=0)
        mask = torch.zeros(1, dtype=self.model.dtype, device=self.model.device).expand(*places.shape, len(slots))
        hidden = (slots > places[..., None]).to(mask.device)
        mask = mask.masked_fill(hidden, torch.finfo(mask.dtype).min)
        return self.texts.tokens.gather(1, places), places, places, mask[:, None]


@dataclass(frozen=True)
class TreeReader(Reader):
    """The same, on drafted trees of one shape. depths: (N + 1,) of the nodes of a tree; parents: (N,) of all but the root."""

    mask: TreeMask
    drafting: Drafting
    depths: Tensor
    parents: Tensor

    @classmethod
    def on(cls, reader: Reader, drafting: Drafting) -> TreeReader:
        """The same model, cache and texts, for the trees of a drafting."""
        shape, model, texts = drafting.shape, reader.model, reader.texts
        mask = TreeMask(shape.parents, model.dtype, model.device)
        depths, parents = (torch.tensor(numbers, device=texts.last.device) for numbers in (shape.depths, shape.parents))
        whole = model, reader.cache, reader.sampling, texts
        return cls(*whole, mask, drafting, depths, parents.long(), target_cache=reader.target_cache)

    def verify(self, tokens: Tensor) -> Tensor:
        """The law p (B, N + 1, n) of the token after the root and after every drafted token (B, N), in one forward pass.

        The keys and values of node i come to stand in slot length + i of the cache.
        """
        nodes = torch.arange(len(self.depths), device=self.depths.device)
        logits = self.model.logits(
            self.cache,
            tokens=torch.cat((self.texts.last[:, None], tokens), 1),
            slots=self.texts.lengths[:, None] + nodes,
            positions=self.texts.lengths[:, None] + self.depths,
            mask=self._mask()[:, :, :-1],
        )
        return self._laws_at(logits, tokens, slice(0, len(self.depths)))

    def propose(self, uniforms: Tensor, tokens: Tensor, q: Tensor, tops: Tensor, behind: int = 0) -> None:
        """Fill tokens (B, N), q (B, M, n) and tops (B, M), see `ot.paths.DraftTree`, with a tree, one forward pass a level.

        uniforms: (B, N or more), number i - 1 draws node i. Every node's children follow the drafting's law, given the
        node's row of q, which is 0 wherever the model scores nothing. behind: tokens before the last two to be read first.
        """
        mask = self._mask()
        for level in self.drafting.levels:
            if level.nodes.start == 0:
                logits = self.read_last(2 + behind)
            else:
                parents = self.parents[level.nodes.start - 1 : level.nodes.stop - 1]
                before = self._own(self.texts.lengths[:, None] + parents)
                logits = self.model.logits(self.cache, *self._at_nodes(mask, tokens, level.nodes), before=before)
            self.model.store(self._laws_at(logits, tokens, level.nodes), into=q[:, level.nodes])
            for draw in level.draws:
                numbers = uniforms[:, draw.children].reshape(len(q), -1, draw.count)
                drafts, number = self.drafting.law.draw_with_number(q[:, draw.nodes], numbers)
                tokens[:, draw.children] = drafts.flatten(1)
                if self.drafting.law.number_by_q:
                    tops[:, draw.nodes] = number[..., 0]

    def _mask(self) -> Tensor:
        return self.mask.of(self.texts.lengths, self.cache.live)

    def _laws_at(self, logits: Tensor, tokens: Tensor, nodes: slice) -> Tensor:
        """Laws at neighbouring nodes, which have the same ways in every row."""
        shape = self.drafting.shape
        return self._laws(logits, tokens, lambda row: [shape.path(node) for node in range(nodes.start, nodes.stop)])

    def _at_nodes(self, mask: Tensor, tokens: Tensor, nodes: slice) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Tokens, slots, positions and mask of neighbouring nodes of one depth."""
        slots = self.texts.lengths[:, None] + torch.arange(nodes.start, nodes.stop, device=tokens.device)
        depth = self.drafting.shape.depths[nodes.start]
        positions = (self.texts.lengths[:, None] + depth).expand_as(slots)
        return tokens[:, nodes.start - 1 : nodes.stop - 1], slots, positions, mask[:, :, nodes]
