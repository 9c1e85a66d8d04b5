"""evaluate_dynamic: a path rule on the trees that a `DynamicTree` drafts, every draw of its batched form made in every way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ...arrays import Array, integers, one
from ...errors import InvalidArgument
from ...laws import ByNode, DraftLaw
from ..drafting.dynamic_tree import DynamicTree, Grown, prefixes_of
from ..model import Model, Path
from ..plain import PlainTree
from ..rules.path_rule import Nodes, PathLaw
from ..tree import TreeShape
from .evaluate import MAX_TUPLES, Accepted, PathEvaluation, _held, _judge

Told = dict[int, float]  # uniforms that stand for a token each, by number


def evaluate_dynamic(path_rule: Callable[[Any, Any], PathLaw], model: Model, drafting: DynamicTree) -> PathEvaluation:
    """Law of the first L + 1 tokens and expected accepted length of `path_rule(model, PlainTree)` on the trees of a drafting.

    The drafting itself decides, in its batched form, on floats; what is drawn is enumerated: a run that takes a uniform nobody has
    fixed yet is made again for every token that it may stand for. Probabilities are exact if the model's laws are Fractions.
    Raises InvalidArgument where there are more than a million trees.
    """
    nodes = Nodes.of(model)

    def drafted() -> Iterator[tuple[Any, Any, Accepted]]:
        for tree, probability in drafted_trees(nodes, drafting):
            yield tree, probability, partial(_held, tree.forest)

    return _judge(path_rule, nodes, drafting.length, drafted())


def drafted_trees(nodes: Nodes, drafting: DynamicTree) -> Iterator[tuple[PlainTree, Any]]:
    """Every tree, as often as the draws that make it differ, and the probability of these."""
    floats = _Floats(nodes)
    open_runs: list[tuple[Told, Any]] = [({}, one(nodes.target(())))]
    count = 0
    while open_runs:
        uniforms = np.full((len(open_runs), drafting.draws), 0.5)
        for row, (told, _) in enumerate(open_runs):
            uniforms[row, list(told)] = list(told.values())
        grown, _, _ = drafting.draft_grown(floats, [()] * len(open_runs), uniforms)
        further = []
        for row, (told, probability) in enumerate(open_runs):
            run = _Run(nodes, drafting, grown, row)
            node = run.first_draw(told)
            if node is None:
                yield run.tree, probability
                continue
            number = int(grown.numbers[row, node - 1])
            for uniform, mass in run.outcomes(node):
                further.append(({**told, number: uniform}, probability * mass))
        open_runs = further
        count += len(further)
        if count > MAX_TUPLES:
            raise InvalidArgument(f"over {MAX_TUPLES} drafted trees: take a smaller vocabulary or a smaller budget")


class _Floats:
    """The model of the nodes in float64."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def target(self, prefix: Path) -> Array:
        return self._nodes.target(prefix).astype(np.float64)

    def draft(self, prefix: Path) -> Array:
        return self._nodes.draft(prefix).astype(np.float64)


class _Run:
    """One tree of a batch, and the laws of its draws."""

    def __init__(self, nodes: Nodes, drafting: DynamicTree, grown: Grown, row: int) -> None:
        self.nodes, self.drafting, self.grown, self.row = nodes, drafting, grown, row
        self.prefixes = prefixes_of(grown, row)
        size = len(self.prefixes) - 1
        self.shape = TreeShape(tuple(grown.parents[row, :size].tolist()))
        self.tokens = tuple(grown.tokens[row, :size].tolist())

    def first_draw(self, told: Told) -> int | None:
        """The first node that was drawn by a uniform which nobody told."""
        numbers = self.grown.numbers[self.row].tolist()
        return next((node for node, number in enumerate(numbers, 1) if number >= 0 and number not in told), None)

    def outcomes(self, node: int) -> Iterator[tuple[float, Any]]:
        """A uniform for every token that the node may be, and the token's probability, given its elder siblings."""
        parent = self.shape.parents[node - 1]
        children, q = self.shape.children(parent), self.nodes.draft(self.prefixes[parent])
        number = int(self.grown.tops[self.row, parent])
        earlier = [self.tokens[child - 1] for child in children if child < node]
        token = self.tokens[node - 1 : node]
        exact, rounded = (
            self.drafting.law.child(law, integers(earlier, law), integers(token, law), len(children), number)
            for law in (q, q.astype(np.float64))
        )
        ends = np.cumsum(rounded) / rounded.sum()
        for end, width, mass in zip(ends.tolist(), np.diff(ends, prepend=0.0).tolist(), exact.tolist(), strict=True):
            if mass != 0:
                yield end - width / 2, mass

    @property
    def tree(self) -> PlainTree:
        """In plain form."""
        fixed = []
        for parent, prefix in enumerate(self.prefixes):
            children = self.shape.children(parent)[: int(self.grown.tops[self.row, parent])]
            if children:
                fixed.append((prefix, tuple(self.tokens[child - 1] for child in children)))
        return PlainTree(self.shape, self.tokens, _with_fixed(self.drafting.law, fixed))


def _with_fixed(law: DraftLaw, fixed: list[tuple[Path, Path]]) -> DraftLaw:
    """The law of a tree some of whose children are fixed; it is another's law where none is."""
    return ByNode(tuple(sorted(fixed))) if law.fixes_tops else law
