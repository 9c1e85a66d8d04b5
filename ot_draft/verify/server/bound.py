"""How much bias there can still be: a confidence sequence for the mean bias of sets of tokens.

What is bounded. A partition sorts the tokens into J cells, for every token from the past alone: by rank, by probability, by where
they lie on the unit interval. Let b_t(A) be the true probability that token t falls into the union A of cells, given the past,
less the probability reported. The mean of b_t(A) over the tokens so far, largest over all unions, is the total variation distance
between what came on average and what was reported on average, as far as the partition can see. It is at most the mean total
variation distance a token; a bias inside the cells, or one that changes its sign from token to token, is not seen.

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
from .records import Tokens

CELLS = 8  # of each partition
PARTITIONS = 4  # by rank, by probability, on the unit interval by rank, and by id
# counted from 0; the cells are {0}, {1}, {2}, {3, 4}, {5..7}, {8..15}, the listed ones after, the rest
LAST_RANKS = (0, 1, 2, 4, 7, 15)
SLOPES = 2.0 ** -np.arange(1, 14)  # s: each is best at one number of tokens, from a handful to some hundred millions
# with their complements: all
UNIONS = ((np.arange(1, 2 ** (CELLS - 1))[:, None] >> np.arange(CELLS)) & 1).astype(float)
EVENTS = 2 * PARTITIONS * len(UNIONS)


class Apart:
    """Sums of x and of its products, in CELLS cells of each of several partitions: what the lemma asks for."""

    def __init__(self, partitions: int) -> None:
        self.count = np.zeros(partitions, dtype=int)
        self.sum, self._square = np.zeros((partitions, CELLS)), np.zeros((partitions, CELLS, CELLS))

    def add(self, partition: int, x: Array) -> None:
        """Count x (T, CELLS)."""
        self.count[partition] += len(x)
        self.sum[partition] += x.sum(0)
        self._square[partition] += x.T @ x

    def largest(self, confidence: float, unseen: int = 0) -> float:
        """Upper bound of the mean of |b| on every union of cells, of all partitions at once; 1 at the start.

        unseen: further tokens that the mean includes. Each may have any x in [-1, 1].
        """
        if not self.count.all():
            return 1.0
        share = (1 - confidence) / (len(self.count) * len(UNIONS) * 2 * len(SLOPES))
        spread = np.einsum("uj,pjk,uk->pu", UNIONS, self._square, UNIONS)
        psi = -np.log1p(-SLOPES) - SLOPES
        room = ((-log(share) + psi * (spread[..., None] + unseen)) / SLOPES).min(-1)
        return min(1.0, float(((np.abs(self.sum @ UNIONS.T) + room + unseen) / (self.count[:, None] + unseen)).max()))


class Bound:
    """Sums over tokens, for every partition: constant memory."""

    def __init__(self) -> None:
        self._apart, self._slack, self._rest = Apart(PARTITIONS), 0.0, 0.0

    @property
    def count(self) -> int:
        return int(self._apart.count[0])

    def add(self, tokens: Tokens, slack: Array) -> None:
        """Count a block; slack (T,): by how much the reported laws may miss the true ones (`rounding`)."""
        self._slack += float(slack.sum())
        self._rest += float(tokens.residual_mass.sum())
        by_rank = np.searchsorted(LAST_RANKS, np.arange(tokens.mass.shape[1]))
        ranks = _cells(tokens, np.broadcast_to(by_rank, tokens.mass.shape))
        for i, (y, m) in enumerate((ranks, _masses(tokens), _octants(tokens.by_rank), _octants(tokens.by_id))):
            self._apart.add(i, y - m)

    def largest(self, confidence: float, tolerance: float, unseen: int = 0) -> float:
        """Upper bound of the mean bias of every union of cells at once; 1 at the start. The mean includes `unseen` further tokens."""
        return min(1.0, self._apart.largest(confidence, unseen) + (tolerance + self.slack if self.count else 0.0))

    @property
    def slack(self) -> float:
        """By how much the reported laws may miss the true ones, on average, by their rounding."""
        return self._slack / max(self.count, 1)

    @property
    def rest(self) -> float:
        """Mass of the tokens that no law names, on average."""
        return self._rest / max(self.count, 1)

    @property
    def seen(self) -> float:
        """Total variation between what came and what was reported, on average, on the partition where it is largest."""
        return float((np.abs(self._apart.sum).sum(1) / 2 / max(self.count, 1)).max())


def _masses(tokens: Tokens) -> tuple[Array, Array]:
    """Cells by the power of two of the probability: above 1/2, above 1/4, ..., at most 1/64, the rest."""
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
