"""Bets that are learned: on what came too often in the same context, and in the direction that all scores together point to.

In a context that comes again (the token before, the two before), tilting the law by exp(w(x)) and the best w after what came there is,
for small biases and a normal prior, w(x) = S(x) / (V(x) + R): S the excess of x so far, V its variance, R the prior's precision.

Bets in the direction that all scores together point to, learned while the tokens come.

A bias of one per cent is rarely one of rank alone, or of repeats alone. With scores f(x) of the listed tokens, tilting the law by
exp(w f(x)) and the best w after the tokens so far is, for small biases, a ridge regression: w = (C + R)^-1 S, S the sums of f(emitted)
less their means, C the sums of their covariances under the laws, R the precision of a prior that expects small biases. The next block
is bet on with that w: it depends on the past alone, so the bet is as fair as any other.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .bets import SCORED, Scores
from .past import Past, Seen
from .records import Tokens

PRECISIONS = np.array(
    [300.0, 5000.0, 60_000.0]
)  # of the prior of each weight: spreads of .06, .014 and .004, for large biases and small ones
REACH = 0.9  # of the combined score; below 1 the wealth stays positive
Payout = tuple[Array, Array, Array]  # y, its mean, and its mean without signs (`Scores.spread`): (T, C) each


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
        self._covariance += (scores.rest * tokens.rest) @ scores.rest.T
        prior = PRECISIONS[:, None, None] * np.eye(len(SCORED))
        self.weights = np.linalg.solve(self._covariance + prior, self._sum[:, None])[..., 0].T
