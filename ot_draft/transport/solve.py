"""`solve`: the optimum, a plan that attains it, and the token set that proves it."""

import numpy as np

from .. import arrays as xp
from ..errors import InvalidArgument, SolverFailed
from ..lp.program import check_one
from ..lp.solution import SOLVERS, Residuals, Solution, solve_program
from ..optimum import cuts
from ..problem import Problem, check_problem
from ..rules.optimal import host
from .construction import construct, in_own_numbers

CONSTRUCTION = "construction"


def bound(problem: Problem) -> float:
    """Largest distance allowed between the constructed plan's value and the cut: 0 on Fractions, k (n + 16) / 2^43 on floats.

    Tokens along the order are distinguished if their mass is at least n / 2^44 (`host.RESOLUTION`), so that groups of at most twice that
    mass share one slope m / q. The slopes rise along the order from 0 to at most k, so that all groups lose at most k times that mass.
    """
    return 0.0 if xp.is_exact(problem.p) else max(problem.k, 1) * (problem.n + 16) * 2 * host.RESOLUTION


def solve(problem: Problem, solver: str | None = None) -> Solution:
    """Return the optimum with a plan that attains it and a token set that proves it.

    Parameters
    ----------
    problem : Problem
        One problem, not a batch.
    solver : str, optional
        "construction" (default where the optimum is known in closed form: i.i.d. drafts, fixed tokens, hybrid and greedy
        drafting, SpecHub's; at any n, without a program). Elsewhere "highs" (SciPy). Others solve the linear program [1]_:
        "flow" (pure Python, exact), "cvxpy" (Clarabel), "cvxpy-highs", "pulp" (CBC), "ortools", "pot" (network simplex).

    Returns
    -------
    solution : Solution
        On Fractions, construction and flow are exact: the plan's value equals the cut.

    Raises
    ------
    SolverFailed
        If plan and cut differ by more than rounding: k (n + 16) / 2^43 on floats for the construction, 1e-9 for "highs",
        "ortools" and "pot", 1e-6 for the others.
    InvalidArgument
        If the solver is unknown, or cannot be used under this draft law.

    References
    ----------
    .. [1] Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", NeurIPS 2023.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> solution = otd.solve(otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=2))
    >>> solution.acceptance, solution.token_set.tolist()
    (Fraction(15, 16), [True, False])
    """
    if solver not in (None, CONSTRUCTION, *SOLVERS):
        raise InvalidArgument(
            f"solver must be one of {', '.join((CONSTRUCTION, *SOLVERS))}, got {solver!r}. Use one of them."
        )
    check_problem(problem)
    if solver in SOLVERS:
        return solve_program(problem, solver)
    check_one(problem)
    constructed = by_construction(problem)
    if constructed is None and solver:
        raise InvalidArgument(
            f"solver must be omitted under {problem.law!r}, which has no construction, got {solver!r}. Omit solver."
        )
    return constructed or solve_program(problem)


def by_construction(problem: Problem) -> Solution | None:
    """The constructed plan and the lowest cut among prefixes of the draft law's order, or None without a known construction."""
    plan = construct(problem)
    if plan is None:
        return None
    p, q = in_own_numbers(problem)
    order, cut = cuts(p, q, problem.k, problem.law)
    size = int(cut.argmin(-1))
    token_set = np.zeros(len(p), dtype=bool)
    token_set[order[:size]] = True
    gap = 1 + cut[size] - plan.accepted
    if abs(gap) > bound(problem):
        raise SolverFailed(
            f"the constructed plan of value {float(plan.accepted):.12g} is {float(gap):.1e} below its cut."
            ' Use solver="flow", which is exact. This is a bug in ot_draft; please report it.'
        )
    acceptance = plan.accepted if xp.is_exact(p) else float(plan.accepted)
    residuals = Residuals(0.0, 0.0, max(0.0, float(gap)))
    return Solution(acceptance, plan, token_set, residuals, CONSTRUCTION, "optimal", problem)
