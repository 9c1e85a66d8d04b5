"""A bet in the direction that all scores together point to, learned while the tokens come.

A bias of one per cent is rarely one of rank alone, or of repeats alone. With scores f(x) of the listed tokens, tilting the law by
exp(w f(x)) and the best w after the tokens so far is, for small biases, a ridge regression: w = (C + R)^-1 S, S the sums of f(emitted)
less their means, C the sums of their covariances under the laws, R the precision of a prior that expects small biases. The next block
is bet on with that w: it depends on the past alone, so the bet is as fair as any other.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .bets import SCORED, Scores
from .records import Tokens

PRECISION = 100.0  # of the prior of each weight: a spread of .1
REACH = 0.45  # of the combined score; with slopes up to 2 the wealth stays positive


class Learner:
    """Sums over all tokens, and the weights that follow from them."""

    def __init__(self) -> None:
        self._sum, self._covariance = np.zeros(len(SCORED)), np.zeros((len(SCORED), len(SCORED)))
        self.weights: Array = np.zeros(len(SCORED))

    def bet(self, tokens: Tokens, scores: Scores, m: Array) -> tuple[Array, Array]:
        """The combined score of the emitted tokens, in [-REACH, REACH], and its mean: (T,) each; m (T, J): means of the scores."""
        centre = m @ self.weights
        listed = np.clip(scores.listed @ self.weights - centre[:, None], -REACH, REACH)
        rest = np.clip(scores.rest @ self.weights - centre, -REACH, REACH)
        return tokens.at_slot(listed, rest), (tokens.mass * listed).sum(1) + tokens.rest * rest

    def learn(self, tokens: Tokens, scores: Scores, y: Array, m: Array) -> None:
        """Take a block in, and find the weights for the next."""
        flat = scores.listed.reshape(-1, len(SCORED))
        self._sum += (y - m).sum(0)
        self._covariance += flat.T @ (flat * tokens.mass.reshape(-1, 1)) - m.T @ m
        self._covariance += scores.rest.T @ (scores.rest * tokens.rest[:, None])
        self.weights = np.linalg.solve(self._covariance + PRECISION * np.eye(len(SCORED)), self._sum)
