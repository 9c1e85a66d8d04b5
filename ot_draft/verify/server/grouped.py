"""Statistics of tokens with the same key, such as the same position of the same batch: those that were read before a token.

Two replicas with one seed, or one random number for a whole batch, give tokens whose intervals of the unit interval overlap with those
of another request. Comparing all pairs of a batch is avoided: every key keeps the sum of the densities that the tokens before spread
over their intervals, in BINS bins, and a token is compared with that sum. The cost is linear in the tokens, except for the sorting.

Validity. Given the past and the reported distributions, the tokens of one batch are independent under the null hypothesis, so that
tokens read before, in any order, carry no information about the next: the sum is a function chosen beforehand like any other. In a
batch of k requests of which each has one partner, the excess of the sum at the partner's interval is 1/k of the partner's density, its
spread is that of the other intervals; the logarithm of the wealth grows by about v / 2k per token, v the mean of 1/length - 1 over the
intervals.

If the draft distribution is known, a token has a likelihood for the uniform number that its draft token was accepted or rejected with.
The next token bets on it (`SharedUniform`).

Constant memory: tables of a fixed number of slots, in which a later key replaces an earlier one of the same hash.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import Array

BINS = 16  # of the unit interval
SLOTS = 16_384  # of a table of keys


def scattered(key: Array) -> Array:
    """Return a hash of one integer per row, which moves neighbours far apart: the product with 2^64 over the golden ratio."""
    return key * np.uint64(0x9E3779B97F4A7C15)


def hashed(*keys: Array) -> Array:
    """Return one hash of several integers per row: (T,) each -> (T,)."""
    found = np.zeros(1, dtype=np.uint64)
    for key in keys:
        found = scattered(found ^ (found >> np.uint64(29))) + key.astype(np.uint64)
    found = scattered(found ^ (found >> np.uint64(32)))
    return found ^ (found >> np.uint64(29))


@dataclass(frozen=True)
class Groups:
    """Rows of a block sorted by a key (T,), those of one key in their order: G groups.

    order (T,): the rows; start, end, key, slot (G,): first and last row of each group, its key, and its slot in a table.
    """

    order: Array
    start: Array
    end: Array
    key: Array
    slot: Array

    @classmethod
    def of(cls, key: Array) -> Groups:
        """Return the groups of a block."""
        order = np.argsort(key, kind="stable")
        there = key[order]
        start = np.flatnonzero(np.r_[True, there[1:] != there[:-1]])
        key = there[start]
        return cls(order, start, np.r_[start[1:], len(there)] - 1, key, (key % np.uint64(SLOTS)).astype(np.int64))

    def spread(self, of_groups: Array) -> Array:
        """Repeat values of groups (G, ...) for each of their rows (T, ...)."""
        return np.repeat(of_groups, self.end - self.start + 1, axis=0)

    def back(self, rows: Array) -> Array:
        """Return rows (T, ...) in the order before sorting."""
        found = np.empty_like(rows)
        found[self.order] = rows
        return found


class Last:
    """The last rows of each key: numbers (depth, D), the oldest first."""

    def __init__(self, missing: Array, depth: int = 1) -> None:
        self._key, self._missing = np.zeros(SLOTS, dtype=np.uint64), missing
        self._rows = np.tile(missing, (SLOTS, depth, 1))

    def read(self, groups: Groups, rows: Array) -> Array:
        """Return the rows before each row of a block (T, D) with its key, `missing` if there are fewer: (T, depth, D). Keep the last."""
        known, depth = self._key[groups.slot] == groups.key, self._rows.shape[1]
        group = np.arange(len(groups.key))
        at = np.arange(len(rows)) + depth * (1 + groups.spread(group))  # each group has its memory before it
        every = np.empty((len(rows) + depth * len(group), rows.shape[1]), dtype=self._rows.dtype)
        every[at] = rows[groups.order]
        memory = (groups.start + depth * group)[:, None] + np.arange(depth)
        every[memory] = np.where(known[:, None, None], self._rows[groups.slot], self._missing)
        self._key[groups.slot] = groups.key
        self._rows[groups.slot] = every[at[groups.end][:, None] - np.arange(depth)[::-1]]
        return groups.back(every[at[:, None] - np.arange(depth)[::-1] - 1])


class SharedKeyStats:
    """Sums of the densities of all rows of each key. max_rows: rows of a key that are remembered at full weight."""

    def __init__(self, max_rows: float = 64.0) -> None:
        self._key, self._rows = np.zeros(SLOTS, dtype=np.uint64), np.zeros(SLOTS)
        self._density, self._max_rows = np.zeros((SLOTS, 2 * BINS), dtype=np.float32), max_rows

    def read(self, groups: Groups, shares: Array) -> Array:
        """Return the densities of all rows before each row with its key, divided by their sum and that of uniform ones.

        Parameters
        ----------
        groups : Groups
            The rows of a block by key.
        shares : array of shape (T, 2 BINS)
            Parts of the row's interval in the bins, by rank and by id.

        Returns
        -------
        density : array of shape (T, 2 BINS)
            1/2 everywhere if the rows before are spread uniformly, 0 if there are none.
        """
        known = self._key[groups.slot] == groups.key
        density = BINS * shares[groups.order]
        # In the first row of each group: the table's value, minus the sum of the groups before it in the block.
        before = np.concatenate([np.zeros((1, 2 * BINS)), np.cumsum(density, axis=0)[:-1]])
        before += groups.spread(np.where(known[:, None], self._density[groups.slot], 0.0) - before[groups.start])
        before = np.maximum(before, 0.0)  # rounding
        rows = groups.spread(np.where(known, self._rows[groups.slot], 0.0) - groups.start) + np.arange(len(density))
        every = rows[groups.end] + 1
        weight = np.minimum(1.0, self._max_rows / every)
        self._key[groups.slot], self._rows[groups.slot] = groups.key, weight * every
        self._density[groups.slot] = weight[:, None] * (before + density)[groups.end]
        return groups.back(before / np.maximum(before + rows[:, None], 1e-300))


class SharedUniform:
    """Distribution of a uniform number that rows of a key share with those before them, from the likelihoods of their tokens.

    p_new: probability that a row does not share the number of the row before it, since consecutive requests are served in several steps.
    """

    def __init__(self, p_new: float = 0.125) -> None:
        self._key, self._law = np.zeros(SLOTS, dtype=np.uint64), np.full((SLOTS, BINS), 1 / BINS)
        self._p_new = p_new

    def read(self, groups: Groups, likelihood: Array) -> Array:
        """Return the distribution of the number before each row, given the rows before with its key: (T, BINS).

        likelihood (T, BINS): of each row's token, given the bin of the number.
        """
        mean = likelihood.mean(1, keepdims=True)
        relative = np.where(mean > 0, likelihood / np.where(mean > 0, mean, 1.0), 1.0)[groups.order]
        law = np.where((self._key[groups.slot] == groups.key)[:, None], self._law[groups.slot], 1 / BINS)
        found, size = np.empty(relative.shape), groups.end - groups.start + 1
        for i in range(int(size.max(initial=0))):  # the i-th rows of all groups at once
            here = np.flatnonzero(size > i)
            rows = groups.start[here] + i
            found[rows] = law[here]
            after = law[here] * relative[rows]
            law[here] = (1 - self._p_new) * after / np.maximum(after.sum(1, keepdims=True), 1e-300) + self._p_new / BINS
        self._key[groups.slot], self._law[groups.slot] = groups.key, law
        return groups.back(found)
