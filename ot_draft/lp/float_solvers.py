"""The program in float64, handed to general solvers of linear programs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..errors import SolverFailed
from ..optional import load
from .program import Program
from .raw_solution import RawSolution

# HiGHS's tolerances are absolute, 1e-7 by default: in these units of mass 1e-13. A power of 2 rounds nothing.
UNIT = float(1 << 20)


def highs(program: Program) -> RawSolution:
    """HiGHS through scipy."""
    optimize = load("scipy.optimize", "lp")
    answer = optimize.linprog(
        -np.ones(len(program.rows)), A_ub=program.matrix, b_ub=program.bounds * UNIT, method="highs"
    )
    if answer.status != 0:
        raise SolverFailed(
            f'HiGHS: {answer.message} (status {answer.status}); the program is always solvable: take solver="flow"'
        )
    return _priced(program, answer.x / UNIT, -answer.ineqlin.marginals, "optimal")


def cvxpy_clarabel(program: Program) -> RawSolution:
    """Clarabel (interior point) through cvxpy."""
    return _cvxpy(program, "CLARABEL", {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9})


def cvxpy_highs(program: Program) -> RawSolution:
    """HiGHS through cvxpy."""
    return _cvxpy(program, "HIGHS", {})


def _cvxpy(program: Program, solver: str, options: dict[str, Any]) -> RawSolution:
    cvxpy = load("cvxpy", "lp")
    mass = cvxpy.Variable(len(program.rows), nonneg=True)
    constraint = program.matrix @ mass <= program.bounds
    model = cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(mass)), [constraint])
    try:
        with warnings.catch_warnings():  # its doubts about accuracy are settled by the gap, in rationals
            warnings.filterwarnings("ignore", message="Solution may be inaccurate", category=UserWarning)
            model.solve(solver=solver, **options)
    except cvxpy.SolverError as error:
        raise SolverFailed(f'cvxpy with {solver}: {error}; take solver="flow"') from error
    if mass.value is None or constraint.dual_value is None:
        raise SolverFailed(f'cvxpy with {solver} ended "{model.status}" without a solution; take solver="flow"')
    return _priced(program, mass.value, constraint.dual_value, model.status)


def pulp_cbc(program: Program) -> RawSolution:
    """CBC through PuLP."""
    pulp = load("pulp", "lp")
    model = pulp.LpProblem("draft_selection", pulp.LpMaximize)
    mass = [model.add_variable(f"flow_{pair}", lowBound=0) for pair in range(len(program.rows))]
    model += pulp.lpSum(mass)
    members: list[list[int]] = [[] for _ in program.bounds]
    for pair, (row, token) in enumerate(zip(program.rows, program.tokens, strict=True)):
        members[row].append(pair)
        members[len(program.token_sets) + token].append(pair)
    bounded = [i for i, pairs in enumerate(members) if pairs]
    for i in bounded:
        model += pulp.lpSum(mass[pair] for pair in members[i]) <= program.bounds[i] * UNIT
    run_cbc(pulp, model, "program", "flow")
    prices = np.zeros(len(program.bounds))
    prices[bounded] = [constraint.pi for constraint in model.constraints()]
    return _priced(program, np.array([variable.value() for variable in mass]) / UNIT, prices, "optimal")


def run_cbc(pulp: Any, model: Any, name: str, other: str) -> None:
    """Solve a PuLP model by CBC. Raises SolverFailed, which names the program and another solver for it."""
    with warnings.catch_warnings():  # PuLP 3 announces that PuLP 4 will not carry the CBC program
        warnings.filterwarnings("ignore", message="PULP_CBC_CMD is deprecated", category=DeprecationWarning)
        cbc = pulp.PULP_CBC_CMD(msg=False)
    try:
        model.solve(cbc)
    except pulp.PulpSolverError as error:
        raise SolverFailed(f'CBC: {error}; take solver="{other}"') from error
    status = pulp.LpStatus[model.status]
    if status != "Optimal":
        raise SolverFailed(f'CBC ended "{status}"; the {name} is always solvable: take solver="{other}"')


def _priced(program: Program, mass: Any, prices: Any, status: str) -> RawSolution:
    sets = len(program.token_sets)
    prices = np.asarray(prices, dtype=float)
    return RawSolution(np.asarray(mass, dtype=float), prices[:sets], prices[sets:], status)
