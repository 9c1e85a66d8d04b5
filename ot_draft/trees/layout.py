"""Layout of drafted trees: index arrays computed from the parents of the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple

from .. import arrays as xp
from ..arrays import Array


class Level(NamedTuple):
    """Range of the nodes of one depth in nodes 1 .. N, counted from 0, and their maximum number of children."""

    nodes: slice
    max_children: int


class Layout:
    """Trees of N nodes as integer arrays with one row per tree, `host_view`s; nodes are numbered breadth first.

    parents: (B, N), N where a node is absent. counts: (B, N + 1) numbers of children. firsts: (B, N + 1) first child, if any. places:
    (B, N) index of each node among its siblings. ranks: (B, N), distinct, larger for nodes with more children, then for earlier ones.
    levels: by depth. The arrays do not depend on tokens: all trees of a shape have one layout.
    """

    def __init__(self, parents: Array, length: int, levels: Sequence[Level]) -> None:
        self.length, self.levels = length, tuple(levels)
        self._of: dict[int, Layout] = {}  # by batch size, since every decoding step asks again
        size = parents.shape[1]
        self._nodes = xp.arange(size + 1, like=parents)
        self.parents = parents
        self.counts = (parents[:, :, None] == self._nodes).sum(1)
        self.firsts = 1 + (parents[:, :, None] < self._nodes).sum(1)
        self.places = self._nodes[1:] - xp.take_along_axis(self.firsts, parents)
        self.ranks = (self.counts[:, 1:] + 1) * (size + 1) - self._nodes[1:]

    def of(self, batch: int) -> Layout:
        """Return the layout of a batch of trees with the same nodes."""
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
        """Every node, its parent, and so on up to the repeated root: int (B, N + 1, L + 1). Rows of absent nodes are arbitrary."""
        above = xp.namespace(self.parents).concatenate((0 * self.counts[:, :1], self.parents), -1)
        upward = [self._nodes + 0 * self.counts]
        for _ in range(self.length):
            upward.append(xp.take_along_axis(above, upward[-1]))
        return xp.namespace(above).stack(upward, -1)

    @cached_property
    def attention_mask(self) -> Array:
        """Whether a node attends to another, its ancestors and itself: bool (B, N + 1, N + 1)."""
        return (self.upward[..., None] == self._nodes).any(-2)

    @cached_property
    def depths(self) -> Array:
        """Depth of every node: int (B, N + 1)."""
        return xp.minimum((self.upward > 0).sum(-1), self.length)

    @cached_property
    def post_order(self) -> Array:
        """Nodes 1 .. N, children before their parent, earlier siblings and all below them before later ones: int (B, N)."""
        size = self.parents.shape[1]
        sizes = self.attention_mask[:, 1:, 1:].sum(1)  # number of nodes of each subtree
        before = sizes.cumsum(-1) - sizes
        # Number of nodes in the subtrees of earlier siblings.
        elder = before - xp.take_along_axis(before, xp.minimum(xp.take_along_axis(self.firsts, self.parents), size) - 1)
        all_elder = xp.concat((0 * elder[:, :1], elder), axis=-1)
        stand_before = elder
        for steps in range(1, self.length):
            stand_before = stand_before + xp.take_along_axis(all_elder, self.upward[:, 1:, steps])
        return 1 + xp.argsort(stand_before + sizes, stable=True)
