"""All trees of a shape that can be drafted, with their probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

from ...arrays import integers, one
from ...laws import DraftLaw
from ..model import Path
from ..plain import PlainTree
from ..rules.path_rule import Nodes, PathLaw
from ..tree import TreeShape


def all_trees(nodes: Nodes, shape: TreeShape, law: DraftLaw) -> Iterator[tuple[PlainTree, Any]]:
    """Every tree of positive probability, when the children of every node follow the law given the tokens before."""
    inner = [v for v in range(shape.size + 1) if shape.children(v)]

    def grow(
        tokens: Path, prefixes: tuple[Path | None, ...], place: int, probability: Any
    ) -> Iterator[tuple[Path, Any]]:
        if place == len(inner):
            yield tokens, probability
            return
        prefix = prefixes[inner[place]]
        for drafts, mass in _families(nodes, law, prefix, len(shape.children(inner[place]))).items():
            below = tuple(None if prefix is None or token < 0 else (*prefix, token) for token in drafts)
            yield from grow((*tokens, *drafts), (*prefixes, *below), place + 1, probability * mass)

    for tokens, probability in grow((), ((),), 0, one(nodes.target(()))):
        yield PlainTree(shape, tokens, law), probability


def number_of_trees(nodes: Nodes, shape: TreeShape, law: DraftLaw) -> int:
    """How many there are."""

    def below(node: int, prefix: Path | None) -> int:
        children = shape.children(node)
        if not children:
            return 1
        return nodes.once(law, ("number", shape, node, prefix), lambda: count(children, prefix))

    def count(children: range, prefix: Path | None) -> int:
        return sum(
            prod(
                below(child, None if prefix is None or token < 0 else (*prefix, token))
                for child, token in zip(children, drafts, strict=True)
            )
            for drafts in _families(nodes, law, prefix, len(children))
        )

    return below(0, ())


def _families(nodes: Nodes, law: DraftLaw, prefix: Path | None, count: int) -> PathLaw:
    """The possible children of a node, and their probabilities; below an absent node (None) all are absent."""
    if prefix is None:
        return {(-1,) * count: 1}

    def find() -> PathLaw:
        q = nodes.draft(prefix)
        drawn = law.count(nodes.n, count)
        tuples = [(*drafts, *(-1,) * (count - drawn)) for drafts in product(range(nodes.n), repeat=drawn)]
        masses = law.probability(q, integers(tuples, q)).tolist()
        return {drafts: mass for drafts, mass in zip(tuples, masses, strict=True) if mass != 0}

    return nodes.once(law, ("families", prefix, count), find)
