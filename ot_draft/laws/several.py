"""Drafts of several models at one node: each draft is one draw from a law of its own, independent of the others.

The token set of least p(H) minus the product of q_i(H) is found exactly, by branch and bound over k prices and single tokens.
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
from fractions import Fraction
from heapq import heappop, heappush
from math import prod
from typing import Any, ClassVar

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidArgument, InvalidDrafts, SolverFailed
from . import sets
from .base import DraftLaw, Fact, shares


@dataclass(frozen=True)
class Several(DraftLaw):
    """Draws from several draft models: draft 1 from q, draft i + 1 from others[i], all independent.

    Parameters
    ----------
    others : array_like of shape (k - 1, n)
        Distributions of the other draft models, or of one at other temperatures.

    Raises
    ------
    InvalidArgument
        If others are not rows of masses >= 0 that sum to 1 each.

    Notes
    -----
    The optimum is 1 + min over H of p(H) - q(H) others[0](H) ..., found by branch and bound, exactly on Fractions. The prefixes of one
    sorted list, which suffice for i.i.d. drafts, do not suffice here.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> law = otd.Several([[F(1, 4), F(3, 4)]])
    >>> otd.optimal_acceptance([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=2, law=law)
    Fraction(1, 1)
    """

    facts: ClassVar[Fact] = Fact.FIRST_FOLLOWS_Q | Fact.NEVER_RUNS_OUT
    others: Any = ()

    def __post_init__(self) -> None:
        rows = np.asarray(xp.to_host(self.others) if xp.is_torch(self.others) else self.others)
        rows = rows.reshape(0, 0) if not rows.size else rows
        if rows.ndim != 2 or rows.dtype.kind not in "fiuO" or not all(_is_law(row) for row in rows):
            raise InvalidArgument(
                f"others must be k - 1 distributions, numbers >= 0 of shape (k - 1, n) with rows that sum to 1, got shape {rows.shape}."
                " Pass one distribution per draft token after the first."
            )
        object.__setattr__(self, "others", tuple(map(tuple, rows.tolist())))

    def __repr__(self) -> str:
        return f"Several({len(self.others)} others)" if self.others else "Several()"

    def check(self, k: int) -> None:
        if k != 1 + len(self.others):
            raise InvalidDrafts(
                f"k must be {1 + len(self.others)} for {self!r}, got {k}. Pass one draft token per draft model."
            )

    def draw(self, q: Array, uniforms: Array) -> Array:
        columns = [xp.inverse_cdf(self._of(q, i), uniforms[..., i : i + 1]) for i in range(uniforms.shape[-1])]
        return xp.concat(columns, axis=-1)

    def cut_order(self, p: Array, q: Array, k: int) -> Array:
        batch, n = xp.batch_shape(p, q), p.shape[-1]
        targets, drafts = (xp.to_host(xp.broadcast_to(x, (*batch, n))).reshape(-1, n) for x in (p, q))
        ranks = [~self._least(*row) for row in zip(targets, drafts, strict=True)]
        order = np.argsort(np.reshape(ranks, (*batch, n)), axis=-1, kind="stable")
        return xp.from_host(order, p).long() if xp.is_torch(p) else order

    def prefix_probabilities(self, q: Array, order: Array, k: int) -> Array:
        shape = (*xp.batch_shape(q, order), q.shape[-1])
        return prod(shares(xp.broadcast_to(self._of(q, index), shape), order) for index in range(k))

    def conditional(self, q: Array, siblings: Array, index: Array) -> Array:
        law = q
        for i in range(1, siblings.shape[-1]):
            law = xp.where(index == i, self._of(q, i), law)
        return law

    def marginals(self, q: Array, k: int) -> Array:
        """P(token y is among the drafts) for every y, (..., n)."""
        return 1 - prod(1 - self._of(q, index) for index in range(k))

    def set_probabilities(self, q: Array, k: int) -> dict[int, Any]:
        return sets.chain(0, k, lambda index, drawn: self._of(q, index))

    def _of(self, q: Array, index: int) -> Array:
        """Law of a draft: (..., n)."""
        if not index:
            return q
        row = self.others[index - 1]
        if len(row) != q.shape[-1]:
            raise InvalidDrafts(
                f"others must have {q.shape[-1]} tokens, as many as q, got {len(row)}. Pass all over one vocabulary."
            )
        if xp.is_exact(q):
            return np.array([Fraction(mass) for mass in row], dtype=object)
        return xp.from_host(np.array(row, dtype=np.float64), q)

    def _least(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """The set of least cut, for one row: bool (n,)."""
        if not xp.is_exact(q):
            p, q = p.astype(np.float64), q.astype(np.float64)
        return least_cut(p, np.stack([self._of(q, index) for index in range(1 + len(self.others))]))[0]


def _is_law(row: np.ndarray) -> bool:
    whole = abs(sum(row.tolist()) - 1)
    return bool((row >= 0).all()) and bool(whole == 0 if row.dtype == object else whole <= 1e-6)


def least_cut(
    p: np.ndarray, laws: np.ndarray, slack: float = 1e-12, rounding: float = 1e-11, max_boxes: int = 20_000
) -> tuple[np.ndarray, Any]:
    """The set H, bool (n,), of least p(H) - prod_i q_i(H), and that value; p: (n,), laws: (k, n), k >= 1, of Fractions or float64.

    On floats the value may be off by `rounding`, and a lower bound has to lie above an upper one by `slack`. Raises SolverFailed where it
    takes more than `max_boxes`.
    """
    slack, rounding = (0, 0) if xp.is_exact(p) else (slack, rounding)
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
        if number > max_boxes:
            raise SolverFailed(
                f"the minimum cut of {len(p)} tokens under {len(laws)} draft distributions is not proved after {max_boxes} boxes: the gap"
                f" is {float(least - boxes[0][0]):.1e}. Use fewer draft models."
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
        return chosen, p[chosen].sum() - laws[:, chosen].sum(-1).prod()

    def bound(self, p: np.ndarray, laws: np.ndarray) -> Any:
        """No set in the box has a smaller value."""
        further = p[self.open] - _slopes(self.low, self.high).dot(laws[:, self.open])
        best = xp.minimum(further, 0).sum(-1).max()
        return p[self.inside].sum() - self.low.prod() + best

    def halves(self, laws: np.ndarray, heavy: int = 4) -> list[_Box]:
        """Split at a token that makes much of the doubt, or else between prices."""
        masses = laws[:, self.open]
        doubt = (self.upper - self.lower).dot(masses)
        heaviest = int(np.argmax(doubt))
        if doubt[heaviest] * heavy >= doubt.sum():
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
        [high[order[:i]].prod() * low[order[i + 1 :]].prod() for i in map(order.index, range(k))] for order in orders
    ]
    bounds = np.array(rows, dtype=low.dtype)
    return np.concatenate((bounds, bounds.sum(0, keepdims=True) / len(bounds)))


def _prices(masses: np.ndarray) -> np.ndarray:
    """For each law the product of the other laws' masses: (k,) -> (k,)."""
    return np.array([np.delete(masses, i).prod() for i in range(len(masses))], dtype=masses.dtype)
