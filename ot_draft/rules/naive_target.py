"""Naive target sampling: draw from the target, and be glad if it was drafted."""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import Array, cleared, gather, normalise, where, zero
from ..laws import IID, DraftLaw
from ..selection import Selection, SelectionRule, first_time


@dataclass(frozen=True)
class NaiveTarget(SelectionRule):
    """Output y drawn from p; accepted when y is among the drafts.

    Valid under every law, deterministic (top-k) drafts included: the output does not depend on how they were drawn.
    Source: the verification of SpecInfer's baseline and of EAGLE's greedy trees; Miao et al. 2024, section 4.3.
    """

    claims = ("cover",)
    law: DraftLaw = IID()

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        accept = where(first_time(drafts), gather(p, drafts), zero(p))
        return Selection(accept, normalise(cleared(p, drafts), p))
