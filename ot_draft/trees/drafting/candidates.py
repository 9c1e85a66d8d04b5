"""Trees that keep the best of many candidates: candidates are drafted level by level, and those of the largest values are kept.

A candidate's value is at most that of its parent and of its earlier siblings. The best candidates therefore form a tree in which every
node has its first children. The draft model reads only candidates that are among the best so far.
"""

from abc import abstractmethod
from typing import NamedTuple

from ... import arrays as xp
from ...arrays import Array
from ...boundary import int_from
from ...errors import InvalidDrafts
from ...laws.fixed_tokens import n_fixed_by_node
from ..tree import TreeBounds
from .drafter import DraftCounts, TreeDrafter
from .growing import Growing, Grown, TreeDraws, written


class Offer(NamedTuple):
    """Candidates below every node of a level, (B, W, C) each: tokens, values (0: none), and probabilities that they are reached."""

    tokens: Array
    values: Array
    reached: Array


class KeptLevel(NamedTuple):
    """Candidates of a level that were kept, (B, w) each: tokens, values, parents among all candidates (0: the root), slots."""

    tokens: Array
    values: Array
    parents: Array
    slots: Array


class BestCandidates(TreeDrafter):
    """A tree drafter that keeps the `budget` best candidates. beam: maximum number of nodes per level that the draft model reads.

    max_children: per node. min_value: candidates have a larger value. min_gain: a tree grows while a level raises the sum of its values by
    more.
    """

    budget: int
    length: int
    max_children: int
    beam: int
    min_value: float
    min_gain: float

    def __post_init__(self) -> None:
        for name in ("budget", "length", "max_children", "beam"):
            int_from(name, getattr(self, name), 1, error=InvalidDrafts)

    @property
    def bounds(self) -> TreeBounds:
        return TreeBounds(self.budget, self.length, self.max_children)

    @property
    def counts(self) -> DraftCounts:
        slots = 1 + self.beam * (self.length - 1)
        return DraftCounts(self.n_draws(slots), slots, self.length, 0, self.max_children, slots_are_nodes=False)

    @abstractmethod
    def n_draws(self, slots: int) -> int:
        """Return the number of draws below this number of nodes."""

    @abstractmethod
    def offer(self, q: Array, reached: Array, floor: Array, draws: TreeDraws, first: int) -> Offer:
        """Return candidates below the nodes of a level: q (B, W, n), reached (B, W), floor (B, 1) that values must exceed, `host_view`s.

        first: index of the level's first uniform; child i of node w has index first + w C + i. Values do not increase from a node to
        its children, nor from child to child.
        """

    def growing(self, draws: TreeDraws) -> Growing:
        return Candidates(self, draws)


class Candidates(Growing):
    """All candidates so far, and which of them are read next."""

    def __init__(self, drafting: BestCandidates, draws: TreeDraws) -> None:
        super().__init__(draws, drafting.length)
        self.drafting = drafting
        root = draws.root
        self._slots, self._here = root, root
        self._reached, self._sum = xp.double(root) + 1, xp.double(root)
        self._floor = xp.double(root) + drafting.min_value
        self._kept: list[KeptLevel] = []
        self._first_slot, self._first_uniform, self._count = 1, 0, 0

    def grow(self, q: Array) -> None:
        drafting, here = self.drafting, self._here
        offer = drafting.offer(q, self._reached, self._floor, self._draws, self._first_uniform)
        children = offer.tokens.shape[-1]
        tokens, values, reached = (x.reshape(len(here), -1) for x in offer)
        kept = _best(xp.where(values > self._floor, values, 0), drafting.budget)
        there = kept < values.shape[-1]
        at = xp.where(there, kept, 0)
        above = at // children
        tokens, values = (
            xp.where(there, xp.take_along_axis(tokens, at), -1),
            xp.where(there, xp.take_along_axis(values, at), 0.0),
        )
        self._kept.append(KeptLevel(tokens, values, xp.take_along_axis(here, above), 0 * at - 1))
        self._first_uniform += drafting.max_children * (1 if self.levels == drafting.length else drafting.beam)
        self._count += at.shape[-1]
        self.levels -= 1
        if self.levels:  # the last level is not read
            self._go_down(xp.where(there, xp.take_along_axis(reached, at), 0.0), xp.take_along_axis(self._slots, above))

    def _go_down(self, reached: Array, above: Array) -> None:
        """Choose which candidates of the last level are read next; above: the slots of their parents."""
        drafting, level = self.drafting, self._kept[-1]
        width = reached.shape[-1]
        best = xp.top_masses(self._all("values"), min(drafting.budget, self._count))
        if self._count >= drafting.budget:
            self._floor = xp.maximum(best[:, -1:], drafting.min_value)
        sum_before, self._sum = self._sum, best.sum(-1, keepdims=True)
        goes_on = (self._sum - sum_before > drafting.min_gain) & (reached > self._floor)
        chosen = _best(xp.where(goes_on, reached, 0), drafting.beam)
        there = chosen < width
        at = xp.where(there, chosen, 0)
        self._here = xp.where(there, 1 + self._count - width + at, -1)
        self._slots = xp.where(there, self._first_slot + xp.arange(at.shape[-1], like=at), -1)
        self._reached = xp.where(there, xp.take_along_axis(reached, at), 0.0)
        # One scratch column: the target of masked writes.
        slots = written(_padded(level.slots, width + 1, -1), chosen, self._slots)[:, :width]
        self._kept[-1] = level._replace(slots=slots)
        self._first_slot += at.shape[-1]
        self._show(
            self._slots,
            xp.where(there, xp.take_along_axis(level.tokens, at), 0),
            xp.where(there, xp.take_along_axis(above, at), 0),
        )

    def grown(self) -> Grown:
        size, count = self.drafting.budget, self._count
        tokens, values, parents, slots = map(self._all, KeptLevel._fields)
        kept = _best(values, size)
        there = kept < count
        at = xp.where(there, kept, 0)
        node = _padded(0 * at[:, :1], count + 2, 0)  # of every candidate, the root first
        node = written(node, xp.where(there, kept + 1, count + 1), 1 + xp.arange(at.shape[-1], like=at) + 0 * at)
        above = _padded(xp.where(there, xp.take_along_axis(node, xp.take_along_axis(parents, at)), size), size, size)
        slots, tokens = (_padded(xp.where(there, xp.take_along_axis(x, at), -1), size, -1) for x in (slots, tokens))
        slots = xp.concat((0 * at[:, :1], slots), axis=-1)
        fixed_count = 0 * slots
        if n_fixed_by_node(self.drafting.law):  # no child is a draw
            nodes = xp.arange(size + 1, like=above)
            fixed_count = (above[:, :, None] == nodes).sum(1) * (nodes < size)
        return Grown(*map(self._draws.kind, (tokens, above, fixed_count, slots)))

    def _all(self, name: str) -> Array:
        return xp.concat([getattr(level, name) for level in self._kept], axis=-1)


def _best(values: Array, count: int) -> Array:
    """Increasing indices of the largest positive values of every row, at most `count`; the number of columns where there are fewer.

    On the host, columns that no row needs are dropped, except for one.
    """
    width = values.shape[-1]
    order = xp.argsort(-values, stable=True)[:, : min(count, width)]
    there = xp.take_along_axis(values, order) > 0
    if xp.on_host(there):
        most = max(int(there.sum(-1).max()) if len(there) else 0, 1)
        order, there = order[:, :most], there[:, :most]
    indices = xp.where(there, order, width)
    return xp.take_along_axis(indices, xp.argsort(indices))


def _padded(x: Array, width: int, value: int) -> Array:
    """x (B, m) in `width` columns, the further ones of this value."""
    missing = width - x.shape[-1]
    if not missing:
        return x
    return xp.concat((x, *[0 * x[:, :1] + value] * missing), axis=-1)
