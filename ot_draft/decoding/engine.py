"""The memory of one decoding run, and the four parts of a step that work on it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import ot_draft as ot

from .draft_plan import Drafting
from .language_model import LanguageModel
from .node_laws import NodeLaws
from .reader import Reader
from .texts import Texts
from .uniforms import uniforms


class Engine:
    """A batch of B texts with their caches: all memory of a run, taken once; parts of a step change it in place.

    One cache a model, of S slots a text: prompt, emitted tokens and one tree. It does not grow with the number of paths,
    but for the N slots of the tree.
    """

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel,
        prompts: Sequence[Sequence[int]],
        drafting: Drafting,
        sampling: tuple[NodeLaws, NodeLaws],
        texts: Texts,
    ) -> None:
        self.drafting, self.texts = drafting, texts
        longest = max(len(prompt) for prompt in prompts)
        slots = longest + texts.max_tokens + drafting.shape.length + drafting.shape.size
        slots += -slots % 8  # fused attention kernels want a mask of such a width
        self.target = Reader.of(target, drafting, sampling[0], texts, slots)
        self.draft = Reader.of(draft, drafting, sampling[1], texts, slots)
        batch, device = len(prompts), target.device
        self.number = torch.float64 if target.dtype == torch.float64 else torch.float32
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
        """Whether a step can be a CUDA graph."""
        return self.target.recordable and self.draft.recordable

    def draw(self, seed: int, rows: Sequence[int], step: int) -> None:
        """Fresh random numbers for one step."""
        numbers = uniforms(seed, rows, step, self.drafting.uniforms, self.number)
        pinned = numbers.pin_memory() if self.uniforms.is_cuda else numbers  # else the copy would wait for the device
        self.uniforms.copy_(pinned, non_blocking=True)

    def propose(self) -> None:
        """Draft a tree behind every text: tokens and q."""
        if self.drafting.shape.size:
            self.draft.propose(self.uniforms, self.tokens, self.q)

    def verify(self) -> None:
        """Read root and tree with the target: p."""
        self.p = self.target.verify(self.tokens)

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
