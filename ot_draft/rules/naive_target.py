"""Naive target sampling: draw from the target, and accept the draft if it coincides."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .. import arrays as xp
from ..arrays import Array
from ..laws import IID, DraftLaw, Fact, marginals
from ..problem import Problem
from ..selection import ClosedForm, Selection, SelectionRule, Siblings, first_time, with_closed_form


@dataclass(frozen=True)
class NaiveTarget(SelectionRule):
    """Draw the output from p; it is accepted if it is among the drafts [1]_.

    Lossless under every law, deterministic (top-k) drafts included: the output does not depend on how they were drawn.

    Parameters
    ----------
    law : DraftLaw, default=IID()
        Draft law.

    References
    ----------
    .. [1] Miao et al., "SpecInfer", ASPLOS 2024, section 4.3.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> problem = otd.Problem([F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)], k=2)
    >>> otd.evaluate(otd.rules.NaiveTarget(), problem).lossless
    True
    """

    claims = ("cover",)
    siblings = Siblings(valid_under=Fact(0), any_number=True, any_lists=True)
    law: DraftLaw = IID()

    def under(self, law: DraftLaw) -> NaiveTarget:
        return replace(self, law=law)

    def _closed_form(self, problem: Problem, optimum: Array | None = None) -> ClosedForm | None:
        """sum_y p(y) P(y is drafted)."""
        drafted = marginals(problem.law, problem.q, problem.k)
        if drafted is None:
            return None
        accepted = (problem.p * drafted).sum(-1)
        return accepted, accepted

    @with_closed_form(_closed_form)
    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        accept = xp.where(first_time(drafts), xp.gather(p, drafts), 0)
        return Selection(accept, xp.normalise(xp.with_zeros_at(p, drafts), p))
