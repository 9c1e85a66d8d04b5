"""Hybrid drafting: some top tokens of q, and i.i.d. draws outside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidArgument
from .base import DraftLaw, padded
from .fixed import FixedFirst
from .iid import IID
from .top_number import USUAL, StandIn


@dataclass(frozen=True)
class Hybrid(FixedFirst):
    """The first `top` drafts are the draft model's top tokens, in falling order; the others are i.i.d. outside them.

    top = 0 is i.i.d. drafting; top = -1 stands for k - 1, the greedy drafting of Hu et al. (2025); top = "auto" chooses the
    number for every row from q and k alone, by the estimator. Equal masses are ranked by token id. With k <= top the top k
    tokens are drafted, and nothing else. estimator: what "auto" estimates the acceptance of every number with.
    """

    top: int | str
    estimator: StandIn = USUAL

    def __repr__(self) -> str:
        usual = self.estimator == USUAL
        return f"Hybrid(top={self.top!r})" if usual else f"Hybrid(top={self.top!r}, estimator={self.estimator!r})"

    def __post_init__(self) -> None:
        whole = isinstance(self.top, int) and not isinstance(self.top, bool) and self.top >= -1
        if not whole and self.top != "auto":
            raise InvalidArgument(
                f"Hybrid(top={self.top!r}): give the number of top tokens, -1 for greedy drafting, or 'auto'"
            )

    def count(self, n: int, k: int) -> int:
        return k if self.top == "auto" or self._fixed(k) < n else min(n, k)

    def number(self, q: Array, k: int) -> Any:
        return xp.minimum(self.estimator.number(q, k), k) if self.top == "auto" else min(self._fixed(k), k)

    @property
    def number_by_q(self) -> bool:
        return self.top == "auto"

    @property
    def same_number(self) -> bool:
        return self.top not in (-1, "auto")

    def top_drafts(self, q: Array, k: int, number: Any = None) -> Array:
        """The fixed drafts, -1 at the positions that are drawn: (..., n) -> int (..., k). number: as at the draw, if known."""
        n = q.shape[-1]
        ranked = xp.top_tokens(q, min(k, n))
        fixed = xp.where(xp.positions(min(k, n), q) < (self.number(q, k) if number is None else number), ranked, -1)
        return padded(fixed, k)

    @property
    def spelling(self) -> str:
        return "greedy" if self.top == -1 else f"hybrid:{self.top}"

    @property
    def title(self) -> str:
        known: dict[int | str, str] = {
            -1: "greedy: top k - 1, one draw outside",
            "auto": "hybrid: j top tokens, j chosen from q, draws outside",
        }
        return known.get(self.top, self.spelling)

    def plain(self, k: int) -> DraftLaw:
        top = max(k - 1, 0) if self.top == -1 else self.top
        return IID() if top == 0 else Hybrid(top, self.estimator)

    def _fixed(self, k: int) -> int:
        return max(k - 1, 0) if self.top == -1 else int(self.top)
