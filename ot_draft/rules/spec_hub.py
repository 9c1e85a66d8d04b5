"""SpecHub: two drafts, one of which is always the draft model's top token."""

from __future__ import annotations

from dataclasses import dataclass

from .. import arrays as xp
from ..arrays import Array
from ..laws import DraftLaw, Hub
from ..problem import Problem
from ..selection import Selection, SelectionRule
from .coupling import attained_optimum
from .greedy import take_outside


@dataclass(frozen=True)
class SpecHub(SelectionRule):
    """The optimal rule for the hub law (k = 2): pairs of the top token a and one other token i.

    The pair {a, i}, in either order, has probability q(i) / (1 - q(a)), as if i were drawn from q outside a, so the rule
    is that of greedy drafting with k = 2, and so is the acceptance. Source: Sun et al., SpecHub, EMNLP 2024.
    """

    claims = ("optimal",)
    law: DraftLaw = Hub()

    def closed_form(self, problem: Problem, optimum: Array | None = None) -> tuple[Array, Array] | None:
        """The optimum of the law, and no residual on drafted tokens."""
        return attained_optimum(problem, optimum) if problem.law == self.law else None

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        hub = xp.top_tokens(q, 1)
        return take_outside(p, q, drafts, xp.where(drafts == hub, drafts, -1))
