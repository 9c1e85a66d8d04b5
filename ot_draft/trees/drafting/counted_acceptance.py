"""Counted acceptance of draws without replacement, by the draft's masses, for `CountedTree`.

Counts are of recursive rejection at one node, which traversal verification does there while no sibling is rejected. The probability that
draw i is accepted depends on the mass of the draft's top token, and on the share of the remaining q that its own token has. If the masses
do not matter, all rows are equal, and the tree is the optimal static one for this acceptance (Sequoia).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from ... import arrays as xp
from ...arrays import Array

__all__ = ["CountedAcceptance", "LookedUpAcceptance", "PairAcceptance"]

EDGES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.97, 0.99, 0.999)


@dataclass(frozen=True)
class CountedAcceptance:
    """P(draw i of a node is accepted), by bins of mass between increasing edges (bins - 1,).

    of_node: (bins, C), by the mass of q's top token. of_share: (indices, bins), factor for a drawn token with such a share of the
    remaining q. typical: (C,), over all nodes.
    """

    of_node: tuple[tuple[float, ...], ...]
    of_share: tuple[tuple[float, ...], ...]
    typical: tuple[float, ...]
    edges: tuple[float, ...] = EDGES

    @property
    def max_children(self) -> int:
        """The largest number C of draws."""
        return len(self.typical)

    @classmethod
    def counted(
        cls,
        p: np.ndarray,
        q: np.ndarray,
        max_children: int = 12,
        seed: int = 0,
        edges: tuple[float, ...] = EDGES,
        repetitions: int = 4,
        prior: float = 3.0,
        separate: int = 6,
    ) -> CountedAcceptance:
        """Return counts on pairs of target and draft distributions, (rows, n) each.

        seed, repetitions: of the draws in every context. prior: number of average contexts that are added to every row. separate: number of
        draws with separate shares; the last row is for all later draws.
        """
        p, q, generator = np.asarray(p, np.float64), np.asarray(q, np.float64), np.random.default_rng(seed)
        row, bins = np.searchsorted(edges, q.max(-1), side="right"), len(edges) + 1
        accepted = np.zeros((len(p), max_children))
        noted = []
        for place, taken, of_tokens in chain.from_iterable(
            _rejected(p, q, max_children, generator) for _ in range(repetitions)
        ):
            accepted[:, place] += taken / repetitions
            noted.append((place, *of_tokens))
        mean, sums = accepted.mean(0), np.zeros((bins, max_children))
        np.add.at(sums, row, accepted)
        of_node = (sums + prior * mean) / (np.bincount(row, minlength=bins)[:, None] + prior)
        found, expected = np.zeros((2, separate, bins))
        for place, rows, share, chance in noted:
            at, of = min(place, separate - 1), np.searchsorted(edges, share, side="right")
            np.add.at(found[at], of, chance)
            np.add.at(expected[at], of, of_node[row[rows], place])
        added = prior * repetitions * mean[np.minimum(np.arange(separate), max_children - 1), None] + 1e-12
        return cls(
            tuple(map(_floats, np.minimum.accumulate(of_node, -1))),
            tuple(map(_floats, (found + added) / (expected + added))),
            _floats(np.minimum.accumulate(mean)),
            edges,
        )


@dataclass(frozen=True)
class LookedUpAcceptance:
    """P(a looked-up token is accepted), by bins of the draft's mass on it between increasing edges (bins - 1,).

    first: (bins,), of the first looked-up token. further: (bins,), of one after accepted ones.
    """

    first: tuple[float, ...]
    further: tuple[float, ...]
    edges: tuple[float, ...] = (0.02, 0.1, 0.4, 0.8, 0.97)

    @classmethod
    def counted(cls, p: np.ndarray, q: np.ndarray, behind: np.ndarray, prior: float = 3.0) -> LookedUpAcceptance:
        """Return counts on looked-up tokens with masses p and q under target and draft, after `behind` accepted ones; (rows,) each.

        Bins with few rows shrink to the draft's own mass, by `prior` rows.
        """
        bins = len(cls.edges) + 1
        place, middle = np.searchsorted(cls.edges, q, side="right"), _middles(cls.edges)

        def mean(chosen: np.ndarray) -> tuple[float, ...]:
            number = np.bincount(place[chosen], minlength=bins)
            return _floats((np.bincount(place[chosen], p[chosen], bins) + prior * middle) / (number + prior))

        return cls(mean(behind == 0), mean(behind > 0))

    def chance(self, masses: Array, first: bool) -> Array:
        """Return the probability for tokens with these masses under the draft, `host_view`s."""
        masses, values = xp.host_view(xp.floats(masses)), self.first if first else self.further
        steps = zip(self.edges, pairwise(values), strict=True)
        return values[0] + sum((above - below) * xp.where(masses >= edge, 1.0, 0.0) for edge, (below, above) in steps)


def neutral_acceptance(max_children: int = 12) -> CountedAcceptance:
    """Return the acceptance of draws without counts: the mass of the draft's top token, whatever a draw's own share is."""
    middles = _middles(EDGES)
    of_node = tuple(_floats(mass * (1 - mass) ** np.arange(max_children)) for mass in middles)
    return CountedAcceptance(of_node, ((1.0,) * len(middles),), of_node[len(middles) // 2])


def neutral_looked_up() -> LookedUpAcceptance:
    """Return the acceptance of looked-up tokens without counts: the draft's mass."""
    middles = _floats(_middles(LookedUpAcceptance.edges))
    return LookedUpAcceptance(middles, middles)


def _middles(edges: Sequence[float]) -> np.ndarray:
    """Middles of the bins of mass between 0, these edges and 1."""
    return np.asarray(np.add([0, *edges], [*edges, 1]) / 2)


@dataclass(frozen=True)
class PairAcceptance:
    """Counts of a target and its draft: of draws without replacement, and of looked-up tokens.

    of_path: of the tokens of one drawn path, by depth: the chance that one is accepted where those above it were; empty: not counted.
    """

    drawn: CountedAcceptance
    looked_up: LookedUpAcceptance
    of_path: tuple[float, ...] = ()


class CountedEstimate:
    """Counts at nodes with the laws q (..., n), in `host_view`s: by q's largest mass, and its number of tokens with mass."""

    def __init__(self, acceptance: CountedAcceptance, q: Array) -> None:
        self.acceptance = acceptance
        self.largest = xp.host_view(xp.floats(xp.namespace(q).amax(q, -1)))
        self.tokens = xp.host_view((q > 0).sum(-1))

    @cached_property
    def gains(self) -> tuple[Array, Array]:
        """Gain in acceptance by each further draw (..., C), 0 beyond q's last token; and of 0 .. C children none is fixed."""
        most = self.acceptance.max_children
        there = xp.arange(most, like=self.tokens) < self.tokens[..., None]
        none_fixed = 0 * xp.arange(most + 1, like=self.tokens) * self.tokens[..., None]
        return xp.where(there, self._tables.of_node[self._row], 0.0), none_fixed

    def below(self, masses: Array, tokens: Array, fixed_count: Array, count: Array) -> Array:
        """Chance that each child is reached, given its parent is. Of fixed children, which stand last: their mass."""
        masses, place = xp.host_view(xp.floats(masses)), xp.arange(tokens.shape[-1], like=tokens)
        fixed = (place >= count - fixed_count) & (tokens >= 0)
        gone = xp.where(fixed, masses, 0).sum(-1, keepdims=True) + masses.cumsum(-1) - masses
        share = masses / xp.maximum(1 - gone, 1e-300)
        tables = self._tables
        ratio = tables.of_share[xp.minimum(place, tables.of_share.shape[0] - 1), self._bins(share)]
        chances = tables.of_node[self._row][..., xp.minimum(place, self.acceptance.max_children - 1)] * ratio
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
    like = np.empty(0) if device is None else sys.modules["torch"].empty(0, device=device).double()
    values = acceptance.of_node, acceptance.of_share, acceptance.edges
    return _Tables(*(xp.from_host(np.array(each, dtype=np.float64), like) for each in values))


def _rejected(
    p: np.ndarray, q: np.ndarray, max_children: int, generator: np.random.Generator
) -> Iterator[tuple[int, np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Recursive rejection of draws without replacement, one after the other, side by side in all rows: place, chance that the draw there
    is the accepted one, and of the rows that have one left, which these are, the share of the drawn token, and its chance."""
    target, left, rows = p.copy(), q.copy(), np.arange(len(p))
    alive = np.ones(len(rows))
    for place in range(min(max_children, p.shape[-1])):
        mass = left.sum(-1)
        alive = np.where(mass > 1e-12, alive, 0)
        law = left / np.where(mass > 1e-12, mass, 1)[:, None]
        token = _drawn(law, generator)
        share = law[rows, token]
        chance = alive * np.minimum(1, target[rows, token] / np.where(share > 0, share, 1))
        kept = share > 0
        overlap = np.minimum(target, law)
        yield place, alive * overlap.sum(-1), (rows[kept], share[kept], chance[kept])
        left[rows, _drawn(law - overlap, generator)] = 0
        target -= overlap
        rest = target.sum(-1)
        alive = alive * rest
        target /= np.where(rest > 0, rest, 1)[:, None]


def _drawn(masses: np.ndarray, generator: np.random.Generator) -> Array:
    """One index of every row, by its masses."""
    return xp.inverse_cdf(masses, generator.random((len(masses), 1)))[:, 0]


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)
