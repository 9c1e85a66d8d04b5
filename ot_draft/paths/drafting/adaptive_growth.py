"""The batched form of the drafting that follows q: the levels of `AdaptiveTree`, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...arrays import (
    Array,
    argsort,
    gather,
    inverse_cdf,
    maximum,
    namespace,
    on_host,
    positions,
    take,
    top_tokens,
    total,
    where,
)
from ...laws import outside
from .dynamic_tree import Growing, Grown, written

if TYPE_CHECKING:
    from .adaptive import AdaptiveTree


class AdaptiveGrowth(Growing):
    """Trees whose nodes stand in the slots of their numbers. Of siblings that are equal the eldest alone is read, and drafted after."""

    def __init__(self, drafting: AdaptiveTree, uniforms: Array) -> None:
        self.drafting, self._uniforms, self.levels = drafting, uniforms, drafting.length
        size = drafting.budget
        empty = 0 * positions(size + 1, uniforms) + where(uniforms[:, :1] < 0, 0, 0)  # (B, N + 1)
        self._tokens, self._parents, self._tops = empty - 1, empty + size, empty
        self._used = self.slots = self.read = self.above = empty[:, :1]
        self._reached = 1.0 + 0 * uniforms[:, :1]

    def grow(self, q: Array) -> None:
        """Draft the level below, by q (B, W, n) at the present nodes (any law where there is none)."""
        drafting, size = self.drafting, self.drafting.budget
        count, tops = drafting.numbers(q, self._reached, size - self._used, self.levels)
        place = positions(drafting.most, count)
        present = (place < count[..., None]).reshape(len(count), -1)
        kept = argsort(where(present, 0, 1), stable=True)[:, : min(size, present.shape[-1])]
        if on_host(kept):  # where it can be asked how many there are, the rest of the level is left out
            kept = kept[:, : max(int(present.sum(-1).max()) if len(present) else 0, 1)]
        there, parent = take(present, kept), kept // drafting.most
        slot = where(there, self._used + positions(kept.shape[-1], kept), size)
        uniforms = gather(self._uniforms, where(there, slot, -1))
        spread = 0 * (place + count[..., None]) + 0.0 * uniforms[:, :1, None]
        spread = written(spread.reshape(len(kept), -1), kept, uniforms).reshape(*count.shape, drafting.most)
        children = self._draw(q, spread, count[..., None], tops[..., None])
        reached = self._reached[..., None] * drafting.below(q, children, tops[..., None], count[..., None])
        children, reached = (x.reshape(len(kept), -1) for x in (children, reached))
        tokens = where(there, take(children, kept), -1)
        self._tokens = written(self._tokens, slot, tokens)
        above = take(maximum(self.slots, 0), parent)
        self._parents = written(self._parents, slot, where(there, above, size))
        self._tops = written(self._tops, where(self.slots >= 0, self.slots, size), tops)
        self._used = self._used + total(where(there, 1, 0))
        elder = (tokens[:, :, None] == tokens[:, None, :]) & (parent[:, :, None] == parent[:, None, :])
        index = positions(kept.shape[-1], kept)
        alone = there & ~(elder & (index[:, None] > index)).any(-1)
        alone = alone & (self._used < size)  # else nothing is drafted any more
        self.slots, self.above = where(alone, slot + 1, -1), where(alone, above, 0)
        self.read = where(alone, tokens, 0)
        self._reached = where(alone, take(reached, kept), 0.0)
        self.levels -= 1

    def grown(self) -> Grown:
        tokens, parents = self._tokens[:, :-1], self._parents[:, :-1]
        nodes, there = positions(self.drafting.budget + 1, tokens), tokens >= 0
        firsts = (parents[:, :, None] < nodes).sum(1)  # the first child of every node, from 0
        drawn = nodes[:-1] - take(firsts, parents) >= take(self._tops, parents)
        numbers = where(there & drawn, nodes[:-1], -1)
        return Grown(tokens, parents, self._tops, nodes + 0 * self._tops, numbers)

    def _draw(self, q: Array, uniforms: Array, count: Array, tops: Array) -> Array:
        """Children (B, W, C): top tokens first, then draws outside them; -1 beyond their number."""
        most = uniforms.shape[-1]
        ranked = top_tokens(q, min(most, q.shape[-1]))
        place = positions(most, count)
        fixed = where(place[: ranked.shape[-1]] < tops, ranked, -1)
        drawn = inverse_cdf(outside(q, fixed), uniforms)
        if ranked.shape[-1] < most:
            ranked = namespace(q).concatenate((ranked, drawn[..., ranked.shape[-1] :]), -1)
        return where(place < count, where(place < tops, ranked, drawn), -1)
