"""Naive target sampling: draw from the target, and be glad if it was drafted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from .. import arrays as xp
from ..arrays import Array
from ..laws import IID, DraftLaw, marginals
from ..problem import Problem
from ..selection import Selection, SelectionRule, first_time


@dataclass(frozen=True)
class NaiveTarget(SelectionRule):
    """Output y drawn from p; accepted when y is among the drafts.

    Valid under every law, deterministic (top-k) drafts included: the output does not depend on how they were drawn.
    Source: the verification of SpecInfer's baseline and of EAGLE's greedy trees; Miao et al. 2024, section 4.3.
    """

    label = "naive target sampling"
    claims = ("cover",)
    any_number: ClassVar[bool] = True
    law: DraftLaw = IID()

    def valid_under(self, law: DraftLaw, k: int) -> bool:
        return True

    def under(self, law: DraftLaw) -> NaiveTarget:
        return replace(self, law=law)

    def merges(self, law: DraftLaw) -> bool:
        return True

    def closed_form(self, problem: Problem, optimum: Array | None = None) -> tuple[Array, Array] | None:
        """sum_y p(y) P(y is drafted)."""
        drafted = marginals(problem.law, problem.q, problem.k)
        if drafted is None:
            return None
        accepted = (problem.p * drafted).sum(-1)
        return accepted, accepted

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        accept = xp.where(first_time(drafts), xp.gather(p, drafts), 0)
        return Selection(accept, xp.normalise(xp.cleared(p, drafts), p))
