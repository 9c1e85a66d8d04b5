"""The law of trees whose drafting decides node by node how many children are fixed tokens, and which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..arrays import Array, integers
from ..errors import InvalidDrafts
from .base import DraftLaw, outside
from .fixed import Fixed, FixedFirst

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class ByNode(FixedFirst):
    """At every node some fixed tokens, then i.i.d. draws from q outside them: how many, and which, is told node by node.

    A `DraftTree` of this law carries the numbers in `tops`, and the tokens are the first children of each node. A tree in plain form
    has them in the law: fixed holds (prefix, tokens) for every prefix after which some are. What the numbers may depend on for `Joint`
    and `Optimal` to be lossless: proofs_checks/paths/adapted_trees.py.
    """

    fixed: tuple[tuple[Prefix, Prefix], ...] = ()

    def at(self, prefix: Prefix) -> DraftLaw:
        return Fixed(dict(self.fixed).get(prefix, ()))

    def in_order(self, fixed: Prefix, drawn: Prefix) -> Prefix:
        """The children of a node in the order in which rules take them."""
        return fixed + drawn

    def next_draw(self, q: Array, fixed: Prefix, drawn: Prefix) -> Array:
        """Law (n,) of one more draw at a node with these children; 0 where no token is left."""
        return outside(q, integers(fixed, q))

    def told(self, fixed: tuple[tuple[Prefix, Prefix], ...]) -> ByNode:
        return ByNode(fixed)

    def number(self, q: Array, k: int) -> Any:
        raise InvalidDrafts("ByNode: how many children are fixed is told with the tree: give DraftTree(..., tops=...)")

    def top_drafts(self, q: Array, k: int, number: Any = None) -> Array:
        raise InvalidDrafts(
            "ByNode: the fixed tokens stand in the tree, as the first children of their node: ask `at(prefix)`"
        )

    @property
    def number_by_q(self) -> bool:
        return True

    @property
    def spellings(self) -> tuple[str, ...]:
        return ()  # it says nothing without a tree

    def plain(self, k: int) -> DraftLaw:
        return ByNode()
