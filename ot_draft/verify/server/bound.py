"""Bound on the remaining bias: a confidence sequence for the mean bias of sets of tokens.

A partition sorts the tokens into J cells, for every token from the past alone: by rank, by probability, by the interval on the unit
interval. Let b_t(A) be the true probability that token t falls into the union A of cells, given the past, minus the reported
probability. The bound is on the mean of b_t(A) over the tokens so far, largest over all unions: the total variation distance between
the average of the emitted tokens and the average of the reported distributions, at the resolution of the partition. It is at most the
mean total variation distance per token. A bias inside the cells, or one that changes its sign from token to token, is not detected.

Lemma (Fan, Grama, Liu 2015). For x >= -1 and 0 <= s < 1, exp(s x + x^2 (log(1 - s) + s)) <= 1 + s x. With x = y - m, and b the mean
of x given the past, exp(s (x - b) - x^2 psi(s)), psi(s) = -log(1 - s) - s, has mean at most (1 + s b) exp(-s b) <= 1. The product over
tokens is a supermartingale, and so it is for -x. By Ville's inequality, at all times at once and with probability 1 - a for each
s and each side, |sum of b| <= |sum of x| + (log(1/a) + psi(s) sum of x^2) / s. The probability is shared among unions, sides and s.
"""

from __future__ import annotations

from math import log

import numpy as np

from ...arrays import Array
from .bets import overlap
from .blocks import Tokens

CELLS = 8  # of each partition


class DeviationSums:
    """Sums of x and of its products over the cells of several partitions, for the lemma.

    slopes: s; each is best at one number of tokens, from a handful to some hundred millions.
    """

    def __init__(self, partitions: int, slopes: Array | None = None) -> None:
        self.count = np.zeros(partitions, dtype=int)
        self.sum, self._square = np.zeros((partitions, CELLS)), np.zeros((partitions, CELLS, CELLS))
        # all unions of cells, each or its complement
        self._unions = ((np.arange(1, 2 ** (CELLS - 1))[:, None] >> np.arange(CELLS)) & 1).astype(float)
        self._slopes = 2.0 ** -np.arange(1, 14) if slopes is None else slopes

    @property
    def events(self) -> int:
        """Number of the sets of tokens that `largest` holds for: all unions of cells and their complements."""
        return len(self.count) * len(self._unions) * 2

    def add(self, partition: int, x: Array) -> None:
        """Count x (T, CELLS)."""
        self.count[partition] += len(x)
        self.sum[partition] += x.sum(0)
        self._square[partition] += x.T @ x

    def largest(self, confidence: float, unseen: int = 0) -> float:
        """Return the upper bound of the mean of |b| on all unions of cells of all partitions at once; 1 without tokens.

        unseen: further tokens that the mean includes. Each may have any x in [-1, 1].
        """
        if not self.count.all():
            return 1.0
        share = (1 - confidence) / (self.events * len(self._slopes))
        spread = np.einsum("uj,pjk,uk->pu", self._unions, self._square, self._unions)
        psi = -np.log1p(-self._slopes) - self._slopes
        room = ((-log(share) + psi * (spread[..., None] + unseen)) / self._slopes).min(-1)
        return min(
            1.0, float(((np.abs(self.sum @ self._unions.T) + room + unseen) / (self.count[:, None] + unseen)).max())
        )


class Bound:
    """Bound on the bias by rank, by probability, and on the unit interval by rank and by id. Constant memory."""

    def __init__(self) -> None:
        self._sums, self._slack, self._rest = DeviationSums(partitions=4), 0.0, 0.0

    @property
    def events(self) -> int:
        """Number of the sets of tokens that it holds for."""
        return self._sums.events

    @property
    def count(self) -> int:
        """Number of tokens."""
        return int(self._sums.count[0])

    def add(self, tokens: Tokens, slack: Array) -> None:
        """Count a block; slack (T,): largest error of the reported distributions (`rounding`)."""
        self._slack += float(slack.sum())
        self._rest += float(tokens.residual_mass.sum())
        for i, (y, m) in enumerate(
            (_ranks(tokens), _probabilities(tokens), _octants(tokens.by_rank), _octants(tokens.by_id))
        ):
            self._sums.add(i, y - m)

    def largest(self, confidence: float, tolerance: float, unseen: int = 0) -> float:
        """Return the upper bound of the mean bias of all unions of cells at once, including `unseen` tokens; 1 without tokens."""
        return min(1.0, self._sums.largest(confidence, unseen) + (tolerance + self.slack if self.count else 0.0))

    @property
    def slack(self) -> float:
        """Mean of the largest errors of the reported distributions by rounding."""
        return self._slack / max(self.count, 1)

    @property
    def rest(self) -> float:
        """Mean probability of the tokens that are not listed."""
        return self._rest / max(self.count, 1)

    @property
    def seen(self) -> float:
        """Total variation distance between the averages of the emitted tokens and of the reports, largest over the partitions."""
        return float((np.abs(self._sums.sum).sum(1) / 2 / max(self.count, 1)).max())


def _ranks(tokens: Tokens, last_ranks: tuple[int, ...] = (0, 1, 2, 4, 7, 15)) -> tuple[Array, Array]:
    """Cells of ranks, from 0: {0}, {1}, {2}, {3, 4}, {5..7}, {8..15}, further listed ones, the rest."""
    by_rank = np.searchsorted(last_ranks, np.arange(tokens.mass.shape[1]))
    return _cells(tokens, np.broadcast_to(by_rank, tokens.mass.shape))


def _probabilities(tokens: Tokens) -> tuple[Array, Array]:
    """Cells of powers of two of the probability: above 1/2, above 1/4, ..., at most 1/64, the rest."""
    cell = np.clip(np.ceil(-np.log2(np.maximum(tokens.mass, 1e-300))).astype(int) - 1, 0, CELLS - 2)
    return _cells(tokens, cell)


def _cells(tokens: Tokens, cell: Array) -> tuple[Array, Array]:
    cells = np.arange(CELLS)
    y = (tokens.at_slot(cell, CELLS - 1)[:, None] == cells).astype(float)
    m = np.stack([np.where(cell == j, tokens.mass, 0.0).sum(1) for j in cells], axis=1)
    m[:, CELLS - 1] += tokens.residual_mass
    return y, m


def _octants(interval: tuple[Array, Array]) -> tuple[Array, Array]:
    ones = np.ones(len(interval[0]))
    columns = [overlap(interval, (j / CELLS * ones, (j + 1) / CELLS * ones)) for j in range(CELLS)]
    y, m = (np.stack(side, axis=1) for side in zip(*columns, strict=True))
    return y, m
