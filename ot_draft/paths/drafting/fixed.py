"""Trees of one shape: every tree has the same nodes, whatever was drafted; and the best shapes, from measured acceptance by child."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...errors import InvalidArgument, InvalidDrafts
from ...laws import IID, DraftLaw
from ...selection import SelectionRule
from ..model import Nodes, Rows
from ..rules.joint import Joint
from ..rules.path_rule import PathRule
from ..rules.token_wise import NaivePath
from ..rules.traversal import Traversal
from ..tree import DraftTree, TreeShape
from .drafter import Growing, Grown, TreeDrafter, TreeDraws
from .enumeration import Drafted, trees_of_shape

Ordered = tuple[Any, ...]  # a node of an ordered tree: the tuple of its children
USUAL_RULES: tuple[PathRule, ...] = (Joint(), Traversal(), NaivePath())  # the last one is valid under every law


@dataclass(frozen=True)
class FixedTree(TreeDrafter):
    """Trees of this shape, the children of every node drawn by the law."""

    shape: TreeShape
    law: DraftLaw = IID()

    @classmethod
    def chains(cls, K: int, L: int, law: DraftLaw | None = None) -> FixedTree:
        """K paths of length L that share nothing but the root."""
        return cls(TreeShape.chains(K, L), IID() if law is None else law)

    @property
    def budget(self) -> int:  # type: ignore[override]
        return self.shape.size

    @property
    def length(self) -> int:  # type: ignore[override]
        return self.shape.length

    @property
    def most(self) -> int:  # type: ignore[override]
        return self.shape.most

    @property
    def bounds(self) -> TreeShape:
        return self.shape

    @property
    def rule(self) -> PathRule:
        return next(rule for rule in USUAL_RULES if rule.fits(self.shape, self.law)) if self.budget else NaivePath()

    @property
    def draws(self) -> int:
        return self.shape.size

    @property
    def reads(self) -> int:
        return self.shape.inner

    @property
    def family(self) -> tuple[str, int]:
        return "model", self.width

    @property
    def width(self) -> int:
        return len(self.shape.children(0))

    @property
    def label(self) -> str:
        if self.shape == TreeShape.chains(max(self.width, 1), self.length):
            return f"{self.width} × {self.length}"
        return "tree " + ",".join(str(len(self.shape.children(level.start))) for level in self.shape.levels[:-1])

    def growing(self, draws: TreeDraws) -> Growing:
        return FixedGrowth(self, draws)

    def every_tree(self, nodes: Nodes) -> Iterator[Drafted]:
        return trees_of_shape(nodes, self.shape, self.law)

    @cached_property
    def steps(self) -> tuple[_Pass, ...]:
        """The passes in which the draft model makes the tree, one for every depth with children."""
        return tuple(self._pass(nodes) for nodes in self.shape.levels[:-1])

    def _pass(self, level: range) -> _Pass:
        branching = [node for node in level if len(self.shape.children(node)) > 0]
        # A childless node among them is passed through too: a range of nodes is a view of q, a list would be a copy.
        nodes, groups = range(branching[0], branching[-1] + 1), []
        for count, group in groupby(nodes, key=lambda node: len(self.shape.children(node))):
            run = list(group)
            first, last = self.shape.children(run[0]), self.shape.children(run[-1])
            places = slice(run[0] - nodes.start, run[-1] + 1 - nodes.start)
            if count:
                groups.append(_Group(places, slice(first.start - 1, last.stop - 1), count))
        return _Pass(nodes, tuple(groups))


class _Group(NamedTuple):
    """Neighbouring nodes of a pass with equally many children, by their places in it, and their children among nodes 1 .. N, from 0."""

    nodes: slice
    children: slice
    each: int


class _Pass(NamedTuple):
    """Nodes of one depth that the draft model reads together, and how their children are drawn."""

    nodes: range
    groups: tuple[_Group, ...]


class FixedGrowth(Growing):
    """Trees whose parents never change. Below an absent node, where no token was left to draw, all are absent."""

    def __init__(self, drafting: FixedTree, draws: TreeDraws) -> None:
        super().__init__(draws, len(drafting.steps))
        self.drafting, self._root, self._depth = drafting, self.slots, 0
        self._tokens = self._root + 0 * xp.positions(drafting.budget, self._root) - 1
        self._fixed_count = 0 * self._root + 0 * xp.positions(drafting.budget + 1, self._root)
        self._parents = drafting.shape.parents_of(self._tokens)
        self.same_slots = slice(0, 1)

    def grow(self, q: Array) -> None:
        law, (nodes, groups) = self.drafting.law, self.drafting.steps[self._depth]
        for places, children, count in groups:
            uniforms = self._draws.uniforms(places, children, count)
            drafts, number = law.draw_with_number(q[:, places], uniforms)
            there = self.slots[:, places, None] >= 0
            drafts = drafts if xp.settled(there) else xp.where(there, drafts, -1)
            self._tokens[:, children] = drafts.reshape(len(drafts), -1)
            if law.fixes_tops:
                of = slice(nodes.start + places.start, nodes.start + places.stop)
                self._fixed_count[:, of] = number if isinstance(number, int) else number[..., 0]
        self._depth, self.levels = self._depth + 1, self.levels - 1
        if self.levels:
            self._show_level(self.drafting.steps[self._depth].nodes)

    def grown(self) -> Grown:
        slots = xp.positions(self.drafting.budget + 1, self._root) + 0 * self._fixed_count
        return Grown(self._tokens, self._parents, self._fixed_count, slots)

    def _show_level(self, nodes: range) -> None:
        """The nodes of the next pass."""
        drafted = slice(nodes.start - 1, nodes.stop - 1)
        self.same_slots = slice(nodes.start, nodes.stop)
        self.read, self.above = self._tokens[:, drafted], self._parents[:, drafted]
        slots = nodes.start + xp.positions(len(nodes), self._root) + 0 * self.read
        self.slots = slots if xp.settled(self.read >= 0) else xp.where(self.read >= 0, slots, -1)


def first_chains(tree: DraftTree, K: int, L: int) -> DraftTree:
    """The first K of a tree's chains, cut after L tokens; all trees of the batch are chains of the first one's shape."""
    width = len(tree.shape(0).children(0))
    rows = [0, *(1 + depth * width + path for depth in range(L) for path in range(K))]
    shape = TreeShape.chains(K, L)
    inner = rows[: shape.inner]
    fixed_count = None if tree.fixed_count is None else tree.fixed_count[:, inner]
    return shape.tree(
        tree.tokens[:, [row - 1 for row in rows[1:]]], tree.p[:, rows], tree.q[:, inner], tree.law, fixed_count
    )


def as_drafter(drafting: Any, law: DraftLaw | None = None) -> TreeDrafter:
    """A way to draft as it is; a shape, or (K, L), as `FixedTree`."""
    if isinstance(drafting, tuple):
        check_sizes(*drafting)
        drafting = TreeShape.chains(*drafting)
    if isinstance(drafting, TreeShape):
        return FixedTree(drafting, IID() if law is None else law)
    if law is not None:
        raise InvalidArgument(f"{drafting!r} has a law of its own: leave {law!r} away")
    checked: TreeDrafter = drafting
    return checked


def check_sizes(K: Any, L: Any) -> None:
    """Raise InvalidDrafts for sizes that no paths have."""
    for name, value, least in (("K", K, 1), ("L", L, 0)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InvalidDrafts(f"{name} is {value!r}: give K >= 1 drafted paths of length L >= 0, both integers")


def acceptance_by_child(
    rule: SelectionRule, model: Any, k: int, contexts: int = 400, seed: int = 0
) -> tuple[float, ...]:
    """(k,) P(the rule accepts child i | it refused those before), over the model's contexts and the rule's own draft law.

    The rule's acceptance probabilities are averaged, not its decisions: no noise but that of contexts and drafts.
    """
    rows, taken = Rows(model), np.zeros(k)
    for number in range(contexts):
        p, q = rows.pair(rows.root(number), {})
        drafts = rule.law.draw(q, np.random.default_rng([seed, number]).random(k))
        taken += rule(p, q, drafts).accept / contexts
    refused = 1 - np.concatenate(([0.0], np.cumsum(taken)[:-1]))
    return tuple(float(x) for x in np.divide(taken, refused, out=np.zeros(k), where=refused > 1e-12))


def sequoia(acceptance: Sequence[float], budget: int, length: int) -> TreeShape:
    """The tree of at most `budget` drafted nodes and depth `length` with the most expected accepted tokens.

    acceptance: P(child i is accepted | those before it were refused), taken to be the same at every node; nodes have at
    most so many children. The expected number of accepted tokens is the sum over the nodes of the product of the
    acceptances on the way (`expected_accepted`), and dynamic programming over (depth, child, nodes) maximises it.
    Source: Chen et al., Sequoia: scalable and robust speculative decoding, NeurIPS 2024, section 4.1.
    """
    taken = _unconditional(acceptance)
    if budget < 0 or length < 0:
        raise InvalidArgument(f"budget is {budget}, length is {length}: give numbers of nodes and of levels >= 0")
    # best[d][i][m]: most expected tokens of m nodes in the subtrees of children i, i + 1, ... with d levels left below;
    # split[d][i][m]: how many of them child i's subtree holds, itself included.
    best = np.full((length + 1, len(taken) + 1, budget + 1), -np.inf)
    split = np.zeros(best.shape, dtype=np.int64)
    best[:, :, 0] = 0.0
    for d in range(1, length + 1):
        subtree = 1 + best[d - 1, 0, :budget]  # of 1 .. budget nodes: itself, and what its children make of the rest
        for i in range(len(taken) - 1, -1, -1):
            own = np.where(np.isfinite(subtree), taken[i] * np.maximum(subtree, 0), -np.inf)  # 0 * inf is no number
            for m in range(1, budget + 1):
                gain = own[:m] + best[d, i + 1, m - 1 :: -1]
                split[d, i, m] = 1 + int(np.argmax(gain))
                best[d, i, m] = gain[split[d, i, m] - 1]
    return as_shape(_children(split, length, 0, int(np.argmax(best[length, 0]))))


def _children(split: np.ndarray, d: int, i: int, m: int) -> Ordered:
    """Children i, i + 1, ... of a node that share m nodes."""
    if m == 0:
        return ()
    own = int(split[d, i, m])
    return (_children(split, d - 1, 0, own - 1), *_children(split, d, i + 1, m - own))


def as_shape(root: Ordered) -> TreeShape:
    """An ordered tree, each node the tuple of its children, numbered breadth first."""
    parents: list[int] = []
    level, first = [root], 0
    while level:
        parents += [first + index for index, node in enumerate(level) for _ in node]
        first += len(level)
        level = [child for node in level for child in node]
    return TreeShape(tuple(parents))


def expected_accepted(shape: TreeShape, acceptance: Sequence[float]) -> float:
    """Expected accepted tokens of a tree when P(child i is accepted | those before it refused) is the same at every node."""
    taken = _unconditional(acceptance)
    reached = [1.0]
    for node in range(1, shape.size + 1):
        place = shape.place(node)
        if place >= len(taken):
            raise InvalidArgument(f"node {node} is child {place + 1}: acceptance is given for {len(taken)} children")
        reached.append(reached[shape.parents[node - 1]] * taken[place])
    return sum(reached[1:])


def _unconditional(acceptance: Sequence[float]) -> list[float]:
    """P(child i is accepted), which means that those before it were refused."""
    taken, refused = [], 1.0
    for place, share in enumerate(acceptance):
        if not 0 <= share <= 1:
            raise InvalidArgument(f"acceptance of child {place + 1} is {share!r}: give probabilities")
        taken.append(refused * share)
        refused *= 1 - share
    return taken


def best_by_level(acceptance: Sequence[float], budget: int, length: int) -> TreeShape:
    """The tree of at most `budget` nodes with equally many children at each level that has most expected tokens."""
    shapes = [TreeShape.by_level(children) for children in _by_level(budget, length, min(len(acceptance), budget))]
    return max(shapes, key=lambda shape: expected_accepted(shape, acceptance))


def _by_level(budget: int, length: int, widest: int, width: int = 1) -> Iterator[tuple[int, ...]]:
    """Numbers of children by level that do not increase, with at most `budget` nodes."""
    for children in range(1, widest + 1):
        nodes = width * children
        if nodes <= budget and length:
            yield (children,)
            for further in _by_level(budget - nodes, length - 1, children, nodes):
                yield (children, *further)
