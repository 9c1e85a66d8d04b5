"""Importance-weighted choice of one draft, then the maximal coupling of the chosen draft with the target."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..laws import IID, DraftLaw, Fact
from ..problem import Problem
from ..selection import ClosedForm, Cost, Selection, SelectionRule, with_closed_form
from .coupling import couple


@dataclass(frozen=True)
class Quadrature:
    """Trapezoid in log t in float64, and the weights of mean 1 that it resolves."""

    step: float = 0.25  # of log t; the trapezoid's error falls like exp(-pi^2 / step)
    low: float = float(np.log(1e-17))
    high: float = float(np.log(1e18))
    min_weight: float = 1e-13
    max_weight: float = 1e13

    def log_times(self, weights: Array) -> np.ndarray:
        """Nodes: beyond the last, exp(-t w) underflows to 0 for every positive weight."""
        if not xp.on_host(weights):  # a look at the weights would wait for the GPU
            return np.arange(self.low, self.high, self.step)
        positive = xp.where(weights > 0, weights, self.max_weight)
        # From an exponent of -750 on, exp is 0 in float64.
        high = np.log(750.0 / float(positive.min())) if prod(positive.shape) else self.low
        return np.arange(self.low, min(self.high, high + self.step), self.step)

    def bounded(self, weights: Array, q: Array) -> Array:
        """Weights with mean 1 under q, in float64 and within bounds; 0 stays 0, and Fractions stay as they are."""
        if xp.is_exact(q):
            return weights
        w = xp.double(weights)
        w = xp.divide(w, (xp.double(q) * w).sum(-1, keepdims=True), 0)
        return xp.where(w > 0, xp.minimum(xp.maximum(w, self.min_weight), self.max_weight), 0)


def ratio(p: Array, q: Array) -> Array:
    """The weights p / q."""
    weights = xp.divide(p, q, 0)
    # An infinite weight would leave 0 and NaN for the others.
    return weights if xp.is_exact(p) else xp.minimum(weights, 1e30)


@dataclass(frozen=True)
class ImportanceWeighted(SelectionRule):
    """Choose draft i with probability w(x_i) / sum_j w(x_j), then take it with probability min(1, p/m) [1]_.

    m is the distribution of the chosen draft: m(y) = E[sum_i [x_i = y] w(x_i) / sum_j w(x_j)]. On Fractions it is enumerated (exact,
    n^(k-1) / (k-1)! terms), on floats computed by quadrature (float64, errors about 1e-13). The residual is norm((p - m)+).

    Parameters
    ----------
    weights : callable, default=p / q
        ``weights(p, q)`` of shape (..., n), positive; 0 is allowed where p is 0. In floats, weights below 1e-13 or above 1e13
        of their mean are moved there, which keeps the rule lossless.
    law : DraftLaw, default=IID()
        Draft law.

    References
    ----------
    .. [1] Khisti et al., "Multi-Draft Speculative Sampling: Canonical Architectures and Theoretical Limits", 2024.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> problem = otd.Problem([F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)], k=2)
    >>> otd.evaluate(otd.rules.ImportanceWeighted(), problem).lossless
    True
    """

    claims = ("maximal",)
    cost = Cost(passes=200)  # the formula is an integral by quadrature
    weights: Callable[[Array, Array], Array] = ratio
    law: DraftLaw = IID()

    def _closed_form(self, problem: Problem, optimum: Array | None = None) -> ClosedForm | None:
        """Taken: sum min(p, m). The residual hits a draft y other than the refused one, z, with probability

        k integral_0^inf A(t) [G(t)^(k-1) - (G(t) - q(y) e^(-t w(y)))^(k-1)] dt,   G = sum_z q(z) e^(-t w(z)),
        A = sum_z (1 - min(1, p/m)(z)) q(z) w(z) e^(-t w(z)): the quadrature of the rule's own m, split by whether y is drafted.
        """
        p, q, k = problem.p, problem.q, problem.k
        if xp.is_exact(p) or Fact.INDEPENDENT not in problem.law.facts:
            return None
        quadrature = Quadrature()
        weights = quadrature.bounded(xp.where(q > 0, self.weights(p, q), 0), q)
        chosen_law = selected_law(q, weights, xp.full((1,), k, like=p), k, quadrature)
        refused = weights * (1 - xp.minimum(xp.divide(p, chosen_law, 1), 1))
        taken = xp.minimum(p, chosen_law).sum(-1)
        hit = 0 * p
        for t in np.exp(quadrature.log_times(weights)).tolist():
            decayed = q * np.exp(-t * weights)
            total = decayed.sum(-1, keepdims=True)
            others = xp.maximum(total - decayed, 0)
            chosen = (refused * decayed).sum(-1, keepdims=True)
            hit = hit + k * quadrature.step * t * chosen * (total ** (k - 1) - _power(others, k - 1))
        residual = xp.normalise(xp.maximum(p - chosen_law, 0), p)
        return taken + (residual * hit).sum(-1), taken

    @with_closed_form(_closed_form)
    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        quadrature = Quadrature()
        weights = quadrature.bounded(xp.where(q > 0, self.weights(p, q), 0), q)
        count = xp.astype(drafts >= 0, p.dtype).sum(-1, keepdims=True)
        chosen = selected_law(q, weights, count, drafts.shape[-1], quadrature)
        w_x = xp.gather(weights, drafts)
        choice = xp.astype(xp.divide(w_x, w_x.sum(-1, keepdims=True), 0), p.dtype)
        return couple(p, chosen, choice, drafts)


def selected_law(q: Array, weights: Array, count: Array, k: int, quadrature: Quadrature) -> Array:
    """Law m of the chosen one of `count` i.i.d. drafts, at most k: (..., n), (..., n), (..., 1) -> (..., n)."""
    if not xp.is_exact(q):
        return _by_quadrature(q, weights, count, quadrature)
    law = 0 * (q + count)
    for drafts in range(1, k + 1):
        law = np.where(count == drafts, _by_enumeration(q, weights, drafts), law)
    return law


def _by_enumeration(q: Array, weights: Array, k: int) -> Array:
    """k q w E[1 / (w + sum of k - 1 others' weights)], the others as multisets."""
    n = q.shape[-1]
    others = list(combinations_with_replacement(range(n), k - 1))
    orders = [factorial(k - 1) // prod(factorial(m.count(y)) for y in set(m)) for m in others]
    index = np.array(others, dtype=np.int64).reshape(len(others), k - 1)
    probability = q[..., index].prod(-1) * np.array(orders, dtype=object)
    sums = weights[..., index].sum(-1) if k > 1 else 0 * probability
    share = xp.divide(probability[..., None, :], weights[..., :, None] + sums[..., None, :], 0)
    return k * q * weights * share.sum(-1)


def _power(x: Array, exponent: int) -> Array:
    """x to a whole number by squaring: NumPy's power takes many times as long as a product."""
    out = 1 + 0 * x
    while exponent:
        out = out * x if exponent & 1 else out
        x, exponent = x * x, exponent >> 1
    return out


def _by_quadrature(q: Array, weights: Array, count: Array, quadrature: Quadrature, max_cells: int = 1 << 14) -> Array:
    """k q(y) w(y) times the integral over t of exp(-t w(y)) (sum_z q(z) exp(-t w(z)))^(k-1), trapezoid in log t.

    max_cells: times by masses in one array.
    """
    draft, w = xp.double(q), weights
    law = 0 * (draft + count)
    times, step = quadrature.log_times(w), quadrature.step
    at_once = max(1, max_cells // max(1, prod(law.shape)))  # small problems: all times in one array
    for start in range(0, len(times), at_once):
        index = xp.astype(xp.arange(min(at_once, len(times) - start), like=draft), draft.dtype)
        t = xp.namespace(q).exp(quadrature.low + step * (start + index.reshape(-1, *[1] * law.ndim)))
        decay = xp.namespace(q).exp(-t * w)
        others = (draft * decay).sum(-1, keepdims=True) ** xp.maximum(count - 1, 0)
        law = law + (step * t * decay * others).sum(0)
    return xp.astype(count * draft * w * law, q.dtype)
