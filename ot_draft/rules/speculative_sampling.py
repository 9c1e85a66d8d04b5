"""Speculative sampling: the maximal coupling of one draft with the target."""

from dataclasses import dataclass, replace

from .. import arrays as xp
from ..arrays import Array
from ..laws import IID, DraftLaw, Fact
from ..problem import Problem
from ..selection import ClosedForm, Selection, SelectionRule, Siblings, with_closed_form


@dataclass(frozen=True)
class SpeculativeSampling(SelectionRule):
    """Take the first draft with probability min(1, p/q), else draw from norm((p - q)+); later drafts are ignored.

    Optimal for k = 1: acceptance sum_y min(p, q) = 1 - TV(p, q). Valid under every law whose first draft follows q.
    Source: Leviathan et al. 2023, Theorem 1; Chen et al. 2023, Theorem 1.
    """

    claims = ("maximal",)
    siblings = Siblings(valid_under=Fact.FIRST_FOLLOWS_Q, any_number=True)
    law: DraftLaw = IID()

    def under(self, law: DraftLaw) -> SelectionRule | None:
        return replace(self, law=law) if law == self.law or Fact.FIRST_FOLLOWS_Q in law.facts else None

    def _closed_form(self, problem: Problem, optimum: Array | None = None) -> ClosedForm | None:
        """Taken: sum min(p, q). The residual (p - q)+ hits a token among the k - 1 drafts that were never looked at."""
        if Fact.INDEPENDENT not in problem.law.facts:
            return None
        p, q = problem.p, problem.q
        taken = xp.minimum(p, q).sum(-1)
        seen = xp.at_least_one(q, problem.k - 1)
        return taken + (xp.maximum(p - q, 0) * seen).sum(-1), taken

    @with_closed_form(_closed_form)
    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        first = xp.first_present(drafts)
        ratio = xp.minimum(xp.divide(xp.gather(p, drafts), xp.gather(q, drafts), 0), 1)
        left = xp.residual(p, q)
        return Selection(xp.where(first, ratio, 0), xp.where(first.any(-1, keepdims=True), left, p))
