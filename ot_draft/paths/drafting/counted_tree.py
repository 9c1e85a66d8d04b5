"""Our dynamic tree by traversal verification: draws without replacement and fixed tokens, as many where as counted acceptance says.

Level by level, from q and what was drawn above alone (`LevelTree`). The fixed tokens are the last children of a node: see `FixedLast`.
So the number of draws may depend on the levels above, and must not depend on what lies below a fixed token of the same node
(proofs_checks/paths/traversed_trees.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...arrays import Array, cleared, gather, maximum, namespace, positions, settled, small, top_tokens, unsmall, where
from ...laws import ByNodeLast, DraftLaw
from ..rules.path_rule import PathRule
from ..rules.traversal import Traversal
from .adaptive_growth import AdaptiveGrowth
from .counted import Acceptance, CountedProspect
from .dynamic_tree import Growing, TreeDraws
from .level_tree import LevelTree
from .usual_acceptance import USUAL_ACCEPTANCE


@dataclass(frozen=True)
class CountedTree(LevelTree):
    """Draft at most `budget` nodes, at most `length` deep, as many where as the counted acceptance of such drafts says.

    acceptance: counted on pairs of a target and its draft, by the draft's masses; the usual one on the pairs of figures/data, at both
    temperatures. `fitted` counts again. Lossless with `Traversal` and `NaiveTarget`.
    """

    budget: int
    length: int = 8
    acceptance: Acceptance = USUAL_ACCEPTANCE

    @property
    def most(self) -> int:  # type: ignore[override]  # as many as were counted
        return self.acceptance.most

    @property
    def typical(self) -> tuple[float, ...]:  # type: ignore[override]
        return self.acceptance.typical

    def outlook(self, q: Array) -> CountedProspect:
        return CountedProspect.of(self.acceptance, q)

    def fitted(self, p: np.ndarray, q: np.ndarray) -> CountedTree:
        """The same with the acceptance counted on pairs of a target and its draft, (rows, n) each."""
        return replace(self, acceptance=Acceptance.counted(p, q, self.most))

    @property
    def law(self) -> DraftLaw:
        return ByNodeLast()

    @property
    def rule(self) -> PathRule:
        return Traversal()

    @property
    def label(self) -> str:
        return "counted"

    def growing(self, draws: TreeDraws) -> Growing:
        return CountedGrowth(self, draws)


class CountedGrowth(AdaptiveGrowth):
    """Trees whose children are draws without replacement outside the fixed tokens, and then these."""

    def _children(self, q: Array, numbers: Array, count: Array, tops: Array) -> tuple[Array, Array]:
        most, draws = numbers.shape[-1], count - tops
        ranked = small(top_tokens(q, min(most, q.shape[-1])))
        fixed = where(positions(ranked.shape[-1], count) < tops, ranked, -1)
        left, drawn = cleared(q, unsmall(fixed, q)), []
        for place in range(most):
            needed = draws > place
            if settled(~needed):
                break
            drawn.append(where(needed, self._draws.tokens(left, numbers[..., place : place + 1], needed), -1))
            left = cleared(left, unsmall(drawn[-1], q))
        join, place = namespace(ranked).concatenate, positions(most, count)
        columns = [*drawn, *[-1 + 0 * count] * (most - len(drawn))]
        behind = gather(ranked, where(place < count, maximum(place - draws, 0), -1))
        children = where(place < draws, join(columns, -1), where(place < count, behind, -1))
        return children, gather(q, unsmall(children, q))
