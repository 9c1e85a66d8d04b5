"""Trees of one shape: every tree has the same nodes, whatever tokens are drafted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby, pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...errors import InvalidArgument, InvalidDrafts
from ...laws import IID, DraftLaw, Fact, FixedFirst, WithoutReplacement, outside, probability_inside
from ...laws.fixed_tokens import fixed_part
from ..model import Nodes, Path
from ..rules.joint import Joint
from ..rules.path_rule import PathRule, fits
from ..rules.token_wise import NaivePath
from ..rules.traversal import Traversal
from ..tree import DraftTree, TreeShape
from .drafter import DraftCounts, Growing, Grown, TreeDrafter, TreeDraws
from .enumeration import Drafted, trees_of_shape
from .forced import Laws

__all__ = ["first_chains"]


@dataclass(frozen=True)
class FixedTree(TreeDrafter):
    """Trees of one shape, the children of every node drawn by a law.

    Parameters
    ----------
    shape : TreeShape
        Shape of the trees.
    law : DraftLaw, default=IID()
        Law of the children of every node.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.trees.FixedTree(otd.trees.TreeShape((0, 0))).bounds.max_children
    2
    """

    shape: TreeShape
    law: DraftLaw = IID()

    @classmethod
    def chains(cls, K: int, L: int, law: DraftLaw | None = None) -> FixedTree:
        """Return K paths of length L that share only the root."""
        return cls(TreeShape.chains(K, L), IID() if law is None else law)

    @property
    def budget(self) -> int:
        return self.shape.size

    @property
    def length(self) -> int:
        return self.shape.length

    @property
    def max_children(self) -> int:
        return self.shape.max_children

    @property
    def bounds(self) -> TreeShape:
        return self.shape

    @property
    def rule(self) -> PathRule:
        usual: tuple[PathRule, ...] = (Joint(), Traversal())
        naive = NaivePath()  # valid under every draft law
        return next((rule for rule in usual if fits(rule, self.shape, self.law)), naive) if self.budget else naive

    @property
    def counts(self) -> DraftCounts:
        return DraftCounts(self.budget, self.shape.inner, self.length, 0, self.width)

    @property
    def width(self) -> int:
        """Children of the root: the number of paths."""
        return len(self.shape.children(0))

    @property
    def label(self) -> str:
        if self.shape == TreeShape.chains(max(self.width, 1), self.length):
            return f"{self.width} × {self.length}"
        return "tree " + ",".join(str(len(self.shape.children(level.start))) for level in self.shape.levels[:-1])

    @property
    def family(self) -> tuple[str, int]:
        return "model", self.counts.n_paths

    def growing(self, draws: TreeDraws) -> Growing:
        return FixedGrowth(self, draws)

    def held(
        self,
        draft: Laws,
        text: Path,
        generator: np.random.Generator | None = None,
        runs: int = 1,
        given: Sequence[int] = (),
    ) -> tuple[Array, Array]:
        """As `TreeDrafter.held`, exact. Raises InvalidArgument unless drafts are independent or drawn without replacement."""
        law, L = self.law, self.length
        distinct = law == WithoutReplacement()
        if not (distinct or Fact.INDEPENDENT_OUTSIDE_FIXED in law.facts):
            raise InvalidArgument(
                f"law must have independent drafts or be WithoutReplacement(), got {law!r}. Use such a law."
            )
        if len(text) != L:
            raise InvalidArgument(f"text must have {L} tokens, the depth of the trees, got {len(text)}. Pass as many.")
        marginals = without_replacement if distinct else independent
        laws = draft([text[:depth] for depth in range(L)])

        @cache
        def each(depth: int, count: int) -> Array:
            return marginals(law, laws[depth], xp.integers(text[depth : depth + 1], like=laws[depth]), count)

        def held(node: int) -> Array:
            """P(the first i tokens of the text are held below a node that holds the tokens up to its depth), (L + 1,)."""
            depth, children = self.shape.depths[node], self.shape.children(node)
            found = xp.full((L + 1,), 0, like=laws[0])
            if children:
                ways = [each(depth, len(children))[i] * held(child) for i, child in enumerate(children)]
                found = sum(ways) if distinct else 1 - prod(1 - way for way in ways)
            found[depth] = xp.number(1, laws[0])
            return found

        chances = held(0)[None, 1:]
        return chances, 1 + 0 * chances

    def every_tree(self, nodes: Nodes) -> Iterator[Drafted]:
        return trees_of_shape(nodes, self.shape, self.law)

    @cached_property
    def steps(self) -> tuple[_Pass, ...]:
        """Forward passes in which the draft model drafts the tree, one for every depth with children."""
        passes, children = [], self.shape.children
        for level in self.shape.levels[:-1]:
            branching = [node for node in level if children(node)]
            # A range includes nodes without children among them: it is a view of q, a list would be a copy.
            nodes, groups = range(branching[0], branching[-1] + 1), []
            for count, group in groupby(nodes, key=lambda node: len(children(node))):
                run = list(group)
                places = slice(run[0] - nodes.start, run[-1] + 1 - nodes.start)
                if count:
                    below = slice(children(run[0]).start - 1, children(run[-1]).stop - 1)
                    groups.append(_Group(places, below, count))
            passes.append(_Pass(nodes, tuple(groups)))
        return tuple(passes)


class _Group(NamedTuple):
    """Neighbouring nodes of a pass with equally many children, by index in the pass, and their children by index in nodes 1 .. N."""

    nodes: slice
    children: slice
    each: int


class _Pass(NamedTuple):
    """Nodes of one depth that the draft model reads together, and how their children are drawn."""

    nodes: range
    groups: tuple[_Group, ...]


class FixedGrowth(Growing):
    """Trees of fixed parents. Below a node that is absent because no token was left to draw, all are absent."""

    def __init__(self, drafting: FixedTree, draws: TreeDraws) -> None:
        super().__init__(draws, len(drafting.steps))
        self.drafting, self._root, self._depth = drafting, self.slots, 0
        self._tokens = self._root + 0 * xp.arange(drafting.budget, like=self._root) - 1
        if given := drafting.counts.n_lookup_tokens:
            self._tokens[:, :given] = draws.kind(draws.given[:, :given])
        self._fixed_count = 0 * self._root + 0 * xp.arange(drafting.budget + 1, like=self._root)
        self._parents = drafting.shape.parents_of(self._tokens)
        self.same_slots = slice(0, 1)

    def grow(self, q: Array) -> None:
        nodes, groups = self.drafting.steps[self._depth]
        for places, children, count in groups:
            drafts, n_fixed = self._drawn(q[:, places], places, children, count)
            there = self.slots[:, places, None] >= 0
            drafts = drafts if xp.holds_without_sync(there) else xp.where(there, drafts, -1)
            self._tokens[:, children] = drafts.reshape(len(drafts), -1)
            by_node = not isinstance(n_fixed, int)
            if by_node or n_fixed:  # else the zeros stay
                of = slice(nodes.start + places.start, nodes.start + places.stop)
                self._fixed_count[:, of] = n_fixed[..., 0] if by_node else n_fixed
        self._depth, self.levels = self._depth + 1, self.levels - 1
        if self.levels:
            self._show_level(self.drafting.steps[self._depth].nodes)

    def _drawn(self, q: Array, places: slice, children: slice, count: int) -> tuple[Array, Any]:
        """Children (B, W, count) of neighbouring nodes with q (B, W, n), and the number of fixed ones of each node."""
        law, uniforms = self.drafting.law, self._draws.uniforms(places, children, count)
        return law.draw_counted(q, uniforms) if isinstance(law, FixedFirst) else (law.draw(q, uniforms), 0)

    def grown(self) -> Grown:
        slots = xp.arange(self.drafting.budget + 1, like=self._root) + 0 * self._fixed_count
        return Grown(self._tokens, self._parents, self._fixed_count, slots)

    def _show_level(self, nodes: range) -> None:
        drafted = slice(nodes.start - 1, nodes.stop - 1)
        self.same_slots = slice(nodes.start, nodes.stop)
        self.read, self.above = self._tokens[:, drafted], self._parents[:, drafted]
        slots = nodes.start + xp.arange(len(nodes), like=self._root) + 0 * self.read
        self.slots = slots if xp.holds_without_sync(self.read >= 0) else xp.where(self.read >= 0, slots, -1)


def independent(law: DraftLaw, q: Array, token: Array, count: int) -> Array:
    """Probability that the child at each index is the token: (n,), int (1,) -> (count,)."""
    fixed = fixed_part(law, q, count)
    return xp.where(fixed >= 0, xp.astype(fixed == token, q.dtype), xp.gather(outside(q, fixed), token))


def without_replacement(law: DraftLaw, q: Array, token: Array, count: int) -> Array:
    """The same for draws without replacement."""
    others = ~xp.members(token, q.shape[-1])
    among = [1 - probability_inside(law, q, others, first)[..., None] for first in range(count + 1)]
    return xp.concat([later - earlier for earlier, later in pairwise(among)], axis=-1)


def first_chains(tree: DraftTree, K: int, L: int) -> DraftTree:
    """Return the first K of a tree's chains, cut after L tokens; all trees of the batch have the first one's shape."""
    width = len(tree.shape(0).children(0))
    rows = [0, *(1 + depth * width + path for depth in range(L) for path in range(K))]
    shape = TreeShape.chains(K, L)
    inner = rows[: shape.inner]
    tokens = tree.tokens[:, [row - 1 for row in rows[1:]]]
    fixed_count = None if tree.fixed_count is None else tree.fixed_count[:, inner]
    return shape.tree(tokens, tree.p[:, rows], tree.q[:, inner], tree.law, fixed_count)


def as_drafter(drafting: Any, law: DraftLaw | None = None) -> TreeDrafter:
    """Return a tree drafter as it is; a shape, or (K, L), as a `FixedTree`."""
    if isinstance(drafting, tuple):
        if len(drafting) != 2:
            raise InvalidDrafts(
                f"drafting must be (K, L), a TreeShape or a TreeDrafter, got {drafting!r}. Pass (2, 3)."
            )
        drafting = TreeShape.chains(*drafting)
    if isinstance(drafting, TreeShape):
        return FixedTree(drafting, IID() if law is None else law)
    if not hasattr(drafting, "every_tree"):
        raise InvalidDrafts(f"drafting must be (K, L), a TreeShape or a TreeDrafter, got {drafting!r}. Pass (2, 3).")
    if law is not None:
        raise InvalidArgument(f"law must be None for {drafting!r}, which has its own, got {law!r}. Remove law.")
    checked: TreeDrafter = drafting
    return checked
