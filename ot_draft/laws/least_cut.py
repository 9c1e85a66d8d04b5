"""The token set of least p(H) minus the product of q_i(H): a submodular function, minimised exactly and with a certificate.

The product of masses is supermodular (a token adds the more to it, the more is there), so the cut function of independent drafts
from different laws is submodular. First come the tokens that one look decides: a token that costs no more than it adds to the
smallest set in question is in H, one that costs no less than it adds to the largest is not. What is left goes to the algorithm of
the minimum-norm point (Fujishige 1980; Wolfe 1976): the negative coordinates of the shortest point x of the base polytope are the
minimiser H, and sum of min(x, 0) = f(H) proves it: no set has less than that sum, for any base x (a coordinate counts by the mass
of its token, which changes neither). On Fractions all of it is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import is_exact, one, ratio, zero
from ..errors import SolverFailed

ROUNDING = 1e-10  # on floats: how far the proof may be from the value
STEPS = 10_000
SHARE = 10  # the search goes on without the tokens decided on the way where they are one in so many


def least_cut(p: np.ndarray, laws: np.ndarray) -> tuple[np.ndarray, Any]:
    """The set H, bool (n,), of least p(H) - prod_i q_i(H), and that value; p: (n,), laws: (k, n), k >= 1, of Fractions or float64.

    Raises SolverFailed where on floats the proof of the value is not tight to 1e-10.
    """
    inside, open_tokens = _decided(p, laws)
    if len(open_tokens):
        start = laws[:, inside].sum(-1)
        inside[open_tokens[_shortest(p[open_tokens], laws[:, open_tokens], start)]] = True
    return inside, p[inside].sum() - _product(laws[:, inside].sum(-1))


def _decided(p: np.ndarray, laws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokens that are in some minimiser for certain, bool (n,), and the numbers of those that nothing is known about."""
    inside, possible = np.zeros(len(p), dtype=bool), np.ones(len(p), dtype=bool)
    while True:
        least, most = laws[:, inside].sum(-1), laws[:, possible].sum(-1)
        gains_least = _product((least[:, None] + laws).T) - _product(least)
        gains_most = _product(most) - _product((most[:, None] - laws).T)
        undecided = possible & ~inside
        joins = undecided & (p <= gains_least)
        leaves = undecided & ~joins & (p >= gains_most)
        if not (joins | leaves).any():
            return inside, np.flatnonzero(undecided)
        inside |= joins
        possible &= ~leaves


def _shortest(p: np.ndarray, laws: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Minimiser of p(H) - prod_i (start_i + q_i(H)) over the sets H of these tokens: bool (m,)."""
    base = _product(start)
    scale = p + laws.sum(
        0
    )  # the length of x is that of x / sqrt(scale), which makes light and heavy tokens alike; > 0 here

    def vertex(direction: np.ndarray) -> np.ndarray:
        """The point of the base polytope that is least in this direction (Edmonds' greedy algorithm)."""
        order = np.argsort(direction, kind="stable")
        sums = start[:, None] + np.cumsum(laws[:, order], axis=-1)
        values = _product(sums.T)
        steps = np.concatenate((values[:1] - base, values[1:] - values[:-1]))
        point = np.empty_like(p)
        point[order] = p[order] - steps
        return point

    def value(chosen: np.ndarray) -> Any:
        return p[chosen].sum() - _product(start + laws[:, chosen].sum(-1)) + base

    x = vertex(ratio(p, laws.sum(0)))
    points, weights = [x], [one(p)]
    for _ in range(STEPS):
        chosen, gap = _best_prefix(x, value)
        if gap <= (0 if is_exact(p) else ROUNDING):
            return chosen
        new = vertex(x / scale)
        # The shortest point lies within the root of this of x: coordinates further from 0 have its sign.
        certain = x * x / scale > 2 * (x * (x - new) / scale).sum()
        if certain.sum() * SHARE > len(p):
            inside = certain & (x < 0)
            inside[~certain] = _shortest(p[~certain], laws[:, ~certain], start + laws[:, inside].sum(-1))
            return inside
        points.append(new)
        weights.append(zero(p))
        points, weights, x = _inner(points, weights, scale)
    raise SolverFailed(
        f"the least cut of {len(p)} tokens is not proved after {STEPS} steps: the gap is {float(gap):.1e}"
    )


def _best_prefix(x: np.ndarray, value: Any) -> tuple[np.ndarray, Any]:
    """The set of the negative coordinates of a base x, and how far its value lies above the bound sum of min(x, 0)."""
    bound = np.minimum(x, zero(x)).sum()
    sets = [x < 0] if is_exact(x) else [x < limit for limit in (0, ROUNDING, -ROUNDING)]
    values = [value(chosen) for chosen in sets]
    best = values.index(min(values))
    return sets[best], values[best] - bound


def _inner(
    points: list[np.ndarray], weights: list[Any], scale: np.ndarray
) -> tuple[list[np.ndarray], list[Any], np.ndarray]:
    """Wolfe's inner loop: the shortest point of the points' hull, and the points and weights that make it."""
    while True:
        affine = _affine_minimiser(points, scale)
        if all(share > 0 for share in affine):
            break
        # As far towards the minimiser of the affine hull as the convex hull goes; the point that stops it leaves.
        limits = [w / (w - share) for w, share in zip(weights, affine, strict=True) if share <= 0 and w > share]
        step = min(limits)
        weights = [w + step * (share - w) for w, share in zip(weights, affine, strict=True)]
        least = 0 if is_exact(points[0]) else 1e-14
        stays = [w > least for w in weights]
        if all(stays):  # rounding
            stays[weights.index(min(weights))] = False
        points = [point for point, kept in zip(points, stays, strict=True) if kept]
        weights = [w for w, kept in zip(weights, stays, strict=True) if kept]
    return points, affine, sum(share * point for share, point in zip(affine, points, strict=True))


def _affine_minimiser(points: list[np.ndarray], scale: np.ndarray) -> list[Any]:
    """Weights, of sum 1, of the shortest point of the affine hull."""
    rows = np.stack(points)
    matrix = (rows / scale).dot(rows.T) + one(
        rows
    )  # the added ones make it regular where the points are affinely independent
    right = np.full(len(points), one(rows), dtype=rows.dtype)
    weights = _solved(matrix, right) if is_exact(rows) else list(np.linalg.lstsq(matrix, right, rcond=None)[0])
    whole = sum(weights)
    return [w / whole for w in weights]


def _solved(matrix: np.ndarray, right: np.ndarray) -> list[Any]:
    """Gaussian elimination on Fractions, for a regular matrix."""
    rows = np.concatenate((matrix, right[:, None]), -1)
    for column in range(len(rows)):
        pivot = next(row for row in range(column, len(rows)) if rows[row, column] != 0)
        rows[[column, pivot]] = rows[[pivot, column]]
        rows[column] = rows[column] / rows[column, column]
        for row in range(len(rows)):
            if row != column and rows[row, column] != 0:
                rows[row] = rows[row] - rows[row, column] * rows[column]
    return list(rows[:, -1])


def _product(factors: np.ndarray) -> Any:
    """Product over the last axis."""
    return np.multiply.reduce(factors, axis=-1)
