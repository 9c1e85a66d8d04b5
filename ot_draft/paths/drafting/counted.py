"""How often children of a node are accepted, counted by the draft's masses: what `CountedTree` goes by.

Counted is what traversal verification does at one node whose target has not shrunk yet: recursive rejection of r draws without replacement
outside T, then the tokens T themselves, of which those are taken that the target draws: p(T) in all. So for every number of
draws and of fixed tokens the acceptance, by the mass of the draft's top token; and for every drafted token the chance that it is the one
that is accepted, by its own mass and its place. A draft whose masses say nothing has equal rows, and the tree is then the best static one
for its acceptance (Sequoia's, with fixed tokens where these pay).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...arrays import (
    Array,
    floats,
    from_host,
    integers,
    is_torch,
    minimum,
    namespace,
    positions,
    small,
    top_masses,
    where,
)

EDGES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
PLACES, SIBLINGS = (
    6,
    4,
)  # of draws, and numbers of fixed siblings, that are told apart; the last stands for all larger ones
PRIOR = 8.0  # so many contexts like the average one are added to every row


@dataclass(frozen=True)
class Acceptance:
    """What children of a node add, by bins of mass between increasing edges (bins - 1,).

    added: (bins, C) what each further child adds to the acceptance, by the mass of q's top token; fixed: (bins, C + 1) how many of 0 .. C
    children are best q's top tokens; typical: (C,) what each adds on average. of_drawn: (fixed siblings, places, bins), of_fixed: (bins,)
    the chance that a drawn token, a fixed token is accepted, by its own mass under q.
    """

    added: tuple[tuple[float, ...], ...]
    fixed: tuple[tuple[int, ...], ...]
    typical: tuple[float, ...]
    of_drawn: tuple[tuple[tuple[float, ...], ...], ...]
    of_fixed: tuple[float, ...]
    edges: tuple[float, ...] = EDGES

    @property
    def most(self) -> int:
        """The largest number C of children."""
        return len(self.typical)

    @classmethod
    def counted(cls, p: np.ndarray, q: np.ndarray, most: int = 12, seed: int = 0) -> Acceptance:
        """Counted on pairs of a target and its draft, (rows, n) each; the draws are made with this seed."""
        return _Count(np.asarray(p, np.float64), np.asarray(q, np.float64), most, seed).acceptance()


@dataclass(frozen=True, eq=False)
class CountedProspect:
    """What was counted, at nodes whose largest masses are head (..., m), falling, `small`."""

    acceptance: Acceptance
    head: Array

    @classmethod
    def of(cls, acceptance: Acceptance, q: Array) -> CountedProspect:
        """At nodes with the laws q (..., n)."""
        return cls(acceptance, small(floats(top_masses(q, min(acceptance.most, q.shape[-1])))))

    @cached_property
    def gains(self) -> tuple[Array, Array]:
        """What each further child adds to the acceptance (..., C), 0 beyond q's last token, and how many are fixed among 0 .. C."""
        tables, bins = self._tables, self._bins(self.head[..., 0])
        most = self.acceptance.most
        there = namespace(self.head).concatenate((self.head > 0, self.head[..., :1] < 0), -1)
        child = minimum(positions(most, self.head), self.head.shape[-1])
        return where(there[..., child], tables.added[bins], 0.0), tables.fixed[bins]

    def below(self, masses: Array, tokens: Array, tops: Array, count: Array) -> Array:
        """Chance that each child is reached, given its parent is, by its mass under q (..., C) and its place; see `Prospect`."""
        tables, bins = self._tables, self._bins(small(floats(masses)))
        place = positions(tokens.shape[-1], tokens)
        siblings, places = (count - 1 for count in tables.of_drawn.shape[:2])
        drawn = tables.of_drawn[minimum(tops, siblings) + 0 * bins, minimum(place, places) + 0 * bins, bins]
        return where(tokens < 0, 0, where(place < count - tops, drawn, tables.of_fixed[bins]))

    def _bins(self, masses: Array) -> Array:
        return (masses[..., None] >= self._tables.edges).sum(-1)

    @property
    def _tables(self) -> _Tables:
        return _tables(self.acceptance, self.head.device if is_torch(self.head) else None)


class _Tables(NamedTuple):
    added: Array
    fixed: Array
    of_drawn: Array
    of_fixed: Array
    edges: Array


@lru_cache(maxsize=256)
def _tables(acceptance: Acceptance, device: Any) -> _Tables:
    """Made once for a device, because making them is a copy from the host."""
    like = np.empty(0) if device is None else _empty(device)

    def numbers(values: Any) -> Array:
        return from_host(np.array(values, dtype=np.float64), like)

    return _Tables(
        numbers(acceptance.added),
        integers(acceptance.fixed, like),
        numbers(acceptance.of_drawn),
        numbers(acceptance.of_fixed),
        numbers(acceptance.edges),
    )


def _empty(device: Any) -> Array:
    import torch

    return torch.empty(0, device=device, dtype=torch.float64)


class _Count:
    """The sums that an `Acceptance` is made of. Rows of a batch are drawn side by side."""

    def __init__(self, p: np.ndarray, q: np.ndarray, most: int, seed: int) -> None:
        self.p, self.q, self.most = p, q, min(most, p.shape[-1])
        self.width, self._generator = most, np.random.default_rng(seed)
        self.bins = len(EDGES) + 1
        self.ranked = np.argsort(-q, axis=-1, kind="stable")[:, : self.most]
        self.row = np.searchsorted(EDGES, np.take_along_axis(q, self.ranked[:, :1], -1)[:, 0], side="right")
        # By row: chance that draw i is accepted besides j fixed tokens, (rows, j, i); mass of the i-th top token under the target.
        self.of_draw = np.zeros((len(p), most + 1, most))
        self.of_rank = np.zeros((len(p), most))
        self.of_rank[:, : self.most] = np.take_along_axis(p, self.ranked, -1)
        self._drawn, self._draws = np.zeros((2, SIBLINGS, PLACES, self.bins))

    def acceptance(self) -> Acceptance:
        for tops in range(self.most + 1):
            self._count_draws(tops)
        draws, ranks = self._by_bin(self.of_draw), self._by_bin(self.of_rank)
        forest = _forest(self.of_draw.mean(0)[0])
        added, fixed = zip(*(self._best(*each, forest) for each in zip(draws, ranks, strict=True)), strict=True)
        typical, _ = self._best(self.of_draw.mean(0), self.of_rank.mean(0), forest)
        masses, wanted = (np.take_along_axis(x, self.ranked, -1).ravel() for x in (self.q, self.p))
        place = np.searchsorted(EDGES, masses, side="right")
        of_fixed, tokens = np.bincount(place, wanted, self.bins), np.bincount(place, minlength=self.bins)
        return Acceptance(
            tuple(added),
            tuple(fixed),
            typical,
            tuple(tuple(map(_floats, rows)) for rows in _shrunk(self._drawn, self._draws)),
            _floats(_shrunk(of_fixed[None], tokens[None])[0]),
        )

    def _by_bin(self, counted: np.ndarray) -> np.ndarray:
        """Means over the rows of a bin, drawn to that over all rows."""
        number = np.bincount(self.row, minlength=self.bins).reshape(-1, *[1] * (counted.ndim - 1))
        sums = np.zeros((self.bins, *counted.shape[1:]))
        np.add.at(sums, self.row, counted)
        return np.asarray((sums + PRIOR * counted.mean(0)) / (number + PRIOR))

    def _count_draws(self, tops: int) -> None:
        """Recursive rejection of draws without replacement outside the first so many top tokens, one after the other."""
        target, left = self.p.copy(), self.q.copy()
        np.put_along_axis(left, self.ranked[:, :tops], 0, -1)
        alive = np.ones(len(left))
        for place in range(self.most - tops):
            mass = left.sum(-1)
            goes_on = (mass > 1e-12) & (alive > 1e-12)
            law = left / np.where(goes_on, mass, 1)[:, None] * goes_on[:, None]
            self._note(law, target, alive * goes_on, (min(tops, SIBLINGS - 1), min(place, PLACES - 1)))
            overlap = np.minimum(target, law)
            self.of_draw[:, tops, place] = alive * overlap.sum(-1)
            refused = self._draw(law - overlap)
            np.put_along_axis(left, refused[:, None], 0, -1)
            target = target - overlap
            rest = target.sum(-1)
            alive = alive * np.where(goes_on, rest, 0)
            target = target / np.where(rest > 0, rest, 1)[:, None]

    def _note(self, law: np.ndarray, target: np.ndarray, alive: np.ndarray, at: tuple[int, int]) -> None:
        """One draw of every row, and the chance that it is accepted."""
        token = self._draw(law)[:, None]
        mass, wanted, own = (np.take_along_axis(x, token, -1)[:, 0] for x in (law, target, self.q))
        chance = alive * np.minimum(1, wanted / np.where(mass > 0, mass, 1))
        bins, kept = np.searchsorted(EDGES, own, side="right"), mass > 0
        np.add.at(self._drawn[at], bins[kept], chance[kept])
        np.add.at(self._draws[at], bins[kept], 1)

    def _draw(self, masses: np.ndarray) -> np.ndarray:
        sums = masses.cumsum(-1)
        wanted = self._generator.random((len(masses), 1)) * sums[:, -1:]
        return np.minimum((sums <= wanted).sum(-1), masses.shape[-1] - 1)

    def _best(
        self, of_draw: np.ndarray, of_rank: np.ndarray, forest: np.ndarray
    ) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """What each child adds with the best numbers of fixed tokens, and these numbers; (j, i) and (i,) chances of draws and tokens.

        The best is what makes most of the trees below the children: of as many nodes as there would be below draws alone, before another
        child pays.
        """
        best, fixed = [0.0], [0]
        for count in range(1, self.width + 1):
            children = [np.concatenate((of_draw[tops, : count - tops], of_rank[:tops])) for tops in range(count + 1)]
            below = np.multiply.outer(children[0], forest)
            nodes = int((below >= children[0].min()).sum())
            values = [np.sort(np.multiply.outer(each, forest).ravel())[-nodes:].sum() for each in children]
            fixed.append(int(np.argmax(values)))
            best.append(max(float(children[fixed[-1]].sum()), best[-1]))
        return _floats(np.minimum.accumulate(np.diff(best))), tuple(fixed)


def _forest(typical: np.ndarray, nodes: int = 64, levels: int = 7) -> np.ndarray:
    """The likeliest nodes of the tree below a node whose children are accepted with these chances, itself (1) included."""
    tree = np.ones(1)
    for _ in range(levels):
        tree = np.concatenate(([1.0], np.sort(np.multiply.outer(typical, tree).ravel())[::-1][: nodes - 1]))
    return tree


def _shrunk(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Means by column of each row, drawn to the row's own where there are few."""
    overall = sums.sum(-1, keepdims=True) / np.maximum(counts.sum(-1, keepdims=True), 1)
    return (sums + PRIOR * overall) / (counts + PRIOR)


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)
