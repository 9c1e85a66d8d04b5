"""What the bets may know: the tokens before, their laws and intervals, other requests, and what came too often so far.

Constant memory: the last REQUESTS requests, and tables of fixed size indexed by hashed tokens, laws and moments.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...arrays import Array
from .moments import BINS, FACTOR, Groups, Last, SharedKeyStats, SharedUniform, mixed
from .records import NO_TOKEN, TOP, UNNAMED, Tokens

WINDOW = 16  # tokens before that are remembered
HEAVIEST = 8  # tokens of the law before that are remembered
NOBODY = -2  # a token before the first
OTHERS = 32  # tokens of other requests under the same law that are remembered of a moment
REQUESTS = 4096
TEXTS = 2**18  # whose last position is remembered
LENGTHS = 8  # lists whose lengths are remembered
NEAR = 1e-2  # relative: masses that differ by less may change places in a list
# powers of two: of the tables by token, by pair of tokens, by three, and by law and token
CELLS = (4096, 65_536, 262_144, 262_144)
PRIORS = np.array([60.0, 1500.0])  # precisions of a prior of a cell's tilt, for biases of about 5 % and 1 %
SHRINKAGE = 30.0  # variance of which the prior of a cell's relative excess is worth


@dataclass(frozen=True)
class Seen:
    """For every token of a block what stands before it.

    before (T, WINDOW): tokens, -2 where there were none. mass_before (T, N): the law before, at this law's ids, as far as they were
    among its heaviest. previous, other, earlier (T, 4): intervals [start, end) by rank and by id, empty ones where there is none: of the
    position before; of the request read before at the same batch and position; of the one at this position in whatever batch. same (T,
    OTHERS): tokens of the last requests at this batch and position whose law was the same, -2 where there were none. crowd (T, 2 BINS):
    where the numbers of all requests there lay (`moments.SharedKeyStats`). uniform (T, BINS): the law, by what came of them, of a number
    with which they all tested their drafts, 0 where no draft law is known. cells: of this law's heaviest tokens in the tables, (T, N) each.
    """

    before: Array
    mass_before: Array
    previous: Array
    same: Array
    other: Array
    earlier: Array
    crowd: Array
    uniform: Array
    cells: tuple[Array, ...]


class Order:
    """Whether every token comes after those before it in its text, where its position is said."""

    def __init__(self) -> None:
        self._last: OrderedDict[int, int] = OrderedDict()
        self._unnamed = UNNAMED

    def read(self, request: Array, position: Array) -> tuple[Array, Array]:
        """Mask of the late rows of a block (T,), and the requests (T,): unnamed texts are told apart by where positions begin anew."""
        late, request = np.zeros(len(request), dtype=bool), request.copy()
        for row in np.flatnonzero(position >= 0).tolist():
            at, name = int(position[row]), int(request[row])
            if name == UNNAMED:
                if at <= self._last.get(self._unnamed, -1):
                    self._unnamed -= 1
                request[row] = name = self._unnamed
            last = self._last.pop(name, -1)
            late[row], self._last[name] = at <= last, max(at, last)
        while len(self._last) > TEXTS:
            self._last.popitem(last=False)
        return late, request


class ListLengths:
    """How many entries of a list are listed whatever was emitted, where the emitted token may be added to it or replace its last entry.

    The lists of a right server hold the k most probable tokens, where k may change from token to token, but is known before the token.
    The emitted token e may be appended, or take the place of the lightest. Let n be the length of the list, d = 1 if e is its lightest
    entry and else 0, and let c be chosen from the past alone. Each list falls in one of three cases:

    * n - d >= c, known: the c most probable tokens are among its entries. Of these the tokens heavier than the c-th are read, and
      nothing else: a function of the distribution alone.
    * n = c and d = 1, doubtful: e may be the c-th or an added entry. Every bet pays the most that it could lose.
    * Otherwise short: no bet.

    If k >= c, a list is known or doubtful, whatever is emitted. If k < c, it is doubtful or short. So the mean of the factor of
    every bet is at most 1 for every k. c is one less than the smallest n of the last LENGTHS lists with d = 0, whose k is known to be n.
    """

    def __init__(self) -> None:
        self._last = np.zeros(LENGTHS, dtype=int)

    def read(self, tokens: Tokens) -> tuple[Tokens, int, int]:
        """The known tokens of a block, in order of the bets, and how many are doubtful and short."""
        rows = np.flatnonzero(tokens.completed)
        if not len(rows):
            return tokens, 0, 0
        there = tokens.take(rows)
        lightest = np.where(there.ids >= 0, there.mass, np.inf).min(1)
        own = there.at_slot(there.mass, np.where(there.size > TOP, 0.0, np.inf))
        last = own <= lightest * (1 + NEAR)
        lengths = [*self._last.tolist()]
        count = np.empty(len(rows), dtype=int)
        for row, (size, is_last) in enumerate(zip(there.size.tolist(), last.tolist(), strict=True)):
            count[row] = max(min(lengths[-LENGTHS:]) - 1, 0)
            if not is_last:
                lengths.append(size)
        self._last = np.array(lengths[-LENGTHS:])
        count = np.minimum(count, there.mass.shape[1])
        known = there.size - last >= count
        doubtful = ~known & last & (there.size == count)
        at_count = there.mass[np.arange(len(rows)), np.maximum(count, 1) - 1]
        least = np.full(len(tokens), -1.0)
        least[rows] = np.where(count > 0, at_count * (1 + NEAR), np.inf)
        kept = np.ones(len(tokens), dtype=bool)
        kept[rows] = known
        short = int((~known & ~doubtful).sum())
        return tokens.cut(least).take(np.flatnonzero(kept)), int(doubtful.sum()), short


@dataclass
class CellExcess:
    """Excess of the tokens that came in each cell over what their laws said, and its variance."""

    cells: int
    excess: Array = field(init=False)
    variance: Array = field(init=False)

    def __post_init__(self) -> None:
        self.excess, self.variance = np.zeros(self.cells), np.zeros(self.cells)

    def scores(self, cells: Array) -> Array:
        """Above 1/2 for cells that came too often: a half plus the relative excess, shrunk, in [0, 1]."""
        return np.clip(0.5 + self.excess[cells] / (self.variance[cells] + SHRINKAGE), 0.0, 1.0)

    def tilts(self, cells: Array) -> Array:
        """The mean, given what came, of each cell's tilt under each of PRIORS: (P, T, N)."""
        return self.excess[cells] / (self.variance[cells] + PRIORS[:, None, None])

    def learn(self, cells: Array, mass: Array, came: Array) -> None:
        """Masses (T, N) of the cells, and which of them came (T, N)."""
        where = cells.ravel()
        np.add.at(self.excess, where, (came - mass).ravel())
        np.add.at(self.variance, where, (mass * (1 - mass)).ravel())


@dataclass(frozen=True)
class End:
    """The end of a request so far: its last tokens, the heaviest of its last law, its last intervals, its length."""

    before: Array
    ids: Array
    mass: Array
    interval: Array  # rank start, rank end, id start, id end
    length: int


EMPTY_CONTEXT = End(np.full(WINDOW, NOBODY), np.full(HEAVIEST, NO_TOKEN), np.zeros(HEAVIEST), np.zeros(4), 0)


class Past:
    """Everything read so far, as far as the bets use it."""

    def __init__(self) -> None:
        self._ends: OrderedDict[int, End] = OrderedDict()
        self._last, self._earlier = Last(np.zeros(4)), Last(np.zeros(4))
        self._shared, self._uniform, self._same_law = (
            SharedKeyStats(),
            SharedUniform(),
            Last(np.array([NOBODY]), OTHERS),
        )
        self._tables = tuple(CellExcess(cells) for cells in CELLS)
        self._masses = np.zeros(CELLS[0])

    def read(self, tokens: Tokens) -> Seen:
        """`Seen` of a block that is sorted by request: what stands before every token; the block's ends are remembered."""
        own = np.stack([*tokens.by_rank, *tokens.by_id], axis=1)
        kept = min(HEAVIEST, tokens.ids.shape[1])
        laws = [np.full((len(tokens), HEAVIEST), NO_TOKEN), np.zeros((len(tokens), HEAVIEST))]
        laws[0][:, :kept], laws[1][:, :kept] = tokens.ids[:, :kept], tokens.mass[:, :kept]
        ids, mass, intervals = (np.roll(side, 1, axis=0) for side in (*laws, own))
        position, every, at = tokens.position.copy(), [], np.arange(len(tokens)) + WINDOW
        starts = np.flatnonzero(np.r_[True, tokens.request[1:] != tokens.request[:-1]]).tolist()
        for group, (start, end) in enumerate(zip(starts, [*starts[1:], len(tokens)], strict=True)):
            request = int(tokens.request[start])
            last = self._ends.pop(request, EMPTY_CONTEXT)
            ids[start], mass[start], intervals[start] = last.ids, last.mass, last.interval
            every += [last.before, tokens.token[start:end]]
            at[start:end] += group * WINDOW
            if position[start] < 0:
                position[start:end] = last.length + np.arange(end - start)
            before = np.concatenate(every[-2:])[-WINDOW:].copy()
            heaviest = [side[end - 1].copy() for side in laws]
            self._ends[request] = End(before, heaviest[0], heaviest[1], own[end - 1].copy(), last.length + end - start)
        while len(self._ends) > REQUESTS:
            self._ends.popitem(last=False)
        groups = Groups.of(mixed(tokens.batch, position))
        other, crowd = self._last.read(groups, own)[:, 0], self._shared.read(groups, tokens.shares)
        earlier = self._earlier.read(Groups.of(mixed(position)), own)[:, 0]
        same = self._same_law.read(Groups.of(mixed(tokens.batch, position, tokens.context)), tokens.token[:, None])
        windows = np.concatenate(every)[at[:, None] + np.arange(-WINDOW, 0)]
        matched = _matched(tokens.ids, ids, mass)
        uniform = np.zeros((len(tokens), BINS))
        if not np.isnan(tokens.draft_residual_mass).all():
            came = tokens.by_uniform[np.arange(len(tokens)), :, tokens.slot]  # slot -1: the rest, which is the last
            uniform = self._uniform.read(Groups.of(mixed(tokens.batch, position, tokens.step_offset)), came)
        cells = _cells(tokens, windows)
        return Seen(windows, matched, intervals, same[:, :, 0], other, earlier, crowd, uniform, cells)

    def tables(self, seen: Seen) -> Iterator[tuple[CellExcess, Array]]:
        """The tables, and the cells of the tokens' heaviest in them."""
        return zip(self._tables, seen.cells, strict=True)

    def average(self, seen: Seen) -> Array:
        """Mean mass so far of the tokens' heaviest, over all laws: (T, N)."""
        return self._masses[seen.cells[0]] / (self._masses.sum() or 1.0)

    def learn(self, tokens: Tokens, seen: Seen) -> None:
        """Fill the tables with a block, once all bets on it are settled."""
        came = (np.arange(tokens.mass.shape[1]) == tokens.slot[:, None]).astype(float)
        for table, cells in self.tables(seen):
            table.learn(cells, tokens.mass, came)
        np.add.at(self._masses, seen.cells[0].ravel(), tokens.mass.ravel())


def _cells(tokens: Tokens, before: Array) -> tuple[Array, ...]:
    """Of every listed token: by itself, with the token before, with the two before, and with the law."""
    ids = tokens.ids.astype(np.uint64)
    second, last = (before[:, [-back]].astype(np.uint64) for back in (2, 1))
    pair = ids + last * np.uint64(1_000_003)
    keys = (ids, pair, pair + second * np.uint64(998_244_353), ids + tokens.context[:, None])
    hashes = [((key * FACTOR) >> np.uint64(40)).astype(np.int64) for key in keys]
    return tuple(hashed & (cells - 1) for hashed, cells in zip(hashes, CELLS, strict=True))


def _matched(ids: Array, other_ids: Array, other_mass: Array) -> Array:
    """Masses (T, HEAVIEST) of other tokens at the tokens `ids`, 0 where they are not among them: (T, N)."""
    found = np.zeros(ids.shape)
    for token, mass in zip(other_ids.T, other_mass.T, strict=True):
        found += np.where(ids == token[:, None], mass[:, None], 0.0)
    return found
