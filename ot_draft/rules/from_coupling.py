"""The rule read off an optimal solution of the linear program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from ..arrays import Array
from ..laws import IID, DraftLaw
from ..lp.plan import Plan
from ..lp.program import as_fractions, seconds
from ..lp.solution import solve_program
from ..problem import Problem
from ..selection import ClosedForm, Cost, Selection, SelectionRule, with_closed_form
from .by_pair import by_pair


@dataclass(frozen=True)
class FromCoupling(SelectionRule):
    """Select by the optimal transport plan of the linear program [1]_.

    Given the draft set S, the output is y in S with probability pi(S, y) / Q(S), else a token of what is left of p. The rule is optimal
    under every law, and slow: one linear program for each (p, q), small n and k only. A row with absent drafts is solved for the drafts
    that are present.

    Parameters
    ----------
    law : DraftLaw, default=IID()
        Draft law; any.
    solver : str, default="flow"
        As in `ot_draft.solve`. "flow" is exact on Fractions and needs no package. Plans of other solvers are brought
        inside the constraints in rationals first, so that the rule stays lossless.

    References
    ----------
    .. [1] Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", NeurIPS 2023.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> problem = otd.Problem([F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)], k=2)
    >>> otd.evaluate(otd.rules.FromCoupling(), problem).lossless
    True
    """

    law: DraftLaw = IID()
    solver: str = "flow"

    @property
    def claims(self) -> tuple[str, ...]:  # type: ignore[override]  # fixed by the fields
        return ("optimal",) if self.solver == "flow" else ()

    @property
    def cost(self) -> Cost:  # type: ignore[override]  # the program's size depends on the draft law
        return Cost(solves_program=True, seconds=partial(seconds, self.law))

    def under(self, law: DraftLaw) -> FromCoupling:
        return replace(self, law=law)

    def _closed_form(self, problem: Problem, optimum: Array | None = None) -> ClosedForm | None:
        """The value of the linear program, by the rule's own solver; one pair."""
        if problem.batch or problem.law != self.law:
            return None
        acceptance = solve_program(problem, self.solver).acceptance
        return acceptance, acceptance

    @with_closed_form(_closed_form)
    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        return by_pair(p, q, drafts, self.law, self._selection_of_pair)

    def _selection_of_pair(self, p: np.ndarray, q: np.ndarray, k: int, tokens: np.ndarray) -> Selection:
        plan = _plan(tuple(as_fractions(p)), tuple(as_fractions(q)), k, self.law, self.solver)
        _, accept = plan.rows(tokens)
        return Selection(accept.astype(p.dtype), plan.left.astype(p.dtype))


@lru_cache(maxsize=64)  # so that a rule can be called draft by draft
def _plan(p: tuple[Fraction, ...], q: tuple[Fraction, ...], k: int, law: DraftLaw, solver: str) -> Plan:
    return solve_program(Problem(list(p), list(q), k, law), solver).plan
