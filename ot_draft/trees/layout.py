"""Where the nodes of drafted trees stand, worked out from their parents."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple

from .. import arrays as xp
from ..arrays import Array


class Level(NamedTuple):
    """The slots of the nodes of one depth among nodes 1 .. N, from 0, and their largest number of children."""

    nodes: slice
    max_children: int


class Layout:
    """Trees of N nodes as integer arrays with a row for every tree, `host_view`s; nodes are numbered breadth first.

    parents: (B, N), N where a node is absent. counts: (B, N + 1) children of every node. firsts: (B, N + 1) the first of them, where
    there are any. places: (B, N) which child of its parent each node is. ranks: (B, N) larger for nodes with more children, and of
    these for the earlier ones. levels: by depth. The arrays do not depend on tokens: one layout serves all trees of a shape.
    """

    def __init__(self, parents: Array, length: int, levels: Sequence[Level]) -> None:
        self.length, self.levels = length, tuple(levels)
        self._of: dict[int, Layout] = {}  # for batches of several sizes: every step of a decoder asks again
        size = parents.shape[1]
        self._nodes = xp.arange(size + 1, like=parents)
        self.parents = parents
        self.counts = (parents[:, :, None] == self._nodes).sum(1)
        self.firsts = 1 + (parents[:, :, None] < self._nodes).sum(1)
        self.places = self._nodes[1:] - xp.take_along_axis(self.firsts, parents)
        self.ranks = (self.counts[:, 1:] + 1) * (size + 1) - self._nodes[1:]

    def of(self, batch: int) -> Layout:
        """The same for a batch of trees that are alike."""
        if len(self.parents) == batch:
            return self
        if batch not in self._of:
            self._of[batch] = other = copy(self)
            for name in (
                "parents",
                "counts",
                "firsts",
                "places",
                "ranks",
                "upward",
                "attention_mask",
                "depths",
                "post_order",
            ):
                value = getattr(self, name)
                vars(other)[name] = xp.broadcast_to(value, (batch, *value.shape[1:]))
        return self._of[batch]

    @cached_property
    def upward(self) -> Array:
        """Every node, its parent, and so on, L + 1 nodes with the root repeated: int (B, N + 1, L + 1). Of absent nodes it says nothing."""
        above = xp.namespace(self.parents).concatenate((0 * self.counts[:, :1], self.parents), -1)
        upward = [self._nodes + 0 * self.counts]
        for _ in range(self.length):
            upward.append(xp.take_along_axis(above, upward[-1]))
        return xp.namespace(above).stack(upward, -1)

    @cached_property
    def attention_mask(self) -> Array:
        """Whether a node sees another, itself and those above it: bool (B, N + 1, N + 1)."""
        return (self.upward[..., None] == self._nodes).any(-2)

    @cached_property
    def depths(self) -> Array:
        """Depth of every node: int (B, N + 1)."""
        return xp.minimum((self.upward > 0).sum(-1), self.length)

    @cached_property
    def post_order(self) -> Array:
        """Nodes 1 .. N, children before their parent, elder siblings and all below them before younger ones: int (B, N)."""
        size = self.parents.shape[1]
        sizes = self.attention_mask[:, 1:, 1:].sum(1)  # of every node, itself and all below it
        before = sizes.cumsum(-1) - sizes
        # At and below its elder siblings.
        elder = before - xp.take_along_axis(before, xp.minimum(xp.take_along_axis(self.firsts, self.parents), size) - 1)
        all_elder = xp.concat((0 * elder[:, :1], elder), axis=-1)
        stand_before = elder
        for steps in range(1, self.length):
            stand_before = stand_before + xp.take_along_axis(all_elder, self.upward[:, 1:, steps])
        return 1 + xp.argsort(stand_before + sizes, stable=True)
