"""Optimal selection under any draft law, by a random order of the tokens; made for drafts without replacement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import SolverFailed
from ..laws import DraftLaw, WithoutReplacement
from ..optimum import cuts
from ..selection import Cost, Selection, SelectionRule
from .by_pair import by_pair
from .coupling import couple


@dataclass(frozen=True)
class RandomOrder(SelectionRule):
    """Draw an order of the tokens from a fixed list, and select the draft that stands last in it.

    The selected token is coupled with the target. In the order y_1, y_2, ... its distribution puts the mass
    P(all drafts among y_1..y_i) - P(all drafts among y_1..y_{i-1}) on y_i, so the rule is lossless whatever the list is.

    Parameters
    ----------
    law : DraftLaw, default=WithoutReplacement()
        Draft law; any. The default is the one for which no closed rule is known to be optimal.
    tolerance : float, default=1e-6
        Distance from the optimal acceptance at which column generation stops.
    orders : int, default=64
        Maximum number of orders in the list.

    Notes
    -----
    m is the distribution of a selected draft for some selection iff m(H) >= P(all drafts in H) for every H. The right side is a convex
    set function. So these m are the core of a convex game, whose extreme points are the distributions above, one for each
    order [1]_. The optimum is a mixture of at most n + 1 orders. A dozen or two come within 0.001 of the optimum on average on language
    models, where 64 do not always reach `tolerance` (figures/laws/without_replacement.py).

    References
    ----------
    .. [1] Shapley, "Cores of convex games", International Journal of Game Theory, 1971.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> problem = otd.Problem([F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)], k=2, law=otd.WithoutReplacement())
    >>> otd.evaluate(otd.rules.RandomOrder(), problem).lossless
    True
    """

    cost = Cost(solves_program=True, slow=True)
    claims = ("maximal",)  # the optimum is reached to the tolerance only
    law: DraftLaw = WithoutReplacement()
    tolerance: float = 1e-6
    orders: int = 64

    def under(self, law: DraftLaw) -> RandomOrder:
        return replace(self, law=law)

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        return by_pair(p, q, drafts, self.law, self._selection_of_pair)

    def _selection_of_pair(self, p: np.ndarray, q: np.ndarray, k: int, tokens: np.ndarray) -> Selection:
        ranks, weights, law = self.mixture(p, q, k)
        selected = law + xp.full((len(tokens), 1), 0, like=p)  # memory of its own
        return couple(p[None], selected, _choice(ranks, weights, tokens, p), tokens)

    def mixture(self, p: np.ndarray, q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The orders for one pair, as ranks int (R, n), their weights (R,), and the distribution of the selected token (n,)."""
        masses = (tuple(x.tolist()) for x in (p, q))
        return _orders(*masses, k, self.law, self.tolerance, self.orders, xp.is_exact(p))


def _choice(ranks: np.ndarray, weights: np.ndarray, tokens: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Probability that each position holds the draft that stands last: (orders, n), (orders,), int (m, k) -> (m, k)."""
    choice = xp.full(tokens.shape, 0, like=like)
    rows = np.arange(len(tokens))
    for rank, weight in zip(ranks, weights, strict=True):
        last = np.where(tokens >= 0, rank[np.maximum(tokens, 0)], -1).argmax(-1)  # of equal tokens the first drawn
        choice[rows, last] += weight
    return choice


@lru_cache(maxsize=64)
def _orders(
    p: tuple[Any, ...], q: tuple[Any, ...], k: int, law: DraftLaw, tolerance: float, most: int, exact: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Orders as ranks (R, n), their weights (R,), and the distribution of the selected token (n,). 1/2 == .5: hence `exact`."""
    target, draft = (np.array(x, dtype=object if exact else np.float64) for x in (p, q))
    best, cut = cuts(target, draft, k, law)
    optimum = float(1 + cut.min())
    orders, columns = [best], [_column(law, draft, best, k)]
    masses = target.astype(np.float64)
    weights, value, price = _master(np.array(columns, dtype=np.float64), masses)
    need = price
    while optimum - value > tolerance and len(orders) < most:
        missing = np.clip(1 - weights @ np.array(columns, dtype=np.float64) / np.maximum(masses, 1e-300), 0, None)
        need = (need + price) / 2  # prices jump from vertex to vertex; their running mean gives better orders
        order = best[np.argsort((need + 1e-3 * missing)[best], kind="stable")]
        orders.append(order)
        columns.append(_column(law, draft, order, k))
        weights, value, price = _master(np.array(columns, dtype=np.float64), masses)
    used = np.flatnonzero(weights > 0)
    shares = _shares(weights[used], target)
    law_of_selected = sum((w * columns[i] for w, i in zip(shares, used, strict=True)), 0 * target)
    return np.array([np.argsort(orders[i]) for i in used]), shares, law_of_selected


def _column(law: DraftLaw, q: np.ndarray, order: np.ndarray, k: int) -> np.ndarray:
    """Distribution of the draft that is last in the order: int (n,) -> (n,)."""
    column = np.empty_like(q)
    column[order] = xp.maximum(np.diff(law.prefix_probabilities(q, order, k)), 0)
    return column


def _master(columns: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """Weights w that maximise sum min(p, w columns), the value, and the price of each token's mass: (R, n), (n,)."""
    from scipy.sparse import csr_array, eye_array, hstack

    orders, n = columns.shape  # z_y <= p_y is a bound, z <= w columns a row for each token
    if orders == 1:  # nothing to choose: a token's mass is worth something where the target has more
        return np.ones(1), float(np.minimum(p, columns[0]).sum()), (columns[0] < p).astype(np.float64)
    cost = np.concatenate((-np.ones(n), np.zeros(orders)))
    rows = hstack((eye_array(n), csr_array(-columns.T)), format="csr")
    sums = np.concatenate((np.zeros(n), np.ones(orders)))[None]
    bounds = [(0, mass) for mass in p] + [(0, None)] * orders
    answer = _solved(cost, A_ub=rows, b_ub=np.zeros(n), A_eq=sums, b_eq=[1], bounds=bounds)
    weights = np.clip(answer.x[n:], 0, None)
    weights = weights / weights.sum()
    return weights, float(np.minimum(p, weights @ columns).sum()), -answer.ineqlin.marginals


def _solved(cost: np.ndarray, **program: Any) -> Any:
    """Solution of the program, by several methods of HiGHS, because one may fail if masses differ by many powers of ten."""
    from scipy.optimize import linprog

    methods = ({"method": "highs"}, {"method": "highs-ds", "options": {"presolve": False}}, {"method": "highs-ipm"})
    for method in methods:
        answer = linprog(cost, **program, **method)
        if answer.x is not None:
            return answer
    raise SolverFailed(f"HiGHS found no mixture of orders with {len(methods)} methods: {answer.message}")


def _shares(weights: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Weights that sum to 1; on Fractions exactly."""
    if not xp.is_exact(like):
        return weights
    from fractions import Fraction

    unit = 1 << 40  # weights are multiples of about 1 / unit
    parts = [Fraction(round(w * unit)) for w in weights.tolist()]
    return np.array([part / sum(parts) for part in parts], dtype=object)
