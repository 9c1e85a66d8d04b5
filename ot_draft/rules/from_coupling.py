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

REMEMBERED = 64  # couplings of recently seen (p, q, number of drafts), so that a rule can be called draft by draft


@dataclass(frozen=True)
class FromCoupling(SelectionRule):
    """Given the draft set S, output y in S with probability pi(S, y) / Q(S); else draw from what is left of p.

    Optimal under every law, and slow: one linear program for each (p, q), small n and k only. The default solver is the
    exact flow: it needs no package, no tolerance, and is optimal with == on Fractions. Any other solver's coupling is
    brought inside the constraints in rationals first, so that the rule stays valid whatever the solver returned. A row
    where some drafts are absent is solved for the drafts that are there. Source: SpecTr (Sun et al. 2023).
    """

    law: DraftLaw = IID()
    solver: str = "flow"

    @property
    def claims(self) -> tuple[str, ...]:  # type: ignore[override]  # fixed by the fields
        return ("optimal",) if self.solver == "flow" else ()

    @property
    def cost(self) -> Cost:  # type: ignore[override]  # the program's size goes by the law
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
        return by_pair(p, q, drafts, self.law, self._select)

    def _select(self, p: np.ndarray, q: np.ndarray, k: int, tokens: np.ndarray) -> Selection:
        coupling = _coupling(tuple(as_fractions(p)), tuple(as_fractions(q)), k, self.law, self.solver)
        _, accept = coupling.rows(tokens)
        return Selection(accept.astype(p.dtype), coupling.left.astype(p.dtype))


@lru_cache(maxsize=REMEMBERED)
def _coupling(p: tuple[Fraction, ...], q: tuple[Fraction, ...], k: int, law: DraftLaw, solver: str) -> Plan:
    return solve_program(Problem(list(p), list(q), k, law), solver).plan
