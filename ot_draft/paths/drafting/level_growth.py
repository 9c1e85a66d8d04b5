"""The batched form of the drafting that follows q: the levels of a `LevelTree`, as data."""

from __future__ import annotations

from typing import Protocol

from ...arrays import (
    Array,
    argsort,
    cleared,
    double,
    gather,
    maximum,
    namespace,
    on_host,
    positions,
    settled,
    small,
    take,
    top_tokens,
    total,
    unsmall,
    where,
)
from ...laws import outside
from .dynamic_tree import Growing, Grown, TreeDraws, written


class Prospect(Protocol):
    """What an estimate says at the nodes of a level; all of it is `small`."""

    @property
    def gains(self) -> tuple[Array, Array]:
        """What each further child adds to the acceptance (..., most), and the number of fixed tokens among 0 .. most children."""

    def below(self, masses: Array, tokens: Array, tops: Array, count: Array) -> Array:
        """Chance that each child is reached, given its parent is: (..., C) masses under q, int (..., C) -1 beyond, (..., 1), (..., 1)."""


class Numbers(Protocol):
    """What decides how many children the nodes of a level get: a `LevelTree`."""

    @property
    def budget(self) -> int: ...

    @property
    def length(self) -> int: ...

    @property
    def most(self) -> int: ...

    def outlook(self, q: Array) -> Prospect:
        """What the draft says at nodes with the laws q (B, W, n)."""

    def numbers_at(self, outlook: Prospect, reached: Array, left: Array, levels: int) -> tuple[Array, Array]:
        """Children, and fixed ones among them, of nodes that are reached with these chances."""


class LevelGrowth(Growing):
    """Trees whose nodes stand in the slots of their numbers. Of siblings that are equal the eldest alone is read, and drafted after."""

    def __init__(self, drafting: Numbers, draws: TreeDraws) -> None:
        self.drafting, self._draws, self.levels = drafting, draws, drafting.length
        size, root = drafting.budget, draws.root
        empty = root + 0 * positions(size + 1, root)  # (B, N + 1)
        self._tokens, self._parents, self._tops = empty - 1, empty + size, empty
        self._used = self._slots = root
        self.slots = self.read = self.above = draws.kind(root)
        self._reached = double(root) + 1

    def grow(self, q: Array) -> None:
        drafting, size = self.drafting, self.drafting.budget
        outlook = drafting.outlook(q)
        count, tops = self._decide(outlook, q)
        place = positions(drafting.most, count)
        present = (place < count[..., None]).reshape(len(count), -1)
        kept = argsort(where(present, 0, 1), stable=True)[:, : min(size, present.shape[-1])]
        if on_host(kept):  # where it can be asked how many there are, the rest of the level is left out
            kept = kept[:, : max(int(present.sum(-1).max()) if len(present) else 0, 1)]
        there, parent = take(present, kept), kept // drafting.most
        slot = where(there, self._used + positions(kept.shape[-1], kept), size)
        children, masses = self._children(q, self._numbers(slot, kept, count), count[..., None], tops[..., None])
        chances = self._chances(outlook, masses, children, tops[..., None], count[..., None])
        reached = self._reached[..., None] * chances
        children, reached = (x.reshape(len(kept), -1) for x in (children, reached))
        tokens = where(there, take(children, kept), -1)
        above = take(maximum(self._slots, 0), parent)
        self._tokens = written(self._tokens, slot, tokens)
        self._parents = written(self._parents, slot, where(there, above, size))
        self._tops = written(self._tops, where(self._slots >= 0, self._slots, size), tops)
        self._used = self._used + total(where(there, 1, 0))
        # Else nothing is drafted any more.
        alone = there & ~_has_elder(tokens, parent) & (self._used < size)
        self._look_at(tokens, parent)
        self._slots, self._reached = where(alone, slot + 1, -1), where(alone, take(reached, kept), 0.0)
        now = self._slots, where(alone, tokens, 0), where(alone, above, 0)
        self.slots, self.read, self.above = map(self._draws.kind, now)
        self.levels -= 1

    def _decide(self, outlook: Prospect, q: Array) -> tuple[Array, Array]:
        """Children of the level's nodes, whose laws are q (B, W, n), and fixed ones among them: int (B, W) each."""
        return self.drafting.numbers_at(outlook, self._reached, self.drafting.budget - self._used, self.levels)

    def _chances(self, outlook: Prospect, masses: Array, children: Array, tops: Array, count: Array) -> Array:
        """Chance that each child is reached, given its parent is: (B, W, C)."""
        return outlook.below(masses, children, tops, count)

    def _look_at(self, tokens: Array, parent: Array) -> None:
        """The nodes just drafted: tokens int (B, m), places of their parents in the level above."""

    def grown(self) -> Grown:
        slots = positions(self.drafting.budget + 1, self._tops) + 0 * self._tops
        trees = self._tokens[:, :-1], self._parents[:, :-1], self._tops, slots
        return Grown(*map(self._draws.kind, trees))

    def _numbers(self, slot: Array, kept: Array, count: Array) -> Array:
        """The slots of the level's nodes, each at its place among the possible children of its parent: (B, W, most)."""
        none = 0 * slot[:, :1] + 0 * positions(count.shape[-1] * self.drafting.most, kept)
        return written(none, kept, slot).reshape(*count.shape, self.drafting.most)

    def _children(self, q: Array, numbers: Array, count: Array, tops: Array) -> tuple[Array, Array]:
        """Children (B, W, C), top tokens first, then draws outside them, -1 beyond their number; and their masses under q."""
        most = numbers.shape[-1]
        ranked = small(top_tokens(q, min(most, q.shape[-1])))
        place = positions(most, count)
        fixed = where(place[: ranked.shape[-1]] < tops, ranked, -1)
        drawn = self._draws.tokens(free(q, unsmall(fixed, q)), numbers, (place >= tops) & (place < count))
        if ranked.shape[-1] < most:
            ranked = namespace(ranked).concatenate((ranked, drawn[..., ranked.shape[-1] :]), -1)
        children = where(place < count, where(place < tops, ranked, drawn), -1)
        return children, gather(q, unsmall(children, q))


def free(q: Array, fixed: Array) -> Array:
    """What is drawn from: q outside the fixed tokens, not normalised where it can be asked whether mass is left."""
    left = cleared(q, fixed)
    return left if settled(total(left) > 0) else outside(q, fixed)


def _has_elder(tokens: Array, parent: Array) -> Array:
    """Whether a sibling before it holds the same token: int (B, m), (B, m) -> bool (B, m)."""
    equal = (tokens[:, :, None] == tokens[:, None, :]) & (parent[:, :, None] == parent[:, None, :])
    index = positions(tokens.shape[-1], tokens)
    return (equal & (index[:, None] > index)).any(-1)
