"""Our dynamic tree: draws without replacement, as many where as their counted acceptance says, for traversal verification.

Level by level, from q and what was drawn above (`LevelTree`). Traversal is lossless on any tree that is drafted draw by draw, whatever
decides about the next one (proofs_checks/paths/traversed_trees.py); rules that take the children in turn are lossless on this one, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...laws import DraftLaw, WithoutReplacement
from ..rules.path_rule import PathRule
from ..rules.traversal import Traversal
from .counted_acceptance import CountedAcceptance, CountedEstimate, PairAcceptance, neutral_acceptance
from .growing import Growing, TreeDraws
from .level_tree import LevelGrowth, LevelTree

NEUTRAL = neutral_acceptance()


@dataclass(frozen=True)
class CountedTree(LevelTree):
    """Draft at most `budget` nodes, at most `length` deep, as many where as the counted acceptance of such draws says.

    acceptance: counted on pairs of a target and its draft, by the draft's masses (`fitted`); where none is given that of the pair that
    decodes with it (`for_pair`), and else a neutral one, by the draft's own masses. Lossless with `Traversal`,
    `TokenWise(RecursiveRejectionWithoutReplacement())` and `NaivePath`.
    """

    budget: int
    length: int = 8
    acceptance: CountedAcceptance = NEUTRAL
    law: ClassVar[DraftLaw] = WithoutReplacement()
    rule: ClassVar[PathRule] = Traversal()
    label: ClassVar[str] = "counted"

    @property
    def most(self) -> int:  # type: ignore[override]  # as many as were counted
        return self.acceptance.most

    @property
    def typical(self) -> tuple[float, ...]:  # type: ignore[override]
        return self.acceptance.typical

    def estimate(self, q: Array) -> CountedEstimate:
        return CountedEstimate.of(self.acceptance, q)

    def for_pair(self, acceptance: PairAcceptance) -> CountedTree:
        return replace(self, acceptance=acceptance.drawn) if self.acceptance == NEUTRAL else self

    def fitted(self, p: np.ndarray, q: np.ndarray) -> CountedTree:
        """The same with the acceptance counted on pairs of a target and its draft, (rows, n) each."""
        return replace(self, acceptance=CountedAcceptance.counted(p, q, self.most))

    def growing(self, draws: TreeDraws) -> Growing:
        return CountedGrowth(self, draws)


class CountedGrowth(LevelGrowth):
    """Trees whose children are draws without replacement."""

    def _children(self, q: Array, numbers: Array, count: Array, fixed_count: Array) -> tuple[Array, Array]:
        most, left, drawn = numbers.shape[-1], xp.copy(q), list[Array]()
        nodes = xp.positions(q.shape[-2], count)
        for place in range(most):
            if xp.settled(count <= place):
                break
            if xp.on_host(count):  # where it can be asked which nodes have so many, the others are left out
                going = (count[:, nodes] > place).any(0)[:, 0]
                left, nodes = left if going.all() else left[:, going], nodes[going]
            needed = count[:, nodes] > place
            token = xp.where(needed, self._draws.tokens(left, numbers[:, nodes, place : place + 1], needed), -1)
            drawn.append(_at_nodes(token, nodes, count))
            token = xp.from_view(token, q)
            xp.add_at(left, token, -xp.gather(left, token))
        children = xp.concatenate((*drawn, *[0 * count - 1] * (most - len(drawn))))
        return children, xp.gather(q, xp.from_view(children, q))


def _at_nodes(tokens: Array, nodes: Array, count: Array) -> Array:
    """Tokens (B, w, 1) of these nodes int (w,) among all of a level, -1 at the others: (B, W, 1)."""
    every = 0 * count - 1
    every[:, nodes] = tokens
    return every
