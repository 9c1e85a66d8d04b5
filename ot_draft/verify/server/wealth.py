"""The wealth of a gambler who bets against the reported laws: a nonnegative martingale while they are true.

The bets are those of the lemma in `e_values`: factors (1 + c y) / (1 + c m) of outcomes y in [0, 1] with mean m.

So the product over tokens is a martingale (with t > 0 a supermartingale) that starts at 1, for every bet and every c; so is a mean
of them with weights fixed beforehand. By Ville's inequality it ever reaches 1/a with probability at most a, however long one looks
and whenever one stops. Where y is the indicator of an event, c = e^s - 1 is the likelihood ratio against the law tilted by e^s on
the event: for every true bias there is a c near which the logarithm grows at the rate of the relative entropy, and a grid of c by
factors of two loses at most a tenth of it.

Bets are learned in two ways, from the past alone, so that they are as fair as any other. In a context that comes again (the token
before, the two before), tilting the law by exp(w(x)) and the best w after what came there is, for small biases and a normal prior,
w(x) = S(x) / (V(x) + R): S the excess of x so far, V its variance, R the prior's precision.

A bias of one per cent is rarely one of rank alone, or of repeats alone. With scores f(x) of the listed tokens, tilting the law by
exp(w f(x)) and the best w after the tokens so far is, for small biases, a ridge regression: w = (C + R)^-1 S, S the sums of f(emitted)
less their means, C the sums of their covariances under the laws, R the precision of a prior that expects small biases.
"""

from __future__ import annotations

from math import log

import numpy as np

from ...arrays import Array
from ..e_values import MISS, log_bets
from .bets import BETS, SCORED, Scores
from .past import CELLS, PRIORS, Past, Seen
from .records import Tokens

TILTS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.3, 2.6, 5.0)
# most of it on biases of about one per cent
TILT_WEIGHTS = (0.04, 0.08, 0.15, 0.22, 0.19, 0.13, 0.08, 0.05, 0.03, 0.02, 0.01)
FAMILIES = {  # weight of each; shared alike among its bets
    "rank": 0.11, "mass": 0.11, "entropy": 0.12, "calibration": 0.12, "learned": 0.08, "repeat": 0.05, "neighbours": 0.06,
    "requests": 0.05, "step offset": 0.06, "draft distribution": 0.15,
}  # fmt: skip
COMBINED_WEIGHT = 0.2
CONTEXT_WEIGHT = 0.08
NO_MASS = "no mass"
NO_MASS_WEIGHT = 0.02
BIASES = np.geomspace(1e-4, 0.5, 370)  # among which `visible` chooses
STAKES = np.array([1e-2, 1e-4, 1e-6])  # on the next token being one of no mass
# of the prior of each weight: spreads of .06, .014 and .004, for large biases and small ones
PRECISIONS = np.array([300.0, 5000.0, 60_000.0])
REACH = 0.9  # of the combined score; below 1 the wealth stays positive
Payout = tuple[Array, Array, Array]  # y, its mean, and its mean without signs (`Scores.spread`): (T, C) each


class Wealth:
    """The wealth of every bet at every tilt.

    tolerance: t of the lemma, relative error of the reported probabilities (rounding in print, another precision).
    """

    def __init__(self, tolerance: float) -> None:
        steps = np.concatenate([np.expm1(TILTS), np.expm1(np.negative(TILTS))])
        self._slope, self._bound = steps, steps * np.where(steps > 0, 1 + tolerance, 1 - tolerance)
        self._most = np.log1p(np.where(steps > 0, self._bound, 1 / (1 + steps) - 1))  # that a token can take from a bet
        self._log = np.zeros((len(BETS), len(steps)))
        sizes = {name: sum(bet.family == name for bet in BETS) for name in FAMILIES}
        each = np.array([FAMILIES[bet.family] / sizes[bet.family] for bet in BETS])
        each *= (1 - NO_MASS_WEIGHT - COMBINED_WEIGHT - CONTEXT_WEIGHT) / each.sum()
        tilts = np.tile(TILT_WEIGHTS, 2) / (2 * sum(TILT_WEIGHTS))
        self._weights = np.log(each)[:, None] + np.log(tilts)
        self._no_mass, self._tolerance = np.zeros(len(STAKES)), tolerance
        self._combined = np.zeros(len(PRECISIONS))
        self._context = np.zeros(len(CELLS) * len(PRIORS))
        # Of each bet: how often its event came, how often the laws said, to how many tokens it applied.
        self.came, self.expected, self.tokens = (np.zeros(len(BETS)) for _ in range(3))

    def settle(self, y: Array, m: Array, slack: Array) -> None:
        """Pay out a block of bets: y, m (T, K); slack (T,): by how much the reported law may miss the true one (`rounding`)."""
        self.came, self.expected = self.came + y.sum(0), self.expected + m.sum(0)
        self.tokens += (m > 0).sum(0)
        used = np.flatnonzero(m.any(axis=0))
        y, m = y[:, used], m[:, used]
        high = low = m
        if slack.any():
            # Nothing is staked on what has no mass: under a law that is rounded it may come.
            y, room = np.where(m > 0, y, 0.0), np.where(m > 0, slack[:, None], 0.0)
            high, low = np.minimum(m + room, 1.0), np.maximum(m - room, 0.0)
        self._log[used] += log_bets(y, high, low, self._slope, self._bound).T

    def settle_learned(self, combined: Payout, context: Payout, slack: Array, reach: Array | float = REACH) -> None:
        """Pay out the learner's bets, with y in [-REACH, REACH], all at c = 1, the learned weights being believed.

        A relative error t of the probabilities moves the mean m by at most t times the mean of |y|, a total variation by twice REACH.
        reach (3,): the most that |y| can be in `combined`.
        """
        room = 2 * REACH * slack[:, None]
        paid = [np.log((1 + y) / (1 + np.minimum(m + self._tolerance * spread + room, most * (1 + self._tolerance)))).sum(axis=0)
                for (y, m, spread), most in ((combined, reach), (context, REACH))]  # fmt: skip
        self._combined += paid[0]
        self._context += paid[1]

    def settle_no_mass(self, came: Array, most: Array) -> None:
        """Pay out the bet on tokens of no mass: which came, and what mass m they have at most, VOCABULARY * NOTHING or more: (T,).

        With a stake w the factor is 1 - w + w / m where it happens and 1 - w where not: mean at most 1.
        """
        self._no_mass += np.count_nonzero(~came) * np.log1p(-STAKES)
        self._no_mass += np.log1p(-STAKES + STAKES / most[came, None]).sum(axis=0)

    def charge(self, tokens: int, reach: Array | float = REACH) -> None:
        """Take from every bet what it loses at most, for tokens of which nothing is known: right whatever they were.

        reach (3,): the most that the combined scores can be.
        """
        self._log -= tokens * self._most
        self._combined -= tokens * self._most_learned(reach)
        self._context -= tokens * self._most_learned(REACH)
        self._no_mass += tokens * np.log1p(-STAKES)

    def _most_learned(self, reach: Array | float) -> Array | float:
        return np.log((1 + reach * (1 + self._tolerance)) / (1 - reach))

    def visible(self, tokens: int, charged: int, level: float) -> float:
        """The least bias, to two digits, that is `missed` with probability MISS at most; 1/2 if there is none."""
        found = BIASES[self.missed(BIASES, tokens, charged, level) <= MISS]
        return float(found[0]) if len(found) else 0.5

    def missed(self, bias: float | Array, tokens: int, charged: int, level: float) -> Array:
        """Probability, at most, that no bet on an event of probability 1/2 has reached 1 / level, like `bias`.

        The event comes with probability 1/2 + bias in each of `tokens`, and every bet was charged for so many tokens. Any bet may be the
        one on the event, so that the least weight counts.
        """
        from scipy.stats import binom

        up = self._slope > 0
        needed = -log(level) - self._weights.min(axis=0) + tokens * np.log1p(self._bound / 2) + charged * self._most
        came = np.ceil(
            (needed[up] / np.log1p(self._slope[up])).min()
        )  # so often, and the best of the tilts has won enough
        return np.asarray(binom.cdf(came - 1, tokens, 0.5 + np.asarray(bias)))

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

    @property
    def no_mass(self) -> float:
        """Logarithm of the wealth of the bet on tokens of no mass, had it started with 1."""
        return float(np.logaddexp.reduce(self._no_mass) - log(len(STAKES)))

    def bets(self) -> Array:
        """Logarithm of the wealth of each bet alone, over all tilts: (K,)."""
        weights = self._weights - np.logaddexp.reduce(self._weights, axis=1)[:, None]
        return np.logaddexp.reduce(self._log + weights, axis=1)


def in_context(tokens: Tokens, past: Past, seen: Seen) -> Payout:
    """Tilts of the emitted tokens, in [-REACH, REACH], by every table of the past and every prior."""
    tilts = np.concatenate([table.tilts(cells) for table, cells in past.tables(seen)])
    listed = np.where(tokens.ids >= 0, np.clip(tilts, -REACH, REACH), 0.0)
    return _payout(Scores(listed, np.zeros(listed.shape[:2])), tokens)


def _payout(tilts: Scores, tokens: Tokens) -> Payout:
    return *tilts.outcomes(tokens), tilts.spread(tokens)


class Learner:
    """Sums over all tokens, and the weights that follow from them."""

    def __init__(self) -> None:
        self._sum, self._covariance = np.zeros(len(SCORED)), np.zeros((len(SCORED), len(SCORED)))
        self.weights: Array = np.zeros((len(SCORED), len(PRECISIONS)))

    @property
    def reach(self) -> Array:
        """The most that the combined scores can be, whatever the law: scores and their means are in [0, 1]. (3,)."""
        return np.minimum(np.abs(self.weights).sum(axis=0) * (1 + 1e-5), REACH)

    def bet(self, tokens: Tokens, scores: Scores, m: Array) -> Payout:
        """Combined scores of the emitted tokens, in [-REACH, REACH], for every precision; m (T, J): means of the scores."""
        weights, shape = self.weights.T, tokens.mass.shape
        centre = weights @ m.T
        listed = weights.astype(np.float32) @ scores.listed.reshape(len(SCORED), -1)
        listed = listed.reshape(-1, *shape) - centre[:, :, None].astype(np.float32)
        rest = weights @ scores.rest - centre
        return _payout(Scores(np.clip(listed, -REACH, REACH), np.clip(rest, -REACH, REACH)), tokens)

    def learn(self, tokens: Tokens, scores: Scores, y: Array, m: Array) -> None:
        """Take a block in, and find the weights for the next."""
        # Single precision will do: any weights are fair. A matrix by its own transpose takes half the products.
        flat = scores.listed.reshape(len(SCORED), -1) * np.sqrt(tokens.mass, dtype=np.float32).ravel()
        self._sum += (y - m).sum(0)
        self._covariance += flat @ flat.T - m.T @ m
        self._covariance += (scores.rest * tokens.residual_mass) @ scores.rest.T
        prior = PRECISIONS[:, None, None] * np.eye(len(SCORED))
        self.weights = np.linalg.solve(self._covariance + prior, self._sum[:, None])[..., 0].T
