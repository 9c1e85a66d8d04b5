"""Speculative sampling: the maximal coupling of one draft with the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..arrays import Array, any_of, divide, excess, gather, maximum, minimum, normalise, one, where, zero
from ..laws import IID, DraftLaw
from ..problem import Problem
from ..selection import Selection, SelectionRule


@dataclass(frozen=True)
class SpeculativeSampling(SelectionRule):
    """Take the first draft with probability min(1, p/q), else draw from norm((p - q)+); later drafts are ignored.

    Optimal for k = 1: acceptance sum_y min(p, q) = 1 - TV(p, q). Valid under every law whose first draft follows q.
    Source: Leviathan et al. 2023, Theorem 1; Chen et al. 2023, Theorem 1.
    """

    claims = ("maximal",)
    any_number: ClassVar[bool] = True
    law: DraftLaw = IID()

    @property
    def label(self) -> str:
        return "speculative sampling"

    def valid_under(self, law: DraftLaw, k: int) -> bool:
        return law.first_follows_q or super().valid_under(law, k)

    def under(self, law: DraftLaw) -> SelectionRule | None:
        return replace(self, law=law) if law.first_follows_q else super().under(law)

    def closed_form(self, problem: Problem, optimum: Array | None = None) -> tuple[Array, Array] | None:
        """Taken: sum min(p, q). The residual (p - q)+ hits a token among the k - 1 drafts that were never looked at."""
        if not problem.law.all_independent:
            return None
        p, q = problem.p, problem.q
        taken = minimum(p, q).sum(-1)
        seen = any_of(q, problem.k - 1)
        return taken + (maximum(p - q, zero(p)) * seen).sum(-1), taken

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        present = drafts >= 0
        first = present & (present.cumsum(-1) == 1)
        ratio = divide(gather(p, drafts), gather(q, drafts), zero(p))
        accept = where(first, minimum(ratio, one(p)), zero(p))
        residual = normalise(excess(p, q, one(p) + 0 * p[..., :1]), p)
        return Selection(accept, where(present.any(-1)[..., None], residual, p))
