"""What is drafted in one step, by which law, and by which rule it is selected from."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import ot_draft as ot

from ..errors import CannotDecode
from .plans.chooser import Always, Chooser, Run
from .plans.lookup import Lookup, Match


@dataclass(frozen=True)
class Draw:
    """Neighbouring nodes with the same number of children: slices of the nodes, and of their children among nodes 1 .. N."""

    nodes: slice
    children: slice
    count: int


@dataclass(frozen=True)
class DraftLevel:
    """One pass of the draft model: the nodes first .. last of one depth, and the draws of their children."""

    nodes: slice
    draws: tuple[Draw, ...]


@dataclass(frozen=True)
class Drafting:
    """A tree of drafted tokens, the law of the children of every node, and the path rule that selects.

    shape: an `ot.paths.TreeShape` of N nodes and depth L. InvalidDrafts where the rule is not valid on trees of this shape
    under the law. Without shape and rule: autoregressive decoding. lookup: where drafts are looked up in the text itself; see `LookedUp`.
    """

    shape: ot.paths.TreeShape = field(default_factory=ot.paths.TreeShape)
    rule: ot.paths.PathRule | None = None
    law: ot.DraftLaw = ot.IID()
    lookup: Lookup | None = None

    def __post_init__(self) -> None:
        if (self.shape.size == 0) != (self.rule is None):
            raise CannotDecode(
                "a path rule needs a tree and a tree needs a path rule: give K >= 1 paths of length L >= 1, or neither to"
                " decode autoregressively"
            )
        if self.rule is not None:
            self.rule.check(self.shape, self.law)
            for count in self.shape.branching:
                self.law.check(count)

    @classmethod
    def chains(cls, paths: int, length: int, rule: ot.paths.PathRule, law: ot.DraftLaw | None = None) -> Drafting:
        """K paths of length L that share nothing but the root."""
        if paths < 1 or length < 1:
            raise CannotDecode(f"K is {paths} and L is {length}: give at least 1 path of at least 1 token")
        return cls(ot.paths.TreeShape.chains(paths, length), rule, ot.IID() if law is None else law)

    @classmethod
    def looked_up(cls, lookup: Lookup | None = None) -> LookedUp:
        """One path of prompt lookup, followed as far as the target's own draws agree with it (`ot.paths.NaiveTarget`)."""
        lookup = Lookup() if lookup is None else lookup
        return LookedUp(ot.paths.TreeShape.chains(1, lookup.num_tokens), ot.paths.NaiveTarget(), ot.IID(), lookup)

    @classmethod
    def dynamic(
        cls, grower: ot.paths.DynamicTree, rule: ot.paths.PathRule | None = None, lookup: Lookup | None = None
    ) -> Dynamic:
        """Trees whose shapes follow the draft model, `ot.paths.CountedTree(32)` for instance; by their own rule where none is given.

        lookup: how tokens are looked up for a tree that takes such, `ot.paths.LookupTree`.
        """
        if lookup is not None and not grower.takes:
            raise CannotDecode(f"{grower.label} takes no looked-up tokens: leave the lookup away, or take LookupTree")
        lookup = Lookup(grower.takes).for_tree if lookup is None and grower.takes else lookup
        return Dynamic(grower.shape, grower.rule if rule is None else rule, grower.law, lookup, grower=grower)

    def begin(self, run: Run) -> Chooser:
        """This drafting in every step."""
        return Always(self)

    def without_clock(self) -> Drafting:
        """Itself: no step depends on a time."""
        return self

    @property
    def asks_draft_model(self) -> bool:
        """Whether the draft model is asked."""
        return self.shape.size > 0

    @property
    def way(self) -> Hashable:
        """What the time of drafting depends on."""
        return self.shape, self.law

    @property
    def width(self) -> int:
        """Number of paths; of a tree, children of the root, at most."""
        return len(self.shape.children(0))

    @property
    def one_path(self) -> bool:
        """Whether every node has one child at most: node i of an accepted path is then in the i-th slot already."""
        return self.shape.parents == tuple(range(self.shape.size))

    @property
    def inner(self) -> int:
        """Number M of nodes up to the last one with children: those the draft model must look at."""
        return self.shape.inner

    @property
    def room(self) -> int:
        """Slots that a step takes in the caches besides the root's."""
        return self.shape.size

    @property
    def draws(self) -> int:
        """Random numbers that the drafts of one step take: one a node."""
        return self.shape.size

    @property
    def uniforms(self) -> int:
        """Random numbers of one step: those of the drafts, then those of the rule."""
        return 1 if self.rule is None else self.draws + self.rule.uniforms(self.shape)

    def select(self, tree: ot.paths.DraftTree, numbers: Any) -> ot.paths.PathSelection:
        """What the rule emits of trees drafted so, by all random numbers of the step; of a smaller tree it takes the first of its own."""
        assert self.rule is not None
        return self.rule.select(tree, numbers[:, self.draws : self.draws + self.rule.uniforms(tree.shape)])

    def tree(self, tokens: Any, p: Any, q: Any, tops: Any = None, parents: Any = None) -> ot.paths.DraftTree:
        """The trees (B, N) drafted by it, as its rule takes them. tops: where q decides; parents: of trees that follow the draft model.

        Of these p may end behind the largest: (B, m + 1, n).
        """
        return ot.paths.DraftTree(self.shape, tokens, p, q, self.law, tops)

    @cached_property
    def levels(self) -> tuple[DraftLevel, ...]:
        """The passes in which the draft model makes the tree, one a depth."""
        return tuple(self._level(nodes) for nodes in self.shape.levels if self._branching(nodes))

    def _branching(self, nodes: range) -> list[int]:
        return [node for node in nodes if len(self.shape.children(node)) > 0]

    def _level(self, nodes: range) -> DraftLevel:
        branching = self._branching(nodes)
        # A childless node among them is passed through too: a range of nodes is a view of q, a list would be a copy.
        passed = range(branching[0], branching[-1] + 1)
        draws = []
        for count, group in groupby(passed, key=lambda node: len(self.shape.children(node))):
            run = list(group)
            first, last = self.shape.children(run[0]), self.shape.children(run[-1])
            if count:
                draws.append(Draw(slice(run[0], run[-1] + 1), slice(first.start - 1, last.stop - 1), count))
        return DraftLevel(slice(passed.start, passed.stop), tuple(draws))


@dataclass(frozen=True)
class LookedUp(Drafting):
    """One path of tokens looked up in the text, in the place of the draft model; every node's law is the point mass on its token."""

    def begin(self, run: Run) -> Chooser:
        """In every step as many tokens of it as were found."""
        return Found(self, run.batch)

    def shortened(self, length: int) -> Drafting:
        """One path of fewer tokens; plain decoding for none."""
        if length >= self.shape.length:
            return self
        return replace(self, shape=ot.paths.TreeShape.chains(1, length)) if length else Drafting()

    @property
    def asks_draft_model(self) -> bool:
        return False

    @property
    def draws(self) -> int:
        return 0


@dataclass(frozen=True)
class Dynamic(Drafting):
    """Trees whose shapes follow the draft model, as the grower lets them grow: see `Drafting.dynamic`."""

    grower: ot.paths.DynamicTree = field(kw_only=True)

    @property
    def way(self) -> Hashable:
        return self.grower

    @property
    def width(self) -> int:
        return self.grower.shape.most

    @property
    def one_path(self) -> bool:
        return self.grower.shape.most == 1

    @property
    def room(self) -> int:
        return max(self.shape.size, self.grower.reads)

    @property
    def draws(self) -> int:
        return self.grower.draws

    def tree(self, tokens: Any, p: Any, q: Any, tops: Any = None, parents: Any = None) -> ot.paths.DraftTree:
        used = p.shape[1] - 1
        shape = ot.paths.FreeShape(nodes=used, deepest=self.shape.length, most=self.grower.shape.most)
        parents = parents[:, :used].clamp(max=used)
        return ot.paths.DraftTree(shape, tokens[:, :used], p, q[:, : used + 1], self.law, tops[:, : used + 1], parents)


class Found(Chooser):
    """Prompt lookup, in every step with as many nodes as the longest draft has among the texts that go on."""

    def __init__(self, drafting: LookedUp, batch: int) -> None:
        assert drafting.lookup is not None
        self.lookup = drafting.lookup
        self.menu = tuple(drafting.shortened(length) for length in range(drafting.shape.length + 1))
        self._going, self._found = [True] * batch, list[Match]()

    def choose(self, texts: Sequence[Sequence[int]]) -> Drafting:
        going = zip(texts, self._going, strict=True)
        self._found = [self.lookup.find(text) if goes_on else Match() for text, goes_on in going]
        return self.menu[max(len(match.tokens) for match in self._found)]

    def found(self, lookup: Lookup, texts: Sequence[Sequence[int]]) -> Sequence[Match]:
        return self._found

    def learn(self, step: Any, seconds: float) -> None:
        self._going = (~step.finished).tolist()
