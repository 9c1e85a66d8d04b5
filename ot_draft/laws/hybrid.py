"""Hybrid drafting: some top tokens of q, and i.i.d. draws outside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..arrays import (
    Array,
    argsort,
    as_number,
    gather,
    inverse_cdf,
    members,
    minimum,
    one,
    positions,
    prefix_sums,
    ratio,
    take,
    top_tokens,
    total,
    where,
    zero,
)
from ..errors import InvalidDrafts
from . import sets
from .base import DraftLaw, outside, padded
from .iid import IID
from .top_number import USUAL, StandIn


@dataclass(frozen=True)
class Hybrid(DraftLaw):
    """The first `top` drafts are the draft model's top tokens, in falling order; the others are i.i.d. outside them.

    top = 0 is i.i.d. drafting; top = -1 stands for k - 1, the greedy drafting of Hu et al. (2025); top = "auto" chooses the
    number for every row from q and k alone, by the estimator. Equal masses are ranked by token id. With k <= top the top k
    tokens are drafted, and nothing else. estimator: what "auto" estimates the acceptance of every number with.
    """

    independent: ClassVar[bool] = True
    fixes_tops: ClassVar[bool] = True
    in_turn: ClassVar[bool] = True

    top: int | str
    estimator: StandIn = USUAL

    def __repr__(self) -> str:
        usual = self.estimator == USUAL
        return f"Hybrid(top={self.top!r})" if usual else f"Hybrid(top={self.top!r}, estimator={self.estimator!r})"

    def check(self, k: int) -> None:
        whole = isinstance(self.top, int) and not isinstance(self.top, bool) and self.top >= -1
        if not whole and self.top != "auto":
            raise InvalidDrafts(
                f"Hybrid(top={self.top!r}): give the number of top tokens, -1 for greedy drafting, or 'auto'"
            )

    def count(self, n: int, k: int) -> int:
        return k if self.top == "auto" or self._fixed(k) < n else min(n, k)

    def draws(self, q: Array, k: int) -> int:
        fixed = self.top_drafts(q, k)
        return int((fixed < 0).sum()) if (fixed >= 0).sum() < len(q) else 0

    def number(self, q: Array, k: int) -> Any:
        return minimum(self.estimator.number(q, k), k) if self.top == "auto" else min(self._fixed(k), k)

    @property
    def number_by_q(self) -> bool:
        return self.top == "auto"

    @property
    def same_number(self) -> bool:
        return self.top not in (-1, "auto")

    def top_drafts(self, q: Array, k: int, number: Any = None) -> Array:
        """The fixed drafts, -1 at the positions that are drawn: (..., n) -> int (..., k). number: as at the draw, if known."""
        n = q.shape[-1]
        ranked = top_tokens(q, min(k, n))
        fixed = where(positions(min(k, n), q) < (self.number(q, k) if number is None else number), ranked, -1)
        return padded(fixed, k)

    def probability(self, q: Array, drafts: Array) -> Array:
        fixed = self.top_drafts(q, drafts.shape[-1])
        free = outside(q, fixed)
        drawn = where(total(free) > 0, gather(free, drafts), as_number(drafts == -1, q))
        return where(fixed >= 0, as_number(drafts == fixed, q), drawn).prod(-1)

    def draw(self, q: Array, uniforms: Array) -> Array:
        return self.draw_with_number(q, uniforms)[0]

    def draw_with_number(self, q: Array, uniforms: Array) -> tuple[Array, Any]:
        number = self.number(q, uniforms.shape[-1])
        fixed = self.top_drafts(q, uniforms.shape[-1], number)
        free = outside(q, fixed)
        drawn = where(total(free) > 0, inverse_cdf(free, uniforms), -1)
        return where(fixed >= 0, fixed, drawn), number

    def inside(self, q: Array, token_set: Array, k: int) -> Array:
        fixed = self.top_drafts(q, k)
        top = members(fixed, q.shape[-1], q)
        mass = total(where(token_set, outside(q, fixed), zero(q)))
        draws = where(top.all(-1)[..., None], zero(q), total(as_number(fixed < 0, q)))
        return as_number((token_set | ~top).all(-1), q) * (mass**draws)[..., 0]

    def order(self, p: Array, q: Array, k: int) -> Array:
        fixed = self.top_drafts(q, k)
        # A set without all top tokens holds no draft tuple.
        return argsort(where(members(fixed, q.shape[-1], q), -one(q), ratio(p, outside(q, fixed))))

    def along(self, q: Array, order: Array, k: int) -> Array:
        fixed = self.top_drafts(q, k)
        top = members(fixed, q.shape[-1], q)
        draws = where(top.all(-1)[..., None], zero(q), total(as_number(fixed < 0, q)))
        sums = prefix_sums(take(outside(q, fixed), order))
        share = sums / where(sums[..., -1:] == 0, one(q), sums[..., -1:])
        topped = prefix_sums(take(as_number(top, q), order))
        return where(topped < topped[..., -1:], zero(q), share**draws)

    @property
    def spelling(self) -> str:
        return "greedy" if self.top == -1 else f"hybrid:{self.top}"

    @property
    def spellings(self) -> tuple[str, ...]:
        return ("greedy", "hybrid:J", "hybrid:auto")

    @property
    def title(self) -> str:
        known: dict[int | str, str] = {
            -1: "greedy: top k - 1, one draw outside",
            "auto": "hybrid: j top tokens, j chosen from q, draws outside",
        }
        return known.get(self.top, self.spelling)

    def spelled(self, name: str) -> DraftLaw | None:
        family, _, top = name.partition(":")
        if name == "greedy":
            return Hybrid(-1)
        if family != "hybrid" or not (top.isdecimal() or top == "auto"):
            return None
        return Hybrid(int(top) if top.isdecimal() else top)

    @property
    def remedy(self) -> str:  # type: ignore[override]  # it names the law with its field
        return f"take TokenWise(Optimal(law={self!r})), Joint(), or NaiveTarget() where nothing was drawn"

    def plain(self, k: int) -> DraftLaw:
        top = max(k - 1, 0) if self.top == -1 else self.top
        return IID() if top == 0 else Hybrid(top, self.estimator)

    def child(self, q: Array, earlier: Array, token: Array, count: int, number: Any = None) -> Array:
        place = earlier.shape[-1]
        number = self.number(q, count) if number is None else number
        tops = where(positions(place, q) < number, earlier, -1)
        fixed = (place + 0 * token) < number
        return where(fixed, as_number(members(token, q.shape[-1], q), q), outside(q, tops))

    def sets(self, q: Array, k: int) -> dict[int, Any]:
        fixed = self.top_drafts(q, k)
        return sets.independent(sets.bits_of(fixed), outside(q, fixed), self.draws(q, k))

    def _fixed(self, k: int) -> int:
        return max(k - 1, 0) if self.top == -1 else int(self.top)
