"""One tree of two sources: tokens that were looked up in the text, and below and beside them the draft model's draws.

A node on the way of the looked-up tokens may have the next of them as a fixed child, behind the draws, which are from q outside it
(`FixedLast`): so no sibling is drafted twice. Whether it has is decided like the number of its draws, by the levels above and by q, as
traversal asks for where tokens are fixed (proofs_checks/paths/traversed_trees.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...arrays import Array, gather, minimum, namespace, positions, settled, small, take, total, unsmall, where
from ...laws import ByNodeLast, DraftLaw
from .counted import LookedUpAcceptance
from .counted_tree import CountedGrowth, CountedTree
from .dynamic_tree import Growing, TreeDraws
from .level_growth import Prospect, free
from .usual_acceptance import USUAL_LOOKED_UP


@dataclass(frozen=True)
class LookupTree(CountedTree):
    """`CountedTree` around at most `length` looked-up tokens: each of them is drafted where it is worth a draw.

    looked_up: how often such tokens are accepted; the usual one was counted where two or more tokens had matched, with the embedded pair at
    temperatures 1 and .6. Lossless with `Traversal` and `NaiveTarget`.
    """

    length: int = 10
    looked_up: LookedUpAcceptance = USUAL_LOOKED_UP

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


@dataclass(frozen=True, eq=False)
class _WithAnother:
    """A prospect of the nodes of a level and, behind them, of one more node that promises a single child with certainty."""

    outlook: Prospect

    @property
    def gains(self) -> tuple[Array, Array]:
        gains, tops = self.outlook.gains
        join = namespace(gains).concatenate
        child = 0 * gains[:, :1, :1]
        return join((gains, join((child + 1, 0 * gains[:, :1, 1:]), -1)), -2), join((tops, 0 * tops[:, :1]), -2)

    def below(self, masses: Array, tokens: Array, tops: Array, count: Array) -> Array:
        return self.outlook.below(masses, tokens, tops, count)


class LookupGrowth(CountedGrowth):
    """Trees that may hold the way of the looked-up tokens: of every node of the level, whether it stands on that way."""

    drafting: LookupTree

    def __init__(self, drafting: LookupTree, draws: TreeDraws) -> None:
        super().__init__(drafting, draws)
        given = draws.given[:, : drafting.takes]
        self._given = namespace(given).concatenate((given, draws.root - 1), -1)
        self._depth, self._on_way = 0, draws.root == 0

    def _decide(self, outlook: Prospect, q: Array) -> tuple[Array, Array]:
        """The next looked-up token competes with the draws of all nodes, as the one child of a node of its own."""
        next_one = self._next()[..., None]
        mass = gather(q, unsmall(next_one, q))
        self._accepted = where(next_one >= 0, self.drafting.looked_up.chance(mass, first=not self._depth), 0)[..., 0]
        beside = self._reached * (1 - self._accepted), total(self._reached * self._accepted)
        reached = namespace(self._reached).concatenate(beside, -1)
        left = self.drafting.budget - self._used
        count, tops = self.drafting.numbers_at(_WithAnother(outlook), reached, left, self.levels)
        fixed = where(next_one[..., 0] >= 0, count[:, -1:], 0)
        count, tops = count[:, :-1], tops[:, :-1]
        # Draws are outside the looked-up token: none where it has all the mass.
        possible = (outlook.gains[0] > 0).sum(-1) - where(small(mass[..., 0] > 0), fixed, 0)
        return minimum(count, possible) + fixed, tops + fixed

    def _next(self) -> Array:
        """The looked-up token below each node of the level, -1 where there is none: int (B, W)."""
        column = min(self._depth, self._given.shape[-1] - 1)
        return where(self._on_way & (self._slots >= 0), self._given[:, column : column + 1], -1)

    def _children(self, q: Array, numbers: Array, count: Array, tops: Array) -> tuple[Array, Array]:
        """Draws outside the looked-up token, and behind them itself."""
        fixed, draws = where(tops > 0, self._next()[..., None], -1), count - tops
        outside = q if settled(tops == 0) else free(q, unsmall(fixed, q))
        children, _ = super()._children(outside, numbers, draws, tops)
        children = where((positions(numbers.shape[-1], count) == draws) & (tops > 0), fixed, children)
        return children, gather(q, unsmall(children, q))

    def _chances(self, outlook: Prospect, masses: Array, children: Array, tops: Array, count: Array) -> Array:
        """Draws beside a looked-up token count where that is refused."""
        chances = super()._chances(outlook, masses, children, tops, count)
        fixed, accepted = self._next()[..., None], self._accepted[..., None]
        beside = where(tops > 0, chances * (1 - accepted), chances)
        return where((children == fixed) & (tops > 0), accepted, beside)

    def _look_at(self, tokens: Array, parent: Array) -> None:
        way = take(self._next(), parent)
        self._on_way = (tokens == way) & (way >= 0)
        self._depth += 1
