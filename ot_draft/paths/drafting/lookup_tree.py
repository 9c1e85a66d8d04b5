"""One tree of two sources: tokens that were looked up in the text, and below and beside them the draft model's draws.

A node on the way of the looked-up tokens has the next of them as a fixed child, behind the draws, which are from q outside it
(`FixedLast`): so no sibling is drafted twice. The levels above decide how many draws there are, as traversal asks for where tokens are
fixed (proofs_checks/paths/traversed_trees.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...arrays import Array, gather, maximum, minimum, namespace, settled, take, total, unsmall, where
from ...laws import ByNodeLast, DraftLaw
from .counted_tree import CountedGrowth, CountedTree
from .dynamic_tree import Growing, TreeDraws
from .level_growth import Prospect, free


@dataclass(frozen=True)
class LookupTree(CountedTree):
    """`CountedTree` around at most `length` looked-up tokens, which are drafted first; the rest of the budget is the model's.

    trust: the chance that a looked-up token is taken to be accepted with, where the draft model's mass on it is not larger. Lossless with
    `Traversal` and `NaiveTarget`.
    """

    length: int = 10
    trust: float = 0.5

    @property
    def takes(self) -> int:  # type: ignore[override]
        return min(self.length, self.budget)

    @property
    def most(self) -> int:  # type: ignore[override]
        return self.acceptance.most + 1

    @property
    def law(self) -> DraftLaw:
        return ByNodeLast()

    @property
    def label(self) -> str:
        return "counted, with lookup"

    def growing(self, draws: TreeDraws) -> Growing:
        return LookupGrowth(self, draws)


class LookupGrowth(CountedGrowth):
    """Trees that hold the way of the looked-up tokens. Of every node of the level, whether it stands on that way."""

    drafting: LookupTree

    def __init__(self, drafting: LookupTree, draws: TreeDraws) -> None:
        super().__init__(drafting, draws)
        given = draws.given[:, : drafting.takes]
        self._given = namespace(given).concatenate((given, draws.root - 1), -1)
        self._depth, self._on_way = 0, draws.root == 0

    def _decide(self, outlook: Prospect, n: int) -> tuple[Array, Array]:
        to_come = total(where(self._given[:, self._depth :] >= 0, 1, 0))
        left = self.drafting.budget - self._used - to_come
        count, tops = self.drafting.numbers_at(outlook, self._reached, left, self.levels)
        fixed = where(self._fixed() >= 0, 1, 0)
        return minimum(count, n - 1) * fixed + count * (1 - fixed) + fixed, tops + fixed

    def _fixed(self) -> Array:
        """The looked-up token below each node of the level, -1 where there is none: int (B, W)."""
        column = min(self._depth, self._given.shape[-1] - 1)
        return where(self._on_way & (self._slots >= 0), self._given[:, column : column + 1], -1)

    def _children(self, q: Array, numbers: Array, count: Array, tops: Array) -> tuple[Array, Array]:
        most, fixed, gone = numbers.shape[-1], self._fixed()[..., None], list[Array]()
        join, draws = namespace(count).concatenate, count - tops
        for place in range(most):
            needed = draws > place
            if settled(~needed):
                break
            left = free(q, unsmall(join((fixed, *gone), -1), q))
            gone.append(where(needed, self._draws.tokens(left, numbers[..., place : place + 1], needed), -1))
        columns = [*gone, *[0 * count - 1] * (most - len(gone))]
        children = join([where(draws == place, fixed, column) for place, column in enumerate(columns)], -1)
        return children, gather(q, unsmall(children, q))

    def _chances(self, outlook: Prospect, masses: Array, children: Array, tops: Array, count: Array) -> Array:
        chances = super()._chances(outlook, masses, children, tops, count)
        fixed = self._fixed()[..., None]
        return where((children == fixed) & (fixed >= 0), maximum(chances, self.drafting.trust), chances)

    def _look_at(self, tokens: Array, parent: Array) -> None:
        fixed = take(self._fixed(), parent)
        self._on_way = (tokens == fixed) & (fixed >= 0)
        self._depth += 1
