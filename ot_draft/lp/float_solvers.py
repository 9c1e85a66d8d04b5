"""Linear programs in float64, handed to general solvers: masses, prices and the solver's own status. Of tokens and of paths alike."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..errors import SolverFailed
from ..optional import load

# HiGHS's tolerances are absolute, 1e-7 by default: in these units of mass 1e-13. A power of 2 rounds nothing.
UNIT = float(1 << 20)

Answer = tuple[np.ndarray, np.ndarray, str]  # x (variables,), prices (constraints,), status


class LinearProgram(Protocol):
    """Maximise the sum of x >= 0 subject to matrix @ x <= bounds."""

    @property
    def matrix(self) -> Any:
        """(constraints, variables), sparse."""

    @property
    def bounds(self) -> np.ndarray:
        """(constraints,)."""


def highs(program: LinearProgram, other: str = "flow") -> Answer:
    """HiGHS through scipy. other: the solver that an error advises to take."""
    optimize = load("scipy.optimize", "lp")
    objective = -np.ones(program.matrix.shape[1])
    answer = optimize.linprog(objective, A_ub=program.matrix, b_ub=program.bounds * UNIT, method="highs")
    if answer.status != 0:
        raise SolverFailed(
            f'HiGHS: {answer.message} (status {answer.status}); the program is always solvable: take solver="{other}"'
        )
    return answer.x / UNIT, -answer.ineqlin.marginals, "optimal"


def through_cvxpy(program: LinearProgram, other: str = "flow", *, solver: str, **options: float) -> Answer:
    """A solver of cvxpy."""
    cvxpy = load("cvxpy", "lp")
    mass = cvxpy.Variable(program.matrix.shape[1], nonneg=True)
    constraint = program.matrix @ mass <= program.bounds
    model = cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(mass)), [constraint])
    try:
        with warnings.catch_warnings():  # its doubts about accuracy are settled by the gap, in rationals
            warnings.filterwarnings("ignore", message="Solution may be inaccurate", category=UserWarning)
            model.solve(solver=solver, **options)
    except cvxpy.SolverError as error:
        raise SolverFailed(f'cvxpy with {solver}: {error}; take solver="{other}"') from error
    if mass.value is None or constraint.dual_value is None:
        raise SolverFailed(f'cvxpy with {solver} ended "{model.status}" without a solution; take solver="{other}"')
    return np.asarray(mass.value), np.asarray(constraint.dual_value), str(model.status)


def pulp_cbc(program: LinearProgram, other: str = "flow") -> Answer:
    """CBC through PuLP."""
    pulp = load("pulp", "lp")
    model, rows = pulp.LpProblem("draft_selection", pulp.LpMaximize), program.matrix.tocsr()
    mass = [model.add_variable(f"x_{column}", lowBound=0) for column in range(rows.shape[1])]
    model += pulp.lpSum(mass)
    bounded = np.flatnonzero(np.diff(rows.indptr))  # a constraint without variables has no price
    for row in bounded.tolist():
        entries = slice(rows.indptr[row], rows.indptr[row + 1])
        terms = zip(rows.indices[entries], rows.data[entries], strict=True)
        left = pulp.LpAffineExpression([(mass[column], float(value)) for column, value in terms])
        model += left <= float(program.bounds[row] * UNIT)
    with warnings.catch_warnings():  # PuLP 3 announces that PuLP 4 will not carry the CBC program
        warnings.filterwarnings("ignore", message="PULP_CBC_CMD is deprecated", category=DeprecationWarning)
        cbc = pulp.PULP_CBC_CMD(msg=False)
    try:
        model.solve(cbc)
    except pulp.PulpSolverError as error:
        raise SolverFailed(f'CBC: {error}; take solver="{other}"') from error
    status = pulp.LpStatus[model.status]
    if status != "Optimal":
        raise SolverFailed(f'CBC ended "{status}"; the program is always solvable: take solver="{other}"')
    prices = np.zeros(len(program.bounds))
    prices[bounded] = [constraint.pi for constraint in model.constraints()]
    return np.array([variable.value() for variable in mass], dtype=float) / UNIT, prices, "optimal"


SOLVERS: dict[str, Callable[..., Answer]] = {  # of a LinearProgram, and of the name of another solver for errors
    "highs": highs,
    "cvxpy": partial(through_cvxpy, solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10),
    "cvxpy-highs": partial(through_cvxpy, solver="HIGHS"),
    "pulp": pulp_cbc,
}
