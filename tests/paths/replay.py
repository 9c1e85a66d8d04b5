"""The exact law of `PathRule.select` given the drafts: it is run once for every sequence of choices that it can make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ot_draft import paths
from ot_draft.paths.model import Model
from ot_draft.paths.tree import PathSelection, PlainTree

Law = dict[tuple[int, ...], Any]


class Replay:
    """Stands in for the uniforms of one tree: makes the choices it is told, then the first possible, and notes the others."""

    def __init__(self, told: Sequence[int]) -> None:
        self.told, self.made, self.others = told, [], []
        self.probability: Any = 1
        self.columns: list[int] = []

    def index(self, mass: Any, column: int, needed: Any = None) -> Any:
        if needed is not None and not needed.any():
            return np.zeros((1, 1), dtype=np.int64)
        masses = np.asarray(mass)[0]
        if not masses.sum():
            return np.zeros((1, 1), dtype=np.int64)  # nothing to choose from: no draft is there
        return self._choose(masses / masses.sum(), column)

    def first(self, chances: Any, column: int) -> Any:
        chances = np.asarray(chances)[0]
        return self._choose([*chances, max(1 - chances.sum(), 0 * chances.sum())], column)

    def happens(self, chance: Any, column: int) -> Any:
        chance = np.asarray(chance)[0, 0]
        return self._choose([1 - chance, chance], column) == 1

    def _choose(self, chances: Any, column: int) -> Any:
        assert column not in self.columns, "one uniform for two choices"
        self.columns.append(column)
        possible = [i for i, chance in enumerate(chances) if chance > 0]
        if len(self.made) < len(self.told):
            choice = self.told[len(self.made)]
        else:
            choice = possible[0]
            self.others += [(*self.made, other) for other in possible[1:]]
        self.made.append(choice)
        self.probability = self.probability * chances[choice]
        return np.array([[choice]])


def law_of(rule: paths.PathRule, tree: paths.DraftTree, shape: paths.TreeShape | None = None) -> Law:
    """Law of the emitted tokens for a batch of one tree; the result is checked to be one path of the tree (of that shape)."""
    law: Law = {}
    rule.check(tree.bounds, tree.law)
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        replay = Replay(waiting.pop())
        selection = rule._select(tree, replay)  # type: ignore[arg-type]
        assert max(replay.columns) < rule.n_uniforms(tree.bounds)
        waiting += replay.others
        emitted = tokens_of(tree, selection, 0, shape)
        law[emitted] = law.get(emitted, 0) + replay.probability
    return law


def tokens_of(
    tree: paths.DraftTree, selection: PathSelection, row: int, shape: paths.TreeShape | None = None
) -> tuple[int, ...]:
    """The tokens emitted in one row, after checking that length, nodes and tokens say the same."""
    length = int(selection.length[row])
    nodes, tokens = selection.nodes[row].tolist(), selection.tokens[row].tolist()
    accepted = nodes[:length]
    assert accepted == list((shape or tree.shape(row)).path(accepted[-1] if accepted else 0))
    assert tokens[:length] == [int(tree.tokens[row, node - 1]) for node in accepted]
    assert tokens[length] >= 0 and set(tokens[length + 1 :]) <= {-1} and set(nodes[length:]) <= {-1}
    return tuple(tokens[: length + 1])


def batched(model: Model, trees: Sequence[PlainTree], kind: Any = None) -> paths.DraftTree:
    """Trees of one shape and law, with the model's distributions, in an array kind (default Fractions)."""
    shape = trees[0].shape
    p, q = [], []
    for tree in trees:
        # What stands at absent nodes is not read.
        prefixes = [tuple(max(tree.tokens[node - 1], 0) for node in shape.path(v)) for v in range(shape.size + 1)]
        p.append([model.target(prefix) for prefix in prefixes])
        q.append([model.draft(prefix) for prefix in prefixes])
    make = kind.make if kind else lambda values: np.array(values, dtype=object)
    ids = np.array([tree.tokens for tree in trees], dtype=np.int64).reshape(len(trees), shape.size)
    tokens = kind.tokens(ids) if kind else ids
    return shape.tree(tokens, make(p), make(q), trees[0].law)
