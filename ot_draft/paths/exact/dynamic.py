"""evaluate_dynamic: a path rule on the trees that a `DynamicTree` drafts, every draw of its batched form made in every way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...arrays import Array, one
from ...errors import InvalidArgument
from ..drafting.dynamic_tree import DynamicTree, Grown, TreeDraws, grow_all, prefixes_of
from ..model import Model
from ..plain import PlainTree
from ..rules.path_rule import Nodes, PathLaw
from ..tree import TreeShape
from .evaluate import MAX_TUPLES, Accepted, PathEvaluation, _held, _judge

Told = dict[int, int]  # tokens by the number of the uniform that draws them
BATCH = 512  # trees at a time


def evaluate_dynamic(path_rule: Callable[[Any, Any], PathLaw], model: Model, drafting: DynamicTree) -> PathEvaluation:
    """Law of the first L + 1 tokens and expected accepted length of `path_rule(model, PlainTree)` on the trees of a drafting.

    The drafting itself decides, in its batched form; every draw that it makes is made in every way, also where its node is not kept.
    Exact if the model's distributions are Fractions. Raises InvalidArgument where there are more than a million ways.
    """
    nodes = Nodes.of(model)

    def drafted() -> Iterator[tuple[Any, Any, Accepted]]:
        for tree, probability in drafted_trees(nodes, drafting):
            yield tree, probability, partial(_held, tree.forest)

    return _judge(path_rule, nodes, drafting.length, drafted())


def drafted_trees(nodes: Nodes, drafting: DynamicTree) -> Iterator[tuple[PlainTree, Any]]:
    """Every tree, as often as there are ways to draw it, and the probability of each."""
    waiting: list[tuple[Told, Any]] = [({}, one(nodes.target(())))]
    count = 0
    while waiting:
        runs, waiting = waiting[-BATCH:], waiting[:-BATCH]
        draws = _EveryWay([told for told, _ in runs])
        grown = grow_all(drafting.growing(draws), [()] * len(runs), nodes.draft)
        for row, (told, probability) in enumerate(runs):
            if row not in draws.open:
                yield _plain(drafting, grown, row), probability
                continue
            number, law = draws.open[row]
            waiting += [({**told, number: token}, probability * mass) for token, mass in enumerate(law) if mass != 0]
        count += len(runs)
        if count > MAX_TUPLES:
            raise InvalidArgument(f"over {MAX_TUPLES} ways to draft: take a smaller vocabulary or a smaller budget")


class _EveryWay(TreeDraws):
    """Stands in for the uniforms: makes the draws it is told, and of each tree notes the first other one.

    open: by tree, the number of that draw, and its law.
    """

    def __init__(self, told: Sequence[Told]) -> None:
        super().__init__(np.zeros((len(told), 1)))
        self._told = told
        self.open: dict[int, tuple[int, list[Any]]] = {}

    def tokens(self, mass: Array, numbers: Array, needed: Array) -> Array:
        tokens = np.zeros(needed.shape, dtype=np.int64)
        for row, place, draw in zip(*np.nonzero(needed), strict=True):
            number, masses = int(np.broadcast_to(numbers, needed.shape)[row, place, draw]), mass[row, place].tolist()
            if number in self._told[row]:
                tokens[row, place, draw] = self._told[row][number]
                continue
            whole = sum(masses)
            self.open.setdefault(int(row), (number, [mass / whole for mass in masses]))
            tokens[row, place, draw] = next(token for token, mass in enumerate(masses) if mass != 0)
        return tokens


def _plain(drafting: DynamicTree, grown: Grown, row: int) -> PlainTree:
    """One tree of a batch in plain form."""
    prefixes = prefixes_of(grown, row)
    size = len(prefixes) - 1
    shape, tokens = TreeShape(tuple(grown.parents[row, :size].tolist())), tuple(grown.tokens[row, :size].tolist())
    fixed = []
    for parent, prefix in enumerate(prefixes):
        children = tuple(tokens[child - 1] for child in shape.children(parent))
        if given := drafting.law.fixed_among(children, int(grown.tops[row, parent])):
            fixed.append((prefix, given))
    return PlainTree(shape, tokens, drafting.law.told(tuple(sorted(fixed))))
