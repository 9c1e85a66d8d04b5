"""Shared parts of batched path rules: the nodes that hold the selected tokens, and random choices."""

from __future__ import annotations

from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...laws.fixed_tokens import fixed_first
from ..tree import DraftTree, PathSelection


class Draws:
    """All random choices, each by a separate column of the uniforms (B, U) in [0, 1). Results are `host_view`s, like `uniforms`.

    noise: other random numbers of the step, for rules with `takes_noise`.
    """

    def __init__(self, uniforms: Array, noise: Array | None = None) -> None:
        self.uniforms, self.noise = xp.host_view(uniforms), noise

    def index(self, mass: Array, column: int, needed: Array | None = None, short: int = 1024) -> Array:
        """Return an index by unnormalised mass: (B, m) -> int (B, 1), arbitrary in rows that are not needed, bool (B, 1).

        short: maximum row length for which numpy draws, whose operations on few numbers cost less.
        """
        uniform = self.uniforms[:, column : column + 1]
        if not len(mass) or (needed is not None and xp.holds_without_sync(~needed)):
            return xp.where(uniform < 0, 0, 0)
        mass = xp.host_view(mass) if mass.shape[-1] <= short else mass
        return xp.host_view(xp.inverse_cdf(mass, xp.from_view(uniform, mass)))

    def first(self, chances: Array, column: int) -> Array:
        """Return an index by mass (B, k) that sums to at most 1, a `host_view`; k for the missing mass: int (B, 1)."""
        return (chances.cumsum(-1) <= self.uniforms[:, column : column + 1]).sum(-1)[..., None]

    def happens(self, chance: Array, column: int) -> Array:
        """Return whether an event of this probability happens: (B, 1) -> bool (B, 1)."""
        return self.uniforms[:, column : column + 1] < chance


class Survivors:
    """Live nodes on the way down: all nodes whose tokens from the root on are those selected so far.

    Equal siblings are live together, with equal distributions. alive: bool (B, N + 1). here: int (B, 1) the live node with most children,
    the last one if none is live any more. Tokens and nodes are `host_view`s: on the CPU an operation on few numbers costs half as much in
    numpy.
    """

    def __init__(self, tree: DraftTree) -> None:
        self.tree, self.tokens, self.layout, self.depth = tree, xp.host_view(tree.tokens), tree.layout, 0
        self.rows = xp.arange(len(tree.tokens), like=self.tokens)
        self.here = 0 * self.rows[:, None]
        self._nodes = xp.arange(tree.bounds.size + 1, like=self.tokens)
        self.alive = self._nodes == self.here
        self._drafts: Array | None = None

    def laws(self) -> tuple[Array, Array]:
        """Return p and q at the live nodes: (B, n) each, views at the root. q is arbitrary if they have no children."""
        q = self.tree.q
        if not self.depth and q.shape[1]:
            return self.tree.p[:, 0], q[:, 0]
        return self.target(), self.at(q, xp.minimum(self.here, q.shape[1] - 1)) if q.shape[1] else self.target()

    def target(self) -> Array:
        """Return p at the live nodes: (B, n)."""
        return self.at(self.tree.p, self.here)

    def at(self, table: Array, row: Array) -> Array:
        """Return rows (B, 1) of a table (B, m, n): (B, n), without a copy for one tree on the CPU."""
        if len(table) == 1 and xp.on_host(row):
            return table[:, int(row[0, 0])]
        return table[xp.from_view(self.rows, table), xp.from_view(row[..., 0], table)]

    def drafts(self) -> Array:
        """Return the tokens of all children of live nodes, breadth first, -1 elsewhere: int (B, W) over the level below."""
        if self._drafts is None:
            nodes = self.layout.levels[self.depth + 1].nodes
            self._drafts = xp.where(
                xp.take_along_axis(self.alive, self.layout.parents[:, nodes]), self.tokens[:, nodes], -1
            )
        return self._drafts

    def first_drafts(self) -> Array:
        """Return the tokens of the children of `here`, in drawing order, -1 beyond: int (B, C)."""
        place = xp.arange(self.layout.levels[self.depth].max_children, like=self.tokens)
        there = (place < xp.take_along_axis(self.layout.counts, self.here)) & self.lives()
        node = xp.where(there, xp.take_along_axis(self.layout.firsts, self.here) + place - 1, -1)
        return xp.where(there, xp.gather(self.tokens, node), -1)

    def tops_and_draws(self, q: Array) -> tuple[Array, Array]:
        """Return the children of live nodes: fixed top tokens, once, int (B, C), and all draws (B, W), -1 elsewhere."""
        if fixed_first(self.tree.law) is None:
            return self.drafts()[:, :0], self.drafts()
        first, below = self.first_drafts(), self.layout.levels[self.depth + 1].nodes
        number = self._number_of_tops(q, first.shape[-1])
        tops = xp.where(xp.arange(first.shape[-1], like=first) < number, first, -1)
        drawn = xp.where(self.layout.places[:, below] >= number, self.drafts(), -1)
        return tops[:, :number] if isinstance(number, int) else tops, drawn

    def _number_of_tops(self, q: Array, count: int) -> Any:
        """Number of top tokens among the live nodes' children: an integer or int (B, 1)."""
        if self.tree.fixed_count is None:
            law = fixed_first(self.tree.law)
            assert law is not None  # checked by `tops_and_draws`
            return xp.host_view(law.n_fixed(q, count))
        tops = xp.host_view(self.tree.fixed_count)
        return tops[self.rows, xp.minimum(self.here[..., 0], tops.shape[1] - 1)][..., None]

    def lives(self) -> Array:
        """Return whether a node is live: bool (B, 1)."""
        return self.alive.any(-1)[..., None]

    def go_on(self, token: Array) -> Array:
        """Go one level down, to the nodes that hold the token (B, 1); return whether there are any, bool (B, 1)."""
        drafts = self.drafts()
        self.depth, self._drafts = self.depth + 1, None
        nodes = self.layout.levels[self.depth].nodes
        below = (drafts == token) & (drafts >= 0)
        self.alive = self._nodes < 0 * self.here
        self.alive[:, nodes.start + 1 : nodes.stop + 1] = below
        lives = below.any(-1)[..., None]
        # Ranks are distinct: on an accelerator, argmax of equal values is not deterministic.
        most = xp.where(below, self.layout.ranks[:, nodes], -1).argmax(-1)[..., None] + nodes.start + 1
        self.here = xp.where(lives, most, self.here)
        return lives

    def along(self, chosen: Array) -> Survivors:
        """Go down to the nodes that hold the tokens chosen, int (B, d)."""
        for depth in range(chosen.shape[1]):
            self.go_on(xp.host_view(chosen[:, depth : depth + 1]))
        return self

    def selection(self, node: Array, following: Array) -> PathSelection:
        """Return the selection that accepts the path down to the node (B, 1), with the token (B, 1) after it."""
        length = self.tree.bounds.length
        ways = self.layout.upward[self.rows, node[..., 0]]
        deep = xp.where(ways > 0, 1, 0).sum(-1, keepdims=True)
        place = deep - 1 - xp.arange(length, like=node)
        nodes = xp.where(place >= 0, xp.gather(ways, place), -1)
        tokens = xp.where(nodes > 0, xp.gather(self.tokens, nodes - 1), -1)
        tokens = xp.concat((tokens, 0 * deep - 1), axis=-1)
        tokens = xp.where(xp.arange(tokens.shape[-1], like=tokens) == deep, following, tokens)
        return PathSelection(*(xp.from_view(x, self.tree.p) for x in (deep[..., 0], nodes, tokens)))
