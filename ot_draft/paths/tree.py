"""Drafted trees as data: the shape, which is fixed, and the batch of tokens and distributions at its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

from ..arrays import Array, broadcast, is_torch
from ..errors import InvalidDrafts
from ..laws import IID, DraftLaw
from ..problem import check_law


@dataclass(frozen=True)
class TreeShape:
    """Which node is whose child. Node 0 is the root, nodes 1 .. N are drafted tokens, breadth first.

    parents: parents[i] is the parent of node i + 1. They do not decrease, so that the children of a node are neighbours, in
    drawing order, and every level is a range of nodes.
    """

    is_fixed: ClassVar[bool] = True  # not data that differs from tree to tree
    parents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for index, parent in enumerate(self.parents):
            whole = isinstance(parent, int) and not isinstance(parent, bool)
            if not whole or not (self.parents[index - 1] if index else 0) <= parent <= index:
                raise InvalidDrafts(
                    f"node {index + 1} has parent {parent!r}: number the nodes breadth first, so that parents are earlier"
                    " nodes and do not decrease"
                )

    @classmethod
    def chains(cls, K: int, L: int) -> TreeShape:
        """K paths of length L from the root, level by level: node 1 + (d - 1) K + j is path j at depth d."""
        if K < 1 or L < 0:
            raise InvalidDrafts(f"K is {K}, L is {L}: give K >= 1 paths of length L >= 0")
        return cls((0,) * (K if L else 0) + tuple(range(1, K * (L - 1) + 1)))

    @classmethod
    def by_level(cls, children: tuple[int, ...]) -> TreeShape:
        """Every node of depth d has children[d] children: (4, 2, 1) has 4 + 8 + 8 nodes."""
        if any(number < 1 for number in children):
            raise InvalidDrafts(f"children by level are {children}: give numbers >= 1")
        parents: list[int] = []
        first, width = 0, 1
        for number in children:
            parents += [first + index // number for index in range(width * number)]
            first, width = first + width, width * number
        return cls(tuple(parents))

    @property
    def size(self) -> int:
        """Number N of drafted tokens."""
        return len(self.parents)

    @property
    def length(self) -> int:
        """Depth L of the deepest node."""
        return self.depths[-1]

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Depth of nodes 0 .. N."""
        depths = [0]
        for parent in self.parents:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def levels(self) -> tuple[range, ...]:
        """The nodes by depth: levels[0] is the root alone."""
        ends = [self.depths.index(depth) for depth in range(self.length + 1)] + [self.size + 1]
        return tuple(range(start, stop) for start, stop in pairwise(ends))

    def children(self, node: int) -> range:
        """Children of a node, in drawing order."""
        return self._children[node]

    def place(self, node: int) -> int:
        """Which child of its parent a node is, from 0."""
        return node - self.children(self.parents[node - 1]).start

    def path(self, node: int) -> tuple[int, ...]:
        """Nodes from the root's child down to the node."""
        nodes = []
        while node:
            nodes.append(node)
            node = self.parents[node - 1]
        return tuple(reversed(nodes))

    @cached_property
    def branching(self) -> frozenset[int]:
        """Numbers of children that occur, other than 0."""
        return frozenset(map(len, self._children)) - {0}

    @property
    def inner(self) -> int:
        """Number of the first nodes among which are all that have children."""
        return max(self.parents, default=-1) + 1

    @property
    def is_even(self) -> bool:
        """Whether all nodes of a level that have children have equally many."""
        return all(len({len(self.children(v)) for v in level} - {0}) <= 1 for level in self.levels)

    @cached_property
    def _children(self) -> tuple[range, ...]:
        starts = [self.size + 1] * (self.size + 1)
        counts = [0] * (self.size + 1)
        for node in range(self.size, 0, -1):
            starts[self.parents[node - 1]] = node
            counts[self.parents[node - 1]] += 1
        return tuple(range(start, start + count) for start, count in zip(starts, counts, strict=True))


@dataclass(frozen=True, kw_only=True)
class FreeShape(TreeShape):
    """The bounds of drafted trees whose shapes are data: at most `nodes` nodes, `deepest` levels, `most` children a node.

    A `DraftTree` of it holds the parents of its nodes, numbered breadth first like a `TreeShape`, absent nodes last. What depends on
    the shape itself (children, levels, paths) is not known here: InvalidDrafts.
    """

    is_fixed: ClassVar[bool] = False
    is_even: ClassVar[bool] = False  # not a question of one tree
    nodes: int
    deepest: int
    most: int

    def __post_init__(self) -> None:
        if self.parents or min(self.nodes, self.deepest) < 0 or self.most < 1:
            raise InvalidDrafts(
                f"nodes is {self.nodes}, deepest {self.deepest}, most {self.most}: give numbers >= 0, one child or more, and the"
                " parents to the DraftTree"
            )

    @property
    def size(self) -> int:
        return self.nodes

    @property
    def length(self) -> int:
        return self.deepest

    @property
    def inner(self) -> int:
        return self.nodes

    @property
    def branching(self) -> frozenset[int]:  # worked out in a TreeShape
        """Numbers of children that may occur, other than 0."""
        return frozenset(range(1, self.most + 1))

    @property
    def depths(self) -> tuple[int, ...]:
        raise InvalidDrafts(
            "the shapes of these trees are data, which this path rule does not take: take Joint() or TokenWise(...)"
        )

    def path(self, node: int) -> tuple[int, ...]:
        return self.depths

    def children(self, node: int) -> range:
        return range(self.depths[node])  # which says why not


@dataclass(frozen=True)
class DraftTree:
    """A batch of B drafted trees of one shape, with the models' distributions at their nodes.

    shape: of every tree; for a `FreeShape`, parents int64 (B, N) holds the parent of every node, not decreasing along a row; N where
    a node is absent, and these stand last. tokens: int64 (B, N), the token of nodes 1 .. N; -1 where a node is absent (all below it
    count as absent).
    p: (B, N + 1, n) the target's law of the token after every node, the root first. q: (B, M, n) the draft's law, by which
    the children of a node were drawn; rows for at least all nodes that have children. law: the law of the children of every
    node, given q. tops: int (B, M), how many children of each node are fixed top tokens, as they were drawn; None where the law says
    it without q, and else it is worked out again.
    The values are trusted; nodes with the same tokens before them must hold the same laws. Raises InvalidDrafts
    where the shapes do not fit together.
    """

    shape: TreeShape
    tokens: Array
    p: Array
    q: Array
    law: DraftLaw = IID()
    tops: Array | None = None
    parents: Array | None = None

    def __post_init__(self) -> None:
        size, rows = self.shape.size, self.shape.inner
        tokens, p, q = (tuple(x.shape) for x in (self.tokens, self.p, self.q))
        fits = len(p) == len(q) == 3 and tokens == (p[0], size) and p[1] == size + 1
        if not fits or q[0] != p[0] or q[2] != p[2] or q[1] < rows:
            raise InvalidDrafts(
                f"tokens have shape {tokens}, p {p}, q {q}: a tree of {size} drafted nodes takes (B, {size}),"
                f" (B, {size + 1}, n) and (B, M, n) with M >= {rows}"
            )
        if not str(self.tokens.dtype).endswith("int64"):
            raise InvalidDrafts(f"tokens have dtype {self.tokens.dtype}: give token ids as int64")
        if self.p.dtype != self.q.dtype or (is_torch(self.p) and self.p.device != self.q.device):
            raise InvalidDrafts(
                f"p is {self.p.dtype}, q is {self.q.dtype}: give both in one number type, on one device"
            )
        if self.tops is not None and tuple(self.tops.shape) != q[:2]:
            raise InvalidDrafts(f"tops have shape {tuple(self.tops.shape)}: give {q[:2]}, a number for every row of q")
        given = None if self.parents is None else tuple(self.parents.shape)
        if given != (None if self.shape.is_fixed else tokens):
            raise InvalidDrafts(
                f"parents have shape {given}: give them, as {tokens}, for a FreeShape, and for no other shape"
            )
        for count in self.shape.branching:
            check_law(self.law, count)

    def row(self, index: int) -> DraftTree:
        """One tree, as a batch of one."""
        arrays = (self.tokens, self.p, self.q, self.tops, self.parents)
        tokens, p, q, tops, parents = (None if x is None else x[index : index + 1] for x in arrays)
        return DraftTree(self.shape, tokens, p, q, self.law, tops, parents)

    def repeated(self, count: int) -> DraftTree:
        """So many copies of a batch of one tree, which share its memory."""
        tokens, p, q = (broadcast(x, (count, *x.shape[1:])) for x in (self.tokens, self.p, self.q))
        tops, parents = (None if x is None else broadcast(x, (count, *x.shape[1:])) for x in (self.tops, self.parents))
        return DraftTree(self.shape, tokens, p, q, self.law, tops, parents)


@dataclass(frozen=True)
class PathSelection:
    """What is emitted in one iteration, for a batch of B trees of depth L.

    length: int (B,) number of accepted tokens. nodes: int (B, L) the accepted path's nodes, -1 beyond. tokens: int (B, L + 1)
    the accepted tokens, then one token more, then -1.
    """

    length: Array
    nodes: Array
    tokens: Array
