"""Ways to draft trees: what each of them answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import Array
from ...errors import InvalidArgument
from ...laws import DraftLaw
from ...laws.fixed_tokens import carries_n_fixed
from ..model import Nodes, Path, Rows
from ..rules.path_rule import PathRule
from ..tree import Bounds, DraftTree
from .enumeration import Drafted, every_growth
from .forced import ForcedDraws, Laws, forced_chances
from .growing import Growing, Grown, TreeDraws, grow_all, prefixes_of


@dataclass(frozen=True)
class DraftCounts:
    """Counts of what one drafted tree takes.

    n_uniforms: numbers in [0, 1) that its draws take. n_draft_slots: nodes that the draft model reads at most, the root among them.
    n_model_calls: calls of the draft model at most, one a level. n_lookup_tokens: tokens of another source that are drafted at most, beside
    the draft model's. n_cascade_tokens: tokens that the draft model's own draft proposes to it at a time; 0 where it has none. n_paths:
    children of the root at most. slots_are_nodes: whether the draft model reads a node in the slot of its number. n_noise_lists: numbers of
    noise that its draws take for each token and depth; 0 if they take uniforms alone.
    """

    n_uniforms: int
    n_draft_slots: int
    n_model_calls: int
    n_lookup_tokens: int
    n_paths: int
    n_cascade_tokens: int = 0
    slots_are_nodes: bool = True
    n_noise_lists: int = 0


class TreeDrafter(ABC):
    """A way to draft trees: within what bounds, and by what draws."""

    @property
    @abstractmethod
    def bounds(self) -> Bounds:
        """Bounds of its trees, known beforehand."""

    @property
    def counts(self) -> DraftCounts:
        """Counts of what one tree needs: here a uniform random number and a slot per node, and one forward pass per level."""
        bounds = self.bounds
        return DraftCounts(bounds.size, bounds.size + 1, bounds.length, 0, bounds.max_children)

    @property
    @abstractmethod
    def law(self) -> DraftLaw:
        """The law of the children of a node, however many there are."""

    @property
    @abstractmethod
    def rule(self) -> PathRule:
        """The lossless rule that its trees are usually selected from by."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Its name in tables."""

    @abstractmethod
    def growing(self, draws: TreeDraws) -> Growing:
        """Trees of a root each, whose draws are made so."""

    def held(
        self,
        draft: Laws,
        text: Path,
        generator: np.random.Generator | None = None,
        runs: int = 16,
        given: Sequence[int] = (),
    ) -> tuple[Array, Array]:
        """Weights (R, L) of R trees, and which of them hold the first 1 .. L tokens of a sequence: see `forced_chances`. One row is exact.

        draft: the laws (n,) after some prefixes, on the host. generator: random numbers of the runs; given: see `TreeDraws`.
        """
        generator = np.random.default_rng() if generator is None else generator

        def along(until: int | None) -> tuple[np.ndarray, np.ndarray]:
            return forced_chances(self.growing, draft, text, ForcedDraws(generator, runs, given), until)

        if self.counts.slots_are_nodes or not self.counts.n_uniforms:
            return along(None)
        each = [[x[:, depth - 1] for x in along(depth)] for depth in range(1, len(text) + 1)]
        weights, holds = (np.stack(columns, -1) for columns in zip(*each, strict=True))
        return weights, holds

    def every_tree(self, nodes: Nodes) -> Iterator[Drafted]:
        """Every tree after the empty prefix of a model, as often as there are ways to draft it, and the probability of each."""
        return every_growth(nodes, self.growing, self.law)


def begin(drafter: TreeDrafter, uniforms: Array, given: Array | None = None, noise: Array | None = None) -> Growing:
    """Trees of a root each, drawn by these uniforms (B, n_uniforms) in [0, 1); given: int (B, n_lookup_tokens), noise: see `TreeDraws`."""
    if tuple(uniforms.shape[1:]) != (drafter.counts.n_uniforms,):
        raise InvalidArgument(f"uniforms have shape {tuple(uniforms.shape)}: give (B, {drafter.counts.n_uniforms})")
    return drafter.growing(TreeDraws(uniforms, given, noise))


def draft_trees(drafter: TreeDrafter, model: Any, roots: Sequence[Path], uniforms: np.ndarray) -> DraftTree:
    """A tree after each of B prefixes of a model, by uniforms (B, n_uniforms) in [0, 1)."""
    rows, known = Rows.of(model), dict[Path, tuple[Any, Any]]()
    grown = grow_all(begin(drafter, uniforms), roots, lambda prefix: rows.pair(prefix, known)[1])
    p, q = (np.zeros((len(roots), drafter.bounds.size + 1, rows.n)) for _ in range(2))
    for row, root in enumerate(roots):
        for node, prefix in enumerate(prefixes_of(grown, row)):
            if prefix is not None:
                p[row, node], q[row, node] = rows.pair(root + prefix, known)
    return as_trees(drafter, grown, p, q)


def as_trees(drafter: TreeDrafter, grown: Grown, p: Array, q: Array) -> DraftTree:
    """The drafted trees, with p (B, N + 1, n) and q (B, M, n) at their nodes."""
    fixed_count = grown.fixed_count[:, : q.shape[1]] if carries_n_fixed(drafter.law) else None
    return DraftTree(grown.parents, grown.tokens, p, q, drafter.bounds, drafter.law, fixed_count)
