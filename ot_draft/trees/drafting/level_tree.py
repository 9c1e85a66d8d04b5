"""Trees drafted level by level; q and the levels above determine how much of the budget a level gets.

At every level, estimates are computed of the probability that each node is reached, and of the gain in acceptance by one more child. An
estimated forest divides the remaining budget: each possible child has below it the tree that grows if all nodes are like the average one
of this level. The best nodes of that forest are selected, as many as the budget allows, and those that are in this level are drafted at
once. The numbers depend on levels above, never on a draw of the same level or below.
"""

from abc import abstractmethod
from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...boundary import int_from
from ...errors import InvalidDrafts
from ...laws import outside
from ..tree import TreeBounds
from .drafter import TreeDrafter
from .growing import Growing, Grown, TreeDraws, written

Chosen = tuple[Array, Array]  # number of children, and of fixed tokens among them: int (B, W) each


class LevelTree(TreeDrafter):
    """Trees of at most `budget` nodes, `length` levels and `max_children` children per node, with numbers from an estimate from q.

    typical: average gain of each child of a node; empty for that of the level that is drafted.
    """

    typical: tuple[float, ...]

    budget: int
    length: int
    max_children: int

    @property
    def bounds(self) -> TreeBounds:
        return TreeBounds(self.budget, self.length, self.max_children)

    def __post_init__(self) -> None:
        for name in ("budget", "length", "max_children"):
            int_from(name, getattr(self, name), 1, error=InvalidDrafts)

    @abstractmethod
    def estimate(self, q: Array) -> Any:
        """Return estimates at nodes with draft distributions q (..., n), on the host (`host_view`).

        Their `gains`: gain in acceptance by each further child (..., C), and the number of fixed tokens among 0 .. C children.
        `below(masses, tokens, fixed_count, count)`: probability that each child is reached, given that its parent is, by masses (..., C)
        under q, tokens int (..., C), -1 beyond, and both counts (..., 1).
        """

    def numbers_at(self, estimate: Any, reached: Array, left: Array, levels: int) -> Chosen:
        """Return the numbers of children and of fixed tokens among them of every node of a level; all are `host_view`s.

        reached: (B, W) probability that each node is reached. left: int (B, 1) remaining nodes. levels: remaining levels, including that of
        the children.
        """
        gains, fixed_count = estimate.gains
        return self.shared_out(gains, fixed_count, reached, left, levels)

    def shared_out(self, gains: Array, fixed_count: Array, reached: Array, left: Array, levels: int) -> Chosen:
        """Return `numbers_at` from gains of each further child (B, W, C) and numbers of fixed tokens among 0 .. C (B, W, C + 1)."""
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
        """Probabilities (B, at most budget) that the nodes of an average node's tree are reached, decreasing, first 1 for itself."""
        alone = average[:, :1] * 0 + 1
        tree = alone
        for _ in range(levels):
            further = (average[:, :, None] * tree[:, None, :]).reshape(len(average), -1)
            tree = xp.concat((alone, xp.top_masses(further, min(self.budget, further.shape[-1]))), axis=-1)
        return tree

    def _drafted(self, weights: Array, tree: Array, left: Array) -> Array:
        """Mask bool (B, W C) of the possible children that are drafted: those among the best nodes of the estimated forest."""
        order = xp.argsort(-weights, stable=True)
        best = xp.take_along_axis(weights, order)[:, : self.budget]
        forest = (best[:, :, None] * tree[:, None, :]).reshape(len(best), -1)
        forest = xp.top_masses(forest, min(self.budget, forest.shape[-1]))
        least = xp.gather(
            forest, xp.minimum(left, forest.shape[-1]) - 1
        )  # any value if nothing is left: `left` is 0 then
        # Among nodes of equal value, those of the level come first, up to the budget.
        room = left - xp.where(forest > least, 1, 0).sum(-1, keepdims=True)
        equal = xp.where((best == least) & (best > 0), 1, 0).sum(-1, keepdims=True)
        number = xp.minimum(
            xp.where(best > least, 1, 0).sum(-1, keepdims=True) + xp.where(equal < room, equal, room), left
        )
        return xp.argsort(order) < number


class LevelGrowth(Growing):
    """Trees whose node i is in slot i. Among equal siblings, only the first is read and has children."""

    drafting: Any  # a `LevelTree`, unless a subclass replaces `_decide` and `_chances`

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
        if xp.on_host(kept):  # on the host, the rest of the level is dropped
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
        # With a used budget, no node is read any more.
        alone = there & ~_has_elder(tokens, parent) & (self._used < size)
        self._look_at(tokens, parent)
        self._slots, self._reached = (
            xp.where(alone, slot + 1, -1),
            xp.where(alone, xp.take_along_axis(reached, kept), 0.0),
        )
        self._show(self._slots, xp.where(alone, tokens, 0), xp.where(alone, above, 0))
        self.levels -= 1

    def _decide(self, q: Array) -> Chosen:
        """Numbers of children of the level's nodes with q (B, W, n), and of fixed ones among them."""
        self._estimate = self.drafting.estimate(q)
        left = self.drafting.bounds.size - self._used
        return self.drafting.numbers_at(self._estimate, self._reached, left, self.levels)

    def _chances(self, masses: Array, children: Array, fixed_count: Array, count: Array) -> Array:
        """Probability (B, W, C) that each child is reached, given that its parent is."""
        return self._estimate.below(masses, children, fixed_count, count)

    def _look_at(self, tokens: Array, parent: Array) -> None:
        """Receive the nodes just drafted: tokens int (B, m), and the indices of their parents in the level above."""

    def grown(self) -> Grown:
        slots = xp.arange(self.drafting.bounds.size + 1, like=self._fixed_count) + 0 * self._fixed_count
        trees = self._tokens[:, :-1], self._parents[:, :-1], self._fixed_count, slots
        return Grown(*map(self._draws.kind, trees))

    def _numbers(self, slot: Array, kept: Array, count: Array) -> Array:
        """Slots of the level's nodes by parent and index among its possible children: (B, W, C)."""
        none = 0 * slot[:, :1] + 0 * xp.arange(count.shape[-1] * self.drafting.bounds.max_children, like=kept)
        return written(none, kept, slot).reshape(*count.shape, self.drafting.bounds.max_children)

    def _children(self, q: Array, numbers: Array, count: Array, fixed_count: Array) -> tuple[Array, Array]:
        """Children (B, W, C), top tokens first, then draws outside them, then -1; and their masses under q."""
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
    """Return q outside the fixed tokens, normalised only if it may have no mass."""
    left = xp.with_zeros_at(q, fixed)
    return left if xp.holds_without_sync(left.sum(-1, keepdims=True) > 0) else outside(q, fixed)


def _has_elder(tokens: Array, parent: Array) -> Array:
    """Whether an earlier sibling holds the same token: int (B, m), (B, m) -> bool (B, m)."""
    equal = (tokens[:, :, None] == tokens[:, None, :]) & (parent[:, :, None] == parent[:, None, :])
    index = xp.arange(tokens.shape[-1], like=tokens)
    return (equal & (index[:, None] > index)).any(-1)
