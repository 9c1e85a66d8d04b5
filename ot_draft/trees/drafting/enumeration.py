"""All trees that can be drafted, with their probabilities: for the exact check of path rules."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...errors import InvalidArgument
from ...laws import DraftLaw
from ...laws.fixed_tokens import FixedTokensOfNodes
from ..model import Nodes, Path
from ..rules.path_rule import PathLaw
from ..tree import PlainTree, TreeShape
from .growing import Growing, Grown, TreeDraws, grow_all, prefixes_of

Drafted = tuple[Any, Any]  # a tree in plain form, or K paths; and its probability
Made = dict[int, int]  # tokens by the number of the uniform that draws them


def within_limit(number: int, what: str, limit: int = 1 << 20) -> None:
    """Raise InvalidArgument for more trees, or K-tuples of paths, than are enumerated within an hour in Fractions."""
    if number > limit:
        raise InvalidArgument(
            f"at most {limit} cases must be enumerated, got {what}. Use a smaller vocabulary, or fewer or shorter paths."
        )


def every_growth(
    nodes: Nodes, growing: Callable[[TreeDraws], Growing], law: DraftLaw, at_once: int = 512, limit: int = 1 << 20
) -> Iterator[Drafted]:
    """Yield every way to draw a tree that grows so, and its probability.

    Every draw is made in every way, also if its node is not kept. at_once: trees that grow at a time. Raises InvalidArgument if there are
    more ways than the limit.
    """
    waiting: list[tuple[Made, Any]] = [({}, nodes.one)]
    count = 0
    while waiting:
        runs, waiting = waiting[-at_once:], waiting[:-at_once]
        draws = _EveryWay([made for made, _ in runs])
        grown = grow_all(growing(draws), [()] * len(runs), nodes.draft)
        for row, (made, probability) in enumerate(runs):
            if row not in draws.open:
                yield _plain(grown, row, law), probability
                continue
            number, masses = draws.open[row]
            waiting += [({**made, number: token}, probability * mass) for token, mass in enumerate(masses) if mass != 0]
        count += len(runs)
        if count > limit:
            raise InvalidArgument(f"over {limit} possible drafts. Use a smaller vocabulary or a smaller budget.")


class _EveryWay(TreeDraws):
    """A replacement of uniforms that makes the draws given in `made`, and records the first other draw of each tree.

    open: by tree, the index of that draw, and its distribution.
    """

    def __init__(self, made: Sequence[Made]) -> None:
        super().__init__(np.zeros((len(made), 1)))
        self._made = made
        self.open: dict[int, tuple[int, list[Any]]] = {}

    def tokens(self, mass: Array, numbers: Array, needed: Array, nodes: Array | None = None, left: Any = 1) -> Array:
        tokens = np.zeros(needed.shape, dtype=np.int64)
        for row, place, draw in zip(*np.nonzero(needed), strict=True):
            number, masses = int(np.broadcast_to(numbers, needed.shape)[row, place, draw]), mass[row, place].tolist()
            if number in self._made[row]:
                tokens[row, place, draw] = self._made[row][number]
                continue
            whole = sum(masses)
            self.open.setdefault(int(row), (number, [mass / whole for mass in masses]))
            tokens[row, place, draw] = next(token for token, mass in enumerate(masses) if mass != 0)
        return tokens


def _plain(grown: Grown, row: int, law: DraftLaw) -> PlainTree:
    prefixes = [prefix for prefix in prefixes_of(grown, row) if prefix is not None]
    size = len(prefixes) - 1
    shape, tokens = TreeShape(tuple(grown.parents[row, :size].tolist())), tuple(grown.tokens[row, :size].tolist())
    children = (tuple(tokens[child - 1] for child in shape.children(node)) for node in range(size + 1))
    nodes = zip(prefixes, children, grown.fixed_count[row, : size + 1].tolist(), strict=True)
    law = law.with_fixed_tokens(nodes) if isinstance(law, FixedTokensOfNodes) else law
    return PlainTree(shape, tokens, law)


def trees_of_shape(nodes: Nodes, shape: TreeShape, law: DraftLaw) -> Iterator[Drafted]:
    """Yield every tree of positive probability under a draft law. Raises InvalidArgument beyond a million."""
    number = number_of_trees(nodes, shape, law)
    within_limit(number, f"{number} drafted trees")
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

    for tokens, probability in grow((), ((),), 0, nodes.one):
        yield PlainTree(shape, tokens, law), probability


def number_of_trees(nodes: Nodes, shape: TreeShape, law: DraftLaw) -> int:
    """Return the number of trees of this shape that can be drafted."""

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
        masses = law.probability(q, xp.integers(tuples, like=q)).tolist()
        return {drafts: mass for drafts, mass in zip(tuples, masses, strict=True) if mass != 0}

    return nodes.once(law, ("families", prefix, count), find)
