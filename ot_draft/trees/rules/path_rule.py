"""Path rules: the interface, checks of drafts and results, and helpers that all of them need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any, ClassVar

import numpy as np

from ...arrays import Array
from ...boundary import int_from
from ...errors import InvalidArgument, InvalidDrafts
from ...laws import IID, DraftLaw, FixedFirst
from ..model import Model, Nodes, Path
from ..tree import Bounds, DraftTree, PathSelection, PlainTree
from .survivors import Draws

PathLaw = dict[Path, Any]  # emitted tokens -> probability, 0 for absent ones
Lengths = dict[int, Any]  # number of accepted tokens -> probability
Outcome = tuple[Path, Any, Array]  # accepted tokens, probability, distribution (n,) of the token after them


class PathRule(ABC):
    """A function from a drafted tree to the distribution of the tokens emitted in one iteration, in two forms.

    Plain form: rule(model, drafts) is that distribution given the drafts, in Fractions. Batched form: rule.select(tree, uniforms) draws
    from it for a batch of trees. The accepted tokens, a path from the root, and one token more are emitted. `otd.trees.evaluate`
    computes whether the rule is lossless.

    takes_noise: whether `select` needs noise in addition to uniforms. A rule may also have a method `output_distribution`, and properties
    `looks_ahead`, `solves_program` and `short_name`, for the functions of these names; `approximate_for` as a selection rule.
    """

    takes_noise: ClassVar[bool] = False

    def __call__(self, model: Model, drafts: Any) -> PathLaw:
        """Return the distribution of the emitted tokens, exact if the model holds Fractions.

        drafts: a PlainTree, or K i.i.d. sequences of L token ids, in drawing order.
        """
        law: PathLaw = {}
        for path, probability, following in decided(self, model, drafts):
            for token, mass in enumerate(following.tolist()):
                if mass != 0:
                    merge(law, probability, {(*path, token): mass})
        return law

    @abstractmethod
    def outcomes(self, nodes: Nodes, tree: PlainTree) -> Iterable[Outcome]:
        """Return all possible decisions: accepted tokens, their probability, and the distribution (n,) of the token after them."""

    @abstractmethod
    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        """Raise InvalidDrafts unless the rule is valid on trees within these bounds whose children follow this draft law."""

    @abstractmethod
    def n_uniforms(self, bounds: Bounds) -> int:
        """Return the number of uniforms that `select` needs for one tree."""

    def select(self, tree: DraftTree, uniforms: Array, noise: Array | None = None) -> PathSelection:
        """Return the paths and tokens emitted for every tree, by independent uniforms (B, U) in [0, 1), U = self.n_uniforms(tree.bounds).

        noise: other random numbers, for rules with `takes_noise` (`draws.noise`); no rule of `otd.trees` has it. It runs without a device
        sync, and shapes follow from those of the input. Raises InvalidDrafts if the rule is not valid under the tree's draft law, and
        InvalidArgument for another number of uniforms.
        """
        self.check(tree.bounds, tree.law)
        wanted = (len(tree.tokens), self.n_uniforms(tree.bounds))
        if tuple(uniforms.shape) != wanted:
            raise InvalidArgument(
                f"uniforms must have shape {wanted} for {self.name} on this tree, got {tuple(uniforms.shape)}. Pass as many."
            )
        return self._select(tree, Draws(uniforms, noise))

    @abstractmethod
    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        """Return `select` after the checks, with all random choices by methods of `draws`."""

    @property
    def law(self) -> DraftLaw:
        """Default draft law of trees for this rule."""
        return IID()

    @property
    def name(self) -> str:
        """Name in tables and figures."""
        return type(self).__name__


def output_distribution(rule: PathRule, tree: DraftTree, chosen: Array) -> Array | None:
    """Return the distribution (B, n) of the next token given the drafts, after the tokens chosen, int (B, d), along the tree.

    None for a rule that decides at a node by the nodes below it.
    """
    own = getattr(rule, "output_distribution", None)
    return own(tree, chosen) if own else None


def looks_ahead(rule: PathRule) -> bool:
    """Whether a decision at a node may depend on the nodes below it; not if the rule has an `output_distribution`."""
    return bool(getattr(rule, "looks_ahead", not hasattr(rule, "output_distribution")))


def solves_program(rule: PathRule) -> bool:
    """Whether a program is solved at every node: on the host, for small vocabularies."""
    return bool(getattr(rule, "solves_program", False))


def short_name(rule: PathRule) -> str:
    """Name where it is clear that a path rule is meant: that of the selection rule for token-wise selection."""
    return str(getattr(rule, "short_name", rule.name))


def lengths(rule: PathRule, model: Model, drafts: Any) -> Lengths:
    """Return P(i draft tokens are accepted | the drafts) by i."""
    found: Lengths = {}
    for path, probability, _ in decided(rule, model, drafts):
        if probability != 0:
            found[len(path)] = found.get(len(path), 0) + probability
    return found


def decided(rule: PathRule, model: Model, drafts: Any) -> Iterable[Outcome]:
    """Return the rule's outcomes for a model and drafts, checked."""
    nodes, tree = read(model, drafts)
    rule.check(tree.shape, tree.law)
    found = rule.outcomes(nodes, tree)
    if not isinstance(found, Iterable):
        raise InvalidArgument(
            f"{rule.name}.outcomes must return {WANTED}, got {found!r} for {tree}. Return an iterable."
        )
    return (_checked(rule, nodes.n, outcome) for outcome in found)


WANTED = "(accepted tokens, probability, distribution of the next token) for every possible decision"


def _checked(rule: PathRule, n: int, outcome: Any) -> Outcome:
    path, probability, following = (
        outcome if isinstance(outcome, Sequence) and len(outcome) == 3 else (None, None, None)
    )
    is_path = isinstance(path, tuple) and all(isinstance(token, int | np.integer) and 0 <= token < n for token in path)
    is_law = getattr(following, "shape", None) == (n,)
    if not (is_path and is_law and isinstance(probability, Number)):
        raise InvalidArgument(
            f"{rule.name}.outcomes must return {WANTED} over {n} tokens, got {outcome!r}. Correct this decision."
        )
    return path, probability, following  # type: ignore[return-value]  # mypy does not follow


def fits(rule: PathRule, bounds: Bounds, law: DraftLaw) -> bool:
    """Return whether the rule is valid on trees within these bounds whose children follow this draft law."""
    try:
        rule.check(bounds, law)
    except InvalidDrafts:
        return False
    return True


def read(model: Model, drafts: Any) -> tuple[Nodes, PlainTree]:
    """Return model and drafted tree, checked; K >= 1 paths of one length L >= 0 become a tree."""
    nodes = Nodes.of(model)
    if isinstance(drafts, PlainTree):
        _check_tokens(drafts.tokens, nodes.n, "the tree", absent=True)
        return nodes, drafts
    paths = tuple(tuple(path) for path in (drafts.tolist() if isinstance(drafts, np.ndarray) else drafts))
    if not paths:
        raise InvalidDrafts(
            "drafts must hold at least one draft path, got none. Pass a path of length 0 if nothing is drafted."
        )
    if len({len(path) for path in paths}) > 1:
        raise InvalidDrafts(
            f"draft paths must have one length, got lengths {[len(path) for path in paths]}. Pass K paths of length L."
        )
    for row, path in enumerate(paths):
        _check_tokens(path, nodes.n, f"path {row}")
    return nodes, PlainTree.of_paths(tuple(tuple(int(token) for token in path) for path in paths))


def _check_tokens(tokens: Path, n: int, holder: str, absent: bool = False) -> None:
    for token in tokens:
        int_from(f"each token of {holder}", token, -absent, n, InvalidDrafts, "Pass token ids of the vocabulary.")


def merge(law: PathLaw, probability: Any, other: PathLaw) -> None:
    """Add another distribution, times a probability, to a distribution of emitted tokens."""
    if probability == 0:
        return
    for emitted, mass in other.items():
        law[emitted] = law.get(emitted, 0) + probability * mass


def refuse(name: str, valid_under: str, law: DraftLaw) -> InvalidDrafts:
    """Return the error for a path rule under a draft law that it is not valid under."""
    return InvalidDrafts(
        f"{name} is valid on trees whose children follow {valid_under}, and the children of this one were drawn by {law!r}:"
        " take Traversal() or NaivePath(), valid under every draft law, or draw the tree by that of the rule"
    )


def split_tops(law: DraftLaw, q: Array, lists: tuple[Path, ...]) -> tuple[Path, Path]:
    """Return the top tokens, once, and all draws among children of live nodes in plain form, one list per node."""
    longest = max(lists, key=len)
    number = int(np.ravel(law.n_fixed(q, len(longest)))[0]) if isinstance(law, FixedFirst) else 0
    return longest[:number], tuple(token for tokens in lists for token in tokens[number:])
