"""evaluate and evaluate_tree: the law of the first L + 1 tokens and the accepted length, by enumerating all drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...arrays import is_exact, one
from ...errors import InvalidDrafts
from ...laws import IID, DraftLaw
from ...problem import TOLERANCE
from ..model import Model, Path
from ..plain import Forest
from ..rules.path_rule import Nodes, PathLaw, merge
from ..tree import TreeShape
from .trees import all_trees, number_of_trees

MAX_TUPLES = 1 << 20  # K-tuples of paths, or trees; more than this takes an hour in Fractions

Accepted = Callable[[Path], int]  # how many of the tokens the drafts hold, from the first on


@dataclass(frozen=True)
class PathEvaluation:
    """What a path rule does on a model, averaged over the drafts. In the laws, what is not there has probability 0.

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


def evaluate(path_rule: Callable[[Any, Any], PathLaw], model: Model, K: int, L: int) -> PathEvaluation:
    """Law of the first L + 1 tokens and expected accepted length of `path_rule(model, drafts)` on K i.i.d. paths of length L.

    The judge, not the defendant: a token counts as accepted only where a drafted path holds it and all before it. The
    drafts are taken in drawing order, for a rule may depend on it. L = 0 is one token of the target. Exact if the
    model's distributions are Fractions. Raises InvalidDrafts where there are more than a million tuples of drafted paths.
    """
    check_sizes(K, L)
    nodes = Nodes.of(model)
    _within_limit(nodes.n ** (L + 1), f"{nodes.n}^{L + 1} sequences of L + 1 = {L + 1} tokens")
    paths = dict(_drafted(nodes, L))
    _within_limit(len(paths) ** K, f"{len(paths)}^{K} tuples of K = {K} drafted paths")

    def drafted() -> Iterator[tuple[Any, Any, Accepted]]:
        for drafts in product(paths, repeat=K):
            probability = prod((paths[path] for path in drafts), start=one(nodes.target(())))
            yield drafts, probability, partial(_longest, drafts)

    return _judge(path_rule, nodes, L, drafted())


def evaluate_tree(
    path_rule: Callable[[Any, Any], PathLaw], model: Model, shape: TreeShape, law: DraftLaw | None = None
) -> PathEvaluation:
    """The same of `path_rule(model, PlainTree)` on trees of a shape, the children of every node drawn by the law (default IID).

    L is the depth of the shape. Exact if the model's distributions are Fractions. Raises InvalidDrafts where there are more
    than a million trees; trees of 12 nodes over two tokens are few enough.
    """
    nodes, law = Nodes.of(model), IID() if law is None else law
    L = shape.length
    _within_limit(nodes.n ** (L + 1), f"{nodes.n}^{L + 1} sequences of L + 1 = {L + 1} tokens")
    _within_limit(number_of_trees(nodes, shape, law), "all drafted trees")

    def drafted() -> Iterator[tuple[Any, Any, Accepted]]:
        for tree, probability in all_trees(nodes, shape, law):
            yield tree, probability, partial(_held, tree.forest)

    return _judge(path_rule, nodes, L, drafted())


def _judge(
    path_rule: Callable[[Any, Any], PathLaw], nodes: Nodes, L: int, drafted: Iterator[tuple[Any, Any, Accepted]]
) -> PathEvaluation:
    root = nodes.target(())
    emitted: PathLaw = {}
    expected_length = one(root) - one(root)
    for drafts, probability, accepted in drafted:
        given_drafts = path_rule(nodes, drafts)
        merge(emitted, probability, given_drafts)
        for tokens, mass in given_drafts.items():
            if not 1 <= len(tokens) <= L + 1:
                raise InvalidDrafts(
                    f"the path rule emitted {tokens}: it must emit accepted tokens and one more, 1 to L + 1 = {L + 1} tokens"
                )
            expected_length += probability * mass * accepted(tokens[:-1])
    law: PathLaw = {}
    for tokens, mass in emitted.items():
        merge(law, mass, _continued(nodes, tokens, L + 1))
    target_law = _continued(nodes, (), L + 1)
    law = {tokens: mass for tokens, mass in law.items() if mass != 0}
    return PathEvaluation(law, target_law, expected_length, 0 if is_exact(root) else TOLERANCE[str(root.dtype)])


def check_sizes(K: int, L: int) -> None:
    for name, value, least in (("K", K, 1), ("L", L, 0)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InvalidDrafts(f"{name} is {value!r}: give K >= 1 drafted paths of length L >= 0, both integers")


def _within_limit(number: int, what: str) -> None:
    if number > MAX_TUPLES:
        raise InvalidDrafts(
            f"enumerating {what} is out of reach (limit {MAX_TUPLES}): take a smaller vocabulary, or fewer or shorter paths"
        )


def _drafted(nodes: Nodes, length: int) -> Iterator[tuple[Path, Any]]:
    """Every path that can be drafted, and its probability."""
    level: PathLaw = {(): one(nodes.target(()))}
    for _ in range(length):
        level = {
            (*path, token): probability * mass
            for path, probability in level.items()
            for token, mass in enumerate(nodes.draft(path).tolist())
            if mass != 0
        }
    yield from level.items()


def _longest(paths: tuple[Path, ...], tokens: Path) -> int:
    """How many of the tokens some path holds, from the first on."""
    return max(_common(tokens, path) for path in paths)


def _common(tokens: Path, path: Path) -> int:
    for length, (token, other) in enumerate(zip(tokens, path, strict=False)):
        if token != other:
            return length
    return min(len(tokens), len(path))


def _held(forest: Forest, tokens: Path) -> int:
    """How many of the tokens a drafted tree holds, from the root down."""
    if not tokens:
        return 0
    return max((1 + _held(below, tokens[1:]) for token, below in forest if token == tokens[0]), default=0)


def _continued(nodes: Nodes, tokens: Path, length: int) -> PathLaw:
    """Law of the first `length` tokens when these are given and the target goes on."""
    law: PathLaw = {tokens: one(nodes.target(()))}
    for _ in range(len(tokens), length):
        law = {
            (*prefix, token): probability * mass
            for prefix, probability in law.items()
            for token, mass in enumerate(nodes.target(prefix).tolist())
            if mass != 0
        }
    return law
