"""The path program in float64, handed to general solvers of linear programs: masses, prices, the solver's own status."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ...errors import SolverFailed
from ...lp.float_solvers import UNIT, run_cbc
from ...lp.raw_solution import load

Answer = tuple[np.ndarray, np.ndarray, str]


class LinearProgram(Protocol):
    """Maximise the sum of x >= 0 subject to matrix @ x <= bounds."""

    @property
    def matrix(self) -> Any:
        """(constraints, variables), sparse."""

    @property
    def bounds(self) -> np.ndarray:
        """(constraints,)."""


def highs(program: LinearProgram) -> Answer:
    """HiGHS through scipy."""
    optimize = load("scipy.optimize", "lp")
    objective = -np.ones(program.matrix.shape[1])
    answer = optimize.linprog(objective, A_ub=program.matrix, b_ub=program.bounds * UNIT, method="highs")
    if answer.status != 0:
        raise SolverFailed(f"HiGHS: {answer.message} (status {answer.status}); the path program is always solvable")
    return answer.x / UNIT, -answer.ineqlin.marginals, "optimal"


def cvxpy_clarabel(program: LinearProgram) -> Answer:
    """Clarabel (interior point) through cvxpy."""
    cvxpy = load("cvxpy", "lp")
    mass = cvxpy.Variable(program.matrix.shape[1], nonneg=True)
    constraint = program.matrix @ mass <= program.bounds
    model = cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(mass)), [constraint])
    try:
        with warnings.catch_warnings():  # its doubts about accuracy are settled by the certified bounds
            warnings.filterwarnings("ignore", message="Solution may be inaccurate", category=UserWarning)
            model.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    except cvxpy.SolverError as error:
        raise SolverFailed(f'cvxpy with Clarabel: {error}; take solver="highs"') from error
    if mass.value is None or constraint.dual_value is None:
        raise SolverFailed(f'cvxpy with Clarabel ended "{model.status}" without a solution; take solver="highs"')
    return np.asarray(mass.value), np.asarray(constraint.dual_value), str(model.status)


def pulp_cbc(program: LinearProgram) -> Answer:
    """CBC through PuLP."""
    pulp = load("pulp", "lp")
    model = pulp.LpProblem("path_program", pulp.LpMaximize)
    rows = program.matrix.tocsr()
    mass = [model.add_variable(f"x_{column}", lowBound=0) for column in range(rows.shape[1])]
    model += pulp.lpSum(mass)
    for row, bound in enumerate(program.bounds * UNIT):
        entries = slice(rows.indptr[row], rows.indptr[row + 1])
        terms = zip(rows.indices[entries], rows.data[entries], strict=True)
        model += pulp.LpAffineExpression([(mass[column], float(value)) for column, value in terms]) <= float(bound)
    run_cbc(pulp, model, "path program", "highs")
    prices = np.array([constraint.pi for constraint in model.constraints()])
    return np.array([variable.value() for variable in mass]) / UNIT, prices, "optimal"


SOLVERS: dict[str, Callable[[LinearProgram], Answer]] = {"highs": highs, "cvxpy": cvxpy_clarabel, "pulp": pulp_cbc}
