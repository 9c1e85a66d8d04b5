"""Drafting many trees from a model: what a decoder would hold after its draft steps and one call of the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import InvalidDrafts
from ...laws import IID, DraftLaw
from ..model import Path
from ..rules.path_rule import Nodes
from ..tree import DraftTree, TreeShape

MEMORY = 1 << 27  # bytes of p and q in one batch of trees


def first_chains(tree: DraftTree, K: int, L: int) -> DraftTree:
    """The first K of a tree's chains, cut after L tokens."""
    width = len(tree.shape.children(0))
    rows = [0, *(1 + depth * width + path for depth in range(L) for path in range(K))]
    shape = TreeShape.chains(K, L)
    inner = rows[: max(shape.parents, default=-1) + 1]
    tokens = tree.tokens[:, [row - 1 for row in rows[1:]]]
    tops = None if tree.tops is None else tree.tops[:, inner]
    return DraftTree(shape, tokens, tree.p[:, rows], tree.q[:, inner], tree.law, tops)


def draft_trees(
    model: Any, shape: TreeShape, iterations: int, seed: int, law: DraftLaw | None = None
) -> Iterator[tuple[DraftTree, list[np.random.Generator]]]:
    """Drafted trees in batches, and the generator of every iteration, from which the drafts were taken already."""
    if iterations < 2:
        raise InvalidDrafts(f"iterations is {iterations}: give at least 2, for a mean and its standard error")
    law, rows = IID() if law is None else law, Rows(model)
    size = max(1, MEMORY // (16 * (shape.size + 1) * rows.n))
    for start in range(0, iterations, size):
        numbers = range(start, min(start + size, iterations))
        generators = [np.random.default_rng([seed, number]) for number in numbers]
        uniforms = np.stack([generator.random(shape.size) for generator in generators])
        yield draft_tree(rows, shape, [rows.root(number) for number in numbers], uniforms, law), generators


def draft_tree(
    model: Any, shape: TreeShape, roots: Sequence[Path], uniforms: np.ndarray, law: DraftLaw | None = None
) -> DraftTree:
    """A tree drafted after each of B prefixes, level by level; uniforms (B, N) in [0, 1), one for every drafted node."""
    law, rows, batch = IID() if law is None else law, Rows.of(model), len(roots)
    tokens = np.full((batch, shape.size), -1, dtype=np.int64)
    p = np.empty((batch, shape.size + 1, rows.n))
    q = np.empty((batch, max(shape.parents, default=-1) + 1, rows.n))
    tops = np.zeros(q.shape[:2], dtype=np.int64)
    prefixes: list[list[Path | None]] = [[root] for root in roots]  # None at an absent node
    known: dict[Path, tuple[Any, Any]] = {}
    for level in shape.levels:
        for row, so_far in enumerate(prefixes):
            for node in level:
                if node:
                    so_far.append(_below(so_far[shape.parents[node - 1]], int(tokens[row, node - 1])))
                prefix = so_far[node]  # the rows of an absent node are not read: any do
                p[row, node], draft = rows.pair(roots[row] if prefix is None else prefix, known)
                if node < q.shape[1]:
                    q[row, node] = draft
        _draw_level(tokens, tops, q, shape, level, uniforms, law)
        for row, so_far in enumerate(prefixes):
            for node in (node for node in level if so_far[node] is None):
                tokens[row, [child - 1 for child in shape.children(node)]] = -1
    return DraftTree(shape, tokens, p, q, law, tops if law.number_by_q else None)


def _below(prefix: Path | None, token: int) -> Path | None:
    return None if prefix is None or token < 0 else (*prefix, token)


def _draw_level(
    tokens: np.ndarray,
    tops: np.ndarray,
    q: np.ndarray,
    shape: TreeShape,
    level: range,
    uniforms: np.ndarray,
    law: DraftLaw,
) -> None:
    """Draw the children of a level's nodes, all nodes with the same number of children at once."""
    for count in sorted({len(shape.children(node)) for node in level} - {0}):
        nodes = [node for node in level if len(shape.children(node)) == count]
        places = np.array([[child - 1 for child in shape.children(node)] for node in nodes])
        tokens[:, places], number = law.draw_with_number(q[:, nodes], uniforms[:, places])
        tops[:, nodes] = np.broadcast_to(number, (len(q), len(nodes), 1))[..., 0]


class Rows:
    """A model's distributions: p and q computed together where the model can, else validated and remembered."""

    def __init__(self, model: Any) -> None:
        self.n = int(model.n) if hasattr(model, "pair") else Nodes.of(model).n
        self._nodes = None if hasattr(model, "pair") else Nodes.of(model)
        self._model = model
        self.root = getattr(model, "root", lambda number: ())

    @staticmethod
    def of(model: Any) -> Rows:
        """The model as Rows; itself if it is that already."""
        return model if isinstance(model, Rows) else Rows(model)

    def pair(self, prefix: Path, known: dict[Path, tuple[Any, Any]]) -> tuple[Any, Any]:
        """p and q (n,); `known`: the pairs computed for the same batch of trees, because chains share beginnings."""
        if self._nodes is not None:
            return self._nodes.target(prefix), self._nodes.draft(prefix)
        if prefix not in known:
            known[prefix] = self._model.pair(prefix)
        return known[prefix]
