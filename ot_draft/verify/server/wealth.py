"""Wealth of bets against the reported distributions: a nonnegative martingale while they are true.

The bets are those of the lemma in `e_values`: factors (1 + c y) / (1 + c m) of outcomes y in [0, 1] with mean m.

For every bet and every c, the product over tokens is a martingale (with a tolerance t > 0 a supermartingale) that starts at 1; so is a
mean of them with weights fixed beforehand. By Ville's inequality it ever reaches 1/a with probability at most a, for every stopping
time. If y is the indicator of an event, c = e^s - 1 is the likelihood ratio against the distribution tilted by e^s on the event: for
every true bias there is a c near which the logarithm grows at the rate of the relative entropy, and a grid of c by factors of two loses
at most a tenth of it.

Bets are learned in two ways, from the past alone, so that they are as valid as any other. In a context that occurs again (the token
before, the two before), the distribution is tilted by exp(w(x)). For small biases and a normal prior, the best w given the tokens there
is w(x) = S(x) / (V(x) + R): S the excess of x so far, V its variance, R the prior's precision.

A bias of one per cent rarely depends on rank alone, or on repeats alone. With scores f(x) of the listed tokens, the distribution is
tilted by exp(w f(x)). For small biases, the best w given the tokens so far is a ridge regression: w = (C + R)^-1 S, S the sums of
f(emitted) minus their means, C the sums of their covariances under the distributions, R the precision of a prior for small biases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from ...arrays import Array
from ..e_values import MISS, log_bets
from .bets import Bet, Bets, Scores
from .blocks import Tokens
from .past import Past, PastSettings, Seen

FAMILIES = {  # weight of each family of bets; its bets share it equally
    "rank": 0.11, "mass": 0.11, "entropy": 0.12, "calibration": 0.12, "learned": 0.08, "repeat": 0.05, "neighbours": 0.06,
    "requests": 0.05, "step offset": 0.06, "draft distribution": 0.15,
}  # fmt: skip
Payout = tuple[Array, Array, Array]  # y, its mean, and its absolute mean (`Scores.spread`): (T, C) each


@dataclass(frozen=True)
class WealthSettings:
    """Stakes of the bets and shares of the initial wealth."""

    tilts: tuple[float, ...] = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.3, 2.6, 5.0)  # s, and -s as well
    # most of the weight is on biases of about one per cent
    tilt_weights: tuple[float, ...] = (0.04, 0.08, 0.15, 0.22, 0.19, 0.13, 0.08, 0.05, 0.03, 0.02, 0.01)
    combined_share: float = 0.2  # of the wealth, on the combined scores
    context_share: float = 0.08  # on the tilts in contexts
    no_mass_share: float = 0.02  # on tokens of probability 0
    no_mass_stakes: tuple[float, ...] = (1e-2, 1e-4, 1e-6)
    # of the prior of each combined weight: standard deviations of 0.06, 0.014 and 0.004
    combined_precisions: tuple[float, ...] = (300.0, 5000.0, 60_000.0)
    reach: float = 0.9  # largest absolute learned score; below 1 the wealth stays positive


class Wealth:
    """Wealth of every bet at every tilt.

    tolerance: t of the lemma, relative error of the reported probabilities. placed: the bets, by default those of `Bets`. contexts: number
    of the tilts of `in_context`.
    """

    def __init__(
        self, tolerance: float, placed: Sequence[Bet] = (), contexts: int = 0, settings: WealthSettings | None = None
    ) -> None:
        self.placed = placed = tuple(placed or Bets().placed)
        self._settings = settings = settings or WealthSettings()
        tilts = settings.tilts
        steps = np.concatenate([np.expm1(tilts), np.expm1(np.negative(tilts))])
        self._slope, self._bound = steps, steps * np.where(steps > 0, 1 + tolerance, 1 - tolerance)
        self._most = np.log1p(np.where(steps > 0, self._bound, 1 / (1 + steps) - 1))  # largest loss of a bet per token
        self._log = np.zeros((len(placed), len(steps)))
        sizes = {name: sum(bet.family == name for bet in placed) for name in FAMILIES}
        each = np.array([FAMILIES[bet.family] / sizes[bet.family] for bet in placed])
        each *= (1 - settings.no_mass_share - settings.combined_share - settings.context_share) / each.sum()
        tilt_weights = np.tile(settings.tilt_weights, 2) / (2 * sum(settings.tilt_weights))
        self._weights = np.log(each)[:, None] + np.log(tilt_weights)
        self._stakes = np.array(settings.no_mass_stakes)
        self._no_mass, self._tolerance = np.zeros(len(self._stakes)), tolerance
        self._combined = np.zeros(len(settings.combined_precisions))
        self._context = np.zeros(contexts or PastSettings().tilts)
        self._charged, self._reach = 0, np.zeros(len(self._combined))  # number of charged tokens, largest reach so far
        # For each bet: number of times that its event occurred, the expected number, and the number of tokens that it applied to.
        self.came, self.expected, self.tokens = (np.zeros(len(placed)) for _ in range(3))

    def settle(self, y: Array, m: Array, slack: Array) -> None:
        """Settle a block of bets: y, m (T, K); slack (T,): largest error of the reported distributions (`rounding`)."""
        self.came, self.expected = self.came + y.sum(0), self.expected + m.sum(0)
        self.tokens += (m > 0).sum(0)
        used = np.flatnonzero(m.any(axis=0))
        y, m = y[:, used], m[:, used]
        high = low = m
        if slack.any():
            # No stake on probability 0: under a rounded distribution such tokens may occur.
            y, room = np.where(m > 0, y, 0.0), np.where(m > 0, slack[:, None], 0.0)
            high, low = np.minimum(m + room, 1.0), np.maximum(m - room, 0.0)
        self._log[used] += log_bets(y, high, low, self._slope, self._bound).T

    def settle_learned(
        self, combined: Payout, context: Payout, slack: Array, reach: Array | float | None = None
    ) -> None:
        """Settle the learner's bets, with y in [-reach, reach], all at c = 1.

        A relative error t of the probabilities moves the mean m by at most t times the mean of |y|, a total variation by twice the reach.
        reach (3,): largest |y| in `combined`, by default that of the settings.
        """
        largest = self._settings.reach
        room = 2 * largest * slack[:, None]
        paid = [np.log((1 + y) / (1 + np.minimum(m + self._tolerance * spread + room, most * (1 + self._tolerance)))).sum(axis=0)
                for (y, m, spread), most in ((combined, largest if reach is None else reach), (context, largest))]  # fmt: skip
        self._combined += paid[0]
        self._context += paid[1]

    def settle_no_mass(self, came: Array, most: Array) -> None:
        """Settle the bet on tokens of probability 0: which occurred, and their largest total probability m: (T,).

        With a stake w the factor is 1 - w + w / m if one occurs and 1 - w if not: mean at most 1.
        """
        self._no_mass += np.count_nonzero(~came) * np.log1p(-self._stakes)
        self._no_mass += np.log1p(-self._stakes + self._stakes / most[came, None]).sum(axis=0)

    def charge(self, tokens: int, reach: Array | float | None = None) -> None:
        """Reduce every bet by its largest loss, for unknown tokens.

        reach (3,): largest absolute combined scores from now on, by default that of the settings.

        A token may be charged before the tokens that precede it are settled. Hence each costs the largest reach so far, and more once
        the reach grows.
        """
        self._log -= tokens * self._most
        reach = self._settings.reach if reach is None else reach
        paid, self._reach = self._charged * self._most_learned(self._reach), np.maximum(self._reach, reach)
        self._charged += tokens
        self._combined -= self._charged * self._most_learned(self._reach) - paid
        self._context -= tokens * self._most_learned(self._settings.reach)
        self._no_mass += tokens * np.log1p(-self._stakes)

    def _most_learned(self, reach: Array | float) -> Array | float:
        return np.log((1 + reach * (1 + self._tolerance)) / (1 - reach))

    def visible(self, tokens: int, charged: int, level: float) -> float:
        """Return the smallest bias, to two digits, that is `missed` with probability at most MISS; 1/2 if there is none."""
        biases = np.geomspace(1e-4, 0.5, 370)
        found = biases[self.missed(biases, tokens, charged, level) <= MISS]
        return float(found[0]) if len(found) else 0.5

    def missed(self, bias: float | Array, tokens: int, charged: int, level: float) -> Array:
        """Return a bound on the probability that no bet on an event of probability 1/2 has reached 1 / level, like `bias`.

        The event occurs with probability 1/2 + bias in each of `tokens`, and every bet was charged for `charged` tokens. Any bet may be
        the one on the event, so that the smallest weight counts.
        """
        from scipy.stats import binom

        up = self._slope > 0
        needed = -log(level) - self._weights.min(axis=0) + tokens * np.log1p(self._bound / 2) + charged * self._most
        came = np.ceil((needed[up] / np.log1p(self._slope[up])).min())  # occurrences that suffice for the best tilt
        return np.asarray(binom.cdf(came - 1, tokens, 0.5 + np.asarray(bias)))

    @property
    def total(self) -> float:
        """Logarithm of the whole wealth; it starts at 0."""
        mine = [(self._log + self._weights).ravel(), self._no_mass + log(self._settings.no_mass_share / len(self._stakes)),
                self._combined + log(self._settings.combined_share / self._combined.size),
                self._context + log(self._settings.context_share / self._context.size)]  # fmt: skip
        with np.errstate(invalid="ignore"):
            found = float(np.logaddexp.reduce(np.concatenate(mine)))
        if not np.isfinite(found):
            raise RuntimeError(
                f"The wealth of the audit's bets is {found}. This is a bug in ot_draft; please report it."
            )
        return found

    @property
    def no_mass(self) -> float:
        """Logarithm of the wealth of the bet on tokens of probability 0, from an initial stake of 1."""
        return float(np.logaddexp.reduce(self._no_mass) - log(len(self._stakes)))

    def bets(self) -> Array:
        """Return the logarithm of the wealth of each bet, over all tilts, from an initial stake of 1: (K,)."""
        weights = self._weights - np.logaddexp.reduce(self._weights, axis=1)[:, None]
        return np.logaddexp.reduce(self._log + weights, axis=1)


def in_context(tokens: Tokens, past: Past, seen: Seen, reach: float) -> Payout:
    """Return tilts of the emitted tokens, in [-reach, reach], by every table of the past and every prior."""
    tilts = np.concatenate([table.tilts(cells) for table, cells in past.tables(seen)])
    listed = np.where(tokens.ids >= 0, np.clip(tilts, -reach, reach), 0.0)
    return _payout(Scores(listed, np.zeros(listed.shape[:2])), tokens)


def _payout(tilts: Scores, tokens: Tokens) -> Payout:
    return *tilts.outcomes(tokens), tilts.spread(tokens)


class Learner:
    """Ridge regression of the emitted tokens on the scores of J bets, and its weights for the next block: (J, 3)."""

    def __init__(self, bets: int, settings: WealthSettings | None = None) -> None:
        self._settings = settings or WealthSettings()
        self._sum, self._covariance = np.zeros(bets), np.zeros((bets, bets))
        self.weights: Array = np.zeros((bets, len(self._settings.combined_precisions)))

    @property
    def reach(self) -> Array:
        """Largest absolute combined scores under any distribution, since scores and their means are in [0, 1]: (3,)."""
        return np.minimum(np.abs(self.weights).sum(axis=0) * (1 + 1e-5), self._settings.reach)

    def bet(self, tokens: Tokens, scores: Scores, m: Array) -> Payout:
        """Return combined scores of the emitted tokens, in [-reach, reach], for every precision; m (T, J): means of the scores."""
        weights, shape, reach = self.weights.T, tokens.mass.shape, self._settings.reach
        centre = weights @ m.T
        listed = weights.astype(np.float32) @ scores.listed.reshape(len(self._sum), -1)
        listed = listed.reshape(-1, *shape) - centre[:, :, None].astype(np.float32)
        rest = weights @ scores.rest - centre
        return _payout(Scores(np.clip(listed, -reach, reach), np.clip(rest, -reach, reach)), tokens)

    def learn(self, tokens: Tokens, scores: Scores, y: Array, m: Array) -> None:
        """Count a block and compute the weights for the next one."""
        # Single precision suffices: all weights are valid. A matrix times its own transpose takes half the products.
        flat = scores.listed.reshape(len(self._sum), -1) * np.sqrt(tokens.mass, dtype=np.float32).ravel()
        self._sum += (y - m).sum(0)
        self._covariance += flat @ flat.T - m.T @ m
        self._covariance += (scores.rest * tokens.residual_mass) @ scores.rest.T
        prior = np.array(self._settings.combined_precisions)[:, None, None] * np.eye(len(self._sum))
        self.weights = np.linalg.solve(self._covariance + prior, self._sum[:, None])[..., 0].T
