"""What other requests did at the same moment: at the same position of the same batch, all that were read before.

Two replicas with one seed, or one random number for a whole batch, give tokens whose intervals of the unit interval overlap with
those of another row, whichever that is. Comparing all pairs of a batch is avoided: every moment keeps the sum of the densities that
the rows before spread over their intervals, in BINS bins, and a row is compared with that sum. The cost is linear in the rows, but
for the sorting.

Fair. Given the past and the reported laws, rows of one batch are independent under the null hypothesis, so that rows read before, in
whatever order, say nothing about the token of the next: the sum is a function chosen beforehand like any other. In a batch of k rows
of which each has one partner, the sum's excess at the partner's interval is 1/k of the partner's density, its spread is that of the
other rows' intervals; the logarithm of the wealth grows by about v / 2k a token, v the mean of 1/length - 1 over the intervals.

Where the draft model's law is known, what a token says of the number that its draft was accepted or refused with is a likelihood, from
which the next row bets (`SharedUniform`).

Constant memory: SLOTS keys by their hash, a later one takes the place of an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import Array

BINS = 16
SLOTS = 16_384
MOST_ROWS = 64.0  # of one moment that are remembered at full weight: without batches, all requests are of one
ANEW = 0.125  # probability that a request does not share a number with the one before it
FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: multiplying by it scatters neighbours


def mixed(*keys: Array) -> Array:
    """One hash of several whole numbers a row: (T,) each -> (T,)."""
    found = np.zeros(1, dtype=np.uint64)
    for key in keys:
        found = (found ^ (found >> np.uint64(29))) * FACTOR + key.astype(np.uint64)
    found = (found ^ (found >> np.uint64(32))) * FACTOR
    return found ^ (found >> np.uint64(29))


@dataclass(frozen=True)
class Groups:
    """Rows of a block sorted by a key (T,), rows of one key in the order in which they came: G groups.

    order (T,): the rows; start, end, key, slot (G,): first and last row of each group, its key, and its place in a table.
    """

    order: Array
    start: Array
    end: Array
    key: Array
    slot: Array

    @classmethod
    def of(cls, key: Array) -> Groups:
        """The groups of a block."""
        order = np.argsort(key, kind="stable")
        there = key[order]
        start = np.flatnonzero(np.r_[True, there[1:] != there[:-1]])
        key = there[start]
        return cls(order, start, np.r_[start[1:], len(there)] - 1, key, (key % np.uint64(SLOTS)).astype(np.int64))

    def spread(self, of_groups: Array) -> Array:
        """Values of groups (G, ...), repeated for each of their rows (T, ...)."""
        return np.repeat(of_groups, self.end - self.start + 1, axis=0)

    def back(self, rows: Array) -> Array:
        """Rows (T, ...) as they stood before sorting."""
        found = np.empty_like(rows)
        found[self.order] = rows
        return found


class Last:
    """The last rows of each key: numbers (depth, D), the oldest first."""

    def __init__(self, nobody: Array, depth: int = 1) -> None:
        self._key, self._nobody = np.zeros(SLOTS, dtype=np.uint64), nobody
        self._rows = np.tile(nobody, (SLOTS, depth, 1))

    def read(self, groups: Groups, rows: Array) -> Array:
        """For every row of a block (T, D) those before it of its key (T, depth, D), `nobody` where there are none; the last are kept."""
        known, depth = self._key[groups.slot] == groups.key, self._rows.shape[1]
        group = np.arange(len(groups.key))
        at = np.arange(len(rows)) + depth * (1 + groups.spread(group))  # each group has its memory before it
        every = np.empty((len(rows) + depth * len(group), rows.shape[1]), dtype=self._rows.dtype)
        every[at] = rows[groups.order]
        memory = (groups.start + depth * group)[:, None] + np.arange(depth)
        every[memory] = np.where(known[:, None, None], self._rows[groups.slot], self._nobody)
        self._key[groups.slot] = groups.key
        self._rows[groups.slot] = every[at[groups.end][:, None] - np.arange(depth)[::-1]]
        return groups.back(every[at[:, None] - np.arange(depth)[::-1] - 1])


class SharedKeyStats:
    """Densities of all rows of each key, added up."""

    def __init__(self) -> None:
        self._key, self._rows = np.zeros(SLOTS, dtype=np.uint64), np.zeros(SLOTS)
        self._density = np.zeros((SLOTS, 2 * BINS), dtype=np.float32)

    def read(self, groups: Groups, shares: Array) -> Array:
        """For every row of a block the densities of all rows before it of the same key, over their sum and that of uniform ones.

        shares (T, 2 BINS): parts of the row's interval in the bins, by rank and by id. The answer is (T, 2 BINS): 1/2 everywhere if the
        rows before are spread uniformly, 0 if there are none.
        """
        known = self._key[groups.slot] == groups.key
        density = BINS * shares[groups.order]
        # In each group's first row: what is in the table, less what the groups before it in the block sum to.
        before = np.concatenate([np.zeros((1, 2 * BINS)), np.cumsum(density, axis=0)[:-1]])
        before += groups.spread(np.where(known[:, None], self._density[groups.slot], 0.0) - before[groups.start])
        before = np.maximum(before, 0.0)  # of rounding
        rows = groups.spread(np.where(known, self._rows[groups.slot], 0.0) - groups.start) + np.arange(len(density))
        every = rows[groups.end] + 1
        weight = np.minimum(1.0, MOST_ROWS / every)
        self._key[groups.slot], self._rows[groups.slot] = groups.key, weight * every
        self._density[groups.slot] = weight[:, None] * (before + density)[groups.end]
        return groups.back(before / np.maximum(before + rows[:, None], 1e-300))


class SharedUniform:
    """Where in the unit interval a number lies that rows of a key share with those before them, by how likely it makes what came."""

    def __init__(self) -> None:
        self._key, self._law = np.zeros(SLOTS, dtype=np.uint64), np.full((SLOTS, BINS), 1 / BINS)

    def read(self, groups: Groups, likelihood: Array) -> Array:
        """For every row of a block (T, BINS) the law of that number, given the rows before of its key: (T, BINS).

        likelihood (T, BINS): of each row's token, given in which part the number lies. With probability ANEW a row does not share the
        number of the row before it: requests that come one after the other are served in several steps of the engine.
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
            law[here] = (1 - ANEW) * after / np.maximum(after.sum(1, keepdims=True), 1e-300) + ANEW / BINS
        self._key[groups.slot], self._law[groups.slot] = groups.key, law
        return groups.back(found)
