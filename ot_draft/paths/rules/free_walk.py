"""The living nodes on the way down trees whose shapes are data: no level is a range of nodes, so that each step looks at all nodes."""

from __future__ import annotations

from ...arrays import Array, gather, namespace, positions, small, take, total, unsmall, where
from ..tree import DraftTree, PathSelection
from .walk import Survivors


class FreeSurvivors(Survivors):
    """As `Survivors`, by the parents of the tree. alive: bool (B, N + 1). Of equal siblings the one with most children stands for all."""

    def __init__(self, tree: DraftTree) -> None:
        self.tree, self.tokens, self.depth = tree, small(tree.tokens), 0
        self.parents = small(tree.parents)
        self.rows = positions(len(tree.tokens), self.tokens)
        self.here = 0 * self.rows[:, None]
        self._nodes = positions(tree.shape.size + 1, self.tokens)
        held = (self.tokens >= 0)[:, :, None] & (self.parents[:, :, None] == self._nodes)
        self.counts = held.sum(1)  # children of every node
        self.firsts = 1 + (self.parents[:, :, None] < self._nodes).sum(1)  # the first of them, where there are any
        self.places = self._nodes[1:] - take(self.firsts, self.parents)
        self.alive = self._nodes == self.here
        self._drafts: Array | None = None

    def drafts(self) -> Array:
        """Tokens of all children of living nodes, breadth first, -1 elsewhere: int (B, N)."""
        if self._drafts is None:
            self._drafts = where(take(self.alive, self.parents), self.tokens, -1)
        return self._drafts

    def first_drafts(self) -> Array:
        """Tokens of the children of the node that stands for the living ones, in drawing order, -1 beyond: int (B, most)."""
        place = positions(self.tree.shape.most, self.tokens)  # type: ignore[attr-defined]  # of a FreeShape
        there = (place < take(self.counts, self.here)) & self.lives()
        return where(there, gather(self.tokens, where(there, take(self.firsts, self.here) + place - 1, -1)), -1)

    def tops_and_draws(self, q: Array) -> tuple[Array, Array]:
        first = self.first_drafts()
        if not self.tree.law.fixes_tops:
            return first[:, :0], self.drafts()
        number = self._number_of_tops(q, first.shape[-1])
        tops = where(positions(first.shape[-1], first) < number, first, -1)
        return tops, where(self.places >= number, self.drafts(), -1)

    def go_on(self, token: Array) -> Array:
        """One level down, to the nodes that hold the token (B, 1); bool (B, 1), whether there are any."""
        drafts = self.drafts()
        below = (drafts == token) & (drafts >= 0)
        self.alive = namespace(below).concatenate((below[:, :1] & False, below), -1)
        self.depth, self._drafts = self.depth + 1, None
        lives = self.lives()
        # No two nodes have one score: on an accelerator the first of equals would not be certain.
        score = (self.counts + 1) * len(self._nodes) - self._nodes
        most = where(self.alive, score, -1).argmax(-1)[..., None]
        self.here = where(lives, most, self.here)
        return lives

    def selection(self, node: Array, following: Array) -> PathSelection:
        """What is emitted when the path down to the node (B, 1) is accepted, and the token (B, 1) follows."""
        join, length = namespace(node).concatenate, self.tree.shape.length
        upward = [node]
        for _ in range(length):
            upward.append(where(upward[-1] > 0, gather(self.parents, upward[-1] - 1), 0))
        ways = join(upward, -1)
        deep = total(where(ways > 0, 1, 0))
        place = deep - 1 - positions(length, node)
        nodes = where(place >= 0, gather(ways, place), -1)
        tokens = where(nodes > 0, gather(self.tokens, nodes - 1), -1)
        tokens = join((tokens, 0 * deep - 1), -1)
        tokens = where(positions(tokens.shape[-1], tokens) == deep, following, tokens)
        return PathSelection(*(unsmall(x, self.tree.p) for x in (deep[..., 0], nodes, tokens)))


def survivors_of(tree: DraftTree) -> Survivors:
    """The living nodes at the root of a batch of trees, whether these have one shape or each its own."""
    return Survivors(tree) if tree.parents is None else FreeSurvivors(tree)
