"""Exact distribution of a path rule's batched form: `_select` runs once for every sequence of choices that it can make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import Array
from ...errors import InvalidArgument
from ..model import Model, Nodes, Path
from ..rules.path_rule import PathLaw, PathRule, read
from ..tree import DraftTree, PathSelection, PlainTree


def batched_form(rule: PathRule) -> Callable[[Model, Any], PathLaw]:
    """Return a rule as `decode` runs it, as a function of a model and drafts for `otd.trees.evaluate`.

    Every random choice of the batched form is made in every way, on Fractions if the model's distributions are Fractions. The rule
    itself is the plain form. A compiled loop that reads `draws.uniforms` itself is not tested.

    Parameters
    ----------
    rule : PathRule
        The rule.

    Returns
    -------
    form : callable
        ``form(model, drafts)``. It raises InvalidArgument if the rule draws other than by the methods of `draws`, uses a uniform twice or
        more than `n_uniforms`, or does not return a path of the tree.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> model = otd.trees.MarkovModel.random(np.random.default_rng(0), 2, order=0)
    >>> form = otd.trees.batched_form(otd.trees.BlockVerification())
    >>> otd.trees.evaluate(form, model, (1, 2)).lossless
    True
    """

    def law_of(model: Model, drafts: Any) -> PathLaw:
        nodes, tree = read(model, drafts)
        rule.check(tree.shape, tree.law)
        return selected_law(rule, _with_laws(nodes, tree))

    return law_of


def selected_law(rule: PathRule, tree: DraftTree) -> PathLaw:
    """Return the distribution of the tokens that `_select` emits for a batch of one tree."""
    law: PathLaw = {}
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        choices = _Choices(waiting.pop(), rule.n_uniforms(tree.bounds))
        try:
            selection = rule._select(tree, choices)  # type: ignore[arg-type]
        except AttributeError as error:
            if error.obj is not choices:
                raise
            raise InvalidArgument(
                f"{rule.name}._select must make every choice by draws.index, draws.first or draws.happens, got draws.{error.name}."
                " Use one of these."
            ) from error
        waiting += choices.others
        emitted = _emitted(rule.name, tree, selection)
        law[emitted] = law.get(emitted, 0) + choices.probability
    return law


class _Choices:
    """A replacement of one tree's uniforms that makes given choices, then the first possible ones, and records the others."""

    def __init__(self, told: Sequence[int], uniforms: int) -> None:
        self._told, self._made, self._uniforms = told, list[int](), uniforms
        self.others: list[tuple[int, ...]] = []
        self.probability: Any = 1
        self._columns: set[int] = set()

    def index(self, mass: Array, column: int, needed: Array | None = None) -> Array:
        if needed is not None and not np.any(needed):
            return np.zeros((1, 1), dtype=np.int64)
        masses = np.asarray(mass)[0]
        if not masses.sum():  # no draft is present
            return np.zeros((1, 1), dtype=np.int64)
        return self._choose(masses / masses.sum(), column)

    def first(self, chances: Array, column: int) -> Array:
        chances = np.asarray(chances)[0]
        return self._choose([*chances, max(1 - chances.sum(), 0 * chances.sum())], column)

    def happens(self, chance: Array, column: int) -> Any:
        chance = np.asarray(chance)[0, 0]
        return self._choose([1 - chance, chance], column) == 1

    def _choose(self, chances: Sequence[Any] | Array, column: int) -> Array:
        if column in self._columns:
            raise InvalidArgument(
                f"_select must use a separate column of uniforms for every choice, got column {column} twice. Use another column."
            )
        if not 0 <= column < self._uniforms:
            raise InvalidArgument(
                f"_select must use columns 0 .. {self._uniforms - 1} of the uniforms, got {column}."
                " Let n_uniforms return the number of columns."
            )
        self._columns.add(column)
        possible = [place for place, chance in enumerate(chances) if chance > 0]
        if len(self._made) < len(self._told):
            choice = self._told[len(self._made)]
        else:
            choice = possible[0]
            self.others += [(*self._made, other) for other in possible[1:]]
        self._made.append(choice)
        self.probability = self.probability * chances[choice]
        return np.array([[choice]])


def _emitted(name: str, tree: DraftTree, selection: PathSelection) -> Path:
    """The tokens emitted in the only row, if length, nodes and tokens agree."""
    if not isinstance(selection, PathSelection):
        raise InvalidArgument(
            f"{name}._select must return a PathSelection, got {selection!r}. Return length, nodes and tokens in one."
        )
    length, nodes, tokens = int(selection.length[0]), selection.nodes[0].tolist(), selection.tokens[0].tolist()
    shape = tree.shape(0)
    accepted = nodes[: max(length, 0)]
    is_path = 0 <= length <= len(nodes) and all(0 < node <= shape.size for node in accepted)
    is_path = is_path and accepted == list(shape.path(accepted[-1] if accepted else 0)) and set(nodes[length:]) <= {-1}
    said = f"length {length}, nodes {nodes}, tokens {tokens}"
    if not is_path:
        raise InvalidArgument(
            f"{name}._select must return a path from a child of the root, then -1, got {said}. Return its nodes."
        )
    held = [int(tree.tokens[0, node - 1]) for node in accepted]
    if tokens[:length] != held or not 0 <= tokens[length] < tree.p.shape[-1] or set(tokens[length + 1 :]) - {-1}:
        raise InvalidArgument(
            f"{name}._select must return the nodes' tokens {held}, then one token id, then -1, got {said}. Correct the tokens."
        )
    return tuple(tokens[: length + 1])


def _with_laws(nodes: Nodes, tree: PlainTree) -> DraftTree:
    shape = tree.shape
    # Absent nodes get any token.
    prefixes = [tuple(max(tree.tokens[node - 1], 0) for node in shape.path(v)) for v in range(shape.size + 1)]
    p, q = (np.array([[law(prefix) for prefix in prefixes]]) for law in (nodes.target, nodes.draft))
    return shape.tree(np.array([tree.tokens], dtype=np.int64).reshape(1, shape.size), p, q, tree.law)
