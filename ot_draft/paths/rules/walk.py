"""What the batched path rules share: the nodes that are still alive on the way down, and drawing."""

from __future__ import annotations

from typing import Any

from ...arrays import (
    Array,
    gather,
    inverse_cdf,
    minimum,
    namespace,
    on_host,
    positions,
    settled,
    small,
    take,
    total,
    unsmall,
    where,
)
from ..tree import DraftTree, PathSelection

SHORT = 1024  # numbers a row up to which drawing goes through numpy, where an operation on few numbers costs less


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

    Equal siblings may live together; their laws are equal, and are read at one of them. alive: bool (B, N + 1); here: int (B, 1) the
    node that stands for them, one that has most children, the last one that lived where none does any more. Tokens and
    nodes are `small`: on the CPU an operation on a few numbers costs half as much in numpy.
    """

    def __init__(self, tree: DraftTree) -> None:
        self.tree, self.tokens, self.layout, self.depth = tree, small(tree.tokens), tree.layout, 0
        self.rows = positions(len(tree.tokens), self.tokens)
        self.here = 0 * self.rows[:, None]
        self._nodes = positions(tree.bounds.size + 1, self.tokens)
        self.alive = self._nodes == self.here
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
            nodes = self.layout.levels[self.depth + 1].nodes
            self._drafts = where(take(self.alive, self.layout.parents[:, nodes]), self.tokens[:, nodes], -1)
        return self._drafts

    def first_drafts(self) -> Array:
        """Tokens of the children of the node that stands for the living ones, in drawing order, -1 beyond: int (B, most)."""
        place = positions(self.layout.levels[self.depth].most, self.tokens)
        there = (place < take(self.layout.counts, self.here)) & self.lives()
        return where(there, gather(self.tokens, where(there, take(self.layout.firsts, self.here) + place - 1, -1)), -1)

    def tops_and_draws(self, q: Array) -> tuple[Array, Array]:
        """Children of living nodes: the fixed top tokens, once, int (B, C), and all draws (B, W), -1 elsewhere."""
        if not self.tree.law.fixes_tops:
            return self.drafts()[:, :0], self.drafts()
        first, below = self.first_drafts(), self.layout.levels[self.depth + 1].nodes
        number = self._number_of_tops(q, first.shape[-1])
        tops = where(positions(first.shape[-1], first) < number, first, -1)
        drawn = where(self.layout.places[:, below] >= number, self.drafts(), -1)
        return tops[:, :number] if isinstance(number, int) else tops, drawn

    def _number_of_tops(self, q: Array, count: int) -> Any:
        """How many of the living nodes' children are top tokens: as the tree carries it, an integer or int (B, 1)."""
        if self.tree.fixed_count is None:
            return small(self.tree.law.number(q, count))
        tops = small(self.tree.fixed_count)
        return tops[self.rows, minimum(self.here[..., 0], tops.shape[1] - 1)][..., None]

    def lives(self) -> Array:
        """Whether a node lives: bool (B, 1)."""
        return self.alive.any(-1)[..., None]

    def go_on(self, token: Array) -> Array:
        """One level down, to the nodes that hold the token (B, 1); bool (B, 1), whether there are any."""
        drafts = self.drafts()
        self.depth, self._drafts = self.depth + 1, None
        nodes = self.layout.levels[self.depth].nodes
        below = (drafts == token) & (drafts >= 0)
        self.alive = self._nodes < 0 * self.here
        self.alive[:, nodes.start + 1 : nodes.stop + 1] = below
        lives = below.any(-1)[..., None]
        # No two nodes have one rank: on an accelerator the first of equals would not be certain.
        most = where(below, self.layout.ranks[:, nodes], -1).argmax(-1)[..., None] + nodes.start + 1
        self.here = where(lives, most, self.here)
        return lives

    def along(self, chosen: Array) -> Survivors:
        """Down to the nodes that hold the tokens chosen, int (B, d)."""
        for depth in range(chosen.shape[1]):
            self.go_on(small(chosen[:, depth : depth + 1]))
        return self

    def selection(self, node: Array, following: Array) -> PathSelection:
        """What is emitted when the path down to the node (B, 1) is accepted, and the token (B, 1) follows."""
        join, length = namespace(node).concatenate, self.tree.bounds.length
        ways = self.layout.upward[self.rows, node[..., 0]]
        deep = total(where(ways > 0, 1, 0))
        place = deep - 1 - positions(length, node)
        nodes = where(place >= 0, gather(ways, place), -1)
        tokens = where(nodes > 0, gather(self.tokens, nodes - 1), -1)
        tokens = join((tokens, 0 * deep - 1), -1)
        tokens = where(positions(tokens.shape[-1], tokens) == deep, following, tokens)
        return PathSelection(*(unsmall(x, self.tree.p) for x in (deep[..., 0], nodes, tokens)))
