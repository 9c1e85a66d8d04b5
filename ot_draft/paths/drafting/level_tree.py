"""Trees drafted level by level: how much of the budget a level gets, decided from q and what was drawn above alone.

At every level the draft estimates how likely each node is reached, and what one more child of it would add to the acceptance. How much of
the budget the level gets is decided by a forest that is only imagined: below every possible child hangs the tree that would grow if all
nodes were like the average one of this level; the best nodes of that forest are counted, as many as are left, and those among them
that lie in this level are drafted, all at once. The numbers depend on levels above, never on a draw of the same level or below.
"""

from __future__ import annotations

from abc import abstractmethod

from ...arrays import Array, argsort, gather, maximum, minimum, namespace, take, top_masses, total, where
from .dynamic_tree import DynamicTree, Growing, TreeDraws, check_bounds
from .level_growth import LevelGrowth, Prospect

Chosen = tuple[Array, Array]  # number of children, and of fixed tokens among them: int (B, W) each


class LevelTree(DynamicTree):
    """Draft at most `budget` nodes, at most `length` deep and `most` children a node, as many where as an estimate from q says.

    typical: what each child of a node adds on average, where it is known; else as on the level that is drafted.
    """

    typical: tuple[float, ...]

    def __post_init__(self) -> None:
        check_bounds(budget=self.budget, length=self.length, most=self.most)

    @abstractmethod
    def outlook(self, q: Array) -> Prospect:
        """What the draft says at nodes with the laws q (..., n)."""

    def numbers_at(self, outlook: Prospect, reached: Array, left: Array, levels: int) -> Chosen:
        """Children of every node of a level, and how many of them are fixed tokens, by what the draft says there; all of it is `small`.

        reached: (B, W) chance that each node is reached; left: int (B, 1) nodes left; levels: how many may still be drafted, that of the
        children included.
        """
        gains, tops = outlook.gains
        weights = (reached[..., None] * gains).reshape(len(reached), -1)
        average = (reached[..., None] * gains).sum(-2) / maximum(total(reached), 1e-300)
        for place, gain in enumerate(self.typical):  # numbers, not an array: nothing is copied to the device
            average[..., place] = gain
        drafted = self._drafted(weights, self._imagined(average, levels - 1), left)
        count = drafted.reshape(gains.shape).sum(-1)
        return count, gather(tops, count[..., None])[..., 0]

    @property
    def draws(self) -> int:
        return self.budget

    @property
    def reads(self) -> int:
        return self.budget + 1

    def growing(self, draws: TreeDraws) -> Growing:
        return LevelGrowth(self, draws)

    def _imagined(self, average: Array, levels: int) -> Array:
        """Chances that the nodes of an average node's tree are reached, itself (1) included, the largest first: (B, at most budget)."""
        join = namespace(average).concatenate
        alone = average[:, :1] * 0 + 1
        tree = alone
        for _ in range(levels):
            further = (average[:, :, None] * tree[:, None, :]).reshape(len(average), -1)
            tree = join((alone, top_masses(further, min(self.budget, further.shape[-1]))), -1)
        return tree

    def _drafted(self, weights: Array, tree: Array, left: Array) -> Array:
        """Which possible children (B, W C) are drafted: those of the level among the best of the imagined forest. bool."""
        order = argsort(-weights, stable=True)
        best = take(weights, order)[:, : self.budget]
        forest = (best[:, :, None] * tree[:, None, :]).reshape(len(best), -1)
        forest = top_masses(forest, min(self.budget, forest.shape[-1]))
        least = gather(forest, minimum(left, forest.shape[-1]) - 1)  # 0 where nothing is left: then `left` bounds
        # Of nodes that are worth the same as the last one, those of the level come first, as many as there is room for.
        room = left - total(where(forest > least, 1, 0))
        equal = total(where((best == least) & (best > 0), 1, 0))
        number = minimum(total(where(best > least, 1, 0)) + where(equal < room, equal, room), left)
        return argsort(order) < number
