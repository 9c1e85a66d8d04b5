"""The memory of one decoding run, and the four parts of a step that work on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import ot_draft as ot

from .cache import SlotCache
from .draft_plan import Drafting
from .language_model import LanguageModel
from .node_laws import NodeLaws
from .plans.lookup import Match
from .reader import Reader, TreeReader
from .texts import Texts
from .uniforms import uniforms


@dataclass(frozen=True)
class Memory:
    """What all draftings of a run work on: a batch of B texts, and a cache of S slots a text for each model.

    S is enough for prompt, new tokens and the largest tree. It does not grow with the number of paths, but for the nodes of
    the tree. draft: None where nothing is drafted by a model.
    """

    texts: Texts
    target: Reader
    draft: Reader | None
    n: int
    number: torch.dtype

    def narrow(self, slots: int) -> None:
        """Let passes look at so many slots of every text."""
        for reader in (self.target, self.draft):
            if reader is not None:
                reader.cache.narrow(slots)

    @classmethod
    def of(
        cls,
        models: tuple[LanguageModel, LanguageModel | None],
        prompts: Sequence[Sequence[int]],
        draftings: Sequence[Drafting],
        sampling: tuple[NodeLaws, NodeLaws],
        texts: Texts,
    ) -> Memory:
        """Both caches, with the prompts in them."""
        slots = max(len(prompt) for prompt in prompts) + texts.max_tokens
        # A text may end by the longest path, and the widest tree stands behind it while the others go on.
        slots += max(drafting.shape.length for drafting in draftings)
        slots += max(drafting.room for drafting in draftings)
        slots += -slots % 8  # fused attention kernels want a mask of such a width
        target = Reader(models[0], SlotCache(slots, models[0].layers), sampling[0], texts)
        target.prefill(prompts)
        draft = None
        if models[1] is not None:
            cache = SlotCache(slots, models[1].layers)
            draft = Reader(models[1], cache, sampling[1], texts, target_cache=target.cache if models[1].reads else None)
            draft.prefill(prompts)
        number = torch.float64 if target.model.dtype == torch.float64 else torch.float32
        return cls(texts, target, draft, target.model.n, number)


class Engine:
    """The steps of one drafting on the memory of a run: all tensors taken once; parts of a step change them in place.

    always: how many tokens before the last two of a text the draft model reads in every step; behind: how many more before these it has
    not read yet, because others drafted.
    """

    def __init__(self, memory: Memory, drafting: Drafting) -> None:
        self.memory, self.drafting, self.texts, self.behind = memory, drafting, memory.texts, 0
        self.number = memory.number
        self._readers()
        # A graph holds one number of tokens: those that a draft which reads states reads again, as many as are drafted at most.
        again = memory.draft is not None and bool(memory.draft.model.reads)
        self.always = drafting.shape.length - 1 if again and memory.texts.last.device.type != "cpu" else 0
        batch, device, number = len(self.texts.tokens), self.texts.tokens.device, self.number
        size, length = drafting.shape.size, drafting.shape.length
        self.uniforms = torch.zeros(batch, drafting.uniforms, dtype=number, device=device)
        self.tokens = torch.zeros(batch, size, dtype=torch.int64, device=device)
        self.parents = torch.tensor(drafting.shape.parents, dtype=torch.int64, device=device).expand(batch, -1)
        self.q = torch.zeros(batch, drafting.inner, memory.n, dtype=number, device=device)
        self.tops = torch.zeros(batch, drafting.inner, dtype=torch.int64, device=device)
        self.p = torch.zeros(batch, size + 1, 0, dtype=number, device=device)
        self.length = torch.zeros(batch, dtype=torch.int64, device=device)
        self.nodes = torch.full((batch, length), -1, device=device)
        self.chosen = torch.zeros(batch, length + 1, dtype=torch.int64, device=device)
        self.emitted = self.chosen.clone()

    def _readers(self) -> None:
        """Both models, for the trees of this drafting."""
        self.target = TreeReader.on(self.memory.target, self.drafting)
        draft, asked = self.memory.draft, self.drafting.asks_draft_model
        self.draft = TreeReader.on(draft, self.drafting) if draft is not None and asked else None

    @property
    def recordable(self) -> bool:
        """Whether a step can be a CUDA graph."""
        return self.target.recordable and (self.draft is None or self.draft.recordable)

    def look_up(self, found: Sequence[Match]) -> None:
        """Draft what prompt lookup found in the texts; q is the point mass on it, 0 where nothing is."""
        self.tokens.copy_(in_columns(found, self.drafting.shape.length))
        self.q.zero_()
        self.q.scatter_(2, self.tokens.clamp(min=0)[..., None], (self.tokens >= 0).to(self.q.dtype)[..., None])

    def catch_up(self) -> None:
        """Let the draft model read what it has not, which `propose` would else do."""
        if self.draft is not None and self.behind:
            self.draft.read_last(2 + self.always + self.behind)
        self.behind = 0

    def draw(self, seed: int, rows: Sequence[int], step: int) -> None:
        """Fresh random numbers for one step."""
        numbers = uniforms(seed, rows, step, self.drafting.uniforms, self.number)
        pinned = numbers.pin_memory() if self.uniforms.is_cuda else numbers  # else the copy would wait for the device
        self.uniforms.copy_(pinned, non_blocking=True)

    def propose(self) -> None:
        """Draft a tree behind every text: tokens and q."""
        if self.draft is not None:
            self.draft.propose(self.uniforms, self.tokens, self.q, self.tops, self.always + self.behind)

    def verify(self) -> None:
        """Read root and tree with the target: p."""
        self.p = self.target.verify(self.tokens)

    def select(self) -> None:
        """Choose the accepted path and the token after it: length, nodes, chosen."""
        if self.drafting.rule is None:
            self.chosen.copy_(ot.IID().draw(self.p[:, 0], self.uniforms))
            return
        selection = self.drafting.select(self.tree(), self.uniforms)
        self.length.copy_(selection.length)
        self.nodes.copy_(selection.nodes)
        self.chosen.copy_(selection.tokens)

    def tree(self) -> ot.paths.DraftTree:
        """What was drafted, with p and q at its nodes."""
        tops = self.tops if self.drafting.law.number_by_q else None
        return self.drafting.tree(self.tokens, self.p, self.q, tops)

    @property
    def shapes(self) -> dict[str, Tensor]:
        """What a step has to hold of trees whose shapes are data: parents, and numbers of fixed children."""
        return {}

    def drafted_by(self) -> Tensor:
        """q (B, M, n) as it is told: 0 at nodes that the draft model did not look at."""
        return self.q

    def keep(self) -> None:
        """Bring the accepted rows of both caches to the front, and append to the texts: emitted."""
        if not self.drafting.one_path:
            depths = torch.arange(1, self.drafting.shape.length + 1, device=self.nodes.device)
            self._move(self.target.cache, self.nodes, depths)
            if self.draft is not None:
                self._move(self.draft.cache, self._draft_slots(), depths)
        self.emitted.copy_(self.texts.advance(self.length, self.chosen))

    def _draft_slots(self) -> Tensor:
        """Where the draft model's cache holds the accepted nodes, from the root on, int (B, L); -1 where it does not."""
        return self.nodes

    def _move(self, cache: SlotCache, slots: Tensor, depths: Tensor) -> None:
        """Bring the rows in these slots of the trees (B, L) to the front, one a depth."""
        lengths = self.texts.lengths[:, None]
        # What was not accepted stays where it is: moving nothing keeps the shape fixed.
        cache.move(lengths + torch.where(slots >= 0, slots, depths), lengths + depths)


def in_columns(found: Sequence[Match], length: int) -> Tensor:
    """So many of the tokens found for each text, -1 beyond: int (B, length)."""
    rows = [match.tokens[:length] for match in found]
    return torch.tensor([[*row, *[-1] * (length - len(row))] for row in rows], dtype=torch.int64).reshape(
        len(rows), length
    )
