"""Tree drafters: the interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ...arrays import Array
from ...errors import InvalidArgument
from ...laws import DraftLaw
from ...laws.fixed_tokens import n_fixed_by_node
from ..model import Nodes, Path, Rows
from ..rules.path_rule import PathRule
from ..tree import Bounds, DraftTree
from .counted_acceptance import PairAcceptance
from .enumeration import Drafted, every_growth
from .forced import ForcedDraws, Laws, forced_chances
from .growing import Growing, Grown, TreeDraws, grow_all, prefixes_of


@dataclass(frozen=True)
class DraftCounts:
    """Counts of what one drafted tree needs; all but the first are maximums.

    n_uniforms: numbers in [0, 1) for its draws. n_draft_slots: nodes that the draft model reads, including the root. n_model_calls: forward
    passes of the draft model, one per level. n_lookup_tokens: looked-up tokens, in addition to those of the draft model. n_paths: children
    of the root. n_cascade_tokens: tokens that the cascade proposes to the draft model at a time; 0 without a cascade. slots_are_nodes:
    whether the draft model reads node i in slot i. n_noise_lists: lists of noise per depth that its draws need; 0 if they need uniforms
    only.
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
    """Base class of methods that draft trees.

    Examples
    --------
    >>> import ot_draft as otd
    >>> isinstance(otd.trees.FixedTree(otd.trees.TreeShape.chains(2, 3)), otd.trees.TreeDrafter)
    True
    """

    @property
    @abstractmethod
    def bounds(self) -> Bounds:
        """Bounds of its trees, known before drafting."""

    @property
    def counts(self) -> DraftCounts:
        """Counts of what one tree needs: here a uniform random number and a slot per node, and one forward pass per level."""
        bounds = self.bounds
        return DraftCounts(bounds.size, bounds.size + 1, bounds.length, 0, bounds.max_children)

    @property
    @abstractmethod
    def law(self) -> DraftLaw:
        """Draft law of the children of a node, for any number of them."""

    @property
    @abstractmethod
    def rule(self) -> PathRule:
        """Default lossless path rule for its trees."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Name in tables."""

    @abstractmethod
    def growing(self, draws: TreeDraws) -> Growing:
        """Return growing trees of a root each, with these draws."""

    def held(
        self,
        draft: Laws,
        text: Path,
        generator: np.random.Generator | None = None,
        runs: int = 16,
        given: Sequence[int] = (),
    ) -> tuple[Array, Array]:
        """Return weights (R, L) of R trees, and which of them hold the first 1 .. L tokens of a sequence: see `forced_chances`.

        A single row is exact. draft: draft distributions (n,) after prefixes, on the host. generator: random numbers of the runs. given:
        see `TreeDraws`.
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
        """Yield every way to draft a tree after the empty prefix of a model: the tree, and the probability."""
        return every_growth(nodes, self.growing, self.law)


def family(drafter: TreeDrafter) -> tuple[str, int]:
    """Return the key under which acceptance is counted: trees of one family have the same acceptance."""
    own: tuple[str, int] = getattr(drafter, "family", ("tree", drafter.bounds.size))
    return own


def for_pair(drafter: TreeDrafter, acceptance: PairAcceptance) -> TreeDrafter:
    """Return the drafter with a pair's counted acceptance, if it drafts by counted acceptance and was given none."""
    own = getattr(drafter, "for_pair", None)
    return cast(TreeDrafter, own(acceptance)) if own else drafter


def begin(drafter: TreeDrafter, uniforms: Array, given: Array | None = None, noise: Array | None = None) -> Growing:
    """Return growing trees of a root each; uniforms (B, n_uniforms) in [0, 1), given int (B, n_lookup_tokens), noise: see `TreeDraws`."""
    if tuple(uniforms.shape[1:]) != (drafter.counts.n_uniforms,):
        raise InvalidArgument(
            f"uniforms must have shape (B, {drafter.counts.n_uniforms}), got {tuple(uniforms.shape)}. Pass one row per tree."
        )
    return drafter.growing(TreeDraws(uniforms, given, noise))


def draft_trees(drafter: TreeDrafter, model: Any, roots: Sequence[Path], uniforms: np.ndarray) -> DraftTree:
    """Return a tree after each of B prefixes of a model, by uniforms (B, n_uniforms) in [0, 1)."""
    rows, known = Rows.of(model), dict[Path, tuple[Any, Any]]()
    grown = grow_all(begin(drafter, uniforms), roots, lambda prefix: rows.pair(prefix, known)[1])
    p, q = (np.zeros((len(roots), drafter.bounds.size + 1, rows.n)) for _ in range(2))
    for row, root in enumerate(roots):
        for node, prefix in enumerate(prefixes_of(grown, row)):
            if prefix is not None:
                p[row, node], q[row, node] = rows.pair(root + prefix, known)
    return as_trees(drafter, grown, p, q)


def as_trees(drafter: TreeDrafter, grown: Grown, p: Array, q: Array) -> DraftTree:
    """Return the drafted trees with p (B, N + 1, n) and q (B, M, n) at their nodes."""
    fixed_count = grown.fixed_count[:, : q.shape[1]] if n_fixed_by_node(drafter.law) else None
    return DraftTree(grown.parents, grown.tokens, p, q, drafter.bounds, drafter.law, fixed_count)
