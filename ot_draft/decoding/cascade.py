"""Cascades: a third model drafts tokens for the draft model, which verifies them before the target does.

Tested on CPUs only.

The resulting path follows the draft model's distribution, whatever the third model is (`proofs_checks.couplings.three_models`), so that the
target's verification does not change. Sources: staged speculation (Spector and Re 2023), TriForce (Sun et al. 2024).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import arrays as xp
from ..errors import CannotDecode
from ..trees import BlockVerification, FixedTree, PathRule, TreeShape
from ..trees.drafting.drafter import DraftCounts
from .cache import SequenceBatch
from .drafters import Drafter, ModelDrafter
from .model_runner import ModelRunner


@dataclass(frozen=True)
class CascadePath(FixedTree):
    """One path of the draft model, which the cascade drafts in pieces of `ahead` tokens."""

    ahead: int = 3
    cascade_rule: ClassVar[PathRule] = BlockVerification()  # by which the draft model verifies tokens of the cascade

    @classmethod
    def of(cls, length: int, ahead: int | None = None) -> CascadePath:
        """Return a path of `length` tokens, by default in pieces of at most 3. CannotDecode unless 1 <= ahead <= length."""
        ahead = min(cls.ahead, length) if ahead is None else ahead
        if not 1 <= ahead <= length:
            raise CannotDecode(
                f"ahead must be from 1 to the length of the path ({length}), got {ahead}. Use such a number."
            )
        return cls(TreeShape.chains(1, length), ahead=ahead)

    @cached_property
    def piece(self) -> FixedTree:
        """The tree that the cascade drafts at a time."""
        return FixedTree.chains(1, self.ahead)

    @property
    def counts(self) -> DraftCounts:
        uniforms = self.length * (
            self.ahead + self.cascade_rule.n_uniforms(self.piece.bounds)
        )  # each piece emits at least one token
        slots = self.length + 2 * self.ahead + 1  # sequences whose path is complete are read with the others
        return replace(super().counts, n_uniforms=uniforms, n_draft_slots=slots, n_cascade_tokens=self.ahead)

    @property
    def label(self) -> str:
        return f"1 × {self.length}, drafted {self.ahead} at a time"


class CascadeDrafter(Drafter):
    """The draft model continues the sequences, with the cascade as its draft model; the tokens it emits are the path."""

    recordable = False  # the number of pieces depends on the draws

    def __init__(self, tree: Any, draft: ModelRunner, cascade: ModelRunner, n: int, number: torch.dtype) -> None:
        """tree: a `CascadePath`."""
        super().__init__(tree, draft.texts, n, number)
        self.path: CascadePath = tree
        self.outer = draft.texts
        self.parents = tree.shape.parents_of(self.tokens).clone()
        batch, device = len(self.tokens), self.tokens.device
        room = torch.zeros(
            batch, tree.bounds.length + 2 * tree.counts.n_cascade_tokens + 2, dtype=torch.int64, device=device
        )
        self.inner = SequenceBatch(
            tokens=torch.cat((self.outer.tokens, room), 1),
            lengths=self.outer.lengths.clone(),
            emitted=torch.zeros_like(self.outer.emitted),
            active=torch.ones_like(self.outer.active),
            stop=self.outer.stop[:0],
            max_tokens=1 << 40,
        )
        self.draft = replace(draft, texts=self.inner)
        self.cascade = ModelDrafter(tree.piece, replace(cascade, texts=self.inner), n, number)
        layout = tree.piece.bounds.layout(self.cascade.parents)
        self._sees, self._depths = (
            xp.from_view(xp.copy(x), self.tokens) for x in (layout.attention_mask, layout.depths)
        )

    def propose(self, uniforms: Tensor, noise: Tensor | None = None) -> None:
        inner, length = self.inner, self.path.length
        inner.tokens[:, : self.outer.tokens.shape[1]] = self.outer.tokens
        inner.lengths.copy_(self.outer.lengths)
        inner.active.fill_(True)
        count = torch.zeros_like(inner.lengths)
        self.without_law.zero_()
        # Both may not have read the last token; the cascade may not have read a leaf and the token after it, either.
        self.draft.read_last(2)
        self.cascade.unread_tokens = 1
        for numbers in uniforms.chunk(length, 1):
            tokens, laws, taken = self._piece(numbers)
            for i in range(self.path.ahead + 1):
                there = (count + i < length) & (i <= taken) & inner.active
                place = (count + i).clamp(max=length - 1)[:, None]
                self.tokens.scatter_(
                    1, place, torch.where(there[:, None], tokens[:, i : i + 1], self.tokens.gather(1, place))
                )
                rows = there.nonzero()[:, 0]
                self.q[rows, place[rows, 0]] = laws[rows, i]
            inner.advance(taken, tokens)
            count += torch.where(inner.active, taken + 1, 0)
            inner.active.logical_and_(count < length)
            self.cascade.unread_tokens = 0
            if not bool(inner.active.any()):
                return

    def commit(self, already: int, root: int, length: int) -> int:
        return length - 2

    def _piece(self, uniforms: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens (B, ahead + 1) that the draft model emits, its distributions (B, ahead + 1, n), and the numbers accepted (B,)."""
        ahead, cascade = self.path.ahead, self.cascade
        cascade.propose(uniforms[:, :ahead])
        laws, why = self.draft.read_tree(cascade.tokens, cascade.parents, self._sees, self._depths)
        self.without_law += ~why.isfinite().all(1)
        laws = self.draft.model.info.expand_to_vocab(laws, 0).to(self.q)
        tree = self.path.piece.shape.tree(cascade.tokens, laws, cascade.q, self.path.law)
        selection = self.path.cascade_rule.select(tree, uniforms[:, ahead:])
        return selection.tokens, laws, selection.length
