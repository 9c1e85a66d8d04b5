"""Drafters of the trees of a step: prompt lookup, or the draft model level by level."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeGuard, cast

import torch
from torch import Tensor

from .. import arrays as xp
from ..fast import kernels
from ..laws import Hybrid
from ..trees import FixedTree, TreeDrafter
from ..trees.drafting.drafter import begin
from ..trees.drafting.growing import Grown
from .cache import SequenceBatch
from .model_runner import ModelRunner, ways_to
from .prompt_lookup import Match
from .sampling import SamplingParams


class Drafter(ABC):
    """Drafts trees after B sequences, in tensors that are allocated once and changed in place.

    tokens: int (B, N). parents: int (B, N), N where a node is absent. fixed_count: int (B, N + 1). q: (B, M, n) draft distributions of the
    children of each node. without_law: (B,), see `Step`. reread_window: number of tokens before the last two of a sequence that the draft
    model reads in every step. unread_tokens: number of tokens before these that it has not read yet, because other draftings were used.
    """

    reread_window = unread_tokens = 0
    recordable = True  # whether a CUDA graph can hold its work

    def __init__(self, tree: TreeDrafter, texts: SequenceBatch, n: int, number: torch.dtype) -> None:
        self.tree, self.texts = tree, texts
        batch, size, device = len(texts.tokens), tree.bounds.size, texts.tokens.device
        self.tokens = torch.full((batch, size), -1, dtype=torch.int64, device=device)
        self.parents = torch.full((batch, size), size, dtype=torch.int64, device=device)
        self.fixed_count = torch.zeros(batch, size + 1, dtype=torch.int64, device=device)
        self.q = torch.zeros(batch, tree.bounds.inner, n, dtype=number, device=device)
        self.without_law = torch.zeros(batch, dtype=torch.int64, device=device)

    def look_up(self, found: Sequence[Match]) -> None:
        """Receive the looked-up tokens of each sequence; not part of a CUDA graph."""

    def note_unread(self, count: int) -> None:
        """Note how many tokens before the last two the draft model has not read."""

    def catch_up(self) -> None:
        """Let the draft model read the unread tokens, which `propose` does otherwise; not part of a CUDA graph."""

    @abstractmethod
    def propose(self, uniforms: Tensor, noise: Tensor | None = None) -> None:
        """Draft a tree after every sequence by uniforms (B, draws), and by noise if the tree takes some."""

    def slots(self, nodes: Tensor) -> Tensor | None:
        """Return the slots of the draft model's cache that hold these nodes, int (B, L); -1 if none does, None if they are not read."""
        return None

    def commit(self, already: int, root: int, length: int) -> int:
        """Return the number of tokens that stay in the draft model's cache. root: index of the step's root. length: of the sequence."""
        return already


class LookupDrafter(Drafter):
    """A path of looked-up tokens, empty for autoregressive decoding; q is the point mass on each, 0 without a token."""

    def __init__(self, tree: TreeDrafter, texts: SequenceBatch, n: int, number: torch.dtype) -> None:
        super().__init__(tree, texts, n, number)
        self.parents = torch.arange(tree.bounds.size, device=self.tokens.device).expand_as(self.tokens)

    def look_up(self, found: Sequence[Match]) -> None:
        self.tokens.copy_(in_columns(found, self.tree.counts.n_lookup_tokens))
        self.q.zero_()
        self.q.scatter_(2, self.tokens.clamp(min=0)[..., None], (self.tokens >= 0).to(self.q.dtype)[..., None])

    def propose(self, uniforms: Tensor, noise: Tensor | None = None) -> None:
        """Do nothing: `look_up` has drafted."""


class ModelDrafter(Drafter):
    """The draft model, in one pass per level; one that reads hidden states gets its own at draft tokens."""

    def __init__(self, tree: TreeDrafter, runner: ModelRunner, n: int, number: torch.dtype) -> None:
        super().__init__(tree, runner.texts, n, number)
        self.runner, self.recordable = runner, runner.recordable
        self.reread_window = _reread_window(runner, tree.bounds.length)
        batch, size, device = *self.tokens.shape, self.tokens.device
        # looked-up tokens, for trees that take them in addition to draws
        self.given = torch.full((batch, tree.counts.n_lookup_tokens), -1, device=device)
        self.slot_of = torch.full((batch, size + 1), -1, device=device)
        # Distributions by slot; the last one is scratch, the target of masked writes.
        self._read = self.q.new_zeros(batch, tree.counts.n_draft_slots + 1, n)
        self._rows = torch.arange(batch, device=device)[:, None]
        # Mask bool (B, N + 1, N + 1) between nodes, if it is known before drafting: the layout of a shape is one object.
        layout = tree.bounds.layout(self.parents)
        known = layout is tree.bounds.layout(self.parents)
        self._sees = xp.from_view(xp.copy(layout.attention_mask), self.tokens) if known else None
        rows = min(tree.counts.n_draft_slots, size + 1)
        # If node i is in slot i, its distribution is, too.
        self.q = self._read[:, :rows] if tree.counts.slots_are_nodes else self.q.new_zeros(batch, size + 1, n)

    def look_up(self, found: Sequence[Match]) -> None:
        self.given.copy_(in_columns(found, self.tree.counts.n_lookup_tokens))

    def note_unread(self, count: int) -> None:
        self.unread_tokens = max(0, count - self.reread_window) if self.runner.read is None else 0

    def catch_up(self) -> None:
        if self.unread_tokens:
            self.runner.read_last(2 + self.reread_window + self.unread_tokens)
        self.unread_tokens = 0

    def propose(self, uniforms: Tensor, noise: Tensor | None = None) -> None:
        grown = self._grow(uniforms, noise)
        self.tokens.copy_(grown.tokens)
        self.parents.copy_(grown.parents)
        self.fixed_count.copy_(grown.fixed_count)
        self.slot_of.copy_(grown.slots)
        if not self.tree.counts.slots_are_nodes:
            # Distributions at nodes that were not read are arbitrary: these have no children.
            self.q.copy_(self._read[self._rows, torch.where(self.slot_of < 0, self._read.shape[1] - 1, self.slot_of)])

    def slots(self, nodes: Tensor) -> Tensor | None:
        if self.runner.read is not None:
            return None
        return torch.where(nodes < 0, -1, self.slot_of.gather(1, nodes.clamp(min=0)))

    def commit(self, already: int, root: int, length: int) -> int:
        return min(root + 1, length - 2) if self.runner.model.info.reads else length - 2

    def _grow(self, uniforms: Tensor, noise: Tensor | None) -> Grown:
        growing, last = begin(self.tree, uniforms, self.given, noise), self._read.shape[1] - 1
        self.without_law.zero_()
        seen, depth = SlotVisibility(len(self._read), last, uniforms.device), 0
        read = torch.full(self._read.shape[:2], -1, device=uniforms.device)  # tokens by slot
        above = torch.full_like(read, last)
        while growing.levels:
            there = growing.slots >= 0
            if depth and there.device.type == "cpu" and not bool(there.any()):
                break
            slots = torch.where(there, growing.slots, last)
            if depth == 0:
                logits = self.runner.read_last(2 + self.reread_window + self.unread_tokens)
            else:
                same, known = growing.same_slots, self._sees
                attention_mask = (
                    seen.add(growing.slots, growing.above) if known is None or same is None else known[:, same]
                )
                mask = self.runner.tree_mask(attention_mask)
                logits = self.runner.read_level(growing.read, growing.above, mask, slots, depth)
                read.scatter_(1, slots, growing.read)
                above.scatter_(1, slots, growing.above)
            laws, why = self.runner.laws(logits, read[:, 1:], partial(_ways_to_slots, above[:, 1:], growing.slots))
            self.without_law += (~why.isfinite() & there).sum(1)
            growing.grow(self._stored(laws, slots, growing.same_slots if depth else slice(0, 1)))
            depth += 1
        return growing.grown()

    def _stored(self, laws: Tensor, slots: Tensor, same: slice | None) -> Tensor:
        """Store distributions (B, W, n or fewer) in slots (B, W); return them over n tokens, as a view if all trees have the same slots."""
        if same is not None:
            self.runner.model.info.write_probs(laws, into=self._read[:, same])
            return self._read[:, same]
        whole = self.runner.model.info.expand_to_vocab(laws, 0).to(self._read)
        self._read[self._rows, slots] = whole
        return whole


class FixedTreeDrafter(ModelDrafter):
    """Trees of one shape, in two launches a level after the draft model's last hidden state: `fast.kernels.draft_level`.

    Only tokens and q change from step to step. An absent node is read as token 0 in a slot that no other node sees.
    """

    def __init__(self, tree: FixedTree, runner: ModelRunner, n: int, number: torch.dtype) -> None:
        super().__init__(tree, runner, n, number)
        split, at = runner.model.split_head(), cast(SamplingParams, runner.sampling)  # see `takes`
        assert split is not None
        model, self._head = split
        self._headless, self._temperature, self._scored = (
            replace(runner, model=model),
            at.temperature,
            model.info.scored,
        )
        shape, device = tree.shape, self.tokens.device
        self._levels = [step.nodes for step in tree.steps]
        self.parents = shape.parents_of(self.tokens).clone()
        self._slots = torch.arange(shape.size + 1, device=device).expand(len(self.tokens), -1)
        self.slot_of = self._slots
        self._above = torch.nn.functional.pad(self.parents, (1, 0))
        begins = [sum(parent < node for parent in shape.parents) for node in range(shape.size + 2)]
        self._begins = torch.tensor(begins, dtype=torch.int32, device=device)
        for step in tree.steps:
            for group in step.groups:
                nodes = slice(step.nodes.start + group.nodes.start, step.nodes.start + group.nodes.stop)
                fixed = tree.law.n_fixed(self.q, group.each) if isinstance(tree.law, Hybrid) else 0
                self.fixed_count[:, nodes] = fixed

    @staticmethod
    def takes(tree: TreeDrafter, runner: ModelRunner, number: torch.dtype) -> TypeGuard[FixedTree]:
        """Whether the kernels draft such trees: by temperature alone, on a CUDA device or where OT_DRAFT_TRITON is 1."""
        at = runner.sampling
        if type(tree) is not FixedTree or type(at) is not SamplingParams or at.top_k or at.top_p < 1 or at.min_p:
            return False
        probe = torch.empty(1, runner.model.info.n, dtype=number, device=runner.texts.tokens.device)
        if not kernels.wanted(probe, probe) or runner.model.split_head() is None:
            return False
        from ..fast.kernels.draft_level import takes

        return takes(tree.law, runner.model.info.n, tree.max_children)

    def propose(self, uniforms: Tensor, noise: Tensor | None = None) -> None:
        from ..fast.kernels.draft_level import draw_level

        assert self._sees is not None
        self.without_law.zero_()
        mask = self._headless.tree_mask(self._sees)
        for depth, nodes in enumerate(self._levels):
            level = slice(nodes.start, nodes.stop)
            if depth == 0:
                states = self._headless.read_last(2 + self.reread_window + self.unread_tokens)
            else:
                read = self.tokens[:, nodes.start - 1 : nodes.stop - 1]
                states = self._headless.read_level(
                    read, self._above[:, level], mask[:, level], self._slots[:, level], depth
                )
            draw_level(
                states, self._head, self._temperature, self.tree.law, self._scored, nodes.start, self._begins, uniforms,
                self._read[:, level], self.tokens, self.without_law, self.tree.bounds.max_children,
            )  # fmt: skip


def _reread_window(runner: ModelRunner, drafted: int) -> int:
    """Number of tokens before the last two that a draft model reads in every step, where a step drafts at most that number."""
    if runner.read is not None:
        return -1  # a draft model in the target's cache finds the token before the root there
    # Accepted tokens are read again, with the target's hidden states in place of the draft model's own: as many as there are on a CPU, as
    # many as there may be in a CUDA graph.
    return drafted - 1 if runner.model.info.reads and runner.model.info.device.type != "cpu" else 0


class SlotVisibility:
    """Slots that each node attends to while trees grow. rows: bool (B, M + 1, M), the last one scratch."""

    def __init__(self, batch: int, slots: int, device: torch.device) -> None:
        self._slots = torch.arange(slots, device=device)
        self.rows = (torch.arange(slots + 1, device=device)[:, None] == self._slots).expand(batch, -1, -1).clone()

    def add(self, slots: Tensor, above: Tensor) -> Tensor:
        """Add nodes in slots int (B, W), -1 if absent, below those in `above`; return their masks bool (B, W, M)."""
        size = len(self._slots)
        attention_mask = self.rows.gather(1, above[..., None].expand(-1, -1, size)) | (slots[..., None] == self._slots)
        self.rows.scatter_(1, torch.where(slots < 0, size, slots)[..., None].expand_as(attention_mask), attention_mask)
        return attention_mask


def in_columns(found: Sequence[Match], length: int) -> Tensor:
    """Return the first `length` tokens found for each sequence, -1 beyond: int (B, length)."""
    rows = [match.tokens[:length] for match in found]
    return torch.tensor([[*row, *[-1] * (length - len(row))] for row in rows], dtype=torch.int64).reshape(
        len(rows), length
    )


def _ways_to_slots(above: Tensor, slots: Tensor, row: int) -> list[tuple[int, ...]]:
    return ways_to(above[row].tolist(), slots[row].tolist())
