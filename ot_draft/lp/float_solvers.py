"""General solvers of linear programs in float64, for one token and for paths: primal and dual solution, and the solver's status."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..errors import SolverFailed
from ..optional import load

# unit of mass: HiGHS's absolute tolerance of 1e-7 becomes 1e-13; scaling by a power of 2 is exact
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
    """Solve with HiGHS through scipy. other: solver that error messages suggest."""
    optimize = load("scipy.optimize", "lp")
    objective = -np.ones(program.matrix.shape[1])
    answer = optimize.linprog(objective, A_ub=program.matrix, b_ub=program.bounds * UNIT, method="highs")
    if answer.status != 0:
        raise SolverFailed(
            f'HiGHS: {answer.message} (status {answer.status}); the program is always solvable. Use solver="{other}".'
        )
    return answer.x / UNIT, -answer.ineqlin.marginals, "optimal"


def through_cvxpy(program: LinearProgram, other: str = "flow", *, solver: str, **options: float) -> Answer:
    """Solve with a solver of cvxpy."""
    cvxpy = load("cvxpy", "lp")
    mass = cvxpy.Variable(program.matrix.shape[1], nonneg=True)
    constraint = program.matrix @ mass <= program.bounds
    model = cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(mass)), [constraint])
    try:
        with warnings.catch_warnings():  # the accuracy is checked by the gap, in rational arithmetic
            warnings.filterwarnings("ignore", message="Solution may be inaccurate", category=UserWarning)
            model.solve(solver=solver, **options)
    except cvxpy.SolverError as error:
        raise SolverFailed(f'cvxpy with {solver}: {error}. Use solver="{other}".') from error
    if mass.value is None or constraint.dual_value is None:
        raise SolverFailed(f'cvxpy with {solver} ended "{model.status}" without a solution. Use solver="{other}".')
    return np.asarray(mass.value), np.asarray(constraint.dual_value), str(model.status)


def pulp_cbc(program: LinearProgram, other: str = "flow") -> Answer:
    """Solve with CBC through PuLP."""
    pulp = load("pulp", "lp")
    model, rows = pulp.LpProblem("draft_selection", pulp.LpMaximize), program.matrix.tocsr()
    mass = [model.add_variable(f"x_{column}", lowBound=0) for column in range(rows.shape[1])]
    model += pulp.lpSum(mass)
    bounded = np.flatnonzero(np.diff(rows.indptr))  # a constraint without variables has no dual variable
    for row in bounded.tolist():
        entries = slice(rows.indptr[row], rows.indptr[row + 1])
        terms = zip(rows.indices[entries], rows.data[entries], strict=True)
        left = pulp.LpAffineExpression([(mass[column], float(value)) for column, value in terms])
        model += left <= float(program.bounds[row] * UNIT)
    with warnings.catch_warnings():  # PuLP 3 warns that PuLP 4 will not include CBC
        warnings.filterwarnings("ignore", message="PULP_CBC_CMD is deprecated", category=DeprecationWarning)
        cbc = pulp.PULP_CBC_CMD(msg=False)
    try:
        model.solve(cbc)
    except pulp.PulpSolverError as error:
        raise SolverFailed(f'CBC: {error}. Use solver="{other}".') from error
    status = pulp.LpStatus[model.status]
    if status != "Optimal":
        raise SolverFailed(f'CBC ended "{status}"; the program is always solvable. Use solver="{other}".')
    prices = np.zeros(len(program.bounds))
    prices[bounded] = [constraint.pi for constraint in model.constraints()]
    return np.array([variable.value() for variable in mass], dtype=float) / UNIT, prices, "optimal"


SOLVERS: dict[str, Callable[..., Answer]] = {  # functions of a LinearProgram and the solver that errors suggest
    "highs": highs,
    "cvxpy": partial(through_cvxpy, solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10),
    "cvxpy-highs": partial(through_cvxpy, solver="HIGHS"),
    "pulp": pulp_cbc,
}
