"""The token set of least p(H) minus the product of q_i(H): found exactly, by branch and bound over k prices and single tokens.

Let z_i be q_i(H) at the minimiser H, and c_i the product of the other z_j: what a unit of mass under q_i adds to the product. The
product grows the faster, the more is there, so that a token of H costs no more than it adds, p(y) <= sum c_i q_i(y), and a token
outside no less. H is known as soon as c is, and c is looked for in a box: tokens that all c in it agree on are decided; they bound
z, and z bounds c, which makes the box smaller, or shows that no minimiser is in it. The product's growth from the decided tokens on
is bounded by linear functions, which token after token minimises at once: no set in the box has a smaller value. Boxes that may hold
a better set than the best one known are split: at a token that alone makes much of the doubt, as where one carries most of p, or
else between prices. On Fractions all of it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np

from .. import arrays as xp
from ..errors import SolverFailed

ROUNDING = 1e-11  # on floats: how far the value may be from the least one
EMPTY = 1e-12  # on floats: how far a lower bound has to lie above an upper one
BOXES = 20_000
HEAVY = 4  # a token that makes one part in so many of the doubt is decided by itself


def least_cut(p: np.ndarray, laws: np.ndarray) -> tuple[np.ndarray, Any]:
    """The set H, bool (n,), of least p(H) - prod_i q_i(H), and that value; p: (n,), laws: (k, n), k >= 1, of Fractions or float64.

    Floats: to 1e-11. Raises SolverFailed where it takes more than 20,000 boxes.
    """
    slack, rounding = (0, 0) if xp.is_exact(p) else (EMPTY, ROUNDING)
    inside, least = np.zeros(len(p), dtype=bool), 0 * p[0]
    boxes: list[tuple[Any, int, _Box]] = []
    nothing, everything = laws[:, :0].sum(-1), laws.sum(-1)
    new = [_Box(_prices(nothing), _prices(everything), nothing, everything, inside, np.arange(len(p)))]
    number = 0
    while True:
        for box in filter(None, (half.narrowed(p, laws, slack) for half in new)):
            chosen, value = box.candidate(p, laws)
            if value < least:
                inside, least = chosen, value
            number += 1
            heappush(boxes, (box.bound(p, laws), number, box))  # the number, so that equal bounds compare
        if not boxes or boxes[0][0] >= least - rounding:
            return inside, least
        if number > BOXES:
            raise SolverFailed(
                f"the least cut of {len(p)} tokens under {len(laws)} laws is not proved after {BOXES} boxes, the gap is"
                f" {float(least - boxes[0][0]):.1e}: take fewer laws"
            )
        new = heappop(boxes)[2].halves(laws)


@dataclass(frozen=True)
class _Box:
    """Prices lower .. upper (k,), masses low .. high (k,) of the sets in question, decided tokens bool (n,), numbers of the open ones."""

    lower: np.ndarray
    upper: np.ndarray
    low: np.ndarray
    high: np.ndarray
    inside: np.ndarray
    open: np.ndarray

    def narrowed(self, p: np.ndarray, laws: np.ndarray, slack: float) -> _Box | None:
        """The box with all tokens decided that it decides; None where no minimiser is in it."""
        lower, upper, low, high, inside, open_ = self.lower, self.upper, self.low, self.high, self.inside, self.open
        while True:
            cost, masses = p[open_], laws[:, open_]
            joins, leaves = cost < lower.dot(masses), cost > upper.dot(masses)
            if not (joins.any() or leaves.any()):
                return _Box(lower, upper, low, high, inside, open_)
            inside = inside.copy()
            inside[open_[joins]] = True
            low, high = low + masses[:, joins].sum(-1), high - masses[:, leaves].sum(-1)
            open_ = open_[~(joins | leaves)]
            lower, upper = np.maximum(lower, _prices(low)), np.minimum(upper, _prices(high))
            if (lower > upper + slack).any():
                return None
            upper = np.maximum(lower, upper)

    def candidate(self, p: np.ndarray, laws: np.ndarray) -> tuple[np.ndarray, Any]:
        """The set that the middle of the box stands for, and its value."""
        chosen = self.inside.copy()
        chosen[self.open] = p[self.open] <= ((self.lower + self.upper) / 2).dot(laws[:, self.open])
        return chosen, p[chosen].sum() - _product(laws[:, chosen].sum(-1))

    def bound(self, p: np.ndarray, laws: np.ndarray) -> Any:
        """No set in the box has a smaller value."""
        further = p[self.open] - _slopes(self.low, self.high).dot(laws[:, self.open])
        best = xp.minimum(further, 0).sum(-1).max()
        return p[self.inside].sum() - _product(self.low) + best

    def halves(self, laws: np.ndarray) -> list[_Box]:
        """Split at a token that makes much of the doubt, or else between prices."""
        masses = laws[:, self.open]
        doubt = (self.upper - self.lower).dot(masses)
        heaviest = int(np.argmax(doubt))
        if doubt[heaviest] * HEAVY >= doubt.sum():
            token, rest = self.open[heaviest], np.delete(self.open, heaviest)
            inside = self.inside.copy()
            inside[token] = True
            low, high = self.low + laws[:, token], self.high - laws[:, token]
            return [
                _Box(np.maximum(self.lower, _prices(low)), self.upper, low, self.high, inside, rest),
                _Box(self.lower, np.minimum(self.upper, _prices(high)), self.low, high, self.inside, rest),
            ]
        widest = int(np.argmax((self.upper - self.lower) * masses.sum(-1)))
        below, above = self.upper.copy(), self.lower.copy()
        below[widest] = above[widest] = (self.lower[widest] + self.upper[widest]) / 2
        return [
            _Box(self.lower, below, self.low, self.high, self.inside, self.open),
            _Box(above, self.upper, self.low, self.high, self.inside, self.open),
        ]


def _slopes(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Linear functions from which the product of z, low <= z <= high, grows no faster, counted from low: (bounds, k).

    One law after the other goes from low to z, in orders that begin with every one of them, forwards and backwards; and their mean.
    """
    k = len(low)
    orders = [[(first + sign * i) % k for i in range(k)] for sign in (1, -1) for first in range(k)]
    rows = [
        [_product(high[order[:i]]) * _product(low[order[i + 1 :]]) for i in map(order.index, range(k))]
        for order in orders
    ]
    bounds = np.array(rows, dtype=low.dtype)
    return np.concatenate((bounds, bounds.sum(0, keepdims=True) / len(bounds)))


def _prices(masses: np.ndarray) -> np.ndarray:
    """For each law the product of the other laws' masses: (k,) -> (k,)."""
    return np.array([_product(np.delete(masses, i)) for i in range(len(masses))], dtype=masses.dtype)


def _product(factors: np.ndarray) -> Any:
    return np.multiply.reduce(factors)
