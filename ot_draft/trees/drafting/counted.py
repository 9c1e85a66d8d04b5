"""Adaptive trees for traversal verification: draws without replacement, whose counted acceptance gives their number per node.

Trees grow level by level, from q and what was drawn above (`LevelTree`). Traversal verification is lossless on any tree that is drafted
draw by draw, however the next draw is chosen (proofs_checks/paths/traversed_trees.py). Rules that test the children in order are
lossless on these trees, too.

`LookupTree` adds tokens that were looked up in the sequence. A node on the looked-up path may have the next one as a fixed child after the
draws, which are from q outside it (`PerNodeFixedTokensLast`), so that siblings are distinct. The levels above and q decide whether it has,
as traversal verification requires of fixed tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...laws import DraftLaw, WithoutReplacement
from ...laws.fixed_last import PerNodeFixedTokensLast
from ..rules.path_rule import PathRule
from ..rules.traversal import Traversal
from .counted_acceptance import (
    CountedAcceptance,
    CountedEstimate,
    LookedUpAcceptance,
    PairAcceptance,
    neutral_acceptance,
    neutral_looked_up,
)
from .drafter import DraftCounts
from .growing import Growing, TreeDraws
from .level_tree import Chosen, LevelGrowth, LevelTree, free

NEUTRAL, NEUTRAL_LOOKED_UP = neutral_acceptance(), neutral_looked_up()


@dataclass(frozen=True)
class CountedTree(LevelTree):
    """Trees of at most `budget` nodes, whose shape follows the counted acceptance of draws without replacement.

    Lossless with `Traversal`, `TokenWise(RecursiveRejectionWithoutReplacement())` and `NaivePath`.

    Parameters
    ----------
    budget : int
        Maximum number of nodes.
    length : int, default=8
        Maximum depth.
    acceptance : CountedAcceptance, optional
        Acceptance counted on pairs of a target and its draft model, by the draft's masses (`fitted`). By default that of the pair that
        decodes with it (`for_pair`), and else a neutral one, by the draft's own masses.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.trees.CountedTree(8, length=4).bounds.length
    4
    """

    budget: int
    length: int = 8
    acceptance: CountedAcceptance = NEUTRAL
    law: ClassVar[DraftLaw] = WithoutReplacement()
    rule: ClassVar[PathRule] = Traversal()
    label: ClassVar[str] = "counted"

    @property
    def max_children(self) -> int:  # type: ignore[override]  # as many as were counted
        return self.acceptance.max_children

    @property
    def typical(self) -> tuple[float, ...]:  # type: ignore[override]
        return self.acceptance.typical

    def estimate(self, q: Array) -> CountedEstimate:
        return CountedEstimate(self.acceptance, q)

    def for_pair(self, acceptance: PairAcceptance) -> CountedTree:
        return replace(self, acceptance=acceptance.drawn) if self.acceptance == NEUTRAL else self

    def fitted(self, p: np.ndarray, q: np.ndarray) -> CountedTree:
        """Return the drafter with the acceptance counted on pairs of target and draft distributions, (rows, n) each."""
        return replace(self, acceptance=CountedAcceptance.counted(p, q, self.max_children))

    def growing(self, draws: TreeDraws) -> Growing:
        return CountedGrowth(self, draws)


class CountedGrowth(LevelGrowth):
    """Trees whose children are draws without replacement."""

    def _children(self, q: Array, numbers: Array, count: Array, fixed_count: Array) -> tuple[Array, Array]:
        most, left, drawn = numbers.shape[-1], xp.copy(q), list[Array]()
        nodes = xp.arange(q.shape[-2], like=count)
        for place in range(most):
            if xp.holds_without_sync(count <= place):
                break
            if xp.on_host(count):  # on the host, nodes with fewer draws are skipped
                going = (count[:, nodes] > place).any(0)[:, 0]
                left, nodes = left if going.all() else left[:, going], nodes[going]
            still = count[:, nodes] - place
            needed = still > 0
            number = numbers[:, nodes, place : place + 1]
            token = xp.where(needed, self._draws.tokens(left, number, needed, nodes, still), -1)
            drawn.append(0 * count - 1)
            drawn[-1][:, nodes] = token  # -1 at the other nodes of the level
            token = xp.from_view(token, q)
            xp.add_at(left, token, -xp.gather(left, token))
        children = xp.concat((*drawn, *[0 * count - 1] * (most - len(drawn))), axis=-1)
        return children, xp.gather(q, xp.from_view(children, q))


@dataclass(frozen=True)
class LookupTree(CountedTree):
    """`CountedTree` around looked-up tokens: each of them is drafted if it is worth a draw.

    Lossless with `Traversal` and `NaivePath`.

    Parameters
    ----------
    budget : int
        Maximum number of nodes.
    length : int, default=10
        Maximum depth, and maximum number of looked-up tokens.
    acceptance : CountedAcceptance, optional
        As in `CountedTree`.
    looked_up : LookedUpAcceptance, optional
        How often looked-up tokens are accepted. By default as for `acceptance`.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.trees.LookupTree(8, length=4).bounds.size
    8
    """

    length: int = 10
    looked_up: LookedUpAcceptance = NEUTRAL_LOOKED_UP
    law: ClassVar[DraftLaw] = PerNodeFixedTokensLast()
    label: ClassVar[str] = "counted, with lookup"

    def for_pair(self, acceptance: PairAcceptance) -> LookupTree:
        looked_up = acceptance.looked_up if self.looked_up == NEUTRAL_LOOKED_UP else self.looked_up
        return replace(self, acceptance=super().for_pair(acceptance).acceptance, looked_up=looked_up)

    @property
    def counts(self) -> DraftCounts:
        return replace(super().counts, n_lookup_tokens=min(self.length, self.budget))

    @property
    def max_children(self) -> int:  # type: ignore[override]
        return self.acceptance.max_children + 1

    def growing(self, draws: TreeDraws) -> Growing:
        return LookupGrowth(self, draws)


class LookupGrowth(CountedGrowth):
    """Trees that may hold the path of looked-up tokens, with a flag per node whether it is on that path."""

    drafting: LookupTree

    def __init__(self, drafting: LookupTree, draws: TreeDraws) -> None:
        super().__init__(drafting, draws)
        given = draws.given[:, : drafting.counts.n_lookup_tokens]
        self._given = xp.concat((given, draws.root - 1), axis=-1)
        self._depth, self._on_way = 0, draws.root == 0

    def _decide(self, q: Array) -> Chosen:
        """Let the next looked-up token compete with the draws of all nodes, as the only child of one more node."""
        self._estimate = self.drafting.estimate(q)
        gains, none_fixed = self._estimate.gains
        certain = xp.where(xp.arange(gains.shape[-1], like=gains) == 0, 1.0, 0.0) + 0 * gains[:, :1]
        join = xp.namespace(gains).concatenate
        next_one = self._next()[..., None]
        mass = xp.gather(q, xp.from_view(next_one, q))
        self._accepted = xp.where(next_one >= 0, self.drafting.looked_up.chance(mass, first=not self._depth), 0)[..., 0]
        parts = self._reached * (1 - self._accepted), (self._reached * self._accepted).sum(-1, keepdims=True)
        reached = xp.concat(parts, axis=-1)
        left = self.drafting.budget - self._used
        options = join((gains, certain), -2), join((none_fixed, none_fixed[:, :1]), -2)
        count, fixed_count = self.drafting.shared_out(*options, reached, left, self.levels)
        fixed = xp.where(next_one[..., 0] >= 0, count[:, -1:], 0)
        count, fixed_count = count[:, :-1], fixed_count[:, :-1]
        # Draws are outside the looked-up token: none where it has all the mass.
        possible = (gains > 0).sum(-1) - xp.where(xp.host_view(mass[..., 0] > 0), fixed, 0)
        return xp.minimum(count, possible) + fixed, fixed_count + fixed

    def _next(self) -> Array:
        """The looked-up token below each node of the level, -1 if there is none: int (B, W)."""
        column = min(self._depth, self._given.shape[-1] - 1)
        return xp.where(self._on_way & (self._slots >= 0), self._given[:, column : column + 1], -1)

    def _children(self, q: Array, numbers: Array, count: Array, fixed_count: Array) -> tuple[Array, Array]:
        """Draws outside the looked-up token, then this token."""
        fixed, draws = xp.where(fixed_count > 0, self._next()[..., None], -1), count - fixed_count
        outside = q if xp.holds_without_sync(fixed_count == 0) else free(q, xp.from_view(fixed, q))
        children, _ = super()._children(outside, numbers, draws, fixed_count)
        children = xp.where((xp.arange(numbers.shape[-1], like=count) == draws) & (fixed_count > 0), fixed, children)
        return children, xp.gather(q, xp.from_view(children, q))

    def _chances(self, masses: Array, children: Array, fixed_count: Array, count: Array) -> Array:
        """Probabilities (B, W, C): draws next to a looked-up token count if that is rejected."""
        chances = super()._chances(masses, children, fixed_count, count)
        fixed, accepted = self._next()[..., None], self._accepted[..., None]
        of_draws = xp.where(fixed_count > 0, chances * (1 - accepted), chances)
        return xp.where((children == fixed) & (fixed_count > 0), accepted, of_draws)

    def _look_at(self, tokens: Array, parent: Array) -> None:
        way = xp.take_along_axis(self._next(), parent)
        self._on_way = (tokens == way) & (way >= 0)
        self._depth += 1
