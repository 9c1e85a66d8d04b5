"""Drafted trees as data: batches of parents, tokens and distributions, and one tree in plain form for exact computation."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..boundary import int_from
from ..errors import InvalidDrafts
from ..laws import IID, DraftLaw
from ..problem import check_law, check_plain
from .layout import Layout, Level
from .model import Path

__all__ = ["Forest", "PlainTree", "TreeBounds", "TreeShape"]


Forest = tuple[tuple[int, Any], ...]  # the children of a node in drawing order: token, and the child's own children


@dataclass(frozen=True)
class TreeShape:
    """Shape of trees with the same nodes: which node is whose child.

    Node 0 is the root, nodes 1 .. N are draft tokens, breadth first.

    Parameters
    ----------
    parents : tuple of int, optional
        parents[i] is the parent of node i + 1. They do not decrease, so that the children of a node are neighbours, in drawing
        order, and every level is a range of nodes.

    Examples
    --------
    >>> import ot_draft as otd
    >>> shape = otd.trees.TreeShape((0, 0, 1))
    >>> shape.size, shape.length, shape.max_children
    (3, 2, 2)
    """

    parents: tuple[int, ...] = ()
    is_fixed: ClassVar[bool] = True  # all trees within these bounds have one layout

    def __post_init__(self) -> None:
        remedy = "Number the nodes breadth first, so that parents are earlier nodes and do not decrease."
        least = 0
        for node, parent in enumerate(self.parents, 1):
            least = int_from(f"parent of node {node}", parent, least, node, InvalidDrafts, remedy)

    @classmethod
    def chains(cls, K: int, L: int) -> TreeShape:
        """Return K paths of length L from the root; node 1 + (d - 1) K + j is path j at depth d."""
        K, L = int_from("K", K, 1, error=InvalidDrafts), int_from("L", L, 0, error=InvalidDrafts)
        return cls((0,) * (K if L else 0) + tuple(range(1, K * (L - 1) + 1)))

    @classmethod
    def by_level(cls, children: tuple[int, ...]) -> TreeShape:
        """Return a tree in which every node of depth d has children[d] children: (4, 2, 1) has 4 + 8 + 8 nodes."""
        for number in children:
            int_from("each of children", number, 1, error=InvalidDrafts)
        parents: list[int] = []
        first, width = 0, 1
        for number in children:
            parents += [first + index // number for index in range(width * number)]
            first, width = first + width, width * number
        return cls(tuple(parents))

    @classmethod
    def ordered(cls, root: tuple[Any, ...]) -> TreeShape:
        """Return an ordered tree, given as nested tuples: a node is the tuple of its children."""
        parents: list[int] = []
        level, first = [root], 0
        while level:
            parents += [first + index for index, node in enumerate(level) for _ in node]
            first += len(level)
            level = [child for node in level for child in node]
        return cls(tuple(parents))

    @property
    def size(self) -> int:
        return len(self.parents)

    @property
    def length(self) -> int:
        return self.depths[-1]

    @property
    def max_children(self) -> int:
        return max(self.branching, default=0)

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
        """Return the children of a node, in drawing order."""
        return self._children[node]

    def place(self, node: int) -> int:
        """Return the index of a node among its parent's children."""
        return node - self.children(self.parents[node - 1]).start

    def path(self, node: int) -> tuple[int, ...]:
        """Return the nodes from the root's child down to the node."""
        nodes = []
        while node:
            nodes.append(node)
            node = self.parents[node - 1]
        return tuple(reversed(nodes))

    @cached_property
    def branching(self) -> frozenset[int]:
        return frozenset(map(len, self._children)) - {0}

    @property
    def inner(self) -> int:
        return max(self.parents, default=-1) + 1

    @property
    def is_even(self) -> bool:
        return all(len(counts - {0}) <= 1 for counts in self._counts)

    @property
    def children_by_level(self) -> tuple[int, ...] | None:
        return tuple(max(counts) for counts in self._counts[:-1]) if all(len(c) == 1 for c in self._counts) else None

    def parents_of(self, tokens: Array) -> Array:
        """Return the parents int (B, N) for a tree with these tokens (B, N), in their kind of array, on their device."""
        parents, _ = _on_device(self, tokens.device if xp.is_torch(tokens) else None)
        return xp.broadcast_to(parents, (len(tokens), self.size))

    def tree(
        self, tokens: Array, p: Array, q: Array, law: DraftLaw | None = None, fixed_count: Array | None = None
    ) -> DraftTree:
        """Return a batch of trees of this shape; see `DraftTree`."""
        return DraftTree(self.parents_of(tokens), tokens, p, q, self, IID() if law is None else law, fixed_count)

    def layout(self, parents: Array) -> Layout:
        """Return the layout, computed once per device: the first call must precede the capture of a CUDA graph."""
        _, layout = _on_device(self, parents.device if xp.is_torch(parents) else None)
        return layout.of(len(parents))

    def fit(self, tokens: Array) -> TreeShape:
        """Return the shape itself, whatever tokens are absent."""
        return self

    def cut(self, size: int) -> TreeShape:
        return self

    @cached_property
    def _counts(self) -> tuple[set[int], ...]:
        return tuple({len(self.children(node)) for node in level} for level in self.levels)

    @cached_property
    def _children(self) -> tuple[range, ...]:
        starts = [self.size + 1] * (self.size + 1)
        counts = [0] * (self.size + 1)
        for node in range(self.size, 0, -1):
            starts[self.parents[node - 1]] = node
            counts[self.parents[node - 1]] += 1
        return tuple(range(start, start + count) for start, count in zip(starts, counts, strict=True))


@lru_cache(maxsize=256)
def _on_device(shape: TreeShape, device: Any) -> tuple[Array, Layout]:
    """Parents int (1, N) and layout of a shape, cached because making them copies from the host."""
    like = np.empty(0) if device is None else sys.modules["torch"].empty(0, device=device)
    parents = xp.integers(shape.parents, like=like).reshape(1, shape.size)
    levels = [
        Level(slice(max(level.start - 1, 0), level.stop - 1), max(counts))
        for level, counts in zip(shape.levels, shape._counts, strict=True)
    ]
    return parents, Layout(xp.host_view(parents), shape.length, levels)


@dataclass(frozen=True)
class TreeBounds:
    """Bounds of trees whose shapes are data: at most `size` nodes, `length` levels and `max_children` children per node.

    A `DraftTree` within such bounds has the parents of its nodes, numbered breadth first like a `TreeShape`, absent nodes last.
    `TreeShape` has the same members. inner: number of the first nodes that include all nodes with children. branching: possible numbers
    of children except 0. is_even: whether all nodes of a level that have children have equally many. children_by_level: number of
    children by depth, without the last level, if all nodes of a depth have equally many.
    """

    size: int
    length: int
    max_children: int
    is_fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name, least in (("size", 0), ("length", 0), ("max_children", 1)):
            int_from(name, getattr(self, name), least, error=InvalidDrafts)

    @property
    def inner(self) -> int:
        return self.size  # any node may have children

    @property
    def branching(self) -> frozenset[int]:
        return frozenset(range(1, self.max_children + 1))

    @property
    def is_even(self) -> bool:
        return False

    @property
    def children_by_level(self) -> None:
        return None

    def layout(self, parents: Array) -> Layout:
        levels = [Level(slice(0, self.size), self.max_children)] * (self.length + 1)
        return Layout(xp.host_view(parents), self.length, levels)

    def fit(self, tokens: Array) -> TreeBounds:
        """Return bounds cut after the last node of trees with these tokens (B, N), on the host; at least one node is kept."""
        if not xp.on_host(tokens):
            return self
        return self.cut(max(int((tokens >= 0).sum(-1).max()), 1)) if len(tokens) else self

    def cut(self, size: int) -> TreeBounds:
        """Return the bounds of the first `size` nodes; the others are absent."""
        return replace(self, size=size)


# Facts about trees before drafting, from which path rules decide whether they are valid.
Bounds = TreeShape | TreeBounds


@dataclass(frozen=True)
class DraftTree:
    """A batch of B drafted trees with the distributions at their nodes; `TreeShape.tree` makes trees of one shape.

    Parameters
    ----------
    parents : int64 array of shape (B, N)
        Parent of nodes 1 .. N, not decreasing along a row; N for absent nodes, which come last.
    tokens : int64 array of shape (B, N)
        Token of nodes 1 .. N; -1 where a node is absent (all below it count as absent).
    p : array of shape (B, N + 1, n)
        Target distribution of the token after every node, the root first. Nodes with the same tokens before them must hold the
        same distributions.
    q : array of shape (B, M, n)
        Draft distribution by which the children of a node were drawn; rows for at least all nodes that have children.
    bounds : Bounds
        Bounds of all these trees.
    law : DraftLaw, default=IID()
        Law of the children of every node, given q.
    fixed_count : int array of shape (B, M), optional
        Number of fixed tokens among the children of each node, as drafted. By default that of the draft law.
    known_layout : Layout, optional
        `layout`, if it is known already.

    Raises
    ------
    InvalidDrafts
        If the shapes of the arrays do not fit together. The values are not checked.
    InvalidDistribution
        If a tensor requires a gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> shape = otd.trees.TreeShape.chains(1, 2)
    >>> tree = shape.tree(np.array([[0, 1]]), np.full((1, 3, 2), 0.5), np.full((1, 2, 2), 0.5))
    >>> tree.tokens.tolist()
    [[0, 1]]
    """

    parents: Array
    tokens: Array
    p: Array
    q: Array
    bounds: Bounds
    law: DraftLaw = IID()
    fixed_count: Array | None = None
    known_layout: Layout | None = None

    def __post_init__(self) -> None:
        check_plain(self.p, "p")
        check_plain(self.q, "q")
        size, rows = self.bounds.size, self.bounds.inner
        tokens, p, q = (tuple(x.shape) for x in (self.tokens, self.p, self.q))
        fits = len(p) == len(q) == 3 and tokens == (p[0], size) and p[1] == size + 1
        if not fits or q[0] != p[0] or q[2] != p[2] or q[1] < rows:
            raise InvalidDrafts(
                f"tokens, p and q must have shapes (B, {size}), (B, {size + 1}, n) and (B, M, n) with M >= {rows} for {size} drafted"
                f" nodes, got {tokens}, {p} and {q}. Correct the shapes."
            )
        if not str(self.tokens.dtype).endswith("int64"):
            raise InvalidDrafts(f"tokens must have dtype int64, got {self.tokens.dtype}. Convert the token ids.")
        if self.p.dtype != self.q.dtype or (xp.is_torch(self.p) and self.p.device != self.q.device):
            raise InvalidDrafts(
                f"p and q must have one dtype and one device, got {self.p.dtype} and {self.q.dtype}. Convert one of them."
            )
        if self.fixed_count is not None and tuple(self.fixed_count.shape) != q[:2]:
            raise InvalidDrafts(
                f"fixed_count must have shape {q[:2]}, one number per row of q, got {tuple(self.fixed_count.shape)}. Correct the shape."
            )
        if tuple(self.parents.shape) != tokens:
            raise InvalidDrafts(
                f"parents must have shape {tokens}, one per token, got {tuple(self.parents.shape)}. Correct the shape."
            )
        for count in self.bounds.branching:
            check_law(self.law, count)

    @cached_property
    def layout(self) -> Layout:
        """Layout of the nodes."""
        return self.known_layout or self.bounds.layout(self.parents)

    def shape(self, row: int) -> TreeShape:
        """Return the shape of one tree without its absent nodes."""
        parents = self.parents[row].tolist()
        return TreeShape(tuple(parents[: sum(parent < node for node, parent in enumerate(parents, 1))]))

    def rows(self, chosen: Any) -> DraftTree:
        """Return some of the trees, by indices or a slice."""
        return self._mapped(lambda x: x[chosen])

    def repeated(self, count: int) -> DraftTree:
        """Return `count` copies of a batch of one tree, which share its memory."""
        return self._mapped(lambda x: xp.broadcast_to(x, (count, *x.shape[1:])))

    def _mapped(self, change: Callable[[Array], Array]) -> DraftTree:
        fixed_count = None if self.fixed_count is None else change(self.fixed_count)
        parents, tokens, p, q = map(change, (self.parents, self.tokens, self.p, self.q))
        return DraftTree(parents, tokens, p, q, self.bounds, self.law, fixed_count)


@dataclass(frozen=True)
class PathSelection:
    """Accepted paths and the tokens after them, of one iteration, for a batch of B trees of depth L.

    length: int (B,) number of accepted tokens. nodes: int (B, L) the accepted path's nodes, -1 beyond. tokens: int (B, L + 1)
    the accepted tokens, then one token more, then -1.
    """

    length: Array
    nodes: Array
    tokens: Array


@dataclass(frozen=True)
class PlainTree:
    """One drafted tree without distributions, which come from a model: input of path rules in plain form.

    tokens: of nodes 1 .. N of the shape, -1 where absent. law: draft law of the children of every node.
    """

    shape: TreeShape
    tokens: Path
    law: DraftLaw = IID()

    @classmethod
    def of_paths(cls, paths: tuple[Path, ...]) -> PlainTree:
        """Return K i.i.d. draft paths of one length that share only the root."""
        length = len(paths[0])
        tokens = tuple(path[depth] for depth in range(length) for path in paths)
        return cls(TreeShape.chains(len(paths), length), tokens)

    @property
    def forest(self) -> Forest:
        """Children of the root, with their children."""
        return self._below(0)

    def _below(self, node: int) -> Forest:
        return tuple(
            (token, self._below(child) if token >= 0 else ())
            for child in self.shape.children(node)
            for token in (self.tokens[child - 1],)
        )
