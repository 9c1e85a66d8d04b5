"""Independent drafts: k draws from q."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .. import arrays as xp
from ..arrays import Array
from . import sets
from .base import DraftLaw


@dataclass(frozen=True)
class IID(DraftLaw):
    """k independent draws from q (SpecTr)."""

    first_follows_q: ClassVar[bool] = True
    independent: ClassVar[bool] = True
    absent_anywhere: ClassVar[bool] = True
    remedy: ClassVar[str] = "take Joint() or TokenWise(KSeq())"

    def probability(self, q: Array, drafts: Array) -> Array:
        return xp.gather(q, drafts).prod(-1)

    def draw(self, q: Array, uniforms: Array) -> Array:
        return xp.inverse_cdf(q, uniforms)

    def order(self, p: Array, q: Array, k: int) -> Array:
        return xp.argsort(xp.ratio(p, q))

    def along(self, q: Array, order: Array, k: int) -> Array:
        return _share(xp.prefix_sums(xp.take(q, order))) ** k

    @property
    def spelling(self) -> str:
        return "iid"

    @property
    def title(self) -> str:
        return "i.i.d. drafts"

    def child(self, q: Array, earlier: Array, token: Array, count: int, number: Any = None) -> Array:
        return q

    def at_place(self, q: Array, siblings: Array, place: Array, number: Any = None) -> Array:
        return q

    def drafted(self, q: Array, k: int) -> Array:
        return xp.any_of(q, k)

    def sets(self, q: Array, k: int) -> dict[int, Any]:
        return sets.independent(0, q, k)


def _share(sums: Array) -> Array:
    """Prefix sums as shares of the whole: the last is exactly 1, also after rounding."""
    return sums if xp.is_exact(sums) else sums / sums[..., -1:]
