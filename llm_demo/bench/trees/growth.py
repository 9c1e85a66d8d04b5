"""Joint drafting of all trees of a context, level by level: one forward pass of the draft model serves all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

import ot_draft as otd
from llm_demo.bench.trees.draws import Key, SharedDraws
from ot_draft.trees.drafting.growing import Grown

Prefix = tuple[int, ...]
Laws = Callable[[list[Prefix]], list[np.ndarray]]  # the draft's distributions (n,) after some prefixes


@dataclass(frozen=True)
class Drafted:
    """One drafted tree. ways: prefix of every node, the root first. fixed_count: number of fixed children of every node."""

    law: otd.DraftLaw
    ways: tuple[Prefix, ...]
    parents: tuple[int, ...]
    fixed_count: tuple[int, ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of nodes 1 .. N."""
        return tuple(prefix[-1] for prefix in self.ways[1:])

    @classmethod
    def of(cls, drafting: otd.trees.TreeDrafter, grown: Grown) -> Drafted:
        """Return the tree of a batch of one."""
        prefixes: list[Prefix] = [()]
        for token, parent in zip(grown.tokens[0].tolist(), grown.parents[0].tolist(), strict=True):
            if token >= 0:
                prefixes.append((*prefixes[parent], token))
        size = len(prefixes) - 1
        parents, fixed = grown.parents[0, :size].tolist(), grown.fixed_count[0, : size + 1].tolist()
        return cls(drafting.law, tuple(prefixes), tuple(parents), tuple(fixed))


class _Job:
    """A growing tree, and the prefixes that the draft model read for it."""

    def __init__(self, drafting: otd.trees.TreeDrafter, draws: SharedDraws) -> None:
        self.drafting, self._draws, self.growing = drafting, draws, drafting.growing(draws)
        self._read: dict[int, Prefix] = {0: ()}

    def wanted(self) -> list[Prefix]:
        """Return the prefixes of the present level; none if the tree is complete."""
        growing = self.growing
        if not growing.levels or not (growing.slots >= 0).any():
            return []
        self._level: list[Prefix | None] = []
        for slot, token, above in zip(growing.slots[0], growing.read[0], growing.above[0], strict=True):
            if slot > 0:
                self._read[int(slot)] = (*self._read[int(above)], int(token))
            self._level.append(self._read[int(slot)] if slot >= 0 else None)
        return [prefix for prefix in self._level if prefix is not None]

    def grow(self, laws: Mapping[Prefix, np.ndarray]) -> None:
        some = next(iter(laws.values()))  # placeholder for absent nodes
        seen: dict[Prefix, int] = {}
        keys: list[Key | None] = []
        for prefix in self._level:
            keys.append(None if prefix is None else (prefix, seen.get(prefix, 0)))
            if prefix is not None:
                seen[prefix] = seen.get(prefix, 0) + 1
        self._draws.at(keys)
        self.growing.grow(np.stack([some if prefix is None else laws[prefix] for prefix in self._level])[None])


def draft_together(
    draftings: Iterable[otd.trees.TreeDrafter], laws: Laws, draws: Callable[[], SharedDraws]
) -> list[Drafted]:
    """Return one tree per drafter after one context. laws: the draft's distributions, requested once per level."""
    jobs = [_Job(drafting, draws()) for drafting in draftings]
    while any(wanted := [job.wanted() for job in jobs]):
        prefixes = sorted(set().union(*wanted))
        found = dict(zip(prefixes, laws(prefixes), strict=True))
        for job, mine in zip(jobs, wanted, strict=True):
            if mine:
                job.grow(found)
    return [Drafted.of(job.drafting, job.growing.grown()) for job in jobs]
