"""Distributions of a pair on few tokens: the tokens of a tree, and classes of all others with nearly equal p/q.

A lossless rule treats tokens alike that were not drafted and have the same p/q, so that merging them changes nothing. Ratios of one class
differ by a factor of at most e^(1/32), except those beyond e^6, where one of the two masses is negligible. The error of this approximation
is measured in tests/llm_demo/test_trees.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Prefix = tuple[int, ...]

PER_UNIT = 32  # classes per unit of log(p/q)
FARTHEST = 6  # max. of |log(p/q)|
CLASSES = 2 * PER_UNIT * FARTHEST


@dataclass(frozen=True)
class Row:
    """Distributions at a prefix. p, q: (d,) masses of the drafted tokens; of_class: int (d,) their classes; rest_p, rest_q: (CLASSES,)."""

    p: np.ndarray
    q: np.ndarray
    of_class: np.ndarray
    rest_p: np.ndarray
    rest_q: np.ndarray


def merged_row(target: Tensor, draft: Tensor | None, temperature: float, drafted: np.ndarray) -> Row:
    """Return the row from the logits (n,) of both models at a prefix; draft: None if only the target's distribution is needed."""
    log_p = (target.float() / temperature).log_softmax(-1)
    log_q = log_p if draft is None else (draft.float() / temperature).log_softmax(-1)
    ratio = (log_p - log_q).clamp(-FARTHEST, FARTHEST)  # q = 0 gives the largest ratio
    of_class = ((ratio + FARTHEST) * PER_UNIT).long().clamp(max=CLASSES - 1)
    p, q = log_p.exp().double(), log_q.exp().double()
    at = torch.as_tensor(drafted, device=p.device)
    rests = []
    for mass in (p, q):
        rest = mass.clone()
        rest[at] = 0
        rests.append(torch.bincount(of_class, rest, CLASSES))
    return Row(*(x.cpu().numpy() for x in (p[at], q[at], of_class[at], *rests)))


class MergedLaws:
    """Distributions at the prefixes of several trees; drafted: the tokens that occur in any of them, increasing."""

    def __init__(self, rows: dict[Prefix, Row], drafted: np.ndarray) -> None:
        self._rows, self._drafted = rows, drafted

    def of(self, tokens: Sequence[int]) -> TreeModel:
        """Return the model of a tree with these tokens."""
        return TreeModel(self._rows, self._drafted, np.unique(tokens))


class TreeModel:
    """A `Model` of one tree; its tokens are numbered 0, 1, ..., and the classes follow them."""

    def __init__(self, rows: dict[Prefix, Row], drafted: np.ndarray, tokens: np.ndarray) -> None:
        self._rows, self.tokens = rows, tokens
        self.number = {int(token): index for index, token in enumerate(tokens)}
        self._mine = np.searchsorted(drafted, tokens)
        self._others = np.setdiff1d(np.arange(len(drafted)), self._mine)

    def target(self, prefix: Prefix) -> np.ndarray:
        row = self._row(prefix)
        return self._merged(row, row.p, row.rest_p)

    def draft(self, prefix: Prefix) -> np.ndarray:
        row = self._row(prefix)
        return self._merged(row, row.q, row.rest_q)

    def _row(self, prefix: Prefix) -> Row:
        return self._rows[tuple(int(self.tokens[token]) for token in prefix)]

    def _merged(self, row: Row, masses: np.ndarray, rest: np.ndarray) -> np.ndarray:
        others = np.bincount(row.of_class[self._others], masses[self._others], CLASSES)
        law = np.concatenate((masses[self._mine], rest + others))
        return law / law.sum()
