"""The wealth of a gambler who bets against the reported laws: a nonnegative martingale while they are true.

Lemma. Let y in [0, 1] have mean m given the past, and let c > -1 be chosen from the past. Then (1 + c y) / (1 + c m) is
nonnegative and has mean 1 given the past. (The mean of 1 + c y is 1 + c m, which is positive.) If m is known only up to a factor,
true mean in [(1 - t) m, (1 + t) m], then (1 + c y) / (1 + c m (1 + t)) for c > 0, and (1 + c y) / (1 + c m (1 - t)) for c < 0,
has mean at most 1. If m is known up to d beside, the mean of y being at most d off, then m + d for c > 0 and m - d for c < 0 do.

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
from .learner import PRECISIONS, REACH, Payout
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
    "learned": 0.08,
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

    def settle(self, y: Array, m: Array, slack: Array) -> None:
        """Pay out a block of bets: y, m (T, K); slack (T,): by how much the reported law may miss the true one (`rounding`)."""
        used = np.flatnonzero(m.any(axis=0))
        groups, y, m = -(-len(y) // GROUP), y[:, used], m[:, used]
        high = low = m
        if slack.any():
            # Nothing is staked on what has no mass: under a law that is rounded it may come.
            y, room = np.where(m > 0, y, 0.0), np.where(m > 0, slack[:, None], 0.0)
            high, low = m + room, np.maximum(m - room, 0.0)
        # The tilts come first: a row of the products is long then, which numpy multiplies several times as fast as many short ones.
        won, half = _products(y, self._slope, groups), len(self._slope) // 2
        asked = np.concatenate(
            [_products(high, self._bound[:half], groups), _products(low, self._bound[half:], groups)]
        )
        self._log[used] += (np.log(won) - np.log(asked)).reshape(len(self._slope), groups, len(used)).sum(1).T

    def settle_learned(self, combined: Payout, context: Payout, slack: Array) -> None:
        """Pay out the learner's bets, with y in [-REACH, REACH], all at c = 1, the learned weights being believed.

        A relative error t of the probabilities moves the mean m by at most t times the mean of |y|, a total variation by twice REACH.
        """
        room = 2 * REACH * slack[:, None]
        paid = [np.log((1 + y) / (1 + m + self._tolerance * spread + room)).sum(axis=0)
                for y, m, spread in (combined, context)]  # fmt: skip
        self._combined += paid[0]
        self._context += paid[1]

    def settle_no_mass(self, came: Array, most: Array) -> None:
        """Pay out the bet on tokens of no mass: which came, and what mass m they have at most, VOCABULARY * NOTHING or more: (T,).

        With a stake w the factor is 1 - w + w / m where it happens and 1 - w where not: mean at most 1.
        """
        self._no_mass += np.count_nonzero(~came) * np.log1p(-STAKES)
        self._no_mass += np.log1p(-STAKES + STAKES / most[came, None]).sum(axis=0)

    def charge(self, tokens: int) -> None:
        """Take from every bet what it loses at most, for tokens of which nothing is known: right whatever they were."""
        self._log -= tokens * np.log1p(np.where(self._slope > 0, self._bound, 1 / (1 + self._slope) - 1))
        learned = tokens * np.log((1 + REACH * (1 + self._tolerance)) / (1 - REACH))
        self._combined -= learned
        self._context -= learned
        self._no_mass += tokens * np.log1p(-STAKES)

    @property
    def total(self) -> float:
        """Logarithm of the whole wealth, from 0 on."""
        mine = [(self._log + self._weights).ravel(), self._no_mass + log(NO_MASS_WEIGHT / len(STAKES)),
                self._combined + log(COMBINED_WEIGHT / self._combined.size),
                self._context + log(CONTEXT_WEIGHT / self._context.size)]  # fmt: skip
        with np.errstate(invalid="ignore"):
            found = float(np.logaddexp.reduce(np.concatenate(mine)))
        if not np.isfinite(found):
            raise RuntimeError(f"the wealth of the audit's bets is {found}: an error of ot_draft, please report it")
        return found

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
