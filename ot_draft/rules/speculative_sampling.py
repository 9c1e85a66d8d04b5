"""Speculative sampling: the maximal coupling of one draft with the target."""

from dataclasses import dataclass, replace

from .. import arrays as xp
from ..arrays import Array
from ..laws import IID, DraftLaw, Fact
from ..problem import Problem
from ..selection import ClosedForm, Selection, SelectionRule, Siblings, with_closed_form


@dataclass(frozen=True)
class SpeculativeSampling(SelectionRule):
    """Take the first draft with probability min(1, p/q), else draw from norm((p - q)+) [1]_ [2]_.

    Optimal for k = 1: the acceptance is sum_y min(p, q) = 1 - TV(p, q). Lossless under every law whose first draft follows q.

    Parameters
    ----------
    law : DraftLaw, default=IID()
        Draft law.

    References
    ----------
    .. [1] Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", ICML 2023, Theorem 1.
    .. [2] Chen et al., "Accelerating Large Language Model Decoding with Speculative Sampling", 2023, Theorem 1.

    Examples
    --------
    >>> import ot_draft as otd
    >>> float(otd.evaluate(otd.rules.SpeculativeSampling(), otd.Problem([0.5, 0.5], [0.75, 0.25], k=1)).acceptance)
    0.75
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
