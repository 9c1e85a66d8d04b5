"""TensorRT-LLM's relaxed acceptance."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...errors import InvalidArgument
from ...laws import IID, DraftLaw
from ...selection import Selection, SelectionRule
from .numbers import most_likely


@dataclass(frozen=True)
class RelaxedAcceptance(SelectionRule):
    """Take the first draft if it is among the target's `top` likeliest tokens and p > max p - delta; else the target's likeliest token.

    Made for greedy decoding: beside sampling at temperature 1 its law is far from p. q plays no part; later drafts are ignored.
    Source: TensorRT-LLM, relaxed acceptance for the thinking phase (MTP), with relaxed_topk 10 and relaxed_delta .6 of its notes.
    """

    top: int = 10
    delta: Any = Fraction(3, 5)
    law: DraftLaw = IID()

    def __post_init__(self) -> None:
        if self.top < 1 or not 0 <= self.delta <= 1:
            raise InvalidArgument(
                f"RelaxedAcceptance({self.top!r}, {self.delta!r}): give top >= 1 and a delta from 0 to 1"
            )

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({self.top}, {float(self.delta):g})"

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        ranked = xp.top_tokens(p, min(self.top, p.shape[-1]))
        first = xp.first_present(drafts)
        among = (drafts[..., :, None] == ranked[..., None, :]).any(-1)
        near = xp.gather(p, drafts) > xp.largest(p) - xp.number(self.delta, p)
        return Selection(xp.as_number(first & among & near, p), most_likely(p))
