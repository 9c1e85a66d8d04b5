"""Trees that grow, level by level as data: what a decoder hands over at each level, and what it gets.

A decoder lets the draft model read one level after the other and hands its laws to `Growing.grow`, which drafts the level below. Which
nodes there are is data: parents, absent nodes, fixed sizes, so that one batch holds trees of many shapes and an accelerator is asked
nothing. On the CPU, where asking is free, what is absent in all trees is left out of the levels.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...errors import InvalidDrafts
from ..model import Path

__all__ = ["Growing", "Grown", "TreeDraws"]


@dataclass(frozen=True)
class Grown:
    """A batch of B drafted trees of at most N nodes, numbered breadth first, absent nodes last.

    tokens, parents: int (B, N), -1 and N where absent. fixed_count: int (B, N + 1) children that are fixed and no draws. slots: int
    (B, N + 1) where each node stood when the draft model read it, the root in slot 0; -1 where it was not read.
    """

    tokens: Array
    parents: Array
    fixed_count: Array
    slots: Array


class TreeDraws:
    """Every random choice of a drafting, each by a uniform of its own: (B, draws) in [0, 1).

    given: int (B, G), a `host_view`, tokens that may come next by another source than the draft model, -1 beyond; without any no columns.
    noise: other random numbers of the step, for the drafters that take some; None without.
    """

    def __init__(self, uniforms: Array, given: Array | None = None, noise: Array | None = None) -> None:
        self._uniforms, self.noise = uniforms, noise
        # 0 for every tree, int (B, 1), a `host_view`.
        self.root = xp.host_view(xp.where(uniforms.sum(-1) < 0, 0, 0)[:, None])
        self.given = self.root[:, :0] if given is None else xp.host_view(given)

    def tokens(self, mass: Array, numbers: Array, needed: Array, nodes: Array | None = None, left: Any = 1) -> Array:
        """Draws by masses (B, W, n), each row in proportion: int (B, W, m), a `host_view`; anything where none is needed.

        numbers: int (B, W, m), of the uniforms. For those who replace draws: nodes, int (W,), the places of the nodes among those of the
        level, all of it without any; left, of draws that come one by one, how many are likely still to come there, this one included: 1 for
        the last one alone.
        """
        numbers = xp.where(needed, numbers, -1).reshape(len(numbers), -1)
        uniforms = xp.from_view(xp.gather(xp.host_view(self._uniforms), numbers), mass)
        return xp.host_view(xp.inverse_cdf(mass, uniforms.reshape(needed.shape)))

    def uniforms(self, nodes: slice, children: slice, count: int) -> Array:
        """Uniforms (B, W, count) for the children of W neighbouring nodes of the present level, which are these among nodes 1 .. N."""
        return self._uniforms[:, children].reshape(len(self._uniforms), -1, count)

    def kind(self, x: Array) -> Array:
        """Back from a `host_view` to the kind of the uniforms."""
        return xp.from_view(x, self._uniforms)


class Growing(ABC):
    """A batch of trees that grows. Nothing is asked of an accelerator.

    levels: how many levels may still be drafted. Of the present level, which the draft model reads next: slots, int (B, W), a number of
    its own for every node that is read, -1 where there is none; read, int (B, W), its tokens; above, int (B, W), the slots of its parents;
    same_slots, where these are the same neighbouring slots in every tree, but for absent nodes: which.
    """

    levels: int
    same_slots: slice | None = None
    slots: Array
    read: Array
    above: Array

    def __init__(self, draws: TreeDraws, levels: int) -> None:
        self._draws, self.levels = draws, levels
        self.slots = self.read = self.above = draws.kind(draws.root)

    def _show(self, slots: Array, read: Array, above: Array) -> None:
        """The level that is read next, `host_view`s."""
        self.slots, self.read, self.above = map(self._draws.kind, (slots, read, above))

    @abstractmethod
    def grow(self, q: Array) -> None:
        """Draft the level below, by q (B, W, n) at the present one (any law where there is no node)."""

    @abstractmethod
    def grown(self) -> Grown:
        """The trees, after the last level."""


def grow_all(
    growing: Growing,
    roots: Sequence[Path],
    law: Callable[[Path], Array],
    before: Callable[[list[list[Path | None]]], None] = lambda level: None,
) -> Grown:
    """Trees after these prefixes, by the draft's law (n,) after any prefix; on the host. before: is told the prefixes of each level.

    Raises InvalidDrafts for a token that is read and outside the vocabulary.
    """
    n = None
    prefixes: list[dict[int, Path]] = [{0: root} for root in roots]
    while growing.levels and (growing.slots >= 0).any():
        level: list[list[Path | None]] = [[None] * growing.slots.shape[1] for _ in roots]
        for row, place in zip(*np.nonzero(growing.slots >= 0), strict=True):
            slot, read = int(growing.slots[row, place]), prefixes[row]
            if slot:
                above, token = int(growing.above[row, place]), int(growing.read[row, place])
                if above not in read:
                    raise InvalidDrafts(
                        f"tree {row}: slot {slot} hangs below slot {above}, which was not read: let levels follow each other"
                    )
                if n is not None and not 0 <= token < n:
                    raise InvalidDrafts(f"tree {row}: slot {slot} reads token {token}: the vocabulary is 0 .. {n - 1}")
                read[slot] = (*read[above], token)
            level[row][place] = read[slot]
        before(level)
        # Any law where there is no node.
        rows = zip(roots, level, strict=True)
        laws = np.array([[law(root if each is None else each) for each in row] for root, row in rows])
        n = laws.shape[-1]
        growing.grow(laws)
    return growing.grown()


def prefixes_of(grown: Grown, row: int) -> list[Path | None]:
    """The tokens on the way to the root, and to every node, of one tree on the host; None where it is absent."""
    prefixes: list[Path | None] = [()]
    for token, parent in zip(grown.tokens[row].tolist(), grown.parents[row].tolist(), strict=True):
        if token >= 0 and not 0 <= parent < len(prefixes):
            raise InvalidDrafts(
                f"tree {row}: node {len(prefixes)} has parent {parent}: number the nodes breadth first, so that parents are earlier nodes"
            )
        above = prefixes[parent] if token >= 0 else None
        prefixes.append(None if above is None else (*above, token))
    return prefixes


def check_bounds(**numbers: int) -> None:
    """Raise InvalidDrafts for a number below 1."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise InvalidDrafts(f"{name} is {number!r}: give a whole number >= 1")


def written(x: Array, index: Array, values: Array) -> Array:
    """A copy of x (B, m) with the values at the indices (B, i); the last column may be scratch, the target of masked writes."""
    if hasattr(x, "scatter"):
        return x.scatter(-1, index, values)
    out = x.copy()
    np.put_along_axis(out, index, values, -1)
    return out
