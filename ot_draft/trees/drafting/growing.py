"""Trees that grow level by level: the interface between a decoder and a tree drafter.

The draft model reads one level at a time; its distributions go to `Growing.grow`, which drafts the level below. The nodes are data of
fixed size, with parents and absent nodes, so that a batch holds trees of many shapes without a device sync. On the CPU, nodes that are
absent in all trees are dropped from the levels.
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

    tokens, parents: int (B, N), -1 and N where absent. fixed_count: int (B, N + 1) number of fixed children. slots: int (B, N + 1)
    slot in which the draft model read each node, the root in slot 0; -1 if it was not read.
    """

    tokens: Array
    parents: Array
    fixed_count: Array
    slots: Array


class TreeDraws:
    """All random choices of a tree drafter, each by a separate uniform: (B, draws) in [0, 1).

    given: int (B, G), a `host_view`, looked-up tokens, -1 beyond; G = 0 without a lookup. noise: other random numbers of the step, for
    drafters that need them.
    """

    def __init__(self, uniforms: Array, given: Array | None = None, noise: Array | None = None) -> None:
        self._uniforms, self.noise = uniforms, noise
        # 0 for every tree, int (B, 1), a `host_view`.
        self.root = xp.host_view(xp.where(uniforms.sum(-1) < 0, 0, 0)[:, None])
        self.given = self.root[:, :0] if given is None else xp.host_view(given)

    def tokens(self, mass: Array, numbers: Array, needed: Array, nodes: Array | None = None, left: Any = 1) -> Array:
        """Return draws in proportion to masses (B, W, n): int (B, W, m), a `host_view`; arbitrary where none is needed.

        numbers: int (B, W, m), indices of the uniforms. Subclasses that replace draws also read `nodes`, int (W,), indices of the nodes in
        the level, by default all; and `left`, the expected number of draws still to come at the node one by one, including this one.
        """
        numbers = xp.where(needed, numbers, -1).reshape(len(numbers), -1)
        uniforms = xp.from_view(xp.gather(xp.host_view(self._uniforms), numbers), mass)
        return xp.host_view(xp.inverse_cdf(mass, uniforms.reshape(needed.shape)))

    def uniforms(self, nodes: slice, children: slice, count: int) -> Array:
        """Return uniforms (B, W, count) for the children of W neighbouring nodes of the level, with these indices in nodes 1 .. N."""
        return self._uniforms[:, children].reshape(len(self._uniforms), -1, count)

    def kind(self, x: Array) -> Array:
        """Return a `host_view` as the kind of array that the uniforms are."""
        return xp.from_view(x, self._uniforms)


class Growing(ABC):
    """A batch of trees that grows, without a device sync.

    levels: number of levels that may still be drafted. The present level is the one that the draft model reads next. slots: int (B, W)
    slot of each of its nodes, -1 if absent. read: int (B, W) their tokens. above: int (B, W) slots of their parents. same_slots: these
    slots if they are the same range in every tree, except for absent nodes.
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
        self.slots, self.read, self.above = map(self._draws.kind, (slots, read, above))

    @abstractmethod
    def grow(self, q: Array) -> None:
        """Draft the level below, by q (B, W, n) at the present one, arbitrary at absent nodes."""

    @abstractmethod
    def grown(self) -> Grown:
        """Return the trees after the last level."""


def grow_all(
    growing: Growing,
    roots: Sequence[Path],
    law: Callable[[Path], Array],
    before: Callable[[list[list[Path | None]]], None] = lambda level: None,
) -> Grown:
    """Return trees after these prefixes, on the host.

    law: draft distribution (n,) after a prefix. before: called with the prefixes of each level.

    Raises InvalidDrafts if a token that is read is outside the vocabulary.
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
                        f"tree {row}: the parent of slot {slot} must be a slot that was read before, got {above}. Draft level by level."
                    )
                if n is not None and not 0 <= token < n:
                    raise InvalidDrafts(
                        f"tree {row}: token of slot {slot} must be from 0 to {n - 1}, got {token}. Draft such tokens."
                    )
                read[slot] = (*read[above], token)
            level[row][place] = read[slot]
        before(level)
        # Absent nodes get the distribution of the root.
        rows = zip(roots, level, strict=True)
        laws = np.array([[law(root if each is None else each) for each in row] for root, row in rows])
        n = laws.shape[-1]
        growing.grow(laws)
    return growing.grown()


def prefixes_of(grown: Grown, row: int) -> list[Path | None]:
    """Return the tokens on the path to every node of one tree, the root first, on the host; None if it is absent."""
    prefixes: list[Path | None] = [()]
    for token, parent in zip(grown.tokens[row].tolist(), grown.parents[row].tolist(), strict=True):
        if token >= 0 and not 0 <= parent < len(prefixes):
            raise InvalidDrafts(
                f"tree {row}: parent of node {len(prefixes)} must be an earlier node, got {parent}. Number the nodes breadth first."
            )
        above = prefixes[parent] if token >= 0 else None
        prefixes.append(None if above is None else (*above, token))
    return prefixes


def written(x: Array, index: Array, values: Array) -> Array:
    """Return a copy of x (B, m) with values at indices (B, i); the last column may be scratch, the target of masked writes."""
    if hasattr(x, "scatter"):
        return x.scatter(-1, index, values)
    out = x.copy()
    np.put_along_axis(out, index, values, -1)
    return out
