"""Drafts without replacement: no token is drafted twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from . import prefix_probability, sets
from .base import DraftLaw, outside, padded
from .iid import IID


@dataclass(frozen=True)
class WithoutReplacement(DraftLaw):
    """k draws from q without replacement (multi-candidate speculative decoding; Sequoia)."""

    first_follows_q: ClassVar[bool] = True
    absent_anywhere: ClassVar[bool] = True
    remedy: ClassVar[str] = "take TokenWise(RecursiveRejectionWithoutReplacement()) or Traversal()"

    def count(self, n: int, k: int) -> int:
        return min(n, k)

    def probability(self, q: Array, drafts: Array) -> Array:
        probability = xp.full(xp.batch_shape(q, drafts), 1, q)
        for i in range(drafts.shape[-1]):
            token, left = drafts[..., i : i + 1], outside(q, drafts[..., :i])
            q_x = xp.gather(left, token)[..., 0]
            probability = probability * xp.where(xp.total(left)[..., 0] > 0, q_x, xp.as_number(token[..., 0] == -1, q))
        return probability

    def draw(self, q: Array, uniforms: Array) -> Array:
        n, k = q.shape[-1], uniforms.shape[-1]
        drafts = xp.broadcast(xp.positions(0, q), (*xp.batch_shape(q, uniforms), 0))
        for i in range(min(n, k)):
            token = xp.inverse_cdf(outside(q, drafts), uniforms[..., i : i + 1])
            drafts = xp.concatenate((drafts, token))
        return padded(drafts, k)

    def order(self, p: Array, q: Array, k: int) -> Array:
        # Tokens with q = 0 come last. Among them the fallback draws uniformly, so the lightest under p come first.
        by_target = xp.argsort(p)
        return xp.take(by_target, xp.argsort(xp.take(xp.ratio(p, q), by_target), stable=True))

    def along(self, q: Array, order: Array, k: int) -> Array:
        return prefix_probability.prefixes(xp.take(q, order), k)

    @property
    def title(self) -> str:
        return "drafts without replacement"

    def plain(self, k: int) -> DraftLaw:
        return IID() if k <= 1 else self

    def child(self, q: Array, earlier: Array, token: Array, count: int, number: Any = None) -> Array:
        return outside(q, earlier)

    def at_place(self, q: Array, siblings: Array, place: Array, number: Any = None) -> Array:
        if xp.settled(place <= 0):
            return q
        return outside(q, xp.where(xp.positions(siblings.shape[-1], siblings) < place, siblings, -1))

    def drafted(self, q: Array, k: int) -> None:
        return None  # n integrals of O(n)

    def sets(self, q: Array, k: int) -> dict[int, Any]:
        def following(drawn: int) -> Array:
            return outside(q, np.array(sets.tokens_of(drawn), dtype=np.int64))

        return sets.chain(0, self.count(len(q), k), following)
