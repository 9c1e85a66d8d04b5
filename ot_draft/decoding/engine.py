"""The memory of one decoding run, and the four parts of a step that work on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import ot_draft as ot

from .cache import SlotCache, TreeMask, causal_mask
from .drafting import Drafting
from .network import Network
from .processed import Processed
from .propose import propose
from .sampling import Sampling
from .texts import Texts
from .uniforms import uniforms
from .verify import verify


@dataclass(frozen=True)
class Reader:
    """A network with its own cache and mask."""

    network: Network
    cache: SlotCache
    mask: TreeMask
    sampling: Sampling | Sequence[Processed]

    @classmethod
    def of(
        cls, network: Network, drafting: Drafting, sampling: Sampling | Sequence[Processed], slots_per_row: int
    ) -> Reader:
        """An empty cache of the given size."""
        mask = TreeMask(drafting.shape.parents, network.dtype, network.device)
        return cls(network, SlotCache(slots_per_row, network.layers), mask, sampling)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> None:
        """Read all prompts up to their last token; shorter ones are filled up on the right, where the mask hides it."""
        longest = max(len(prompt) for prompt in prompts) - 1
        device = self.network.device
        filled = [[*prompt[:-1], *[0] * (longest - len(prompt) + 1)] for prompt in prompts]
        tokens = torch.tensor(filled, dtype=torch.int64, device=device)
        slots = torch.arange(longest, device=device).expand_as(tokens)
        mask = causal_mask(longest, self.cache.slots_per_row, self.network.dtype, device)
        if longest:
            self.network.logits(self.cache, tokens, slots, slots, mask, last=1)


class Engine:
    """A batch of B texts with their caches: all memory of a run, taken once; parts of a step change it in place.

    One cache a model, of S slots a text: prompt, emitted tokens and one tree. It does not grow with the number of paths,
    but for the N slots of the tree.
    """

    def __init__(
        self,
        target: Network,
        draft: Network,
        prompts: Sequence[Sequence[int]],
        drafting: Drafting,
        sampling: tuple[Sampling | Sequence[Processed], Sampling | Sequence[Processed]],
        texts: Texts,
    ) -> None:
        self.drafting, self.texts = drafting, texts
        longest = max(len(prompt) for prompt in prompts)
        slots = longest + texts.max_tokens + drafting.shape.length + drafting.shape.size
        slots += -slots % 8  # fused attention kernels want a mask of such a width
        self.target = Reader.of(target, drafting, sampling[0], slots)
        self.draft = Reader.of(draft, drafting, sampling[1], slots)
        batch, device = len(prompts), target.device
        self.number = torch.float64 if target.dtype == torch.float64 else torch.float32
        self.depths = torch.tensor(drafting.shape.depths, device=device)
        self.uniforms = torch.zeros(batch, drafting.uniforms, dtype=self.number, device=device)
        self.tokens = torch.zeros(batch, drafting.shape.size, dtype=torch.int64, device=device)
        self.q = torch.zeros(batch, drafting.inner, target.n, dtype=self.number, device=device)
        self.p = torch.zeros(batch, drafting.shape.size + 1, 0, dtype=self.number, device=device)
        self.length = torch.zeros(batch, dtype=torch.int64, device=device)
        self.nodes = torch.full((batch, drafting.shape.length), -1, device=device)
        self.chosen = torch.zeros(batch, drafting.shape.length + 1, dtype=torch.int64, device=device)
        self.emitted = self.chosen.clone()
        self.target.prefill(prompts)
        if drafting.shape.size:
            self.draft.prefill(prompts)

    @property
    def recordable(self) -> bool:
        """Whether a step can be a CUDA graph: each model whole on one device, and nobody looks at values on the way."""
        readers = (self.target, self.draft)
        return not any(reader.network.spread or not isinstance(reader.sampling, Sampling) for reader in readers)

    def draw(self, seed: int, rows: Sequence[int], step: int) -> None:
        """Fresh random numbers for one step."""
        numbers = uniforms(seed, rows, step, self.drafting.uniforms, self.number)
        pinned = numbers.pin_memory() if self.uniforms.is_cuda else numbers  # else the copy would wait for the device
        self.uniforms.copy_(pinned, non_blocking=True)

    def propose(self) -> None:
        """Draft a tree behind every text: tokens and q."""
        if self.drafting.shape.size:
            reader = self.draft
            mask = reader.mask.of(self.texts.lengths, reader.cache.slots_per_row)
            made = (self.uniforms, self.tokens, self.q)
            propose(reader.network, reader.cache, self.texts, mask, self.drafting, reader.sampling, *made)

    def verify(self) -> None:
        """Read root and tree with the target: p."""
        reader = self.target
        mask = reader.mask.of(self.texts.lengths, reader.cache.slots_per_row)
        tree = (self.drafting.shape, self.tokens)
        self.p = verify(reader.network, reader.cache, self.texts, mask, self.depths, reader.sampling, *tree)

    def select(self) -> None:
        """Choose the accepted path and the token after it: length, nodes, chosen."""
        if self.drafting.rule is None:
            self.chosen.copy_(ot.IID().draw(self.p[:, 0], self.uniforms))
            return
        tree = ot.paths.DraftTree(self.drafting.shape, self.tokens, self.p, self.q, self.drafting.law)
        selection = self.drafting.rule.select(tree, self.uniforms[:, self.drafting.shape.size :])
        self.length.copy_(selection.length)
        self.nodes.copy_(selection.nodes)
        self.chosen.copy_(selection.tokens)

    def keep(self) -> None:
        """Bring the accepted rows of both caches to the front, and append to the texts: emitted."""
        if self.drafting.shape.size:
            places = (
                self.texts.lengths[:, None] + 1 + torch.arange(self.drafting.shape.length, device=self.nodes.device)
            )
            # A node that was not accepted stays where it is: moving nothing keeps the shape fixed.
            sources = torch.where(self.nodes >= 0, self.texts.lengths[:, None] + self.nodes, places)
            self.target.cache.move(sources, places)
            self.draft.cache.move(sources, places)
        self.emitted.copy_(self.texts.advance(self.length, self.chosen))
