"""The past of a token, which bets may use: tokens before it, their distributions and intervals, other requests, and frequencies.

Constant memory: the last requests, and tables of fixed size indexed by hashes of tokens, distributions and positions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...arrays import Array
from .blocks import NO_TOKEN, Tokens
from .grouped import BINS, Groups, Last, SharedKeyStats, SharedUniform, hashed, scattered
from .records import TOP, UNNAMED

NO_PREDECESSOR = -2  # instead of a token before the first


@dataclass(frozen=True)
class PastSettings:
    """Sizes of what is remembered, and precisions of the priors."""

    tokens_before: int = 16  # of a request
    listed_before: int = 8  # most probable tokens of the distribution before
    other_requests: int = 32  # tokens of other requests at one position under the same distribution
    max_requests: int = 4096
    # powers of two: of the tables by token, by pair of tokens, by three, and by distribution and token
    table_sizes: tuple[int, ...] = (4096, 65_536, 262_144, 262_144)
    tilt_precisions: tuple[float, ...] = (60.0, 1500.0)  # of a prior of a cell's tilt, for biases of about 5 % and 1 %
    shrinkage: float = 30.0  # variance that the prior of a cell's relative excess counts as

    @property
    def tilts(self) -> int:
        """Number of tilts of a token: one for each table and precision."""
        return len(self.table_sizes) * len(self.tilt_precisions)


@dataclass(frozen=True)
class Seen:
    """The past of every token of a block. W = tokens_before, O = other_requests; intervals are start and end by rank and by id.

    Attributes
    ----------
    before : int array of shape (T, W)
        Tokens before, NO_PREDECESSOR if there are fewer.
    mass_before : array of shape (T, N)
        Distribution of the position before at the ids of this one, as far as they were among its most probable tokens.
    previous, other, earlier : array of shape (T, 4)
        Intervals, empty if there is none: of the position before; of the last request at the same batch and position; of the last one at
        this position in any batch.
    same : int array of shape (T, O)
        Tokens of the last requests at this batch and position with the same distribution, NO_PREDECESSOR if there are fewer.
    density : array of shape (T, 2 BINS)
        Densities of all requests at this batch and position (`SharedKeyStats`).
    uniform : array of shape (T, BINS)
        Distribution of a uniform number with which they all tested their draft tokens, 0 without draft distributions.
    cells : tuple of int arrays of shape (T, N)
        Cells of the listed tokens in the tables.
    """

    before: Array
    mass_before: Array
    previous: Array
    same: Array
    other: Array
    earlier: Array
    density: Array
    uniform: Array
    cells: tuple[Array, ...]


class Order:
    """Test of whether every token comes after those before it in its sequence, where positions are known."""

    def __init__(self, max_sequences: int = 2**18) -> None:
        self._last: OrderedDict[int, int] = OrderedDict()
        self._unnamed, self._max_sequences = UNNAMED, max_sequences

    def read(self, request: Array, position: Array) -> tuple[Array, Array]:
        """Return a mask of the late rows of a block (T,), and the requests (T,).

        In unnamed requests, a position that does not increase begins a new one.
        """
        late, request = np.zeros(len(request), dtype=bool), request.copy()
        for row in np.flatnonzero(position >= 0).tolist():
            at, name = int(position[row]), int(request[row])
            if name == UNNAMED:
                if at <= self._last.get(self._unnamed, -1):
                    self._unnamed -= 1
                request[row] = name = self._unnamed
            last = self._last.pop(name, -1)
            late[row], self._last[name] = at <= last, max(at, last)
        while len(self._last) > self._max_sequences:
            self._last.popitem(last=False)
        return late, request


class ListLengths:
    """Number of entries that are listed whatever was emitted, if the emitted token may be added to a list or replace its last entry.

    The lists of a correct server hold the k most probable tokens, where k may change from token to token, but is known before the token.
    The emitted token e may be appended, or replace the least probable entry. Let n be the length of the list, d = 1 if e is its least
    probable entry and else 0, and let c be chosen from the past alone. Each list falls in one of three cases:

    * n - d >= c, known: the c most probable tokens are among its entries. Of these the tokens of more probability than the c-th are read,
      and nothing else: a function of the distribution alone.
    * n = c and d = 1, doubtful: e may be the c-th or an added entry. Every bet is charged its largest loss.
    * Otherwise short: no bet.

    If k >= c, a list is known or doubtful, whatever is emitted. If k < c, it is doubtful or short. So the mean of the factor of
    every bet is at most 1 for every k. c is one less than the smallest n of the last `kept` lists with d = 0, whose k is known to be n.
    Probabilities whose ratio is below 1 + `tie` may change places in a list.
    """

    def __init__(self, kept: int = 8, tie: float = 1e-2) -> None:
        self._last, self._kept, self._tie = np.zeros(kept, dtype=int), kept, tie

    def read(self, tokens: Tokens) -> tuple[Tokens, int, int]:
        """Return the known tokens of a block, in the order of the bets, and the numbers of doubtful and short ones."""
        rows = np.flatnonzero(tokens.completed)
        if not len(rows):
            return tokens, 0, 0
        there, kept = tokens.take(rows), self._kept
        lightest = np.where(there.ids >= 0, there.mass, np.inf).min(1)
        own = there.at_slot(there.mass, np.where(there.size > TOP, 0.0, np.inf))
        last = own <= lightest * (1 + self._tie)
        lengths = [*self._last.tolist()]
        count = np.empty(len(rows), dtype=int)
        for row, (size, is_last) in enumerate(zip(there.size.tolist(), last.tolist(), strict=True)):
            count[row] = max(min(lengths[-kept:]) - 1, 0)
            if not is_last:
                lengths.append(size)
        self._last = np.array(lengths[-kept:])
        count = np.minimum(count, there.mass.shape[1])
        known = there.size - last >= count
        doubtful = ~known & last & (there.size == count)
        at_count = there.mass[np.arange(len(rows)), np.maximum(count, 1) - 1]
        least = np.full(len(tokens), -1.0)
        least[rows] = np.where(count > 0, at_count * (1 + self._tie), np.inf)
        is_known = np.ones(len(tokens), dtype=bool)
        is_known[rows] = known
        short = int((~known & ~doubtful).sum())
        return tokens.cut(least).take(np.flatnonzero(is_known)), int(doubtful.sum()), short


@dataclass
class CellExcess:
    """Excess of the emitted tokens of each cell over their probabilities, and its variance."""

    cells: int
    settings: PastSettings
    excess: Array = field(init=False)
    variance: Array = field(init=False)

    def __post_init__(self) -> None:
        self.excess, self.variance = np.zeros(self.cells), np.zeros(self.cells)

    def scores(self, cells: Array) -> Array:
        """Return 1/2 plus the relative excess of each cell, shrunk, in [0, 1]."""
        return np.clip(0.5 + self.excess[cells] / (self.variance[cells] + self.settings.shrinkage), 0.0, 1.0)

    def tilts(self, cells: Array) -> Array:
        """Return the posterior mean of each cell's tilt under each prior: (P, T, N)."""
        return self.excess[cells] / (self.variance[cells] + np.array(self.settings.tilt_precisions)[:, None, None])

    def learn(self, cells: Array, mass: Array, came: Array) -> None:
        """Count probabilities (T, N) of the cells, and which of them were emitted (T, N)."""
        where = cells.ravel()
        np.add.at(self.excess, where, (came - mass).ravel())
        np.add.at(self.variance, where, (mass * (1 - mass)).ravel())


@dataclass(frozen=True)
class End:
    """The end of a request so far: its last tokens, its last distribution and intervals (rank, id), its length."""

    before: Array
    ids: Array
    mass: Array
    interval: Array
    length: int

    @classmethod
    def empty(cls, settings: PastSettings) -> End:
        """Return the end of a request without tokens."""
        before, listed = np.full(settings.tokens_before, NO_PREDECESSOR), settings.listed_before
        return cls(before, np.full(listed, NO_TOKEN), np.zeros(listed), np.zeros(4), 0)


class Past:
    """Everything that was read, as far as the bets use it."""

    def __init__(self, settings: PastSettings | None = None) -> None:
        self.settings = settings = settings or PastSettings()
        self._ends: OrderedDict[int, End] = OrderedDict()
        self._last, self._earlier = Last(np.zeros(4)), Last(np.zeros(4))
        self._shared, self._uniform = SharedKeyStats(), SharedUniform()
        self._same_law = Last(np.array([NO_PREDECESSOR]), settings.other_requests)
        self._tables = tuple(CellExcess(cells, settings) for cells in settings.table_sizes)
        self._masses = np.zeros(settings.table_sizes[0])

    def read(self, tokens: Tokens) -> Seen:
        """Return the past of a block that is sorted by request, and remember the block's ends."""
        window, listed = self.settings.tokens_before, self.settings.listed_before
        own = np.stack([*tokens.by_rank, *tokens.by_id], axis=1)
        kept = min(listed, tokens.ids.shape[1])
        laws = [np.full((len(tokens), listed), NO_TOKEN), np.zeros((len(tokens), listed))]
        laws[0][:, :kept], laws[1][:, :kept] = tokens.ids[:, :kept], tokens.mass[:, :kept]
        ids, mass, intervals = (np.roll(side, 1, axis=0) for side in (*laws, own))
        position, every, at = tokens.position.copy(), [], np.arange(len(tokens)) + window
        starts = np.flatnonzero(np.r_[True, tokens.request[1:] != tokens.request[:-1]]).tolist()
        for group, (start, end) in enumerate(zip(starts, [*starts[1:], len(tokens)], strict=True)):
            request = int(tokens.request[start])
            last = self._ends.pop(request, None) or End.empty(self.settings)
            ids[start], mass[start], intervals[start] = last.ids, last.mass, last.interval
            every += [last.before, tokens.token[start:end]]
            at[start:end] += group * window
            if position[start] < 0:
                position[start:end] = last.length + np.arange(end - start)
            before = np.concatenate(every[-2:])[-window:].copy()
            top = [side[end - 1].copy() for side in laws]
            self._ends[request] = End(before, top[0], top[1], own[end - 1].copy(), last.length + end - start)
        while len(self._ends) > self.settings.max_requests:
            self._ends.popitem(last=False)
        groups = Groups.of(hashed(tokens.batch, position))
        other, density = self._last.read(groups, own)[:, 0], self._shared.read(groups, tokens.shares)
        earlier = self._earlier.read(Groups.of(hashed(position)), own)[:, 0]
        same = self._same_law.read(Groups.of(hashed(tokens.batch, position, tokens.context)), tokens.token[:, None])
        windows = np.concatenate(every)[at[:, None] + np.arange(-window, 0)]
        matched = _matched(tokens.ids, ids, mass)
        uniform = np.zeros((len(tokens), BINS))
        if not np.isnan(tokens.draft_residual_mass).all():
            came = tokens.by_uniform[np.arange(len(tokens)), :, tokens.slot]  # slot -1: the rest, which is the last
            uniform = self._uniform.read(Groups.of(hashed(tokens.batch, position, tokens.step_offset)), came)
        cells = _cells(tokens, windows, self.settings.table_sizes)
        return Seen(windows, matched, intervals, same[:, :, 0], other, earlier, density, uniform, cells)

    def tables(self, seen: Seen) -> Iterator[tuple[CellExcess, Array]]:
        """Yield the tables, and the cells of the listed tokens in them."""
        return zip(self._tables, seen.cells, strict=True)

    def average(self, seen: Seen) -> Array:
        """Return the mean probability so far of the listed tokens, over all distributions: (T, N)."""
        return self._masses[seen.cells[0]] / (self._masses.sum() or 1.0)

    def learn(self, tokens: Tokens, seen: Seen) -> None:
        """Count a block in the tables, after all bets on it are settled."""
        came = (np.arange(tokens.mass.shape[1]) == tokens.slot[:, None]).astype(float)
        for table, cells in self.tables(seen):
            table.learn(cells, tokens.mass, came)
        np.add.at(self._masses, seen.cells[0].ravel(), tokens.mass.ravel())


def _cells(tokens: Tokens, before: Array, table_sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """Cells of every listed token: by itself, with the token before, with the two before, and with the distribution."""
    ids = tokens.ids.astype(np.uint64)
    second, last = (before[:, [-back]].astype(np.uint64) for back in (2, 1))
    pair = ids + last * np.uint64(1_000_003)
    keys = (ids, pair, pair + second * np.uint64(998_244_353), ids + tokens.context[:, None])
    hashes = [(scattered(key) >> np.uint64(40)).astype(np.int64) for key in keys]
    return tuple(hash_ & (cells - 1) for hash_, cells in zip(hashes, table_sizes, strict=True))


def _matched(ids: Array, other_ids: Array, other_mass: Array) -> Array:
    """Probabilities (T, listed_before) of other tokens at the tokens `ids`, 0 if they are not among them: (T, N)."""
    found = np.zeros(ids.shape)
    for token, mass in zip(other_ids.T, other_mass.T, strict=True):
        found += np.where(ids == token[:, None], mass[:, None], 0.0)
    return found
