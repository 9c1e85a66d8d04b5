"""Trees drafted level by level: how much of the budget a level gets, decided from q and what was drawn above alone.

At every level the draft estimates how likely each node is reached, and what one more child of it would add to the acceptance. How much of
the budget the level gets is decided by a forest that is only imagined: below every possible child hangs the tree that would grow if all
nodes were like the average one of this level; the best nodes of that forest are counted, as many as are left, and those among them
that lie in this level are drafted, all at once. The numbers depend on levels above, never on a draw of the same level or below.
"""

from abc import abstractmethod
from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...laws import outside
from ..tree import TreeBounds
from .drafter import TreeDrafter
from .growing import Growing, Grown, TreeDraws, check_bounds, written

Chosen = tuple[Array, Array]  # number of children, and of fixed tokens among them: int (B, W) each


class LevelTree(TreeDrafter):
    """Draft at most `budget` nodes, at most `length` deep and `most` children a node, as many where as an estimate from q says.

    typical: what each child of a node adds on average, where it is known; else as on the level that is drafted.
    """

    typical: tuple[float, ...]

    budget: int
    length: int
    max_children: int

    @property
    def bounds(self) -> TreeBounds:
        return TreeBounds(self.budget, self.length, self.max_children)

    def __post_init__(self) -> None:
        check_bounds(budget=self.budget, length=self.length, max_children=self.max_children)

    @abstractmethod
    def estimate(self, q: Array) -> Any:
        """Estimates at nodes with the draft distributions q (..., n), on the host (`host_view`).

        Its `gains`: what each further child adds to the acceptance (..., most), and the number of fixed tokens among 0 .. most children.
        `below(masses, tokens, fixed_count, count)`: the chance that each child is reached, given its parent is, by masses (..., C) under q,
        tokens int (..., C), -1 beyond, and both counts (..., 1).
        """

    def numbers_at(self, estimate: Any, reached: Array, left: Array, levels: int) -> Chosen:
        """Children of every node of a level, and how many of them are fixed tokens, by what the draft says there; all are `host_view`s.

        reached: (B, W) chance that each node is reached; left: int (B, 1) nodes left; levels: how many may still be drafted, that of the
        children included.
        """
        gains, fixed_count = estimate.gains
        return self.shared_out(gains, fixed_count, reached, left, levels)

    def shared_out(self, gains: Array, fixed_count: Array, reached: Array, left: Array, levels: int) -> Chosen:
        """`numbers_at` by what each further child adds (B, W, most), and by the fixed ones among 0 .. most (B, W, most + 1)."""
        weights = (reached[..., None] * gains).reshape(len(reached), -1)
        average = (reached[..., None] * gains).sum(-2) / xp.maximum(reached.sum(-1, keepdims=True), 1e-300)
        for place, gain in enumerate(self.typical):  # numbers, not an array: nothing is copied to the device
            average[..., place] = gain
        drafted = self._drafted(weights, self._imagined(average, levels - 1), left)
        count = drafted.reshape(gains.shape).sum(-1)
        return count, xp.gather(fixed_count, count[..., None])[..., 0]

    def growing(self, draws: TreeDraws) -> Growing:
        return LevelGrowth(self, draws)

    def _imagined(self, average: Array, levels: int) -> Array:
        """Chances that the nodes of an average node's tree are reached, itself (1) included, the largest first: (B, at most budget)."""
        alone = average[:, :1] * 0 + 1
        tree = alone
        for _ in range(levels):
            further = (average[:, :, None] * tree[:, None, :]).reshape(len(average), -1)
            tree = xp.concat((alone, xp.top_masses(further, min(self.budget, further.shape[-1]))), axis=-1)
        return tree

    def _drafted(self, weights: Array, tree: Array, left: Array) -> Array:
        """Mask of the possible children (B, W C) that are drafted: those of the level among the best of the imagined forest. bool."""
        order = xp.argsort(-weights, stable=True)
        best = xp.take_along_axis(weights, order)[:, : self.budget]
        forest = (best[:, :, None] * tree[:, None, :]).reshape(len(best), -1)
        forest = xp.top_masses(forest, min(self.budget, forest.shape[-1]))
        least = xp.gather(forest, xp.minimum(left, forest.shape[-1]) - 1)  # 0 where nothing is left: then `left` bounds
        # Of nodes that are worth the same as the last one, those of the level come first, as many as there is room for.
        room = left - xp.where(forest > least, 1, 0).sum(-1, keepdims=True)
        equal = xp.where((best == least) & (best > 0), 1, 0).sum(-1, keepdims=True)
        number = xp.minimum(
            xp.where(best > least, 1, 0).sum(-1, keepdims=True) + xp.where(equal < room, equal, room), left
        )
        return xp.argsort(order) < number


class LevelGrowth(Growing):
    """Trees whose nodes stand in the slots of their numbers. Of siblings that are equal the eldest alone is read, and drafted after."""

    drafting: Any  # a `LevelTree`, where `_decide` and `_chances` are not replaced

    def __init__(self, drafting: TreeDrafter, draws: TreeDraws) -> None:
        super().__init__(draws, drafting.bounds.length)
        self.drafting, size, root = drafting, drafting.bounds.size, draws.root
        empty = root + 0 * xp.arange(size + 1, like=root)  # (B, N + 1)
        self._tokens, self._parents, self._fixed_count = empty - 1, empty + size, empty
        self._used = self._slots = root
        self._reached = xp.double(root) + 1

    def grow(self, q: Array) -> None:
        drafting, size = self.drafting, self.drafting.bounds.size
        count, fixed_count = self._decide(q)
        place = xp.arange(drafting.bounds.max_children, like=count)
        present = (place < count[..., None]).reshape(len(count), -1)
        kept = xp.argsort(xp.where(present, 0, 1), stable=True)[:, : min(size, present.shape[-1])]
        if xp.on_host(kept):  # where it can be asked how many there are, the rest of the level is left out
            kept = kept[:, : max(int(present.sum(-1).max()) if len(present) else 0, 1)]
        there, parent = xp.take_along_axis(present, kept), kept // drafting.bounds.max_children
        slot = xp.where(there, self._used + xp.arange(kept.shape[-1], like=kept), size)
        children, masses = self._children(q, self._numbers(slot, kept, count), count[..., None], fixed_count[..., None])
        chances = self._chances(masses, children, fixed_count[..., None], count[..., None])
        reached = self._reached[..., None] * chances
        children, reached = (x.reshape(len(kept), -1) for x in (children, reached))
        tokens = xp.where(there, xp.take_along_axis(children, kept), -1)
        above = xp.take_along_axis(xp.maximum(self._slots, 0), parent)
        self._tokens = written(self._tokens, slot, tokens)
        self._parents = written(self._parents, slot, xp.where(there, above, size))
        self._fixed_count = written(self._fixed_count, xp.where(self._slots >= 0, self._slots, size), fixed_count)
        self._used = self._used + xp.where(there, 1, 0).sum(-1, keepdims=True)
        # Else nothing is drafted any more.
        alone = there & ~_has_elder(tokens, parent) & (self._used < size)
        self._look_at(tokens, parent)
        self._slots, self._reached = (
            xp.where(alone, slot + 1, -1),
            xp.where(alone, xp.take_along_axis(reached, kept), 0.0),
        )
        self._show(self._slots, xp.where(alone, tokens, 0), xp.where(alone, above, 0))
        self.levels -= 1

    def _decide(self, q: Array) -> Chosen:
        """Children of the level's nodes, whose laws are q (B, W, n), and fixed ones among them."""
        self._estimate = self.drafting.estimate(q)
        left = self.drafting.bounds.size - self._used
        return self.drafting.numbers_at(self._estimate, self._reached, left, self.levels)

    def _chances(self, masses: Array, children: Array, fixed_count: Array, count: Array) -> Array:
        """Chance that each child is reached, given its parent is: (B, W, C)."""
        return self._estimate.below(masses, children, fixed_count, count)

    def _look_at(self, tokens: Array, parent: Array) -> None:
        """The nodes just drafted: tokens int (B, m), places of their parents in the level above."""

    def grown(self) -> Grown:
        slots = xp.arange(self.drafting.bounds.size + 1, like=self._fixed_count) + 0 * self._fixed_count
        trees = self._tokens[:, :-1], self._parents[:, :-1], self._fixed_count, slots
        return Grown(*map(self._draws.kind, trees))

    def _numbers(self, slot: Array, kept: Array, count: Array) -> Array:
        """The slots of the level's nodes, each at its place among the possible children of its parent: (B, W, most)."""
        none = 0 * slot[:, :1] + 0 * xp.arange(count.shape[-1] * self.drafting.bounds.max_children, like=kept)
        return written(none, kept, slot).reshape(*count.shape, self.drafting.bounds.max_children)

    def _children(self, q: Array, numbers: Array, count: Array, fixed_count: Array) -> tuple[Array, Array]:
        """Children (B, W, C), top tokens first, then draws outside them, -1 beyond their number; and their masses under q."""
        most = numbers.shape[-1]
        ranked = xp.host_view(xp.top_tokens(q, min(most, q.shape[-1])))
        place = xp.arange(most, like=count)
        fixed = xp.where(place[: ranked.shape[-1]] < fixed_count, ranked, -1)
        drawn = self._draws.tokens(free(q, xp.from_view(fixed, q)), numbers, (place >= fixed_count) & (place < count))
        if ranked.shape[-1] < most:
            ranked = xp.concat((ranked, drawn[..., ranked.shape[-1] :]), axis=-1)
        children = xp.where(place < count, xp.where(place < fixed_count, ranked, drawn), -1)
        return children, xp.gather(q, xp.from_view(children, q))


def free(q: Array, fixed: Array) -> Array:
    """Masses that are drawn from: q outside the fixed tokens, not normalised where it can be asked whether mass is left."""
    left = xp.with_zeros_at(q, fixed)
    return left if xp.holds_without_sync(left.sum(-1, keepdims=True) > 0) else outside(q, fixed)


def _has_elder(tokens: Array, parent: Array) -> Array:
    """Whether a sibling before it holds the same token: int (B, m), (B, m) -> bool (B, m)."""
    equal = (tokens[:, :, None] == tokens[:, None, :]) & (parent[:, :, None] == parent[:, None, :])
    index = xp.arange(tokens.shape[-1], like=tokens)
    return (equal & (index[:, None] > index)).any(-1)
