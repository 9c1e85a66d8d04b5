"""solve(problem, solver): the optimum by linear programming, with a coupling and a cut that confirm it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .. import arrays as xp
from ..errors import InvalidArgument, SolverFailed
from ..problem import Problem
from .certificate import Certificate, certify
from .coupling import Coupling, feasible, in_units
from .float_solvers import cvxpy_clarabel, cvxpy_highs, highs, pulp_cbc
from .maximum_flow import flow, ortools
from .program import Program, build
from .raw_solution import RawSolution
from .textbook import textbook_highs

SOLVERS: dict[str, Callable[[Program], RawSolution]] = {
    "highs": highs,
    "flow": flow,
    "cvxpy": cvxpy_clarabel,
    "cvxpy-highs": cvxpy_highs,
    "pulp": pulp_cbc,
    "ortools": ortools,
}
TOLERANCE = {"flow": 0.0, "highs": 1e-9, "ortools": 1e-9}  # largest gap that is let through; 1e-6 for the others


@dataclass(frozen=True)
class Residuals:
    """How far the solver's own answer is from optimal.

    primal: largest violation of a reduced constraint by its flow, before that was made feasible, in probability.
    dual: largest violation of price(S) + price(y) >= 1 or price >= 0, in acceptance per unit of mass.
    gap: cut minus value of the feasible coupling, in acceptance: the optimum is at most this much above the value.
    """

    primal: float
    dual: float
    gap: float


@dataclass(frozen=True, eq=False)
class Solution:
    """The optimum of one problem and what confirms it.

    acceptance: of the coupling, in the problem's numbers; at most the optimum, by at most residuals.gap.
    coupling: the reduced flow; `coupling.full()` is pi(x, y) over draft tuples. token_set: bool (n,), the 0/1 dual
    solution H, with optimum = 1 + p(H) - Q(all drafts in H).
    """

    acceptance: Any
    coupling: Coupling
    token_set: np.ndarray
    residuals: Residuals
    solver: str
    status: str
    problem: Problem

    def certificate(self) -> Certificate:
        """What coupling and token set prove, re-verified in rationals."""
        return certify(self.coupling, self.token_set)


def solve(problem: Problem, solver: str = "highs", *, form: str = "reduced") -> Solution:
    """Largest acceptance of any rule that keeps the target's law, by linear programming (SpecTr; Sun et al. 2023).

    solver: "flow" (pure Python, exact: gap 0), "highs" (scipy), "cvxpy" (Clarabel), "cvxpy-highs", "pulp" (CBC),
    "ortools". form: "reduced" (draft sets, inequalities), or "textbook" (all n^k tuples, equalities; HiGHS only, small
    cases). Fractions stay exact with "flow"; other solvers get them rounded, and their answer is still checked against
    the exact problem. Raises SolverFailed where acceptance and cut differ by more than 0 (flow), 1e-9 (highs, ortools), 1e-6
    (others), InvalidArgument for a solver or a form that is none.
    """
    method = _method(solver, form)
    program = build(problem)
    raw = method(program) if len(program.rows) else _nothing_drafted(program)
    _check_answer(program, raw, solver)
    coupling = feasible(program, raw)
    token_set, cut = program.lowest_cut(raw.token_prices, coupling.denominator)
    gap = Fraction(cut, coupling.denominator) - coupling.value
    tolerance = TOLERANCE.get(solver, 1e-6)
    if gap > tolerance:
        raise SolverFailed(
            f'{solver} ended "{raw.status}" with a coupling of value {float(coupling.value):.12g},'
            f" {float(gap):.1e} below the cut of its dual (tolerance {tolerance:.0e}): the optimum is between;"
            ' take solver="flow", which is exact'
        )
    acceptance = coupling.value if xp.is_exact(problem.p) else float(coupling.value)
    residuals = Residuals(_primal_residual(program, raw), _dual_residual(program, raw), float(gap))
    return Solution(acceptance, coupling, token_set, residuals, solver, raw.status, problem)


def _method(solver: str, form: str) -> Callable[[Program], RawSolution]:
    if solver not in SOLVERS:
        raise InvalidArgument(f"there is no solver {solver!r}: take one of {', '.join(SOLVERS)}")
    if form == "reduced":
        return SOLVERS[solver]
    if form == "textbook" and solver == "highs":
        return textbook_highs
    raise InvalidArgument(
        f'form {form!r} with solver {solver!r}: take form="reduced" (every solver), or "textbook" with "highs"'
    )


def _nothing_drafted(program: Program) -> RawSolution:
    """k = 0: a program without variables, which some solvers refuse."""
    return RawSolution(np.zeros(0), np.ones(len(program.token_sets)), np.zeros(len(program.token_mass)), "optimal")


def _check_answer(program: Program, raw: RawSolution, solver: str) -> None:
    prices = np.concatenate((raw.set_prices, raw.token_prices))
    sizes = (len(raw.flow), len(prices)) == (len(program.rows), len(program.bounds))
    finite = sizes and np.isfinite(prices).all() and (raw.denominator is not None or np.isfinite(raw.flow).all())
    if not finite:
        raise SolverFailed(f'{solver} ended "{raw.status}" with numbers missing or not finite: take solver="flow"')


def _primal_residual(program: Program, raw: RawSolution) -> float:
    flow, unit = in_units(raw)
    sets, tokens = program.capacities(unit)
    slack = sets + tokens
    for row, token, mass in zip(program.rows.tolist(), program.tokens.tolist(), flow, strict=True):
        slack[row] -= mass
        slack[len(sets) + token] -= mass
    return float(Fraction(max(0, -min(slack), -min(flow, default=0)), unit))


def _dual_residual(program: Program, raw: RawSolution) -> float:
    reduced = raw.set_prices[program.rows] + raw.token_prices[program.tokens] - 1
    return max(0.0, *(-float(part.min()) for part in (reduced, raw.set_prices, raw.token_prices) if part.size))
