"""What the batched path rules share: the shape's layout on the device, the nodes that are still alive, and drawing."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...arrays import (
    Array,
    gather,
    integers,
    inverse_cdf,
    is_torch,
    minimum,
    namespace,
    on_host,
    positions,
    settled,
    small,
    smallest,
    unsmall,
    where,
)
from ..tree import DraftTree, PathSelection, TreeShape

SHAPES = 256  # layouts kept
SHORT = 1024  # numbers a row up to which drawing goes through numpy, where an operation on few numbers costs less


@dataclass(frozen=True)
class ShapeLevel:
    """The W nodes of one depth. parents: int (W,) place of the parent in the level above; places: (W,) which child of it.

    ranked: (W,) the nodes by falling number of children: the first that lives stands for all; rank: (W,) place in it.
    most: the largest number of children.
    """

    start: int
    stop: int
    most: int
    parents: Array
    places: Array
    ranked: Array
    rank: Array


@dataclass(frozen=True)
class ShapeLayout:
    """A shape as integer arrays, made once for a device, because making them is a copy from the host.

    ancestors: (N + 1, L), -1 beyond; depths: (N + 1,); children: (N + 1, C), -1 beyond; levels: by depth.
    """

    ancestors: Array
    depths: Array
    children: Array
    levels: tuple[ShapeLevel, ...]


def layout(shape: TreeShape, like: Array) -> ShapeLayout:
    """The shape's layout on like's device; made at the first call, which thus must come before a CUDA graph is captured."""
    return _layout(shape, like.device if is_torch(like) else None)


@lru_cache(maxsize=SHAPES)
def _layout(shape: TreeShape, device: Any) -> ShapeLayout:
    like = np.empty(0) if device is None else sys.modules["torch"].empty(0, device=device)
    nodes, length = range(shape.size + 1), shape.length
    most = max(shape.branching, default=0)
    ancestors = [(*shape.path(v), *[-1] * (length - shape.depths[v])) for v in nodes]
    children = [(*shape.children(v), *[-1] * (most - len(shape.children(v)))) for v in nodes]
    return ShapeLayout(
        integers(ancestors, like).reshape(len(nodes), length),
        integers(shape.depths, like),
        integers(children, like).reshape(len(nodes), most),
        tuple(_level(shape, depth, like) for depth in range(length + 1)),
    )


def _level(shape: TreeShape, depth: int, like: Array) -> ShapeLevel:
    nodes = shape.levels[depth]
    above = shape.levels[depth - 1].start if depth else 0
    ranked = sorted(nodes, key=lambda v: -len(shape.children(v)))
    return ShapeLevel(
        nodes.start,
        nodes.stop,
        len(shape.children(ranked[0])),
        integers([shape.parents[v - 1] - above if v else 0 for v in nodes], like),
        integers([shape.place(v) if v else 0 for v in nodes], like),
        integers(ranked, like),
        integers([ranked.index(v) for v in nodes], like),
    )


class Draws:
    """Every random choice, each by a column of its own of the uniforms (B, U) in [0, 1). Answers are `small`."""

    def __init__(self, uniforms: Array) -> None:
        self._uniforms = small(uniforms)

    def index(self, mass: Array, column: int, needed: Array | None = None) -> Array:
        """Index by unnormalised mass: (B, m) -> int (B, 1). Rows that do not need one, bool (B, 1), may get anything."""
        uniform = self._uniforms[:, column : column + 1]
        if not len(mass) or (needed is not None and settled(~needed)):
            return where(uniform < 0, 0, 0)
        mass = small(mass) if mass.shape[-1] <= SHORT else mass
        return small(inverse_cdf(mass, unsmall(uniform, mass)))

    def first(self, chances: Array, column: int) -> Array:
        """Index by mass that sums to at most 1, `small` (B, k); k for what is missing: int (B, 1)."""
        return (chances.cumsum(-1) <= self._uniforms[:, column : column + 1]).sum(-1)[..., None]

    def happens(self, chance: Array, column: int) -> Array:
        """Whether something of this probability happens: (B, 1) -> bool (B, 1)."""
        return self._uniforms[:, column : column + 1] < chance


class Survivors:
    """The living nodes on the way down: all nodes whose tokens from the root on are those selected so far.

    Equal siblings may live together; their laws are equal, and are read at one of them. alive: bool (B, W) at the present
    depth; here: int (B, 1) the node that stands for them, the last one that lived where none does any more. Tokens and
    nodes are `small`: on the CPU an operation on a few numbers costs half as much in numpy.
    """

    def __init__(self, tree: DraftTree) -> None:
        self.tree, self.tokens, self.depth = tree, small(tree.tokens), 0
        self.layout = layout(tree.shape, self.tokens)
        self.rows = positions(len(tree.tokens), self.tokens)
        self.here = 0 * self.rows[:, None]
        self.alive = self.here == 0
        self._drafts: Array | None = None

    def laws(self) -> tuple[Array, Array]:
        """p and q at the living nodes: (B, n) each. q is of no use where they have no children."""
        q = self.tree.q
        return self.target(), self.at(q, minimum(self.here, q.shape[1] - 1)) if q.shape[1] else self.target()

    def target(self) -> Array:
        """p at the living nodes: (B, n)."""
        return self.at(self.tree.p, self.here)

    def at(self, table: Array, row: Array) -> Array:
        """Rows (B, 1) of a table (B, m, n): (B, n). Not copied where there is one tree, on the CPU."""
        if len(table) == 1 and on_host(row):
            return table[:, int(row[0, 0])]
        return table[unsmall(self.rows, table), unsmall(row[..., 0], table)]

    def drafts(self) -> Array:
        """Tokens of all children of living nodes, breadth first, -1 elsewhere: int (B, W) over the level below."""
        if self._drafts is None:
            level = self.layout.levels[self.depth + 1]
            tokens = self.tokens[:, level.start - 1 : level.stop - 1]
            self._drafts = where(self.alive[:, level.parents], tokens, -1)
        return self._drafts

    def first_drafts(self) -> Array:
        """Tokens of the children of one living node that has most, in drawing order, -1 where there is none: int (B, C)."""
        children = self.layout.children[self.here[..., 0]][:, : self.layout.levels[self.depth].most]
        return where((children > 0) & self.lives(), gather(self.tokens, children - 1), -1)

    def tops_and_draws(self, q: Array) -> tuple[Array, Array]:
        """Children of living nodes: the top tokens of hybrid drafting, once, int (B, C), and all draws (B, W), -1 elsewhere."""
        if not self.tree.law.fixes_tops:
            return self.drafts()[:, :0], self.drafts()
        first, below = self.first_drafts(), self.layout.levels[self.depth + 1]
        number = self._number_of_tops(q, first.shape[-1])
        tops = where(positions(first.shape[-1], first) < number, first, -1)
        return tops[:, :number] if isinstance(number, int) else tops, where(below.places >= number, self.drafts(), -1)

    def _number_of_tops(self, q: Array, count: int) -> Any:
        """How many of the living nodes' children are top tokens: as the tree carries it, an integer or int (B, 1)."""
        if self.tree.tops is None:
            return small(self.tree.law.number(q, count))
        tops = small(self.tree.tops)
        return tops[self.rows, minimum(self.here[..., 0], tops.shape[1] - 1)][..., None]

    def lives(self) -> Array:
        """Whether a node lives: bool (B, 1)."""
        return self.alive.any(-1)[..., None]

    def go_on(self, token: Array) -> Array:
        """One level down, to the nodes that hold the token (B, 1); bool (B, 1), whether there are any."""
        drafts = self.drafts()
        self.alive = (drafts == token) & (drafts >= 0)
        self.depth, self._drafts = self.depth + 1, None
        level = self.layout.levels[self.depth]
        width = level.stop - level.start
        first = smallest(where(self.alive, level.rank, width))
        lives = first < width
        self.here = where(lives, level.ranked[first % width], self.here)
        return lives

    def along(self, chosen: Array) -> Survivors:
        """Down to the nodes that hold the tokens chosen, int (B, d)."""
        for depth in range(chosen.shape[1]):
            self.go_on(small(chosen[:, depth : depth + 1]))
        return self

    def selection(self, node: Array, following: Array) -> PathSelection:
        """What is emitted when the path down to the node (B, 1) is accepted, and the token (B, 1) follows."""
        nodes, length = self.layout.ancestors[node[..., 0]], self.layout.depths[node]
        tokens = where(nodes > 0, gather(self.tokens, nodes - 1), -1)
        tokens = namespace(tokens).concatenate((tokens, 0 * length - 1), -1)
        tokens = where(positions(tokens.shape[-1], tokens) == length, following, tokens)
        return PathSelection(*(unsmall(x, self.tree.p) for x in (length[..., 0], nodes, tokens)))
