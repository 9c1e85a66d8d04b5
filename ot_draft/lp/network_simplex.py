"""The program as a transport problem for POT's network simplex: sparse, dense, and dense with initial potentials.

Sparse: only the pairs of the program, and one extra node on each side for mass that is not accepted. Dense: from draft sets to tokens,
with cost 1 where the set does not contain the token. A token set H is a dual solution of the dense problem: [S inside H] for sets,
-[y in H] for tokens. `ot.emd` takes it as `potentials_init` to choose the first arcs; it ignores it for a sparse cost.
"""

import warnings
from typing import Any

import numpy as np

from ..errors import InvalidArgument, SolverFailed
from ..optimum import cuts
from ..optional import load
from .program import Program, RawSolution

__all__ = ["dense", "sparse"]


def dense(program: Program, warm: bool = False, max_entries: int = 1 << 27) -> RawSolution:
    """Solve with POT's dense network simplex. warm: start from the lowest cut among prefixes of the draft law's order; not faster.

    max_entries: max. size of the cost matrix; default 1 GiB.
    """
    sets, n = len(program.token_sets), program.exact.n
    if sets * n > max_entries:
        raise InvalidArgument(
            f'{sets} draft sets by {n} tokens are too many for a dense cost matrix. Use solver="pot".'
        )
    cost = np.ones((sets, n))
    cost[program.rows, program.tokens] = 0
    start = _potentials(program) if warm else None
    plan, found = _emd(program.bounds[:sets], program.bounds[sets:], cost, potentials_init=start)
    u, v = found["u"], found["v"]
    prices = np.concatenate((1 - u - v.max(), v.max() - v))
    return RawSolution(plan[program.rows, program.tokens], prices, "optimal")


def sparse(program: Program) -> RawSolution:
    """Solve with POT's sparse network simplex: cost 1 on pairs, 3/2 to and from the extra nodes, 1 between these."""
    matrices = load("scipy.sparse", "lp")
    sets, n, pairs = len(program.token_sets), program.exact.n, len(program.rows)
    rows = np.concatenate((program.rows, np.arange(sets), np.full(n + 1, sets)))
    columns = np.concatenate((program.tokens, np.full(sets, n), np.arange(n + 1)))
    cost = np.repeat((1, 1.5, 1), (pairs, sets + n, 1))
    of_sets, of_tokens = (np.append(masses, 1.0) for masses in np.split(program.bounds, [sets]))
    plan, found = _emd(of_sets, of_tokens, matrices.coo_array((cost, (rows, columns)), shape=(sets + 1, n + 1)))
    u, v = _with_empty_nodes(program, found["u"], found["v"])
    prices = np.concatenate((1.5 - u[:-1] - v[-1], 1.5 - u[-1] - v[:-1]))
    plan = matrices.csr_array(plan)
    return RawSolution(np.asarray(plan[program.rows, program.tokens]), prices, "optimal")


def _with_empty_nodes(program: Program, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Dual variables of all nodes. POT's sparse form omits nodes without mass; they get the largest feasible values."""
    u, v, (no_set, no_token) = u.copy(), v.copy(), np.split(program.bounds == 0, [len(program.token_sets)])
    u[:-1][no_set], v[:-1][no_token] = -np.inf, 1.5 - u[-1]
    here = no_token[program.tokens]
    np.minimum.at(v, program.tokens[here], 1 - u[program.rows[here]])
    u[:-1][no_set] = 1.5 - v[-1]
    here = no_set[program.rows]
    np.minimum.at(u, program.rows[here], 1 - v[program.tokens[here]])
    return u, v


def _emd(
    a: np.ndarray, b: np.ndarray, cost: Any, max_pivots: int = 100_000_000, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """Plan and dual variables u, v of POT's `ot.emd`."""
    pot = load("ot", "pot", "POT")
    with warnings.catch_warnings():  # the result contains the warning, too
        warnings.simplefilter("ignore", UserWarning)
        plan, found = pot.emd(a, b, cost, numItermax=max_pivots, log=True, **options)
    if found["warning"]:
        raise SolverFailed(f'POT: {found["warning"]}; the program is always solvable. Use solver="flow".')
    return plan, found


def _potentials(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """The dual solution of the lowest cut: (sets,), (n,)."""
    exact = program.exact
    p, q = exact.p.astype(np.float64), exact.q.astype(np.float64)
    order, cut = cuts(p, q, exact.k, exact.law)
    token_set = np.zeros(exact.n, dtype=bool)
    token_set[order[: int(cut.argmin())]] = True
    inside = np.ones(len(program.token_sets), dtype=bool)
    np.logical_and.at(inside, program.rows, token_set[program.tokens])
    return inside.astype(np.float64), -token_set.astype(np.float64)
