"""Draftings: how trees are drafted in a step, and the path rule that selects from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from ..boundary import int_from
from ..errors import CannotDecode
from ..laws import DraftLaw, check_defined
from ..trees import DraftTree, FixedTree, PathRule, TreeDrafter, TreeShape
from ..trees.drafting.baselines import LookupPath
from ..trees.drafting.drafter import as_trees, begin, for_pair
from ..trees.rules.path_rule import looks_ahead
from ..trees.tree import PathSelection
from .pair import Pair
from .prompt_lookup import History, PromptLookup, TokenSource

NOTHING = FixedTree(TreeShape())


class NoiseSource(Protocol):
    """Source of random numbers of a step in addition to uniforms."""

    def __call__(self, rows: Sequence[int], emitted: Sequence[int], n: int, dtype: torch.dtype) -> Tensor:
        """Return numbers (B, ...), on the CPU. rows, emitted: row number and emitted tokens of each sequence; n: vocabulary size."""


@dataclass(frozen=True)
class Drafting:
    """A method to draft trees, with the path rule that selects from them; as a `Policy`, the same in every step.

    `Drafting.of(tree)` uses the default rule and prompt lookup of the tree.

    Parameters
    ----------
    tree : TreeDrafter
        How a tree is drafted, such as `otd.trees.CountedTree(32)` or a `otd.trees.FixedTree`; without nodes: autoregressive decoding.
    rule : PathRule
        Verification rule.
    lookup : PromptLookup, optional
        Source of looked-up tokens, for a tree that takes them (`otd.trees.LookupTree`, `LookupPath`).
    noise : NoiseSource, optional
        Source of the random numbers that tree or rule take besides uniforms, exactly if one of them takes some (`watermark.RaceTree`).

    Raises
    ------
    InvalidDrafts
        If the rule is not lossless on such trees.
    CannotDecode
        If an argument is of another type, the tree takes no looked-up tokens, or the noise does not fit tree and rule.

    Examples
    --------
    >>> import ot_draft as otd
    >>> from ot_draft.decoding import Drafting
    >>> Drafting.of(otd.trees.FixedTree(otd.trees.TreeShape.chains(2, 3))).rule
    Joint(classes=None)
    """

    tree: TreeDrafter
    rule: PathRule
    lookup: TokenSource | None = None
    noise: NoiseSource | None = None

    uses_clock: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.tree, TreeDrafter):
            raise CannotDecode(
                f"tree must be a TreeDrafter, got {self.tree!r}. Use one, such as otd.trees.FixedTree.chains(4, 4)."
            )
        if not isinstance(self.rule, PathRule):
            raise CannotDecode(f"rule must be a path rule, got {self.rule!r}. Use one, such as otd.trees.Joint().")
        if not isinstance(self.tree.law, DraftLaw):
            raise CannotDecode(f"law must be a draft law, got {self.tree.law!r}. Use one, such as otd.IID().")
        if self.rule != self.tree.rule and not self.tree.bounds.size:
            raise CannotDecode(
                f"rule must be the default without a tree, got {self.rule!r}. Pass a tree, or no rule for autoregressive decoding."
            )
        if self.lookup is not None and not self.tree.counts.n_lookup_tokens:
            raise CannotDecode(
                f"lookup must be None for {self.tree.label}, which takes no looked-up tokens. Remove it, or use LookupTree."
            )
        self.rule.check(self.tree.bounds, self.tree.law)
        for count in self.tree.bounds.branching:
            check_defined(self.tree.law, count)
        self._check_noise()

    def _check_noise(self, n: int = 2) -> None:
        """n: vocabulary size of the noise that is looked at."""
        lists, rule, noise = self.tree.counts.n_noise_lists, self.rule, self.noise
        takers = [self.tree.label] * bool(lists) + [rule.name] * rule.takes_noise
        if not takers and noise is not None:
            raise CannotDecode(
                f"noise must be None for {self.tree.label} and {rule.name}, which take none, got {noise!r}. Remove it, or use a RaceTree."
            )
        if not takers:
            return
        if not callable(noise):
            raise CannotDecode(
                f"noise must be a NoiseSource for {' and '.join(takers)}, got {noise!r}. Use watermarked(key, paths, length)."
            )
        if looks_ahead(rule):
            raise CannotDecode(
                "rule must not look at nodes below the one that it decides at, since the next step uses their noise again, got"
                f" {rule.name}. Use RacePath(), or TokenWise with a selection rule, such as TokenWise(KSeq())."
            )
        shape, length = tuple(noise([0], [0], n, torch.float32).shape), self.tree.bounds.length
        if len(shape) != 4 or shape != (1, length + 1, lists or max(shape[2], 1), n):
            raise CannotDecode(
                f"noise must have shape (B, {length + 1}, {lists or 'K'}, n) for {self.tree.label}, got {shape} at B = 1 and n = {n}."
                " Make it for paths of this number and length."
            )

    @classmethod
    def of(
        cls,
        tree: TreeDrafter = NOTHING,
        rule: PathRule | None = None,
        lookup: TokenSource | None = None,
    ) -> Self:
        """Return a drafting with the usual rule of a tree, and as many looked-up tokens as it takes, unless they are given."""
        if lookup is None and tree.counts.n_lookup_tokens:
            lookup = PromptLookup(tree.counts.n_lookup_tokens).for_tree
        return cls(tree, tree.rule if rule is None else rule, lookup)

    @classmethod
    def autoregressive(cls) -> Self:
        """Return autoregressive decoding: nothing is drafted."""
        return cls.of()

    @classmethod
    def chains(cls, paths: int, length: int, rule: PathRule, law: DraftLaw | None = None) -> Self:
        """Return a drafting of K paths of length L that share only the root."""
        for name, number in (("paths", paths), ("length", length)):
            int_from(name, number, 1, error=CannotDecode)
        return cls(FixedTree.chains(paths, length, law), rule)

    @classmethod
    def looked_up(cls, lookup: PromptLookup | None = None) -> Self:
        """Return a drafting of one path of prompt lookup, accepted as far as the target's own samples agree (`otd.trees.NaivePath`).

        Each step has as many nodes as tokens were found.
        """
        lookup = PromptLookup() if lookup is None else lookup
        return cls.of(LookupPath.chains(1, lookup.num_tokens), lookup=lookup)

    @cached_property
    def candidates(self) -> tuple[Drafting, ...]:
        """All draftings that it may choose: itself; for prompt lookup alone one per number of tokens, autoregressive decoding first."""
        if self.lookup is None or self.tree.counts.n_model_calls:
            return (self,)
        return (
            Drafting.autoregressive(),
            *(self.shortened(length) for length in range(1, self.tree.bounds.length)),
            self,
        )

    def shortened(self, length: int) -> Drafting:
        """Return the drafting with a path of fewer looked-up tokens."""
        return replace(self, tree=LookupPath.chains(1, length))

    def begin(self, pair: Pair, batch: int) -> Drafting:
        """Return the drafting with the counts of these models; a text draft replaces prompt lookup."""
        lookup = self.lookup
        if pair.text_draft is not None and lookup is not None and not self.tree.counts.n_model_calls:
            lookup = pair.text_draft
        tree = self.tree if pair.acceptance is None else for_pair(self.tree, pair.acceptance)
        return replace(self, tree=tree, lookup=lookup)

    def choose(self, texts: History) -> Drafting:
        """Return itself, or the drafting of as many looked-up tokens as the longest match of the active sequences has."""
        if len(self.candidates) == 1:
            return self
        longest = max(len(match.tokens) for match in texts.look_up(self.lookup))
        return self.candidates[min(longest, len(self.candidates) - 1)]  # a text draft may find more tokens than fit

    def observe(self, step: Any, seconds: float) -> None:
        """Do nothing."""

    @property
    def room(self) -> int:
        """Number of cache slots that a step needs in addition to the root's."""
        return max(self.tree.bounds.size, self.tree.counts.n_draft_slots)

    @property
    def uniforms(self) -> int:
        """Number of uniforms of one step: those of the drafts, then those of the rule."""
        return self.tree.counts.n_uniforms + self.rule.n_uniforms(self.tree.bounds)

    def select(self, tree: DraftTree, numbers: Any, noise: Any = None) -> PathSelection:
        """Return the rule's selection from such trees, by all random numbers of the step; a smaller tree uses the first ones."""
        first = self.tree.counts.n_uniforms
        return self.rule.select(tree, numbers[:, first : first + self.rule.n_uniforms(tree.bounds)], noise)

    def warm_up(self, n: int) -> None:
        """Run one step with uniform distributions, so that imports and compilation do not count as time of a step."""
        numbers = torch.full((1, self.uniforms), 0.5)
        noise = None if self.noise is None else self.noise([0], [0], n, numbers.dtype)
        given = torch.full((1, self.tree.counts.n_lookup_tokens), -1)
        growing = begin(self.tree, numbers[:, : self.tree.counts.n_uniforms], given, noise)
        while growing.levels:
            growing.grow(torch.full((1, growing.slots.shape[1], n), 1 / n))
        laws = torch.full((1, self.tree.bounds.size + 1, n), 1 / n)
        self.select(as_trees(self.tree, growing.grown(), laws, laws), numbers, noise)
