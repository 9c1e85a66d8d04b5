"""Where the nodes of drafted trees stand, worked out from their parents; and what is known of trees before they are drafted."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple, Protocol

from .. import arrays as xp
from ..arrays import Array


class Level(NamedTuple):
    """Where the nodes of one depth may stand among nodes 1 .. N, from 0, and how many children they have at most."""

    nodes: slice
    most: int


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
        self._nodes = xp.positions(size + 1, parents)
        self.parents = parents
        self.counts = (parents[:, :, None] == self._nodes).sum(1)
        self.firsts = 1 + (parents[:, :, None] < self._nodes).sum(1)
        self.places = self._nodes[1:] - xp.take(self.firsts, parents)
        self.ranks = (self.counts[:, 1:] + 1) * (size + 1) - self._nodes[1:]

    def of(self, batch: int) -> Layout:
        """The same for a batch of trees that are alike."""
        if len(self.parents) == batch:
            return self
        if batch not in self._of:
            self._of[batch] = self._repeated(batch)
        return self._of[batch]

    def _repeated(self, batch: int) -> Layout:
        other = copy(self)
        for name in ("parents", "counts", "firsts", "places", "ranks", "upward", "sees", "depths", "post_order"):
            value = getattr(self, name)
            vars(other)[name] = xp.broadcast(value, (batch, *value.shape[1:]))
        return other

    @cached_property
    def upward(self) -> Array:
        """Every node, its parent, and so on, L + 1 nodes with the root repeated: int (B, N + 1, L + 1). Of absent nodes it says nothing."""
        above = xp.namespace(self.parents).concatenate((0 * self.counts[:, :1], self.parents), -1)
        upward = [self._nodes + 0 * self.counts]
        for _ in range(self.length):
            upward.append(xp.take(above, upward[-1]))
        return xp.namespace(above).stack(upward, -1)

    @cached_property
    def sees(self) -> Array:
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
        sizes = self.sees[:, 1:, 1:].sum(1)  # of every node, itself and all below it
        before = sizes.cumsum(-1) - sizes
        elder = before - xp.take(
            before, xp.minimum(xp.take(self.firsts, self.parents), size) - 1
        )  # at and below its elder siblings
        all_elder = xp.concatenate((0 * elder[:, :1], elder))
        stand_before = elder
        for steps in range(1, self.length):
            stand_before = stand_before + xp.take(all_elder, self.upward[:, 1:, steps])
        return 1 + xp.argsort(stand_before + sizes, stable=True)


class Bounds(Protocol):
    """What is known of trees before they are drafted: path rules decide by it whether they are valid on them.

    size: N nodes, at most. length: L, depth of the deepest node, at most. most: children of a node, at most. inner: number of the first
    nodes among which are all that have children. branching: numbers of children that may occur, other than 0. is_even: whether all nodes
    of a level that have children are known to have equally many. children_by_level: number of children by depth, without the last,
    where all nodes of a depth are known to have equally many; else None.
    """

    @property
    def size(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def most(self) -> int: ...
    @property
    def inner(self) -> int: ...
    @property
    def branching(self) -> frozenset[int]: ...
    @property
    def is_even(self) -> bool: ...
    @property
    def children_by_level(self) -> tuple[int, ...] | None: ...

    def layout(self, parents: Array) -> Layout:
        """Where the nodes of trees with these parents (B, N) stand."""

    def fit(self, tokens: Array) -> Bounds:
        """The bounds of trees with these tokens (B, N) cut behind their last node, where asking for it is free."""

    def cut(self, size: int) -> Bounds:
        """The bounds of trees without the nodes behind these, which are absent."""
