"""Common random numbers by prefix: all methods sample the same tokens at the same node.

Within one tree every random number is used once, so that each method samples from its own distribution. Common random numbers reduce the
variance of differences between methods, and trees share nodes, which are then read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft.trees.drafting.growing import TreeDraws

Key = tuple[tuple[int, ...], int]  # a prefix, and the index among the nodes with this prefix


class SharedDraws(TreeDraws):
    """Random numbers of one tree from a seed; `at` sets the nodes of the next ones."""

    def __init__(self, seed: int, given: Sequence[int] = ()) -> None:
        """given: tokens of prompt lookup."""
        super().__init__(np.zeros((1, 1)), np.array([list(given)], dtype=np.int64))
        self._seed, self._keys, self._made = seed, list[Key | None](), 0

    def at(self, keys: Sequence[Key | None]) -> None:
        """Set the nodes of the next level; None is an absent node."""
        self._keys, self._made = list(keys), 0

    def uniforms(self, nodes: slice, children: slice, count: int) -> np.ndarray:
        """Return numbers (1, W, count) in [0, 1) for the children of nodes with these indices in the level."""
        indices = range(nodes.start, nodes.stop)
        return np.array([[[self._uniform(index, child) for child in range(count)] for index in indices]])

    def tokens(self, mass: Any, numbers: Any, needed: Any, nodes: Any = None, left: Any = 1) -> Any:
        drawn = np.zeros(needed.shape, dtype=np.int64)
        for index in np.flatnonzero(needed[0].any(-1)):
            cumulative = np.cumsum(mass[0, index], dtype=np.float64)
            last = int(np.flatnonzero(mass[0, index])[-1])
            for child in np.flatnonzero(needed[0, index]):
                reached = self._uniform(int(index), self._made + int(child)) * cumulative[-1]
                drawn[0, index, child] = min(int(np.searchsorted(cumulative, reached, side="right")), last)
        self._made += needed.shape[-1]
        return drawn

    def _uniform(self, index: int, child: int) -> float:
        key = self._keys[index]
        assert key is not None, "a random number was requested for an absent node"
        digest = blake2b(repr((self._seed, *key, child)).encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


class NoDraws(SharedDraws):
    """Draws for a greedy target: each one is the most probable remaining token."""

    def tokens(self, mass: Any, numbers: Any, needed: Any, nodes: Any = None, left: Any = 1) -> Any:
        drawn = np.zeros(needed.shape, dtype=np.int64)
        for index in np.flatnonzero(needed[0].any(-1)):
            children = np.flatnonzero(needed[0, index])
            drawn[0, index, children] = np.asarray(otd.arrays.top_tokens(mass[0, index], len(children)))
        return drawn
