"""The textbook form: SpecTr's transport problem over all n^k draft tuples, n^(k+1) variables and equalities.

HiGHS with default settings calls this form of a feasible problem infeasible where masses fall under its absolute
tolerance of 1e-7 (its presolve does; tightening the tolerance does not help). Here masses are counted in units of 2^-20
and presolve is off; a claim of infeasibility is refused all the same, since the product of the two marginals is
feasible.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import arrays as xp
from ..errors import InvalidArgument, SolverFailed
from ..exact import all_drafts
from ..optional import load
from ..problem import Problem
from .float_solvers import UNIT
from .program import Program, RawSolution

MAX_VARIABLES = 200_000


def tuples_of(problem: Problem) -> np.ndarray:
    """All draft tuples, int (n^k, k); InvalidArgument where the coupling over them has too many entries."""
    n, drawn = problem.n, problem.law.count(problem.n, problem.k)
    if n ** (drawn + 1) > MAX_VARIABLES:
        raise InvalidArgument(
            f"the coupling of all draft tuples has {n}^{drawn + 1} entries (limit {MAX_VARIABLES}): the reduced form,"
            " merged by token set, has far fewer"
        )
    return np.concatenate(list(all_drafts(problem)))


def textbook_highs(program: Program) -> RawSolution:
    """HiGHS on the equality form, its answer brought back to the reduced form."""
    n, drafts = program.exact.n, tuples_of(program.exact)
    weight = program.exact.law.probability(program.exact.q[None, :], drafts).astype(float)
    answer = _solve(xp.members(drafts, n, weight), np.concatenate((weight, program.bounds[len(program.token_sets) :])))
    if answer.status != 0:
        smallest = min(mass for mass in program.bounds if mass > 0)
        raise SolverFailed(
            f"HiGHS on the textbook form: {answer.message} A solution exists all the same, because the product of"
            f' the two marginals is feasible (smallest positive mass {smallest:.1e}): take form="reduced"'
        )
    token_prices = -answer.eqlin.marginals[len(drafts) :]
    token_prices = token_prices - token_prices.min()  # equal masses on both sides leave one constant free
    tuple_prices = -answer.eqlin.marginals[: len(drafts)] - answer.eqlin.marginals[len(drafts) :].max()
    return _merged(program, drafts, answer.x.reshape(-1, n) / UNIT, tuple_prices, token_prices)


def _solve(member: np.ndarray, bounds: np.ndarray) -> Any:
    sparse, optimize = load("scipy.sparse", "lp"), load("scipy.optimize", "lp")
    tuples, n = member.shape
    rows = sparse.kron(sparse.identity(tuples), np.ones((1, n)))
    columns = sparse.kron(np.ones((1, tuples)), sparse.identity(n))
    matrix = sparse.csc_matrix(sparse.vstack((rows, columns)))
    return optimize.linprog(
        -member.ravel().astype(float), A_eq=matrix, b_eq=bounds * UNIT, method="highs", options={"presolve": False}
    )


def _merged(
    program: Program, drafts: np.ndarray, mass: np.ndarray, tuple_prices: Any, token_prices: Any
) -> RawSolution:
    """Sum the tuples with the same token set; of their prices, the lowest."""
    row_of = {tokens: row for row, tokens in enumerate(program.token_sets)}
    merged = np.zeros((len(row_of), mass.shape[1]))
    set_prices = np.full(len(row_of), np.inf)
    for draft, row_mass, price in zip(drafts.tolist(), mass, tuple_prices, strict=True):
        row = row_of.get(tuple(sorted({token for token in draft if token >= 0})))
        if row is not None:
            merged[row] += row_mass
            set_prices[row] = min(set_prices[row], price)
    return RawSolution(merged[program.rows, program.tokens], set_prices, token_prices, "optimal")
