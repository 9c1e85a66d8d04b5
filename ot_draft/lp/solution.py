"""The optimum by linear programming, certified in rational arithmetic by a plan and a token set."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from .. import arrays as xp
from ..errors import InvalidArgument, SolverFailed
from ..problem import Problem
from . import float_solvers, network_simplex
from .flow_plan import feasible, in_units, totals
from .maximum_flow import flow, ortools
from .plan import Certificate, Plan
from .program import Program, RawSolution, build


def _in_floats(solver: str, program: Program) -> RawSolution:
    return RawSolution(*float_solvers.SOLVERS[solver](program))


SOLVERS: dict[str, Callable[[Program], RawSolution]] = {
    "flow": flow,
    "ortools": ortools,
    "pot": network_simplex.sparse,
    "pot-dense": network_simplex.dense,
    "pot-warm": partial(network_simplex.dense, warm=True),
    **{name: partial(_in_floats, name) for name in float_solvers.SOLVERS},
}


@dataclass(frozen=True)
class Residuals:
    """Errors of the solver's solution.

    primal: largest violation of a reduced constraint by the solver's flow, in probability.
    dual: largest violation of price(S) + price(y) >= 1 or price >= 0, in acceptance per unit of mass.
    gap: cut minus value of the feasible plan, in acceptance: the optimum is at most this much above the value.
    """

    primal: float
    dual: float
    gap: float


@dataclass(frozen=True, eq=False)
class Solution:
    """The optimum of one problem, with the plan and token set that prove it.

    Parameters
    ----------
    acceptance : float or Fraction
        Value of the plan; at most the optimum, by at most ``residuals.gap``.
    plan : Plan
        Transport plan pi(S, y) of draft sets and outputs: ``plan[drafts]`` for one set, ``plan.table()`` for all, ``plan.full()``
        over draft tuples.
    token_set : bool array of shape (n,)
        The 0/1 dual solution H, with optimum = 1 + p(H) - Q(all drafts in H).
    residuals : Residuals
        Distances of the solver's own answer from an optimum.
    solver, status : str
        Name of the solver, and how it ended.
    problem : Problem
        The problem that was solved.

    See Also
    --------
    ot_draft.solve : Solves a problem.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.solve(otd.Problem([0.5, 0.5], [0.75, 0.25], k=2)).solver
    'construction'
    """

    acceptance: Any
    plan: Plan
    token_set: np.ndarray
    residuals: Residuals
    solver: str
    status: str
    problem: Problem

    def certificate(self) -> Certificate:
        """Return the certificate of plan and token set, verified in rational arithmetic."""
        return self.plan.certificate(self.token_set)


def solve_program(problem: Problem, solver: str = "highs") -> Solution:
    """Largest acceptance of any rule that keeps the target's law, by linear programming (SpecTr; Sun et al. 2023).

    solver: "flow" (pure Python, exact: gap 0), "highs" (scipy), "cvxpy" (Clarabel), "cvxpy-highs", "pulp" (CBC), "ortools"
    (push-relabel), "pot" (network simplex), "pot-dense", "pot-warm" (dense, from the dual).
    "flow" is exact for Fractions; other solvers get rounded numbers, and their solution is checked on the exact problem.
    Raises SolverFailed if acceptance and cut differ by more than 0 (flow), 1e-9 (highs, ortools, pot), 1e-6 (others),
    InvalidArgument for an unknown solver.
    """
    if solver not in SOLVERS:
        raise InvalidArgument(f"solver must be one of {', '.join(SOLVERS)}, got {solver!r}. Use one of them.")
    program = build(problem)
    if len(program.rows):
        raw = SOLVERS[solver](program)
    else:  # k = 0: some solvers reject a program without variables
        raw = RawSolution(np.zeros(0), np.repeat([1.0, 0.0], (len(program.token_sets), problem.n)), "optimal")
    _check_answer(program, raw, solver)
    plan = feasible(program, raw)
    token_set, cut = program.lowest_cut(raw.prices[-problem.n :], plan.denominator)
    gap = Fraction(cut, plan.denominator) - plan.value
    tolerance = 0.0 if solver == "flow" else 1e-6 if solver.startswith(("cvxpy", "pulp")) else 1e-9
    if gap > tolerance:
        raise SolverFailed(
            f'{solver} ended "{raw.status}" with a plan of value {float(plan.value):.12g},'
            f" {float(gap):.1e} below the cut of its dual (tolerance {tolerance:.0e}): the optimum is between."
            ' Use solver="flow", which is exact.'
        )
    acceptance = plan.value if xp.is_exact(problem.p) else float(plan.value)
    units, unit = in_units(raw)
    sets, tokens = program.capacities(unit)
    used = totals(program.rows, units, len(sets)) + totals(program.tokens, units, len(tokens))
    over = max(mass - capacity for mass, capacity in zip(used, sets + tokens, strict=True))
    primal = float(Fraction(max(0, over, -min(units, default=0)), unit))
    reduced = raw.prices[program.rows] + raw.prices[len(program.token_sets) + program.tokens] - 1
    dual = max(0.0, *(-float(part.min()) for part in (reduced, raw.prices) if part.size))
    residuals = Residuals(primal, dual, float(gap))
    return Solution(acceptance, plan, token_set, residuals, solver, raw.status, problem)


def _check_answer(program: Program, raw: RawSolution, solver: str) -> None:
    sizes = (len(raw.flow), len(raw.prices)) == (len(program.rows), len(program.bounds))
    finite = sizes and np.isfinite(raw.prices).all() and (raw.denominator is not None or np.isfinite(raw.flow).all())
    if not finite:
        raise SolverFailed(f'{solver} ended "{raw.status}" with numbers missing or not finite. Use solver="flow".')
