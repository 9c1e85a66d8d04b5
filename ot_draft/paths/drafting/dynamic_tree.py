"""Trees that follow the draft model, drafted level by level as data: what a way to grow them is, and what it tells a decoder.

A decoder lets the draft model read one level after the other and hands its laws to `Growing.grow`, which drafts the level below. Which
nodes there are is data: parents, absent nodes, fixed sizes, so that one batch holds trees of many shapes and an accelerator is asked
nothing. On the CPU, where asking is free, what is absent in all trees is left out of the levels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...arrays import Array, argsort, gather, inverse_cdf, small, take, unsmall, where
from ...errors import InvalidArgument, InvalidDrafts
from ...laws import DraftLaw
from ..model import Path
from ..rules.path_rule import PathRule
from ..tree import DraftTree, FreeShape
from .trees import Rows


@dataclass(frozen=True)
class Grown:
    """A batch of B drafted trees of at most N nodes, numbered breadth first, absent nodes last.

    tokens, parents: int (B, N), -1 and N where absent. tops: int (B, N + 1) children that are fixed and no draws. slots: int (B, N + 1)
    where each node stood when the draft model read it, the root in slot 0; -1 where it was not read.
    """

    tokens: Array
    parents: Array
    tops: Array
    slots: Array


class TreeDraws:
    """Every random choice of a drafting, each by a uniform of its own: (B, draws) in [0, 1).

    given: int (B, G), `small`, tokens that may come next by another source than the draft model, -1 beyond; without any no columns.
    """

    def __init__(self, uniforms: Array, given: Array | None = None) -> None:
        self._uniforms = uniforms
        self.root = small(where(uniforms.sum(-1) < 0, 0, 0)[:, None])  # 0 for every tree, int (B, 1), `small`
        self.given = self.root[:, :0] if given is None else small(given)

    def tokens(self, mass: Array, numbers: Array, needed: Array) -> Array:
        """Draws by masses (B, W, n), each row in proportion: int (B, W, m), `small`; anything where none is needed.

        numbers: int (B, W, m), of the uniforms.
        """
        numbers = where(needed, numbers, -1).reshape(len(numbers), -1)
        uniforms = unsmall(gather(small(self._uniforms), numbers), mass)
        return small(inverse_cdf(mass, uniforms.reshape(needed.shape)))

    def kind(self, x: Array) -> Array:
        """Back from `small` to the kind of the uniforms."""
        return unsmall(x, self._uniforms)


class Growing(ABC):
    """A batch of trees that grows. Nothing is asked of an accelerator.

    levels: how many levels may still be drafted. Of the present level, which the draft model reads next: slots, int (B, W), a number of
    its own for every node that is read, -1 where there is none; read, int (B, W), its tokens; above, int (B, W), the slots of its parents.
    """

    levels: int
    slots: Array
    read: Array
    above: Array

    @abstractmethod
    def grow(self, q: Array) -> None:
        """Draft the level below, by q (B, W, n) at the present one (any law where there is no node)."""

    @abstractmethod
    def grown(self) -> Grown:
        """The trees, after the last level."""


class DynamicTree(ABC):
    """A way to draft trees of at most `budget` nodes, `length` deep, `most` children a node, whose shapes follow the draft model."""

    # Whether the draft model reads a node in the slot of its number.
    slots_are_nodes: ClassVar[bool] = True
    # How many tokens of another source it drafts at most, beside the draft model's.
    takes: int = 0
    budget: int
    length: int
    most: int

    @property
    def shape(self) -> FreeShape:
        """The bounds of its trees."""
        return FreeShape(nodes=self.budget, deepest=self.length, most=self.most)

    @property
    @abstractmethod
    def law(self) -> DraftLaw:
        """The law of the children of a node, however many there are."""

    @property
    @abstractmethod
    def rule(self) -> PathRule:
        """The lossless rule that its trees are usually selected from by."""

    @property
    @abstractmethod
    def draws(self) -> int:
        """Uniform numbers that one tree takes."""

    @property
    @abstractmethod
    def reads(self) -> int:
        """Slots: nodes that the draft model reads at most, the root among them."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Its name in tables."""

    @abstractmethod
    def growing(self, draws: TreeDraws) -> Growing:
        """Trees of a root each, whose draws are made so."""

    def begin(self, uniforms: Array, given: Array | None = None) -> Growing:
        """Trees of a root each, drawn by these uniforms (B, draws) in [0, 1); given: int (B, takes), see `TreeDraws`."""
        if tuple(uniforms.shape[1:]) != (self.draws,):
            raise InvalidArgument(f"uniforms have shape {tuple(uniforms.shape)}: give (B, {self.draws})")
        return self.growing(TreeDraws(uniforms, given))

    def draft(self, model: Any, roots: Sequence[Path], uniforms: np.ndarray) -> DraftTree:
        """A tree after each of B prefixes of a model, by uniforms (B, draws) in [0, 1)."""
        rows, known = Rows.of(model), dict[Path, tuple[Any, Any]]()
        grown = grow_all(self.begin(uniforms), roots, lambda prefix: rows.pair(prefix, known)[1])
        p, q = (np.zeros((len(roots), self.budget + 1, rows.n)) for _ in range(2))
        for row, root in enumerate(roots):
            for node, prefix in enumerate(prefixes_of(grown, row)):
                p[row, node], q[row, node] = rows.pair(root + prefix, known)
        return self.tree(grown, p, q)

    def tree(self, grown: Grown, p: Array, q: Array) -> DraftTree:
        """The drafted trees, with p (B, N + 1, n) and q (B, N + 1, n) at their nodes."""
        return DraftTree(self.shape, grown.tokens, p, q, self.law, grown.tops, grown.parents)


def grow_all(growing: Growing, roots: Sequence[Path], law: Callable[[Path], Array]) -> Grown:
    """Trees after these prefixes, by the draft's law (n,) after any prefix; on the host."""
    prefixes: list[dict[int, Path]] = [{0: root} for root in roots]
    while growing.levels and (growing.slots >= 0).any():
        laws = [[law(root)] * growing.slots.shape[1] for root in roots]  # any where there is no node
        for row, place in zip(*np.nonzero(growing.slots >= 0), strict=True):
            slot, read = int(growing.slots[row, place]), prefixes[row]
            if slot:
                read[slot] = (*read[int(growing.above[row, place])], int(growing.read[row, place]))
            laws[row][place] = law(read[slot])
        growing.grow(np.array(laws))
    return growing.grown()


def prefixes_of(grown: Grown, row: int) -> list[Path]:
    """The tokens on the way to the root, and to every node that is there, of one tree on the host."""
    prefixes: list[Path] = [()]
    for token, parent in zip(grown.tokens[row].tolist(), grown.parents[row].tolist(), strict=True):
        if token >= 0:
            prefixes.append((*prefixes[parent], token))
    return prefixes


def check_bounds(**numbers: int) -> None:
    """Raise InvalidDrafts for a number below 1."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise InvalidDrafts(f"{name} is {number!r}: give a whole number >= 1")


def in_order(x: Array) -> Array:
    """The entries of every row from the smallest up."""
    return take(x, argsort(x))


def written(x: Array, index: Array, values: Array) -> Array:
    """A copy of x (B, m) with the values at the indices (B, i); the last column may take what is of no use."""
    if hasattr(x, "scatter"):
        return x.scatter(-1, index, values)
    out = x.copy()
    np.put_along_axis(out, index, values, -1)
    return out
