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

from ..arrays import Array
from .bets import overlap
from .records import Tokens

CELLS = 8  # of each partition
PARTITIONS = ("rank", "probability", "unit interval by rank", "unit interval by id")
LAST_RANKS = (
    0,
    1,
    2,
    4,
    7,
    15,
)  # counted from 0; the cells are {0}, {1}, {2}, {3, 4}, {5..7}, {8..15}, the listed ones after, the rest
SLOPES = 2.0 ** -np.arange(1, 14)  # s: each is best at one number of tokens, from a handful to some hundred millions
UNIONS = ((np.arange(1, 2 ** (CELLS - 1))[:, None] >> np.arange(CELLS)) & 1).astype(
    float
)  # with their complements: all
EVENTS = 2 * len(PARTITIONS) * len(UNIONS)


class Bound:
    """Sums over tokens, for every partition: constant memory."""

    def __init__(self) -> None:
        self.count, self._slack, self._rest = 0, 0.0, 0.0
        self._sum = np.zeros((len(PARTITIONS), CELLS))
        self._square = np.zeros((len(PARTITIONS), CELLS, CELLS))

    def add(self, tokens: Tokens, slack: Array) -> None:
        """Count a block; slack (T,): by how much the reported laws may miss the true ones (`rounding`)."""
        self.count += len(tokens)
        self._slack += float(slack.sum())
        self._rest += float(tokens.rest.sum())
        for i, (y, m) in enumerate((_ranks(tokens), _masses(tokens), _octants(tokens.by_rank), _octants(tokens.by_id))):
            difference = y - m
            self._sum[i] += difference.sum(0)
            self._square[i] += difference.T @ difference

    def largest(self, confidence: float, tolerance: float) -> tuple[float, str]:
        """Upper bound of the mean bias of every union of cells at once, and the partition that leaves most room; 1 at the start."""
        if not self.count:
            return 1.0, PARTITIONS[0]
        found = (most_apart(self._sum, self._square, confidence).max(1) / self.count).tolist()
        worst = int(np.argmax(found))
        return min(1.0, found[worst] + tolerance + self.slack), PARTITIONS[worst]

    @property
    def slack(self) -> float:
        """By how much the reported laws may miss the true ones, on average, by their rounding."""
        return self._slack / max(self.count, 1)

    @property
    def rest(self) -> float:
        """Mass of the tokens that no law names, on average."""
        return self._rest / max(self.count, 1)

    def seen(self) -> tuple[float, str]:
        """Total variation between what came and what was reported, on average, on the partition where it is largest."""
        distances = np.abs(self._sum).sum(1) / 2 / max(self.count, 1)
        return float(distances.max()), PARTITIONS[int(np.argmax(distances))]


def most_apart(total: Array, square: Array, confidence: float) -> Array:
    """Upper bound of |sum of b| by the lemma, (partitions, unions), all at once: of the sums of x (P, J) and of its products (P, J, J)."""
    share = (1 - confidence) / (len(total) * len(UNIONS) * 2 * len(SLOPES))
    spread = np.einsum("uj,pjk,uk->pu", UNIONS, square, UNIONS)
    room = (-log(share) + _psi(SLOPES) * spread[..., None]) / SLOPES
    return np.abs(total @ UNIONS.T) + room.min(-1)


def _psi(slope: Array) -> Array:
    return -np.log1p(-slope) - slope


def _ranks(tokens: Tokens) -> tuple[Array, Array]:
    cell = np.searchsorted(LAST_RANKS, np.arange(tokens.mass.shape[1]))
    return _cells(tokens, np.broadcast_to(cell, tokens.mass.shape))


def _masses(tokens: Tokens) -> tuple[Array, Array]:
    """Cells by the power of two of the probability: above 1/2, above 1/4, ..., at most 1/64, the rest."""
    cell = np.clip(np.ceil(-np.log2(np.maximum(tokens.mass, 1e-300))).astype(int) - 1, 0, CELLS - 2)
    return _cells(tokens, cell)


def _cells(tokens: Tokens, cell: Array) -> tuple[Array, Array]:
    cells = np.arange(CELLS)
    y = (tokens.at_slot(cell, CELLS - 1)[:, None] == cells).astype(float)
    m = np.stack([np.where(cell == j, tokens.mass, 0.0).sum(1) for j in cells], axis=1)
    m[:, CELLS - 1] += tokens.rest
    return y, m


def _octants(interval: tuple[Array, Array]) -> tuple[Array, Array]:
    ones = np.ones(len(interval[0]))
    columns = [overlap(interval, (j / CELLS * ones, (j + 1) / CELLS * ones)) for j in range(CELLS)]
    y, m = (np.stack(side, axis=1) for side in zip(*columns, strict=True))
    return y, m
