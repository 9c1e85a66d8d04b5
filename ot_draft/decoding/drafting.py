"""What is drafted in one step and selected from, and who chooses it: by the past only, so that the texts keep the target's law.

A step brings tokens of the target's law given the text before it, whatever was decided before its random numbers are
drawn. A decision by them, or by what they drafted, would be another thing: it would prefer some outcomes of the step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

import ot_draft as ot

from ..errors import CannotDecode
from ..paths.drafting.baselines import LookupPath
from ..paths.tree import PathSelection


@dataclass(frozen=True)
class Match:
    """Tokens that may come next, none where nothing was found; matched: how many last tokens of the text stood before them."""

    tokens: tuple[int, ...] = ()
    matched: int = 0


@dataclass(frozen=True)
class Lookup:
    """Settings as in transformers' `generate`, under the same names there.

    num_tokens: `prompt_lookup_num_tokens`, drafted at most. max_ngram: `max_matching_ngram_size`, so many last tokens of the text are
    looked for first, then one less, and so on. The first place where they stand, and something follows, counts. min_ngram: fewer than so
    many are not looked for (transformers has no such setting, and looks for a single one).
    Source: Saxena, prompt lookup decoding, 2023.
    """

    num_tokens: int = 10
    max_ngram: int = 2
    min_ngram: int = 1

    def __post_init__(self) -> None:
        for name, value in (("prompt-lookup-num-tokens", self.num_tokens), ("max-matching-ngram-size", self.max_ngram)):
            if value < 1:
                raise CannotDecode(f"{name} is {value}: give at least 1")
        if not 1 <= self.min_ngram <= self.max_ngram:
            raise CannotDecode(
                f"min_ngram is {self.min_ngram}, max_ngram {self.max_ngram}: give at least 1, and at most max_ngram"
            )

    @property
    def for_tree(self) -> Lookup:
        """The same for a tree of two sources: what stood behind one equal token alone is hardly ever right, and costs nodes."""
        return replace(self, min_ngram=max(self.min_ngram, min(2, self.max_ngram)))

    @property
    def settings(self) -> dict[str, int]:
        """Under transformers' names."""
        return {"prompt_lookup_num_tokens": self.num_tokens, "max_matching_ngram_size": self.max_ngram}

    def find(self, text: Sequence[int]) -> Match:
        """The draft behind a text of token ids. It depends on the text alone, hence every lossless rule may take it."""
        tokens = np.asarray(text)
        before = tokens[:-1]  # where a match may end: something has to follow it
        ends = np.flatnonzero(before == tokens[-1]) if len(tokens) else before
        found, size = ends[:0], 0
        while len(ends) and size < min(self.max_ngram, len(tokens) - 1):
            found, size = ends, size + 1
            ends = ends[ends >= size]
            ends = ends[before[ends - size] == tokens[-1 - size]]
        if size < self.min_ngram:
            return Match()
        first = int(found[0]) + 1
        return Match(tuple(tokens[first : first + self.num_tokens].tolist()), size)


@dataclass(frozen=True)
class NoLookup:
    """Nothing is looked up."""

    num_tokens: int = 0

    @property
    def settings(self) -> dict[str, int]:
        """None."""
        return {}

    def find(self, text: Sequence[int]) -> Match:
        """Nothing."""
        return Match()


NOTHING = ot.paths.FixedTree(ot.paths.TreeShape())  # is drafted


@dataclass(frozen=True)
class Drafting:
    """A way to draft trees, and the path rule that selects from them.

    tree: `ot.paths.CountedTree(32)` for instance, or an `ot.paths.FixedTree` of N nodes; without nodes: autoregressive decoding. rule:
    the tree's own unless given; InvalidDrafts where it is not valid on such trees. lookup: how tokens are looked up in the text, for a
    tree that takes such (`ot.paths.LookupTree`, `LookupPath`).
    """

    tree: ot.paths.TreeDrafter = NOTHING
    rule: ot.paths.PathRule = None  # type: ignore[assignment]  # the tree's own stands in its place
    lookup: Lookup | NoLookup = None  # type: ignore[assignment]  # as many tokens as the tree takes

    def __post_init__(self) -> None:
        if self.rule not in (None, self.tree.rule) and not self.tree.budget:
            raise CannotDecode("a path rule needs a tree: give one, or no rule to decode autoregressively")
        if self.rule is None:
            object.__setattr__(self, "rule", self.tree.rule)
        if self.lookup is None:
            found = Lookup(self.tree.takes).for_tree if self.tree.takes else NoLookup()
            object.__setattr__(self, "lookup", found)
        elif not self.tree.takes and self.lookup != NoLookup():
            raise CannotDecode(
                f"{self.tree.label} takes no looked-up tokens: leave the lookup away, or take LookupTree"
            )
        self.rule.check(self.tree.bounds, self.tree.law)
        for count in self.tree.bounds.branching:
            self.tree.law.check(count)

    @classmethod
    def chains(cls, paths: int, length: int, rule: ot.paths.PathRule, law: ot.DraftLaw | None = None) -> Drafting:
        """K paths of length L that share nothing but the root."""
        if paths < 1 or length < 1:
            raise CannotDecode(f"K is {paths} and L is {length}: give at least 1 path of at least 1 token")
        return cls(ot.paths.FixedTree.chains(paths, length, law), rule)

    @classmethod
    def looked_up(cls, lookup: Lookup | None = None) -> LookedUp:
        """One path of prompt lookup, followed as far as the target's own draws agree with it (`ot.paths.NaivePath`)."""
        lookup = Lookup() if lookup is None else lookup
        return LookedUp(LookupPath.chains(1, lookup.num_tokens), lookup=lookup)

    def begin(self, run: Run) -> Chooser:
        """This drafting in every step, by what was counted of the models."""
        counted = run.pair.acceptance
        return Always(self if counted is None else replace(self, tree=self.tree.for_pair(counted)))

    def without_clock(self) -> Drafting:
        """Itself: no step depends on a time."""
        return self

    @property
    def room(self) -> int:
        """Slots that a step takes in the caches besides the root's."""
        return max(self.tree.budget, self.tree.reads)

    @property
    def uniforms(self) -> int:
        """Random numbers of one step: those of the drafts, then those of the rule."""
        return self.tree.draws + self.rule.uniforms(self.tree.bounds)

    # Whether the numbers of a step depend on how many tokens its texts have emitted; no CUDA graph holds them then.
    by_place: ClassVar[bool] = False

    def at_places(self, numbers: Tensor, rows: Sequence[int], places: Sequence[int], n: int, device: Any) -> Tensor:
        """Numbers of one step (B, uniforms), on the CPU, of texts that have emitted so many tokens; n: tokens of the target."""
        return numbers

    def select(self, tree: ot.paths.DraftTree, numbers: Any) -> PathSelection:
        """What the rule emits of trees drafted so, by all random numbers of the step; of a smaller tree it takes the first of its own."""
        first = self.tree.draws
        return self.rule.select(tree, numbers[:, first : first + self.rule.uniforms(tree.bounds)])

    def warm_up(self, n: int) -> None:
        """One step under uniform laws: what a rule imports or compiles at its first use is then no step's time."""
        numbers = torch.full((1, self.uniforms), 0.5)
        growing = self.tree.begin(numbers[:, : self.tree.draws], torch.full((1, self.tree.takes), -1))
        while growing.levels:
            growing.grow(torch.full((1, growing.slots.shape[1], n), 1 / n))
        laws = torch.full((1, self.tree.budget + 1, n), 1 / n)
        self.select(self.tree.tree(growing.grown(), laws, laws), numbers)


@dataclass(frozen=True)
class LookedUp(Drafting):
    """One path of looked-up tokens, in every step with as many nodes as were found."""

    def begin(self, run: Run) -> Chooser:
        return Found(self, run)

    def shortened(self, length: int) -> Drafting:
        """One path of fewer tokens; plain decoding for none."""
        if length >= self.tree.length:
            return self
        return replace(self, tree=LookupPath.chains(1, length)) if length else Drafting()


@dataclass(frozen=True)
class Run:
    """What is known when decoding begins. batch: number of texts; room: tokens that a draft may have beyond the text, None: any
    number; max_tokens: a text. pair: the models."""

    batch: int
    room: int | None
    max_tokens: int
    pair: Any


class Outcome(Protocol):
    """What a step did: of a `Step`, what a chooser learns from."""

    @property
    def drafting(self) -> Drafting: ...

    @property
    def length(self) -> Tensor: ...

    @property
    def active(self) -> Tensor: ...

    @property
    def finished(self) -> Tensor: ...

    @property
    def seconds(self) -> Any: ...


class Chooser(ABC):
    """Chooses the drafting of every step of one run. menu: all that it may choose; memory is taken for the largest."""

    menu: tuple[Drafting, ...]

    @abstractmethod
    def choose(self, texts: Sequence[Sequence[int]]) -> Drafting:
        """For the next step of the batch, given its texts so far, prompts included."""

    def found(self, drafting: Drafting, texts: Sequence[Sequence[int]]) -> Sequence[Match]:
        """What was looked up in the texts that `choose` was last asked about; searched by those alone who did not search."""
        return [drafting.lookup.find(text) for text in texts]

    def learn(self, step: Outcome, seconds: float) -> None:
        """What a step did, and how long it took with all that belongs to it."""


class Policy(Protocol):
    """What is decoded by: one drafting, or many among which the run itself chooses."""

    def begin(self, run: Run) -> Chooser:
        """Who chooses in a run that begins."""

    def without_clock(self) -> Policy | None:
        """Itself if it chooses by the texts alone, None if by measured times too."""


class Always(Chooser):
    """One drafting in every step."""

    def __init__(self, drafting: Drafting) -> None:
        self.menu = (drafting,)

    def choose(self, texts: Sequence[Sequence[int]]) -> Drafting:
        return self.menu[0]


class Found(Chooser):
    """Prompt lookup, in every step with as many nodes as the longest draft has among the texts that go on."""

    def __init__(self, drafting: LookedUp, run: Run) -> None:
        batch, of_pair = run.batch, run.pair.text_draft
        self._lookup = drafting.lookup if of_pair is None else of_pair
        self.menu = tuple(drafting.shortened(length) for length in range(drafting.tree.length + 1))
        self._going, self._found = [True] * batch, list[Match]()

    def choose(self, texts: Sequence[Sequence[int]]) -> Drafting:
        going = zip(texts, self._going, strict=True)
        self._found = [self._lookup.find(text) if goes_on else Match() for text, goes_on in going]
        longest = max(len(match.tokens) for match in self._found)
        return self.menu[min(longest, len(self.menu) - 1)]  # a text draft may find more than is drafted

    def found(self, drafting: Drafting, texts: Sequence[Sequence[int]]) -> Sequence[Match]:
        return self._found

    def learn(self, step: Outcome, seconds: float) -> None:
        self._going = (~step.finished).tolist()
