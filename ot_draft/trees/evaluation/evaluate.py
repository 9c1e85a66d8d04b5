"""Exact evaluation of a path rule over all drafts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Number
from typing import Any

from ... import arrays as xp
from ...errors import InvalidArgument
from ...laws import DraftLaw
from ...problem import TOLERANCE
from ..drafting.enumeration import within_limit
from ..drafting.fixed import as_drafter
from ..model import Model, Nodes, Path
from ..rules.path_rule import PathLaw, merge
from ..tree import Forest

__all__ = ["PathEvaluation"]


@dataclass(frozen=True)
class PathEvaluation:
    """Distributions and lengths of a path rule on a model, over all drafts. Absent sequences have probability 0.

    law: {L + 1 tokens: probability}, the tokens emitted in one iteration, continued by the target up to L + 1.
    target_law: the same of the target alone. expected_length: expected number of accepted draft tokens.
    tolerance: maximum distance from the target distribution that counts as equal; 0 on Fractions.
    """

    law: PathLaw
    target_law: PathLaw
    expected_length: Any
    tolerance: float = 0

    @property
    def error(self) -> Any:
        """Total variation distance from the target distribution."""
        emitted = self.law.keys() | self.target_law.keys()
        return sum(abs(self.law.get(tokens, 0) - self.target_law.get(tokens, 0)) for tokens in emitted) / 2

    @property
    def lossless(self) -> bool:
        """Whether the first L + 1 tokens have the target distribution: with == on Fractions, within the tolerance on floats."""
        return self.law == self.target_law if self.tolerance == 0 else bool(self.error <= self.tolerance)

    @property
    def block_efficiency(self) -> Any:
        """Expected number of tokens per target call."""
        return self.expected_length + 1


def evaluate(
    path_rule: Callable[[Any, Any], PathLaw], model: Model, drafting: Any, law: DraftLaw | None = None
) -> PathEvaluation:
    """Return the distribution of the emitted tokens and the expected accepted length of a path rule, over all drafts.

    Parameters
    ----------
    path_rule : callable
        ``path_rule(model, drafts)``, for example a `PathRule`. Trees come as a `PlainTree`.
    model : Model
        Target and draft distributions after every prefix.
    drafting : TreeDrafter, TreeShape or (K, L)
        How trees are drafted; (K, L) stands for K i.i.d. paths of L tokens, which the rule gets as tuples in drawing order.
    law : DraftLaw, optional
        For a shape, the draft law of the children of every node, by default `IID()`.

    Returns
    -------
    evaluation : PathEvaluation
        Exact if the model's distributions are Fractions. A token counts as accepted only if the drafts hold it and all before it.
        L = 0 is one token of the target.

    Raises
    ------
    InvalidArgument
        If there are more than a million drafts.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> model = otd.trees.MarkovModel.random(np.random.default_rng(0), 2, order=0)
    >>> otd.trees.evaluate(otd.trees.BlockVerification(), model, (1, 2)).lossless
    True
    """
    if not callable(path_rule) or isinstance(path_rule, type):
        raise InvalidArgument(
            f"path_rule must be a path rule or a function of (model, drafts), got {path_rule!r}. Pass otd.trees.Joint()."
        )
    nodes = Nodes.of(model)
    ways: Any = as_drafter(drafting, law)
    paths = drafting[0] if isinstance(drafting, tuple) and law is None else 0
    L = getattr(ways, "bounds", ways).length  # anything with `every_tree` and a length will do
    within_limit(nodes.n ** (L + 1), f"{nodes.n}^{L + 1} sequences of L + 1 = {L + 1} tokens")
    emitted: PathLaw = {}
    expected_length = 0 * nodes.one
    for tree, probability in ways.every_tree(nodes):
        drafts = tuple(tree.tokens[path::paths] for path in range(paths)) if paths else tree
        given_drafts = _checked(path_rule(nodes, drafts), drafts, nodes.n)
        merge(emitted, probability, given_drafts)
        for tokens, mass in given_drafts.items():
            if not 1 <= len(tokens) <= L + 1:
                raise InvalidArgument(
                    f"the path rule emitted {tokens}: it must emit accepted tokens and one more, 1 to L + 1 = {L + 1} tokens"
                )
            expected_length += probability * mass * _held(tree.forest, tokens[:-1])
    whole: PathLaw = {}
    for tokens, mass in emitted.items():
        merge(whole, mass, _continued(nodes, tokens, L + 1))
    whole = {tokens: mass for tokens, mass in whole.items() if mass != 0}
    root = nodes.target(())
    tolerance = 0 if xp.is_exact(root) else TOLERANCE[str(root.dtype)]
    return PathEvaluation(whole, _continued(nodes, (), L + 1), expected_length, tolerance)


def _checked(law: Any, drafts: Any, n: int) -> PathLaw:
    """Return the distribution that the rule gave for these drafts, if it is one over tokens."""
    for tokens, mass in law.items() if isinstance(law, Mapping) else ((law, None),):
        if not isinstance(tokens, tuple) or not isinstance(mass, Number) or not all(0 <= token < n for token in tokens):
            raise InvalidArgument(
                f"path_rule must return {{(emitted tokens from 0 to {n - 1}): probability}}, got {tokens!r}: {mass!r} for {drafts}."
                " Return a dictionary."
            )
    checked: PathLaw = law
    return checked


def _held(forest: Forest, tokens: Path) -> int:
    """Number of the first tokens that a drafted tree holds."""
    if not tokens:
        return 0
    return max((1 + _held(below, tokens[1:]) for token, below in forest if token == tokens[0]), default=0)


def _continued(nodes: Nodes, tokens: Path, length: int) -> PathLaw:
    """Distribution of the first `length` tokens, given these and continued by the target."""
    law: PathLaw = {tokens: nodes.one}
    for _ in range(len(tokens), length):
        law = {
            (*prefix, token): probability * mass
            for prefix, probability in law.items()
            for token, mass in enumerate(nodes.target(prefix).tolist())
            if mass != 0
        }
    return law
