"""Laws of trees whose drafting decides node by node how many children are fixed tokens, and which."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from ..arrays import Array, integers
from ..errors import InvalidDrafts
from .base import DraftLaw, outside
from .fixed import Fixed, FixedFirst
from .fixed_last import FixedLast

Prefix = tuple[int, ...]


class ToldByNode(DraftLaw):
    """What such laws have in common: a `DraftTree` carries the numbers in `fixed_count`, and the tokens stand among each node's children.

    A tree in plain form has them in the law: fixed holds (prefix, tokens) for every prefix after which some are.
    """

    fixed: tuple[tuple[Prefix, Prefix], ...]

    @abstractmethod
    def in_order(self, fixed: Prefix, drawn: Prefix) -> Prefix:
        """The children of a node in the order in which rules take them."""

    @abstractmethod
    def next_draw(self, q: Array, fixed: Prefix, drawn: Prefix) -> Array:
        """Law (n,) of one more draw at a node with these children; 0 where no token is left."""

    @abstractmethod
    def told(self, fixed: tuple[tuple[Prefix, Prefix], ...]) -> DraftLaw:
        """The same with the tokens of a tree in plain form."""

    def number(self, q: Array, k: int) -> Any:
        raise InvalidDrafts(
            f"{self.name}: how many children are fixed is told with the tree: give DraftTree(..., fixed_count=...)"
        )

    @property
    def number_by_q(self) -> bool:
        return True

    @property
    def spellings(self) -> tuple[str, ...]:
        return ()  # it says nothing without a tree

    def fixed_at(self, prefix: Prefix) -> Prefix:
        """The fixed tokens after a prefix."""
        return dict(self.fixed).get(prefix, ())


@dataclass(frozen=True)
class ByNode(ToldByNode, FixedFirst):
    """At every node some fixed tokens, then i.i.d. draws from q outside them: how many, and which, is told node by node.

    The tokens are the first children of each node. What the numbers may depend on for `Joint` and `Optimal` to be lossless:
    proofs_checks/paths/adapted_trees.py.
    """

    fixed: tuple[tuple[Prefix, Prefix], ...] = ()

    def at(self, prefix: Prefix) -> DraftLaw:
        return Fixed(self.fixed_at(prefix))

    def in_order(self, fixed: Prefix, drawn: Prefix) -> Prefix:
        return fixed + drawn

    def next_draw(self, q: Array, fixed: Prefix, drawn: Prefix) -> Array:
        return outside(q, integers(fixed, q))

    def told(self, fixed: tuple[tuple[Prefix, Prefix], ...]) -> ByNode:
        return ByNode(fixed)

    def top_drafts(self, q: Array, k: int, number: Any = None) -> Array:
        raise InvalidDrafts(
            "ByNode: the fixed tokens stand in the tree, as the first children of their node: ask `at(prefix)`"
        )

    def plain(self, k: int) -> DraftLaw:
        return ByNode()


@dataclass(frozen=True)
class ByNodeLast(ToldByNode, FixedLast):
    """`FixedLast` at every node, with tokens and numbers that are told node by node: the tokens are the last children.

    What the numbers may depend on for `Traversal` to be lossless: proofs_checks/paths/traversed_trees.py.
    """

    fixed: tuple[tuple[Prefix, Prefix], ...] = ()

    def at(self, prefix: Prefix) -> DraftLaw:
        return FixedLast(self.fixed_at(prefix))

    def fixed_among(self, children: Prefix, number: int) -> Prefix:
        return children[len(children) - number :]

    def in_order(self, fixed: Prefix, drawn: Prefix) -> Prefix:
        return drawn + fixed

    def next_draw(self, q: Array, fixed: Prefix, drawn: Prefix) -> Array:
        return outside(q, integers(fixed + drawn, q))

    def told(self, fixed: tuple[tuple[Prefix, Prefix], ...]) -> ByNodeLast:
        return ByNodeLast(fixed=fixed)

    def child(self, q: Array, earlier: Array, token: Array, count: int, number: Any = None) -> Array:
        raise InvalidDrafts(
            "ByNodeLast: the fixed tokens stand in the tree, as the last children of their node: ask `at(prefix)`"
        )
