"""P(a drafted tree holds a given text) by importance sampling: for trees whose numbers of children depend on what was drafted.

Trees hardly ever hold a long text. The next token of the text is therefore forced into the children of its node, and each tree has a
weight: the probability of its draws divided by that of the forced draws. The mean weight of the trees that hold the first d tokens is
the probability that a tree holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ..model import Path
from .growing import TreeDraws, grow_all, prefixes_of

Laws = Callable[[list[Path]], Sequence[Array]]  # the draft's laws (n,) after some prefixes


def forced_chances(
    growing: Callable[[TreeDraws], Any], draft: Laws, text: Path, draws: ForcedDraws, until: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (R, L) of R trees, and which of them hold the first 1, 2, .. L tokens of the text after the empty prefix.

    The mean of weight times indicator is the probability that a tree holds these tokens. draft: on the host. until: number of tokens that
    are forced, for trees that do not keep all they draft; only column `until` is valid then.
    """
    laws: dict[Path, Array] = {(): draft([()])[0]}
    weights: list[np.ndarray] = []

    def before(level: list[list[Path | None]]) -> None:
        missing = sorted({prefix for nodes in level for prefix in nodes if prefix is not None} - laws.keys())
        laws.update(zip(missing, draft(missing) if missing else (), strict=True))
        weights.append(draws.weight.copy())
        depth = len(weights) - 1
        wanted = depth < (len(text) if until is None else until)
        places = [nodes.index(text[:depth]) if wanted and text[:depth] in nodes else -1 for nodes in level]
        draws.force(np.array(places), text[depth] if wanted else -1)

    grown = grow_all(growing(draws), [()] * len(draws.weight), laws.__getitem__, before)
    weights = [*weights[1:], *[draws.weight] * len(text)][: len(text)]
    held = [set(prefixes_of(grown, row)) for row in range(len(draws.weight))]
    holds = [[text[:depth] in row for depth in range(1, len(text) + 1)] for row in held]
    return np.stack(weights, -1), np.array(holds)


class ForcedDraws(TreeDraws):
    """Draws of R trees, and the weight (R,) of each: probability of its draws divided by that of the forced draws."""

    def __init__(self, generator: np.random.Generator, runs: int, given: Sequence[int] = ()) -> None:
        super().__init__(np.zeros((runs, 1)), np.tile(np.array(given, dtype=np.int64), (runs, 1)))
        self._generator, self.weight = generator, np.ones(runs)

    def force(self, places: np.ndarray, token: int) -> None:
        """Force the token into the children of the nodes with these indices (R,) in the next level; -1: of none."""
        self._places, self._token = places, token

    def tokens(self, mass: Array, numbers: Array, needed: Array, nodes: Array | None = None, left: Any = 1) -> Array:
        drawn: Array = xp.inverse_cdf(mass, self._generator.random(needed.shape))
        places = np.arange(needed.shape[1]) if nodes is None else nodes
        for row, node in zip(*np.nonzero((places == self._places[:, None]) & needed.any(-1)), strict=True):
            share = mass[row, node, self._token] / mass[row, node].sum()
            if share > 0:
                columns = np.flatnonzero(needed[row, node])
                still = np.broadcast_to(left, (*needed.shape[:2], 1))[row, node, 0]
                self._force(drawn[row, node], mass[row, node], columns, float(share), int(still))
                self.weight[row] *= self._ratio
        return drawn

    def _force(self, drawn: Array, mass: Array, columns: np.ndarray, share: float, left: int) -> None:
        """Set one of the columns to the token; a single draw of `left` remaining ones with probability 1 / left."""
        chance = 1.0 if share == 1 else 1 / left
        if len(columns) == 1 and self._generator.random() >= chance:
            others = mass.copy()
            others[self._token] = 0
            drawn[columns] = xp.inverse_cdf(others, self._generator.random(1))
            self._ratio = (1 - share) / (1 - chance)
            return
        drawn[self._generator.choice(columns)] = self._token
        same = (drawn[columns] == self._token).sum()
        self._ratio = share / chance if len(columns) == 1 else len(columns) * share / same
