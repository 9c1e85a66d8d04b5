"""Ways to draft trees: what each of them answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...arrays import Array
from ...errors import InvalidArgument
from ...laws import DraftLaw
from ...laws.fixed_tokens import carries_n_fixed
from ..model import Nodes, Path, Rows
from ..rules.path_rule import PathRule
from ..tree import Bounds, DraftTree, TreeBounds
from .counted_acceptance import PairAcceptance
from .enumeration import Drafted, every_growth
from .forced import ForcedDraws, Laws, forced_chances
from .growing import Growing, Grown, TreeDraws, grow_all, prefixes_of


class TreeDrafter(ABC):
    """A way to draft trees of at most `budget` nodes, `length` deep, `most` children a node."""

    # Whether the draft model reads a node in the slot of its number.
    slots_are_nodes: ClassVar[bool] = True
    # How many tokens of another source it drafts at most, beside the draft model's.
    takes: int = 0
    # How many tokens the draft model's own draft proposes to it at a time; 0: it has none.
    ahead: int = 0
    budget: int
    length: int
    most: int

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

    @property
    def draws(self) -> int:
        """Uniform numbers that one tree takes."""
        return self.budget

    @property
    def reads(self) -> int:
        """Slots: nodes that the draft model reads at most, the root among them."""
        return self.budget + 1

    @property
    def bounds(self) -> Bounds:
        """What is known of its trees beforehand."""
        return TreeBounds(self.budget, self.length, self.most)

    @property
    def passes(self) -> int:
        """Calls of the draft model, at most: one a level."""
        return self.length

    @property
    def width(self) -> int:
        """Children of the root, at most: the number of paths."""
        return self.most

    @property
    def family(self) -> tuple[str, int]:
        """What its acceptance is counted by: trees of one family are accepted alike."""
        return "tree", self.budget

    def for_pair(self, acceptance: PairAcceptance) -> TreeDrafter:
        """The same by what was counted of the models that decode with it, where it goes by such counts and was given none."""
        return self

    @abstractmethod
    def growing(self, draws: TreeDraws) -> Growing:
        """Trees of a root each, whose draws are made so."""

    def begin(self, uniforms: Array, given: Array | None = None) -> Growing:
        """Trees of a root each, drawn by these uniforms (B, draws) in [0, 1); given: int (B, takes), see `TreeDraws`."""
        if tuple(uniforms.shape[1:]) != (self.draws,):
            raise InvalidArgument(f"uniforms have shape {tuple(uniforms.shape)}: give (B, {self.draws})")
        return self.growing(TreeDraws(uniforms, given))

    def draft(self, model: Any, roots: Sequence[Path], uniforms: np.ndarray) -> DraftTree:
        """A tree after each of B prefixes of a model, by uniforms (B, draws) in [0, 1)."""
        rows, known = Rows.of(model), dict[Path, tuple[Any, Any]]()
        grown = grow_all(self.begin(uniforms), roots, lambda prefix: rows.pair(prefix, known)[1])
        p, q = (np.zeros((len(roots), self.budget + 1, rows.n)) for _ in range(2))
        for row, root in enumerate(roots):
            for node, prefix in enumerate(prefixes_of(grown, row)):
                if prefix is not None:
                    p[row, node], q[row, node] = rows.pair(root + prefix, known)
        return self.tree(grown, p, q)

    def tree(self, grown: Grown, p: Array, q: Array) -> DraftTree:
        """The drafted trees, with p (B, N + 1, n) and q (B, M, n) at their nodes."""
        fixed_count = grown.fixed_count[:, : q.shape[1]] if carries_n_fixed(self.law) else None
        return DraftTree(grown.parents, grown.tokens, p, q, self.bounds, self.law, fixed_count)

    def held(
        self,
        draft: Laws,
        text: Path,
        generator: np.random.Generator | None = None,
        runs: int = 16,
        given: Sequence[int] = (),
    ) -> tuple[Array, Array]:
        """Weights (R, L) of R trees, and which of them hold the first 1 .. L tokens of a text: see `forced_chances`. One row is exact.

        draft: the laws (n,) after some prefixes, on the host. generator: of the draws, of so many runs; given: see `TreeDraws`.
        """
        generator = np.random.default_rng() if generator is None else generator

        def along(until: int | None) -> tuple[np.ndarray, np.ndarray]:
            return forced_chances(self.growing, draft, text, ForcedDraws(generator, runs, given), until)

        if self.slots_are_nodes or not self.draws:
            return along(None)
        each = [[x[:, depth - 1] for x in along(depth)] for depth in range(1, len(text) + 1)]
        weights, holds = (np.stack(columns, -1) for columns in zip(*each, strict=True))
        return weights, holds

    def every_tree(self, nodes: Nodes) -> Iterator[Drafted]:
        """Every tree after the empty prefix of a model, as often as there are ways to draft it, and the probability of each."""
        return every_growth(nodes, self.growing, self.law)
