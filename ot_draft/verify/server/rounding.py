"""Rounding of reported probabilities: recognised by the digits, and allowed for in every bet.

Numbers of 16 bits and of few decimals are recognised by their values: a distribution that is not rounded almost never has all its
probabilities among so few numbers. Let a distribution p be reported as r with |p(x) - r(x)| <= u r(x) + g for every x. Let R be the sum
of r over n tokens, s of them with r > 0. The total variation distance between p and r (divided by R if the list is whole) is at most

    slack = u R + n g,   and for a whole list also   2 (u R + s g) + (1 - R)+.

Proof of the first: half the sum of |p - r|, and the division, or the unlisted probability, adds at most as much again. Second: the sum
of (p - r)+ over tokens with r > 0 is at most u R + s g, and tokens with r = 0 have p = 1 - p(the others) <= 1 - R + u R + s g together.

The mean of any payoff in [0, 1] is then known up to `slack`, and bets ask for no more. A larger slack only reduces an e-value, so that
evidence of rounding may come from any earlier distribution of the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...arrays import Array

OFF = 1e-3  # max. deviation of a sum of probabilities from 1 without rounding: sums of float32 and of float16
SMALLEST = 2.0**-24  # smallest positive float16
EXACT = 99  # stands for "not written in few decimals"
MOST_DECIMALS = 8  # max. number of decimals that are recognised
SINGLE = 6  # the same in float32
NOTHING = 1e-15  # probabilities below this count as 0
VOCABULARY = 2**20  # max. number of tokens


def relative_of(mass: Array) -> Array:
    """Return the relative error (T,) of probabilities (T, N) in descending order, by their number type: 0 for 32 bits and more."""

    def in_float16(mass: Array) -> Array:
        return (mass.astype(np.float16) == mass).all(1)

    def in_bfloat16(mass: Array) -> Array:
        single = mass.astype(np.float32)
        return ((single == mass) & ((single.view(np.uint32) & 0xFFFF) == 0)).all(1)

    found = np.zeros(len(mass))
    for error, held in ((2.0**-10, in_float16), (2.0**-8, in_bfloat16)):  # relative size of a unit in the last place
        rows = np.flatnonzero(held(mass[:, :1]) & (mass[:, 0] > 0))
        found[rows[held(mass[rows])]] = error
    return found


def decimals_of(mass: Array, tried: range = range(MOST_DECIMALS, 1, -1)) -> Array:
    """Return the fewest of the tried decimals (T,) that write all probabilities of each row (T, N), or EXACT."""
    found = np.full(len(mass), EXACT)
    first = mass[:, :1]
    rows = np.flatnonzero(_written(first, MOST_DECIMALS) | _written(first, SINGLE))
    for decimals in tried if len(rows) else ():
        found[rows[_written(mass[rows], decimals)]] = decimals
    return found


def _written(mass: Array, decimals: int) -> Array:
    near = np.rint(mass * 10.0**decimals) / 10.0**decimals
    same = near == mass
    if decimals <= SINGLE:
        same |= near.astype(np.float32) == mass
    return same.all(1)


def explains(mass: Array, size: int, whole: bool) -> bool:
    """Return whether rounding explains that the probabilities (m,) of `size` tokens do not sum to 1. whole: there are no others."""
    if not len(mass) or mass.max() > 1 + OFF:
        return False
    mass, missing = np.sort(mass)[::-1], float(mass.sum()) - 1
    missing = abs(missing) if whole else max(missing, 0.0)
    relative, decimals = float(relative_of(mass[None])[0]), int(decimals_of(mass[None])[0])
    room = relative + size * SMALLEST if relative else 0.0
    if decimals < EXACT:
        room = max(room, np.count_nonzero(mass) * 10.0**-decimals / 2)
    return missing <= room + 1e-9


@dataclass
class Rounding:
    """The rounding that the distributions so far show.

    stated: absolute error that every reported probability may have. min_evidence: number of probabilities of lists, between 0 and 1 and
    in few decimals, from which such lists count as rounded. decimals: largest number of decimals of rounded distributions so far.
    """

    stated: float = 0.0
    min_evidence: int = 8
    decimals: int = 0
    _few: int = field(default=0, init=False)  # number of probabilities of lists in few decimals

    def read(
        self, mass: Array, rest: Array, total: Array, size: Array, whole: Array, relative: Array, decimals: Array
    ) -> tuple[Array, Array]:  # fmt: skip
        """Return the slack of every distribution, and the largest probability of its tokens that are reported with 0: (T,) each.

        mass (T, N), rest (T,): normalised. The other arguments (T,) are fields of `Tokens`.
        """
        step = self._steps(mass, total, whole, decimals)
        step = np.maximum(np.maximum(step, np.where(relative > 0, SMALLEST, 0.0)), self.stated)
        exact = not step.any() and not relative.any()
        if exact and whole.all():
            return step, np.full(len(mass), NOTHING * VOCABULARY)
        positive = np.where(whole, np.count_nonzero(mass, axis=1) + rest * total / np.maximum(step, 1e-300), size)
        short = np.maximum(1 - total, 0.0)
        # A 0 may be rounded in a list of few decimals, even if nothing shows it yet.
        finest = np.where(decimals < EXACT, 10.0 ** -decimals.astype(float) / 2, 0.0)
        hidden = np.where(~whole & _between(mass).any(1), np.maximum(step, finest), step)
        most = relative * total + np.where(whole, positive * step, size * hidden) + short
        nothing = np.where(whole, np.minimum(size * hidden, most), most)
        spread = relative * total + positive * step
        slack = np.minimum(relative * total + size * step, np.where(whole, 2 * spread + short, np.inf))
        return np.minimum(slack, 1.0), np.minimum(nothing + NOTHING * VOCABULARY, 1.0)

    def _steps(self, mass: Array, total: Array, whole: Array, decimals: Array) -> Array:
        """Half a unit in the last decimal of every rounded distribution, 0 for the others: (T,)."""
        few, missing = decimals < EXACT, np.where(whole, np.abs(total - 1), np.maximum(total - 1, 0))
        between = np.where(~whole & few, _between(mass).sum(1), 0)
        self._few += int(between.sum())
        shows = few & (
            (missing > 10.0 ** -decimals.astype(float) / 2) | ((between > 0) & (self._few >= self.min_evidence))
        )
        self.decimals = int(max(self.decimals, decimals[shows].max(initial=0)))
        # Other distributions in at most as many decimals are rounded, too: [1.00, 0.00] after [0.71, 0.15, 0.15].
        decimals = np.where(shows, decimals, np.where(decimals <= self.decimals, self.decimals, EXACT))
        return np.where(decimals < EXACT, 10.0 ** -decimals.astype(float) / 2, 0.0)


def _between(mass: Array) -> Array:
    return (mass > 0) & (mass < 1)


def step_of(mass: Array) -> float:
    """Return the absolute error of reported probabilities (m,), from their decimals; 0 if these are not few."""
    inner = mass[(mass > 0) & (mass < 1)]
    decimals = int(decimals_of(inner[None], range(MOST_DECIMALS, 0, -1))[0]) if inner.size else EXACT
    return 10.0**-decimals / 2 if decimals < EXACT else 0.0


def _may_be_rounded(value: float) -> bool:
    """The condition of `relative_of` and `decimals_of` on the first number of a row, which most rows fail."""
    single = np.float32(value)
    if float(np.float16(value)) == value or (float(single) == value and not int(single.view(np.uint32)) & 0xFFFF):
        return True
    if round(value * 10.0**MOST_DECIMALS) / 10.0**MOST_DECIMALS == value:
        return True
    near = round(value * 10.0**SINGLE) / 10.0**SINGLE
    return near == value or float(np.float32(near)) == value


def log_error(logs: Array) -> float:
    """Return the relative error of exp of reported logarithms (m,), from 16 bits or few decimals; 0 for all others."""
    finite = -logs[(logs > np.log(NOTHING)) & (logs < 0)][None]
    if not finite.size or not _may_be_rounded(float(finite[0, 0])):
        return 0.0
    relative, decimals = float(relative_of(finite)[0]), int(decimals_of(finite, range(MOST_DECIMALS, 0, -1))[0])
    return float(np.expm1(max(relative * finite.max(), 10.0**-decimals / 2 if decimals < EXACT else 0.0)))
