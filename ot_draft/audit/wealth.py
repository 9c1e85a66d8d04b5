"""The wealth of a gambler who bets against the reported laws: a nonnegative martingale while they are true.

Lemma. Let y in [0, 1] have mean m given the past, and let c > -1 be chosen from the past. Then (1 + c y) / (1 + c m) is
nonnegative and has mean 1 given the past. (The mean of 1 + c y is 1 + c m, which is positive.) If m is known only up to a factor,
true mean in [(1 - t) m, (1 + t) m], then (1 + c y) / (1 + c m (1 + t)) for c > 0, and (1 + c y) / (1 + c m (1 - t)) for c < 0,
has mean at most 1.

So the product over tokens is a martingale (with t > 0 a supermartingale) that starts at 1, for every bet and every c; so is a mean
of them with weights fixed beforehand. By Ville's inequality it ever reaches 1/a with probability at most a, however long one looks
and whenever one stops. Where y is the indicator of an event, c = e^s - 1 is the likelihood ratio against the law tilted by e^s on
the event: for every true bias there is a c near which the logarithm grows at the rate of the relative entropy, and a grid of c by
factors of two loses at most a tenth of it.
"""

from __future__ import annotations

from math import log

import numpy as np

from ..arrays import Array
from .bets import BETS
from .learner import PRECISIONS, Payout
from .past import CELLS, PRIORS

TILTS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.3, 2.6, 5.0)
TILT_WEIGHTS = (
    0.04,
    0.08,
    0.15,
    0.22,
    0.19,
    0.13,
    0.08,
    0.05,
    0.03,
    0.02,
    0.01,
)  # most of it on biases of about one per cent
FAMILIES = {  # weight of each; shared alike among its bets
    "rank": 0.11,
    "mass": 0.11,
    "entropy": 0.12,
    "calibration": 0.12,
    "learned": 0.03,
    "repeat": 0.05,
    "neighbours": 0.06,
    "requests": 0.05,
    "place": 0.06,
    "draft law": 0.15,
}
COMBINED = "combined"
COMBINED_WEIGHT = 0.2
CONTEXT = "context"
CONTEXT_WEIGHT = 0.08
NO_MASS = "no mass"
NO_MASS_WEIGHT = 0.02
NOTHING = 1e-15  # a probability below this is no mass
VOCABULARY = 2**20  # the largest that tokens of no mass are counted in
STAKES = np.array([1e-2, 1e-4, 1e-6])  # on the next token being one of no mass
GROUP = 32  # tokens whose factors are multiplied before a logarithm is taken; 32 factors of e^5 stay far from overflow


class Wealth:
    """The wealth of every bet at every tilt.

    tolerance: t of the lemma, relative error of the reported probabilities (rounding in print, another precision).
    """

    def __init__(self, tolerance: float) -> None:
        steps = np.concatenate([np.expm1(TILTS), np.expm1(np.negative(TILTS))])
        self._slope, self._bound = steps, steps * np.where(steps > 0, 1 + tolerance, 1 - tolerance)
        self._log = np.zeros((len(BETS), len(steps)))
        sizes = {name: sum(bet.family == name for bet in BETS) for name in FAMILIES}
        each = np.array([FAMILIES[bet.family] / sizes[bet.family] for bet in BETS])
        each *= (1 - NO_MASS_WEIGHT - COMBINED_WEIGHT - CONTEXT_WEIGHT) / each.sum()
        tilts = np.tile(TILT_WEIGHTS, 2) / (2 * sum(TILT_WEIGHTS))
        self._weights = np.log(each)[:, None] + np.log(tilts)
        self._no_mass, self._tolerance = np.zeros(len(STAKES)), tolerance
        self._combined = np.zeros(len(PRECISIONS))
        self._context = np.zeros(len(CELLS) * len(PRIORS))

    def settle(self, y: Array, m: Array) -> None:
        """Pay out a block of bets: y, m (T, K)."""
        used = np.flatnonzero(m.any(axis=0))
        groups = -(-len(y) // GROUP)
        # The tilts come first: a row of the products is long then, which numpy multiplies several times as fast as many short ones.
        won, asked = (_products(side[:, used], steps, groups) for side, steps in ((y, self._slope), (m, self._bound)))
        self._log[used] += (np.log(won) - np.log(asked)).reshape(len(self._slope), groups, len(used)).sum(1).T

    def settle_learned(self, combined: Payout, context: Payout) -> None:
        """Pay out the learner's bets, with y in [-REACH, REACH], all at c = 1, the learned weights being believed.

        A relative error t of the probabilities moves the mean m by at most t times the mean of |y|.
        """
        paid = [
            np.log((1 + y) / (1 + m + self._tolerance * spread)).sum(axis=0) for y, m, spread in (combined, context)
        ]
        self._combined += paid[0]
        self._context += paid[1]

    def settle_no_mass(self, came: int, others: int) -> None:
        """Pay out the bet on tokens of no mass.

        The event "p(x) below NOTHING" has a mass of at most VOCABULARY * NOTHING =: m, whatever the law. With a stake w the factor
        is 1 - w + w / m where it happens and 1 - w where not: mean at most 1.
        """
        self._no_mass += others * np.log1p(-STAKES) + came * np.log1p(-STAKES + STAKES / (VOCABULARY * NOTHING))

    @property
    def total(self) -> float:
        """Logarithm of the whole wealth, from 0 on."""
        mine = [(self._log + self._weights).ravel(), self._no_mass + log(NO_MASS_WEIGHT / len(STAKES)),
                self._combined + log(COMBINED_WEIGHT / self._combined.size),
                self._context + log(CONTEXT_WEIGHT / self._context.size)]  # fmt: skip
        return float(np.logaddexp.reduce(np.concatenate(mine)))

    def families(self) -> dict[str, float]:
        """Logarithm of the wealth of each family alone, had it started with 1."""
        found = {}
        for name in FAMILIES:
            mine = [i for i, bet in enumerate(BETS) if bet.family == name]
            weights = self._weights[mine]
            found[name] = float(
                np.logaddexp.reduce((self._log[mine] + weights).ravel()) - np.logaddexp.reduce(weights.ravel())
            )
        found[COMBINED] = float(np.logaddexp.reduce(self._combined) - log(self._combined.size))
        found[CONTEXT] = float(np.logaddexp.reduce(self._context) - log(self._context.size))
        found[NO_MASS] = float(np.logaddexp.reduce(self._no_mass) - log(len(STAKES)))
        return found

    def bets(self) -> Array:
        """Logarithm of the wealth of each bet alone, over all tilts: (K,)."""
        weights = self._weights - np.logaddexp.reduce(self._weights, axis=1)[:, None]
        return np.logaddexp.reduce(self._log + weights, axis=1)


def _products(x: Array, steps: Array, groups: int) -> Array:
    """Products of 1 + step x over every `groups`-th token: x (T, K), steps (C,) -> (C, groups K)."""
    product = np.ones((len(steps), groups * x.shape[1]))
    for start in range(0, len(x), groups):
        part = x[start : start + groups].ravel()
        factor = steps[:, None] * part
        factor += 1
        product[:, : len(part)] *= factor
    return product
