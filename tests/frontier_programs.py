"""The frontier's closed forms beside programs that know nothing of them: linear ones for total variation and ratio, convex ones for KL.

`python tests/frontier_programs.py 1000` takes so many random problems (n <= 6, k <= 4, four draft laws) and prints the largest difference
of each kind; the tests take a few of the same problems.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from random_problems import random_pair

import ot_draft as otd
from ot_draft import lossy
from ot_draft.bias import bias_of
from ot_draft.laws import probability_inside
from ot_draft.lossy.base import Target

Array = Any
LAWS = [otd.IID(), otd.WithoutReplacement(), otd.Hybrid(1), otd.Hybrid(-1)]
EPS, FACTOR = Fraction(1, 7), Fraction(3, 2)
KLS = (0.01, 0.05, 0.3)
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
CLARABEL = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}


def draw(number: int) -> otd.Problem:
    """A random problem in Fractions; zeros, ties and one-hot laws occur."""
    generator = np.random.default_rng([19, number])
    n, k = int(generator.integers(1, 7)), int(generator.integers(1, 5))
    return otd.Problem(*random_pair(generator, n), k, LAWS[number % len(LAWS)] if number % 2 else otd.IID())


def token_sets(problem: otd.Problem) -> tuple[Array, Array]:
    """All token sets, bool (2^n, n), and the probability that all drafts lie in each."""
    sets = np.array(list(product((False, True), repeat=problem.n)))
    return sets, np.array([probability_inside(problem.law, problem.q, each, problem.k) for each in sets])


def closed_forms(problem: otd.Problem) -> Iterator[tuple[str, Target, Fraction]]:
    """For total variation and ratio: the target, and the most acceptance, by all token sets, in Fractions."""
    sets, inside = token_sets(problem)
    masses = np.array([sum(problem.p[each], Fraction(0)) for each in sets])
    lossless = 1 + min(masses - inside)
    yield "tv", lossy.TotalVariation(EPS), min(Fraction(1), lossless + EPS)
    yield "ratio", lossy.Ratio(factor=FACTOR), min(Fraction(1), 1 + min(FACTOR * masses - inside))


def is_reached(problem: otd.Problem, name: str, target: Target, best: Fraction) -> bool:
    """Whether the target's law is one, within its budget, and has just this acceptance over all token sets: with ==."""
    sets, inside = token_sets(problem)
    r = target(problem.p, problem.q, problem.k, problem.law)
    bias = bias_of(r, problem.p)
    within = bias.total_variation <= EPS if name == "tv" else bias.ratio <= FACTOR
    reached = 1 + min(np.array([sum(r[each], Fraction(0)) for each in sets]) - inside)
    return bool(r.sum() == 1 and (r >= 0).all() and reached == best and within)


def linear_program(problem: otd.Problem, divergence: str) -> float:
    """max over r of 1 + min over H of r(H) - Q(all in H): variables r, alpha, and (r - p)+ for tv. HiGHS."""
    from scipy import optimize

    sets, inside = token_sets(problem)
    n, p = problem.n, problem.p.astype(float)
    rows = [np.concatenate((-each.astype(float), [1.0], np.zeros(n))) for each in sets]
    limits = list(1 - inside.astype(float))
    for y in range(n):  # r_y - p_y <= d_y
        row = np.zeros(2 * n + 1)
        row[y], row[n + 1 + y] = 1.0, -1.0
        rows.append(row)
        limits.append(p[y])
    if divergence == "tv":
        rows.append(np.concatenate((np.zeros(n + 1), np.ones(n))))
        limits.append(float(EPS))
    top = float(FACTOR) * p if divergence == "ratio" else np.ones(n)
    bounds = [(0, float(value)) for value in top] + [(None, 1)] + [(0, None)] * n
    total = np.concatenate((np.ones(n), np.zeros(n + 1)))[None]
    objective = np.zeros(2 * n + 1)
    objective[n] = -1
    found = optimize.linprog(objective, np.array(rows), limits, total, [1.0], bounds, method="highs", options=TIGHT)
    assert found.status == 0
    return -float(found.fun)


def convex_program(problem: otd.Problem, eps: float) -> float:
    """The most acceptance with KL(r || p) <= eps: variables r on the tokens with p > 0, and alpha. Clarabel."""
    import cvxpy

    sets, inside = token_sets(problem)
    p = problem.p.astype(float)
    seen = p > 0
    r, alpha = cvxpy.Variable(int(seen.sum()), nonneg=True), cvxpy.Variable()
    spent = cvxpy.sum(cvxpy.kl_div(r, p[seen]))  # r log(r/p) - r + p, of laws
    limits = [sets[:, seen].astype(float) @ r + 1 - inside.astype(float) >= alpha, cvxpy.sum(r) == 1, spent <= eps]
    return float(cvxpy.Problem(cvxpy.Maximize(alpha), limits).solve(solver=cvxpy.CLARABEL, **CLARABEL))


def kl_differences(number: int) -> tuple[float, float]:
    """For one problem and one budget: what the frontier has beside the convex program, and its own certificate's gap."""
    problem, eps = draw(number), KLS[number % len(KLS)]
    found = otd.frontier(problem.p.astype(float), problem.q.astype(float), problem.k, problem.law, "kl", [eps])
    return abs(float(found.acceptance[0]) - convex_program(problem, eps)), float(found.gap[0])


def main(number: int) -> None:
    """Print the largest differences on so many problems."""
    largest = dict.fromkeys(
        ("tv, linear program", "ratio, linear program", "kl, convex program", "kl, certificate"), 0.0
    )
    failed = 0
    for each in range(number):
        problem = draw(each)
        for name, target, best in closed_forms(problem):
            failed += not is_reached(problem, name, target, best)
            key = f"{name}, linear program"
            largest[key] = max(largest[key], abs(linear_program(problem, name) - float(best)))
        for key, value in zip(("kl, convex program", "kl, certificate"), kl_differences(each), strict=True):
            largest[key] = max(largest[key], value)
    print(f"{number} problems; closed forms of tv and ratio with == on Fractions: {failed} failed")
    for key, value in largest.items():
        print(f"largest difference, {key}: {value:.1e}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
