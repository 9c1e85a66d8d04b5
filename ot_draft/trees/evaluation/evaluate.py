"""What a path rule does, exactly, over all drafts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Number
from typing import Any

from ... import arrays as xp
from ...errors import InvalidArgument
from ...laws import DraftLaw
from ...problem import TOLERANCE
from ..drafting.drafter import TreeDrafter
from ..drafting.enumeration import within_limit
from ..drafting.fixed import as_drafter
from ..model import Model, Nodes, Path
from ..rules.path_rule import PathLaw, merge
from ..tree import Forest

__all__ = ["PathEvaluation"]


@dataclass(frozen=True)
class PathEvaluation:
    """Laws and lengths of a path rule on a model, averaged over the drafts. In the laws, what is not there has probability 0.

    law: {L + 1 tokens: probability}, the tokens emitted in one iteration and then, up to L + 1, tokens of the target.
    target_law: the same of the target alone. expected_length: expected number of accepted drafted tokens.
    tolerance: how far a law may be from the target's and count as equal; 0 on Fractions.
    """

    law: PathLaw
    target_law: PathLaw
    expected_length: Any
    tolerance: float = 0

    @property
    def error(self) -> Any:
        """Total variation distance between the law and the target's."""
        emitted = self.law.keys() | self.target_law.keys()
        return sum(abs(self.law.get(tokens, 0) - self.target_law.get(tokens, 0)) for tokens in emitted) / 2

    @property
    def lossless(self) -> bool:
        """Whether the law of the first L + 1 tokens is the target's: with == on Fractions, within the tolerance on floats."""
        return self.law == self.target_law if self.tolerance == 0 else bool(self.error <= self.tolerance)

    @property
    def block_efficiency(self) -> Any:
        """Expected number of tokens emitted by one call of the target."""
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
        For a shape, the law of the children of every node, by default `IID()`.

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
            f"{path_rule!r} is no path rule: give one, as otd.trees.Joint(), or a function of (model, drafts)"
        )
    nodes = Nodes.of(model)
    ways, paths = as_drafter(drafting, law), drafting[0] if isinstance(drafting, tuple) and law is None else 0
    L = ways.bounds.length if isinstance(ways, TreeDrafter) else ways.length
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
    """What the rule says for these drafts, if it is a law of tokens."""
    wrong: Any = None if isinstance(law, Mapping) else law
    for tokens, mass in law.items() if isinstance(law, Mapping) else ():
        if not isinstance(tokens, tuple) or not isinstance(mass, Number) or not all(0 <= token < n for token in tokens):
            wrong = {tokens: mass}
    if wrong is not None or not isinstance(law, Mapping):
        raise InvalidArgument(
            f"the path rule gave {wrong!r} for {drafts}: give a dictionary, {{(emitted tokens, of 0 .. {n - 1}): probability}}"
        )
    return law  # type: ignore[return-value]  # a dict, or something like it


def _held(forest: Forest, tokens: Path) -> int:
    """Number of the tokens that a drafted tree holds, from the root down."""
    if not tokens:
        return 0
    return max((1 + _held(below, tokens[1:]) for token, below in forest if token == tokens[0]), default=0)


def _continued(nodes: Nodes, tokens: Path, length: int) -> PathLaw:
    """Law of the first `length` tokens when these are given and the target goes on."""
    law: PathLaw = {tokens: nodes.one}
    for _ in range(len(tokens), length):
        law = {
            (*prefix, token): probability * mass
            for prefix, probability in law.items()
            for token, mass in enumerate(nodes.target(prefix).tolist())
            if mass != 0
        }
    return law
