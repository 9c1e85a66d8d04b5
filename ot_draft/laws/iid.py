"""Independent drafts: k draws from q."""

from dataclasses import dataclass
from typing import Any, ClassVar

from .. import arrays as xp
from ..arrays import Array
from . import sets
from .base import DraftLaw, shares


@dataclass(frozen=True)
class IID(DraftLaw):
    """k independent draws from q (SpecTr)."""

    first_follows_q: ClassVar[bool] = True
    independent: ClassVar[bool] = True
    absent_anywhere: ClassVar[bool] = True
    remedy: ClassVar[str] = "take Joint() or TokenWise(KSeq())"
    spelling: ClassVar[str] = "iid"
    title: ClassVar[str] = "i.i.d. drafts"

    def probability(self, q: Array, drafts: Array) -> Array:
        return xp.gather(q, drafts).prod(-1)

    def draw(self, q: Array, uniforms: Array) -> Array:
        return xp.inverse_cdf(q, uniforms)

    def order(self, p: Array, q: Array, k: int) -> Array:
        return xp.argsort(xp.ratio(p, q))

    def along(self, q: Array, order: Array, k: int) -> Array:
        return shares(q, order) ** k

    def child(self, q: Array, siblings: Array, place: Array, number: Any = None) -> Array:
        return q

    def drafted(self, q: Array, k: int) -> Array:
        return xp.any_of(q, k)

    def sets(self, q: Array, k: int) -> dict[int, Any]:
        return sets.independent(0, q, k)
