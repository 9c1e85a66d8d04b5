"""Which draft is selected at given levels: the last step, on whatever the levels were made."""

from __future__ import annotations

from ...arrays import (
    Array,
    gather,
    largest,
    namespace,
    one,
    positions,
    prefix_minimum,
    small,
    suffix_maximum,
    unsmall,
    where,
    zero,
)


def choose(level: Array, rank: Array, drafts: Array) -> Array:
    """Probability (..., k) that each draft is selected: level (..., C), class of every token int (..., n), drafts (..., k)."""
    return unsmall(at_levels(small(level), small(gather(rank, drafts)), small(drafts >= 0)), level)


def at_levels(level: Array, rank: Array, present: Array) -> Array:
    """At level lambda the classes form intervals, cut where level > lambda: the highest that holds a draft wins, its first draft.

    level: (..., C) of the boundary above each class; rank: int (..., k) class of each draft.
    """
    if not rank.shape[-1]:
        return level[..., :0]
    highest = largest(where(present, rank, -1))
    cuts = where(positions(level.shape[-1], rank) < highest, level, zero(level))
    cut = where(present, gather(suffix_maximum(cuts), rank), one(level))
    left = prefix_minimum(cut)
    before = namespace(left).concatenate((0 * left[..., :1] + one(left), left[..., :-1]), -1)
    return before - left
