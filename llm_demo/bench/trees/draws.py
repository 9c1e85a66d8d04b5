"""Random numbers that belong to a prefix and not to a tree: all ways draw the same tokens where they draw in the same place.

Each way by itself draws as it should: every number is used once in a tree. Only that differences of ways have less noise, and that their
trees share nodes, which are then read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft.trees.drafting.growing import TreeDraws

Key = tuple[tuple[int, ...], int]  # a prefix, and which of the nodes with it


class SharedDraws(TreeDraws):
    """The draws of one tree, by a seed; `at` says for which nodes the next ones are."""

    def __init__(self, seed: int, given: Sequence[int] = ()) -> None:
        """given: tokens that were looked up in the text."""
        super().__init__(np.zeros((1, 1)), np.array([list(given)], dtype=np.int64))
        self._seed, self._keys, self._made = seed, list[Key | None](), 0

    def at(self, keys: Sequence[Key | None]) -> None:
        """The nodes of the next level, None where there is none."""
        self._keys, self._made = list(keys), 0

    def uniforms(self, nodes: slice, children: slice, count: int) -> np.ndarray:
        """(1, W, count) in [0, 1), for the children of the nodes at these places of the level."""
        places = range(nodes.start, nodes.stop)
        return np.array([[[self._uniform(place, child) for child in range(count)] for place in places]])

    def tokens(self, mass: Any, numbers: Any, needed: Any, nodes: Any = None, left: Any = 1) -> Any:
        drawn = np.zeros(needed.shape, dtype=np.int64)
        for place in np.flatnonzero(needed[0].any(-1)):
            cumulative = np.cumsum(mass[0, place], dtype=np.float64)
            last = int(np.flatnonzero(mass[0, place])[-1])
            for child in np.flatnonzero(needed[0, place]):
                reached = self._uniform(int(place), self._made + int(child)) * cumulative[-1]
                drawn[0, place, child] = min(int(np.searchsorted(cumulative, reached, side="right")), last)
        self._made += needed.shape[-1]
        return drawn

    def _uniform(self, place: int, child: int) -> float:
        key = self._keys[place]
        assert key is not None, "a draw for a node that is not there"
        digest = blake2b(repr((self._seed, *key, child)).encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


class NoDraws(SharedDraws):
    """For a greedy target, which gains nothing by chance: in the place of each draw the likeliest token that is left."""

    def tokens(self, mass: Any, numbers: Any, needed: Any, nodes: Any = None, left: Any = 1) -> Any:
        drawn = np.zeros(needed.shape, dtype=np.int64)
        for place in np.flatnonzero(needed[0].any(-1)):
            children = np.flatnonzero(needed[0, place])
            drawn[0, place, children] = np.asarray(otd.arrays.top_tokens(mass[0, place], len(children)))
        return drawn
