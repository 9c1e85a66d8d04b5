"""The exact law of `PathRule.select` given the drafts: it is run once for every sequence of choices that it can make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft.trees.evaluation.batched_form import selected_law
from ot_draft.trees.model import Model
from ot_draft.trees.rules.path_rule import PathLaw
from ot_draft.trees.tree import PathSelection, PlainTree


def law_of(rule: otd.trees.PathRule, tree: otd.trees.DraftTree) -> PathLaw:
    """Law of the emitted tokens for a batch of one tree."""
    rule.check(tree.bounds, tree.law)
    return selected_law(rule, tree)


def tokens_of(
    tree: otd.trees.DraftTree, selection: PathSelection, row: int, shape: otd.trees.TreeShape | None = None
) -> tuple[int, ...]:
    """The tokens emitted in one row, after checking that length, nodes and tokens say the same."""
    length = int(selection.length[row])
    nodes, tokens = selection.nodes[row].tolist(), selection.tokens[row].tolist()
    accepted = nodes[:length]
    assert accepted == list((shape or tree.shape(row)).path(accepted[-1] if accepted else 0))
    assert tokens[:length] == [int(tree.tokens[row, node - 1]) for node in accepted]
    assert tokens[length] >= 0 and set(tokens[length + 1 :]) <= {-1} and set(nodes[length:]) <= {-1}
    return tuple(tokens[: length + 1])


def batched(model: Model, trees: Sequence[PlainTree], kind: Any = None) -> otd.trees.DraftTree:
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
