"""Which draft is selected at the levels between classes of tokens of nearly equal ratio p/q."""

from ... import arrays as xp
from ...arrays import Array

CLASSES = 256  # on an accelerator, where the caller leaves the number open
STEPS = 8  # of Newton's method for the levels


def choose(level: Array, rank: Array, drafts: Array) -> Array:
    """Probability (..., k) that each draft is selected: level (..., C), class of every token int (..., n), drafts (..., k)."""
    return xp.from_view(
        at_levels(xp.host_view(level), xp.host_view(xp.gather(rank, drafts)), xp.host_view(drafts >= 0)), level
    )


def at_levels(level: Array, rank: Array, present: Array) -> Array:
    """At level lambda the classes form intervals, cut where level > lambda: the highest that holds a draft wins, its first draft.

    level: (..., C) of the boundary above each class; rank: int (..., k) class of each draft.
    """
    if not rank.shape[-1]:
        return level[..., :0]
    highest = xp.max(xp.where(present, rank, -1), axis=-1, keepdims=True)
    cuts = xp.where(xp.arange(level.shape[-1], like=rank) < highest, level, 0)
    cut = xp.where(present, xp.gather(xp.suffix_maximum(cuts), rank), 1)
    left = xp.prefix_minimum(cut)
    before = xp.concat((1 + 0 * left[..., :1], left[..., :-1]), axis=-1)
    return before - left
