"""Pairs on which K-SEQ gets the least of the optimum."""

from __future__ import annotations

from typing import Any

import numpy as np

import ot_draft as ot
from ot_draft.compare import expected_acceptance


def share(p: Any, q: Any, k: int) -> float:
    """What K-SEQ's drafts get of the optimum."""
    taken = expected_acceptance(ot.rules.KSeq(), ot.Problem(p, q, k)).taken
    return float(taken) / float(ot.optimal_acceptance(p, q, k))


def worst_of_two(k: int) -> float:
    """Least share of target (t^k, 1 - t^k) and draft (t, 1 - t) over t: there the optimum is 1, as p(H) >= q(H)^k."""
    from scipy.optimize import minimize_scalar

    def of(t: float) -> float:
        return share(np.array([t**k, 1 - t**k]), np.array([t, 1 - t]), k)

    return float(minimize_scalar(of, bounds=(0.01, 0.999), method="bounded", options={"xatol": 1e-9}).fun)


def searched(k: int, starts: int, n: int = 4) -> float:
    """Least share that Nelder and Mead's search finds among pairs of n tokens, from random starts."""
    from scipy.optimize import minimize
    from scipy.special import softmax

    def of(x: Any) -> float:
        return share(softmax(x[:n]), softmax(x[n:]), k)

    generator = np.random.default_rng([k, n])
    tries = (2 * generator.standard_normal(2 * n) for _ in range(starts))
    return min(float(minimize(of, x, method="Nelder-Mead", options={"maxfev": 800}).fun) for x in tries)
