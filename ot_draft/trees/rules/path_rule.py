"""What a path rule is, and what all of them need: drafts that were checked, the laws that a rule is valid under, sums of laws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any, ClassVar

import numpy as np

from ...arrays import Array
from ...errors import InvalidArgument, InvalidDrafts
from ...laws import IID, DraftLaw, FixedFirst
from ..model import Model, Nodes, Path
from ..tree import Bounds, DraftTree, PathSelection, PlainTree
from .survivors import Draws

PathLaw = dict[Path, Any]  # emitted tokens -> probability; what is not there has probability 0
Lengths = dict[int, Any]  # number of accepted tokens -> probability
Outcome = tuple[Path, Any, Array]  # accepted tokens, probability, law (n,) of the token after them


class PathRule(ABC):
    """A function from a drafted tree to the law of the tokens emitted in one iteration, in two forms.

    Plain: rule(model, drafts) is that law given the drafts, over the rule's own randomness only, in Fractions. Batched:
    rule.select(tree, uniforms) draws from it for a batch of trees. Emitted are the accepted tokens, which lead from the root down
    the tree, and one token more. `otd.trees.evaluate` says whether the rule is lossless.

    takes_noise: whether `select` needs noise besides its uniforms.
    """

    takes_noise: ClassVar[bool] = False

    def __call__(self, model: Model, drafts: Any) -> PathLaw:
        """drafts: a PlainTree, or K i.i.d. sequences of L token ids, in drawing order. Exact if the model's laws are Fractions."""
        law: PathLaw = {}
        for path, probability, following in decided(self, model, drafts):
            for token, mass in enumerate(following.tolist()):
                if mass != 0:
                    merge(law, probability, {(*path, token): mass})
        return law

    @abstractmethod
    def outcomes(self, nodes: Nodes, tree: PlainTree) -> Iterable[Outcome]:
        """All that may be decided about a tree: what is accepted, its probability, and the law (n,) of the token after it."""

    @abstractmethod
    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        """Raise InvalidDrafts where the rule is not valid on trees within these bounds whose children follow this law."""

    @abstractmethod
    def n_uniforms(self, bounds: Bounds) -> int:
        """Number of uniforms that `select` takes for one tree."""

    def select(self, tree: DraftTree, uniforms: Array, noise: Array | None = None) -> PathSelection:
        """Paths and tokens that are emitted for every tree, by independent uniforms (B, U) in [0, 1), U = self.n_uniforms(tree.bounds).

        noise: other random numbers, for rules with `takes_noise` (`draws.noise`); no rule of `otd.trees` has it.
        Nothing is asked of the device, and all shapes are those of the input. Raises InvalidDrafts where the
        law of the tree's children is not one that the rule is valid under, or uniforms are missing.
        """
        self.check(tree.bounds, tree.law)
        wanted = (len(tree.tokens), self.n_uniforms(tree.bounds))
        if tuple(uniforms.shape) != wanted:
            raise InvalidArgument(
                f"uniforms have shape {tuple(uniforms.shape)}: {self.name} takes {wanted} for this tree"
            )
        return self._select(tree, Draws(uniforms, noise))

    @abstractmethod
    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        """`select`, after the checks; every random choice is made by draws.index."""

    def output_distribution(self, tree: DraftTree, chosen: Array) -> Array | None:
        """Return the distribution (B, n) of the next token given the drafts, after the tokens chosen, int (B, d), along the tree.

        None for a rule that decides at a node by the nodes below it.
        """
        return None

    @property
    def looks_ahead(self) -> bool:
        """Whether a decision at a node may depend on the nodes below it; not if the rule has an `output_distribution`."""
        return type(self).output_distribution is PathRule.output_distribution

    @property
    def law(self) -> DraftLaw:
        """The law that trees are drafted by for this rule unless another one is asked for."""
        return IID()

    @property
    def name(self) -> str:
        """Name in tables and figures."""
        return type(self).__name__


def lengths(rule: PathRule, model: Model, drafts: Any) -> Lengths:
    """P(so many drafted tokens are accepted | the drafts), as `rule(model, drafts)` has them."""
    found: Lengths = {}
    for path, probability, _ in decided(rule, model, drafts):
        if probability != 0:
            found[len(path)] = found.get(len(path), 0) + probability
    return found


def decided(rule: PathRule, model: Model, drafts: Any) -> Iterable[Outcome]:
    """The rule's outcomes for a model and drafts, checked."""
    nodes, tree = read(model, drafts)
    rule.check(tree.shape, tree.law)
    found = rule.outcomes(nodes, tree)
    if not isinstance(found, Iterable):
        raise InvalidArgument(f"{rule.name}.outcomes gave {found!r} for {tree}: {WANTED}")
    return (_checked(rule, nodes.n, outcome) for outcome in found)


WANTED = "give (accepted tokens, probability, law of the token after them), one for each that may happen"


def _checked(rule: PathRule, n: int, outcome: Any) -> Outcome:
    """The outcome, if it is one."""
    path, probability, following = (
        outcome if isinstance(outcome, Sequence) and len(outcome) == 3 else (None, None, None)
    )
    is_path = isinstance(path, tuple) and all(isinstance(token, int | np.integer) and 0 <= token < n for token in path)
    is_law = getattr(following, "shape", None) == (n,)
    if not (is_path and is_law and isinstance(probability, Number)):
        raise InvalidArgument(f"{rule.name}.outcomes gave {outcome!r} with n = {n}: {WANTED}")
    return path, probability, following  # type: ignore[return-value]  # mypy does not follow


def fits(rule: PathRule, bounds: Bounds, law: DraftLaw) -> bool:
    """Whether the rule is valid on trees within these bounds whose children follow this law."""
    try:
        rule.check(bounds, law)
    except InvalidDrafts:
        return False
    return True


def read(model: Model, drafts: Any) -> tuple[Nodes, PlainTree]:
    """Model and drafted tree, checked; K >= 1 paths of one length L >= 0 are made a tree."""
    nodes = Nodes.of(model)
    if isinstance(drafts, PlainTree):
        _check_tokens(drafts.tokens, nodes.n, "the tree", absent=True)
        return nodes, drafts
    paths = tuple(tuple(path) for path in (drafts.tolist() if isinstance(drafts, np.ndarray) else drafts))
    if not paths:
        raise InvalidDrafts("no drafted path was given: give K >= 1 paths (of length 0 where nothing is drafted)")
    if len({len(path) for path in paths}) > 1:
        raise InvalidDrafts(f"drafted paths have lengths {[len(path) for path in paths]}: give K paths of one length L")
    for row, path in enumerate(paths):
        _check_tokens(path, nodes.n, f"path {row}")
    return nodes, PlainTree.of_paths(tuple(tuple(int(token) for token in path) for path in paths))


def _check_tokens(tokens: Path, n: int, holder: str, absent: bool = False) -> None:
    for token in tokens:
        if isinstance(token, bool) or not isinstance(token, int | np.integer) or not -absent <= token < n:
            raise InvalidDrafts(f"{holder} holds {token!r}: give token ids, integers in the vocabulary 0 .. {n - 1}")


def merge(law: PathLaw, probability: Any, other: PathLaw) -> None:
    """Add to the law: with this probability, what the other law emits."""
    if probability == 0:
        return
    for emitted, mass in other.items():
        law[emitted] = law.get(emitted, 0) + probability * mass


def refuse(name: str, valid_under: str, law: DraftLaw) -> InvalidDrafts:
    """The error for a path rule on a tree that was drawn by another law."""
    return InvalidDrafts(
        f"{name} is valid on trees whose children follow {valid_under}, and the children of this one were drawn by {law!r}:"
        " take Traversal() or NaivePath(), valid under every law, or draw the tree by the law of the rule"
    )


def split_tops(law: DraftLaw, q: Array, lists: tuple[Path, ...]) -> tuple[Path, Path]:
    """The children of all living nodes in plain form, a list a node: the top tokens, once, and all draws."""
    longest = max(lists, key=len)
    number = int(np.ravel(law.n_fixed(q, len(longest)))[0]) if isinstance(law, FixedFirst) else 0
    return longest[:number], tuple(token for tokens in lists for token in tokens[number:])
