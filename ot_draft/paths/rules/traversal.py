"""Traversal verification: every node of a tree is tested, from the leaves upward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...laws import DraftLaw
from ..layout import Bounds
from ..model import Model, Nodes, Path
from ..tree import DraftTree, Forest, PathSelection
from .batched_traversal import select_by_traversal
from .path_rule import Lengths, PathLaw, PathRule, add, count, merge, read
from .walk import Draws

History = tuple[tuple[Any, int], ...]  # on the way to a node: the elder siblings refused before, and the token


@dataclass(frozen=True)
class Traversal(PathRule):
    """Test every node from the leaves upward; a refused node is taken off the tree, and its parent's target shrinks.

    A node has a weight w, the chance that it or something below it is accepted; the root's is 1. Its children are visited in
    drawing order. A child with token x, drawn by the law Q, gets the weight min(1, w p(x) / Q(x)); once it and all below it
    were refused, the parent goes on with R = mass of (w p - Q)+, the target norm((w p - Q)+), the weight R / (R + 1 - w), and
    the law of the next child given those before. A node whose children are all refused is accepted with its weight, and a
    token from its target follows. For one path, block verification.

    Why it is lossless. Claim: from the state (w, p) of a node, it is accepted with probability w in all, and what
    is emitted then follows p and the target. A leaf: by definition. Else, the child x is accepted with what is below it with its
    weight, on average over Q with mass min(Q, w p) on x, and the target follows, by the claim for x. It is refused
    with probability 1 - w + R, and w p - min(Q, w p) = (w p - Q)+ is still to come: (1 - w + R) w' p' for the new
    state (w', p'). This holds for each x that was refused, because the new state does not depend on x but through the law
    of the next child; so Q may be any law of a child given its elder siblings: the same again (i.i.d.), without
    the tokens refused (without replacement), a point mass at a top token (hybrid drafting).

    From the source: trees without replacement, the order of the tests, the weights, and after a refusal the target
    norm((w p - Q)+) and the draft's law without the refused token. Ours: the proof, which forces the new weight; hence any law of
    the children, i.i.d. and hybrid trees. Equal siblings stay apart: each is a draw of its own, with its own children.
    Source: Weng et al., Traversal verification for speculative tree decoding, 2025; checked exactly, with `evaluate`.
    """

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        """Every shape and every law will do: each law says what a child was drawn by, given its elder siblings."""

    def uniforms(self, bounds: Bounds) -> int:
        return bounds.size + 1

    def __call__(self, model: Model, drafts: Any) -> PathLaw:
        nodes, tree = read(model, drafts)
        self.check(tree.shape, tree.law)
        law, _ = self._visit(nodes, tree.law, (), tree.forest, nodes.one)
        return law

    def _visit(
        self, nodes: Nodes, law: DraftLaw, history: History, children: Forest, weight: Any
    ) -> tuple[PathLaw, Any]:
        """Law of what is emitted from the node or below it, and the probability that nothing is."""
        return nodes.once(self, (law, history, children), lambda: self._tested(nodes, law, history, children, weight))

    def _tested(
        self, nodes: Nodes, law: DraftLaw, history: History, children: Forest, weight: Any
    ) -> tuple[PathLaw, Any]:
        path = tuple(token for _, token in history)
        emitted: PathLaw = {}
        p, refused = nodes.target(path), nodes.one
        for known, token, below, chance, state in self._tests(nodes, law, path, children, weight):
            emitted_below, left = self._visit(nodes, law, (*history, (known, token)), below, chance)
            merge(emitted, refused, emitted_below)
            (p, weight), refused = state, refused * left
        add(emitted, refused * weight, path, p)
        return emitted, refused * (1 - weight)

    def _tests(
        self, nodes: Nodes, law: DraftLaw, path: Path, children: Forest, weight: Any
    ) -> Iterator[tuple[Any, int, Forest, Any, tuple[Array, Any]]]:
        """The children of a node in turn: what is known of the elder ones, token, what is below, weight; and the node's state after it."""
        p = nodes.target(path)
        elder: Path = ()
        for token, below in children:
            if token >= 0:
                child = xp.integers([token], p)
                drawn_by = law.at(path).child(nodes.draft(path), xp.integers(elder, p), child, len(children))
                chance = min(
                    nodes.one,
                    xp.divide(weight * xp.gather(p, child), xp.gather(drawn_by, child), 0).tolist()[0],
                )
                p, weight = _refused(p, weight, drawn_by)
                yield len(elder) if law.all_independent else elder, token, below, chance, (p, weight)
            elder = (*elder, token)

    def lengths(self, model: Model, drafts: Any) -> Lengths:
        nodes, tree = read(model, drafts)
        self.check(tree.shape, tree.law)
        found: Lengths = {}

        def left(path: Path, children: Forest, weight: Any, reached: Any) -> Any:
            """Probability that nothing up to the node's own test is accepted, `reached` that nothing was before its children."""
            for _, token, below, chance, (_, after) in self._tests(nodes, tree.law, path, children, weight):
                reached, weight = left((*path, token), below, chance, reached), after
            count(found, len(path), reached * weight)
            return reached * (1 - weight)

        left((), tree.forest, nodes.one, nodes.one)
        return found

    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        return select_by_traversal(tree, draws)


def _refused(p: Array, weight: Any, drawn_by: Array) -> tuple[Array, Any]:
    """Target (n,) and weight of a node after a child, drawn by this law, was refused."""
    left = xp.excess(weight * p, drawn_by)
    rest = xp.total(left)
    return xp.normalise(left, p), xp.divide(rest, rest + 1 - weight, 1).tolist()[0]
