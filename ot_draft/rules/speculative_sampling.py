"""Speculative sampling: the maximal coupling of one draft with the target."""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import Array, divide, excess, gather, minimum, normalise, one, where, zero
from ..laws import IID, DraftLaw
from ..selection import Selection, SelectionRule


@dataclass(frozen=True)
class SpeculativeSampling(SelectionRule):
    """Take the first draft with probability min(1, p/q), else draw from norm((p - q)+); later drafts are ignored.

    Optimal for k = 1: acceptance sum_y min(p, q) = 1 - TV(p, q). Valid under every law whose first draft follows q.
    Source: Leviathan et al. 2023, Theorem 1; Chen et al. 2023, Theorem 1.
    """

    claims = ("maximal",)
    law: DraftLaw = IID()

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        present = drafts >= 0
        first = present & (present.cumsum(-1) == 1)
        ratio = divide(gather(p, drafts), gather(q, drafts), zero(p))
        accept = where(first, minimum(ratio, one(p)), zero(p))
        residual = normalise(excess(p, q, one(p) + 0 * p[..., :1]), p)
        return Selection(accept, where(present.any(-1)[..., None], residual, p))
