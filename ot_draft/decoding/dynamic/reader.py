"""Target or draft model at work on trees whose shapes are data: one pass of fixed width a level, and one over whole trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

import ot_draft as ot

from ..draft_plan import Dynamic
from ..node_laws import Way
from ..reader import Reader
from .ancestors import Seen, ancestors, tree_mask

Trees = ot.paths.Grown


@dataclass(frozen=True)
class DynamicReader(Reader):
    """A model on the texts of a batch, behind each of which a tree of its own grows."""

    drafting: Dynamic = field(kw_only=True)

    @classmethod
    def on(cls, reader: Reader, drafting: Dynamic) -> DynamicReader:
        """The same model, cache and texts, for the trees of a drafting."""
        whole = reader.model, reader.cache, reader.sampling, reader.texts
        return cls(*whole, drafting=drafting, target_cache=reader.target_cache)

    def verify_trees(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """The law p (B, N + 1, n) of the token after the root and after every drafted token (B, N), in one forward pass.

        The keys and values of node i come to stand in slot length + i of the cache.
        """
        lengths, sees = self.texts.lengths[:, None], ancestors(parents, self.drafting.shape.length)
        nodes = torch.arange(sees.shape[1], device=sees.device)
        logits = self.model.logits(
            self.cache,
            tokens=torch.cat((self.texts.last[:, None], tokens), 1),
            slots=lengths + nodes,
            positions=lengths + sees.sum(-1) - 1,
            mask=self._tree_mask(sees),
        )
        return self._laws(logits, tokens, lambda row: _ways(parents[row].tolist(), range(sees.shape[1])))

    def grow(self, uniforms: Tensor, q: Tensor, behind: int = 0, given: Tensor | None = None) -> Trees:
        """Trees drafted level by level, by uniforms (B, draws); q (B, M + 1, n) is filled with the laws at the nodes that were read.

        M slots, of which the root has the first; the last row is of no use. behind: tokens before the last two to be read first. given: as
        `DynamicTree.begin` takes it.
        """
        growing, device = self.drafting.grower.begin(uniforms, given), q.device
        seen = Seen(len(q), q.shape[1] - 1, device)
        rows, depth = torch.arange(len(q), device=device)[:, None], 0
        read = torch.full(q.shape[:2], -1, device=device)  # tokens by slot
        above = torch.full_like(read, q.shape[1] - 1)
        while growing.levels:
            slots = growing.slots
            if depth and slots.device.type == "cpu" and not bool((slots >= 0).any()):
                break
            row_of_q = torch.where(slots < 0, q.shape[1] - 1, slots)
            if depth == 0:
                logits = self.read_last(2 + behind)
            else:
                logits = self._read_level(growing, seen.add(slots, growing.above), row_of_q, depth)
                read.scatter_(1, row_of_q, growing.read)
                above.scatter_(1, row_of_q, growing.above)
            laws = self._laws(logits, read[:, 1:], partial(_ways_to_slots, above[:, 1:], slots))
            laws = self.model.spread_masses(laws).to(q)
            q[rows, row_of_q] = laws
            growing.grow(laws)
            depth += 1
        return growing.grown()

    def _read_level(self, growing: ot.paths.Growing, sees: Tensor, slots: Tensor, depth: int) -> Tensor:
        """Logits (B, W, n or fewer) behind the present level of the trees; what is absent is read into the slot behind all."""
        lengths = self.texts.lengths[:, None]
        positions = (lengths + depth).expand_as(slots)
        before = self._own(lengths + growing.above)
        return self.model.logits(
            self.cache, growing.read, lengths + slots, positions, self._tree_mask(sees), before=before
        )

    def _tree_mask(self, sees: Tensor) -> Tensor:
        return tree_mask(sees, self.texts.lengths, self.cache.live, self.model.dtype).to(self.model.device)


def _ways_to_slots(above: Tensor, slots: Tensor, row: int) -> list[Way]:
    return _ways(above[row].tolist(), slots[row].tolist())


def _ways(parents: list[int], nodes: list[int] | range) -> list[Way]:
    """The nodes from below the root down to each of these, and to itself; none for the root and for an absent node."""
    ways = []
    for last in nodes:
        node, way = last, list[int]()
        while node > 0:
            way.append(node)
            node = parents[node - 1] if parents[node - 1] < node else 0  # an absent node's stands behind it
        ways.append(tuple(reversed(way)))
    return ways
