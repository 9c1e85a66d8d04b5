"""The parts of a step where every text has a tree of its own shape."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import ot_draft as ot

from ..draft_plan import Dynamic
from ..engine import Engine, Memory, in_columns
from ..plans.lookup import Match
from .reader import DynamicReader


class DynamicEngine(Engine):
    """The steps of a drafting whose trees follow the draft model.

    parents: int (B, N), N where a node is absent. tops: int (B, N + 1). slots: int (B, N + 1), where the draft model's cache holds a node.
    """

    target: DynamicReader  # type: ignore[assignment]  # which reads trees in another way
    draft: DynamicReader  # type: ignore[assignment]
    drafting: Dynamic

    def __init__(self, memory: Memory, drafting: Dynamic) -> None:
        super().__init__(memory, drafting)
        self.grower = drafting.grower
        batch, size, device = len(self.tokens), drafting.shape.size, self.tokens.device
        self.parents = torch.full((batch, size), size, device=device)
        self.tops = torch.zeros(batch, size + 1, dtype=torch.int64, device=device)
        self.slots = torch.full((batch, size + 1), -1, device=device)
        # What was looked up, and stands in the trees beside the draws.
        self.given = torch.full((batch, self.grower.takes), -1, device=device)
        self._read = self.q.new_zeros(batch, self.grower.reads + 1, memory.n)
        # Where nodes stand in the slots of their numbers their laws do, too.
        self.q = (
            self._read[:, : size + 1] if self.grower.slots_are_nodes else self.q.new_zeros(batch, size + 1, memory.n)
        )
        self._rows = torch.arange(batch, device=device)[:, None]

    def _readers(self) -> None:
        self.target = DynamicReader.on(self.memory.target, self.drafting)
        assert self.memory.draft is not None
        self.draft = DynamicReader.on(self.memory.draft, self.drafting)

    def look_up(self, found: Sequence[Match]) -> None:
        self.given.copy_(in_columns(found, self.given.shape[1]))

    def propose(self) -> None:
        uniforms = self.uniforms[:, : self.drafting.draws]
        trees = self.draft.grow(uniforms, self._read, self.always + self.behind, self.given)
        for mine, grown in zip(
            (self.tokens, self.parents, self.tops, self.slots),
            (trees.tokens, trees.parents, trees.tops, trees.slots),
            strict=True,
        ):
            mine.copy_(grown)
        if not self.grower.slots_are_nodes:
            # The law at a node that was not read is of no use: it has no children.
            self.q.copy_(self._read[self._rows, torch.where(self.slots < 0, self._read.shape[1] - 1, self.slots)])

    def verify(self) -> None:
        used = self._used()
        self.p = self.target.verify_trees(self.tokens[:, :used], self.parents[:, :used].clamp(max=used))

    def tree(self) -> ot.paths.DraftTree:
        return self.drafting.tree(self.tokens, self.p, self.q, self.tops, self.parents)

    @property
    def shapes(self) -> dict[str, Tensor]:
        return {"parents": self.parents, "tops": self.tops}

    def drafted_by(self) -> Tensor:
        nodes = torch.arange(self.q.shape[1], device=self.q.device)
        return self.q * (self.parents[..., None] == nodes).any(1)[..., None]

    def _used(self) -> int:
        """How many nodes are looked at: all, and on the CPU, where asking is free, as many as the largest tree has."""
        if self.tokens.device.type != "cpu":
            return self.drafting.shape.size
        return max(int((self.tokens >= 0).sum(1).max()), 1)

    def _draft_slots(self) -> Tensor:
        slots = self.slots.gather(1, self.nodes.clamp(min=0))
        return torch.where(self.nodes < 0, -1, slots)
