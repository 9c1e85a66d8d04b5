"""How often draws without replacement are accepted, counted by the draft's masses: what `CountedTree` goes by.

Counted is what traversal verification does at one node whose target has not shrunk yet: recursive rejection, one draw after the other.
The chance that the i-th draw is the one that is accepted depends on the mass of the draft's top token, and on the share that its own token
had of what was left of q. A draft whose masses say nothing has equal rows; the tree is then the best static one for its acceptance,
Sequoia's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ... import arrays as xp
from ...arrays import Array

EDGES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.97, 0.99, 0.999)
PLACES = 6  # of draws whose shares are told apart; the last stands for all later ones
PRIOR = 3.0  # so many contexts like the average one are added to every row
TIMES = 4  # that every context is drawn in


@dataclass(frozen=True)
class CountedAcceptance:
    """The chance that the i-th draw of a node is the accepted one, by bins of mass between increasing edges (bins - 1,).

    of_node: (bins, C), by the mass of q's top token. of_share: (places, bins), by how much that chance is larger where the drawn token had
    such a share of what was left of q. typical: (C,), over all nodes.
    """

    of_node: tuple[tuple[float, ...], ...]
    of_share: tuple[tuple[float, ...], ...]
    typical: tuple[float, ...]
    edges: tuple[float, ...] = EDGES

    @property
    def most(self) -> int:
        """The largest number C of draws."""
        return len(self.typical)

    @classmethod
    def counted(
        cls, p: np.ndarray, q: np.ndarray, most: int = 12, seed: int = 0, edges: tuple[float, ...] = EDGES
    ) -> CountedAcceptance:
        """Counted on pairs of a target and its draft, (rows, n) each; the draws are made with this seed."""
        count = _Count(np.asarray(p, np.float64), np.asarray(q, np.float64), most, edges)
        generator = np.random.default_rng(seed)
        for _ in range(TIMES):
            count.draw(generator)
        return count.acceptance()


@dataclass(frozen=True)
class LookedUpAcceptance:
    """The chance that a looked-up token is accepted, by bins of the draft's mass on it between increasing edges (bins - 1,).

    A draft that is nearly the target says it all with its mass; a weak one misses what the text says. first: (bins,), of the first one;
    further: (bins,), of one behind others that were accepted.
    """

    first: tuple[float, ...]
    further: tuple[float, ...]
    edges: tuple[float, ...] = (0.02, 0.1, 0.4, 0.8, 0.97)

    @classmethod
    def counted(cls, p: np.ndarray, q: np.ndarray, behind: np.ndarray) -> LookedUpAcceptance:
        """Counted on looked-up tokens with these masses under the target and the draft, behind so many accepted ones; (rows,) each.

        Bins with few rows are drawn to the draft's own mass, those without any say it.
        """
        bins = len(cls.edges) + 1
        place, middle = np.searchsorted(cls.edges, q, side="right"), np.add([0, *cls.edges], [*cls.edges, 1]) / 2

        def mean(chosen: np.ndarray) -> tuple[float, ...]:
            number = np.bincount(place[chosen], minlength=bins)
            return _floats((np.bincount(place[chosen], p[chosen], bins) + PRIOR * middle) / (number + PRIOR))

        return cls(mean(behind == 0), mean(behind > 0))

    def chance(self, masses: Array, first: bool) -> Array:
        """Of tokens with such masses under the draft, `host_view`s."""
        masses, values = xp.host_view(xp.floats(masses)), self.first if first else self.further
        steps = zip(self.edges, pairwise(values), strict=True)
        return values[0] + sum((above - below) * xp.where(masses >= edge, 1.0, 0.0) for edge, (below, above) in steps)


def neutral_acceptance(most: int = 12, edges: tuple[float, ...] = EDGES) -> CountedAcceptance:
    """Where nothing was counted: a draw is accepted as often as the draft thinks its top token right, whatever its own share was."""
    middles = np.add([0, *edges], [*edges, 1]) / 2
    of_node = tuple(_floats(mass * (1 - mass) ** np.arange(most)) for mass in middles)
    return CountedAcceptance(of_node, ((1.0,) * len(middles),), of_node[len(middles) // 2], edges)


def neutral_looked_up(edges: tuple[float, ...] = (0.02, 0.1, 0.4, 0.8, 0.97)) -> LookedUpAcceptance:
    """Where nothing was counted: a looked-up token is accepted as often as the draft says."""
    middles = _floats(np.add([0, *edges], [*edges, 1]) / 2)
    return LookedUpAcceptance(middles, middles, edges)


@dataclass(frozen=True)
class PairAcceptance:
    """What was counted of a target and its draft: of draws without replacement, and of looked-up tokens."""

    drawn: CountedAcceptance
    looked_up: LookedUpAcceptance


@dataclass(frozen=True, eq=False)
class CountedEstimate:
    """What was counted, at nodes by the largest mass of q, (...), and its number of tokens of positive mass, int (...); `host_view`s."""

    acceptance: CountedAcceptance
    largest: Array
    tokens: Array

    @classmethod
    def of(cls, acceptance: CountedAcceptance, q: Array) -> CountedEstimate:
        """At nodes with the laws q (..., n)."""
        return cls(acceptance, xp.host_view(xp.floats(xp.namespace(q).amax(q, -1))), xp.host_view((q > 0).sum(-1)))

    @cached_property
    def gains(self) -> tuple[Array, Array]:
        """What each further draw adds to the acceptance (..., C), 0 beyond q's last token; and of 0 .. C children none is fixed."""
        most = self.acceptance.most
        there = xp.positions(most, self.tokens) < self.tokens[..., None]
        none_fixed = 0 * xp.positions(most + 1, self.tokens) * self.tokens[..., None]
        return xp.where(there, self._tables.of_node[self._row], 0.0), none_fixed

    def below(self, masses: Array, tokens: Array, fixed_count: Array, count: Array) -> Array:
        """Chance that each child is reached, given its parent is. Of fixed children, which stand last: their mass."""
        masses, place = xp.host_view(xp.floats(masses)), xp.positions(tokens.shape[-1], tokens)
        fixed = (place >= count - fixed_count) & (tokens >= 0)
        gone = xp.total(xp.where(fixed, masses, 0)) + masses.cumsum(-1) - masses
        share = masses / xp.maximum(1 - gone, 1e-300)
        tables = self._tables
        ratio = tables.of_share[xp.minimum(place, tables.of_share.shape[0] - 1), self._bins(share)]
        chances = tables.of_node[self._row][..., xp.minimum(place, self.acceptance.most - 1)] * ratio
        return xp.where(tokens < 0, 0, xp.where(fixed, masses, xp.minimum(chances, 1)))

    @property
    def _row(self) -> Array:
        return self._bins(self.largest)

    def _bins(self, masses: Array) -> Array:
        return (masses[..., None] >= self._tables.edges).sum(-1)

    @property
    def _tables(self) -> _Tables:
        return _tables(self.acceptance, self.largest.device if xp.is_torch(self.largest) else None)


class _Tables(NamedTuple):
    of_node: Array
    of_share: Array
    edges: Array


@lru_cache(maxsize=256)
def _tables(acceptance: CountedAcceptance, device: Any) -> _Tables:
    """Made once for a device, because making them is a copy from the host."""
    like = np.empty(0) if device is None else _empty(device)
    values = acceptance.of_node, acceptance.of_share, acceptance.edges
    return _Tables(*(xp.from_host(np.array(each, dtype=np.float64), like) for each in values))


def _empty(device: Any) -> Array:
    import torch

    return torch.empty(0, device=device, dtype=torch.float64)


class _Count:
    """The sums that an `CountedAcceptance` is made of. Rows of a batch are drawn side by side."""

    def __init__(self, p: np.ndarray, q: np.ndarray, most: int, edges: tuple[float, ...]) -> None:
        self.p, self.q, self.most, self.edges = p, q, most, edges
        self.row = np.searchsorted(edges, q.max(-1), side="right")
        self._accepted = np.zeros((len(p), most))
        self._times = 0
        self._noted: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = []  # place, rows, shares, chances

    def draw(self, generator: np.random.Generator) -> None:
        """Recursive rejection of draws without replacement, one after the other, once in every row."""
        target, left, rows = self.p.copy(), self.q.copy(), np.arange(len(self.p))
        alive = np.ones(len(rows))
        for place in range(min(self.most, self.p.shape[-1])):
            mass = left.sum(-1)
            alive = np.where(mass > 1e-12, alive, 0)
            law = left / np.where(mass > 1e-12, mass, 1)[:, None]
            token = _drawn(law, generator)
            share = law[rows, token]
            chance = alive * np.minimum(1, target[rows, token] / np.where(share > 0, share, 1))
            kept = share > 0
            self._noted.append((place, rows[kept], share[kept], chance[kept]))
            overlap = np.minimum(target, law)
            self._accepted[:, place] += alive * overlap.sum(-1)
            left[rows, _drawn(law - overlap, generator)] = 0
            target -= overlap
            rest = target.sum(-1)
            alive = alive * rest
            target /= np.where(rest > 0, rest, 1)[:, None]
        self._times += 1

    def acceptance(self) -> CountedAcceptance:
        accepted = self._accepted / self._times
        mean, bins = accepted.mean(0), len(self.edges) + 1
        sums = np.zeros((bins, self.most))
        np.add.at(sums, self.row, accepted)
        of_node = (sums + PRIOR * mean) / (np.bincount(self.row, minlength=bins)[:, None] + PRIOR)
        found, expected = np.zeros((2, PLACES, bins))
        for place, rows, share, chance in self._noted:
            at, of = min(place, PLACES - 1), np.searchsorted(self.edges, share, side="right")
            np.add.at(found[at], of, chance)
            np.add.at(expected[at], of, of_node[self.row[rows], place])
        prior = PRIOR * self._times * mean[np.minimum(np.arange(PLACES), self.most - 1), None] + 1e-12
        return CountedAcceptance(
            tuple(map(_floats, np.minimum.accumulate(of_node, -1))),
            tuple(map(_floats, (found + prior) / (expected + prior))),
            _floats(np.minimum.accumulate(mean)),
            self.edges,
        )


def _drawn(masses: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """One index of every row, by its masses."""
    sums = masses.cumsum(-1)
    wanted = generator.random((len(masses), 1)) * sums[:, -1:]
    return np.asarray(np.minimum((sums <= wanted).sum(-1), masses.shape[-1] - 1))


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)
