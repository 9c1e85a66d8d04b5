"""Traversal verification: every node of a tree is tested, from the leaves upward."""

from dataclasses import dataclass
from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...laws import DraftLaw, Fact
from ...laws.fixed_tokens import law_at
from ..model import Nodes, Path
from ..tree import Bounds, DraftTree, Forest, PathSelection, PlainTree
from .batched_traversal import select_by_traversal
from .path_rule import Outcome, PathRule
from .survivors import Draws

History = tuple[tuple[Any, int], ...]  # on the way to a node: the elder siblings refused before, and the token


@dataclass(frozen=True)
class Traversal(PathRule):
    """Test every node from the leaves upward; a rejected node is removed from the tree, and its parent's target becomes the residual.

    A node has a weight w, the chance that it or something below it is accepted; the root's is 1. Its children are visited in
    drawing order. A child with token x, drawn by the law Q, gets the weight min(1, w p(x) / Q(x)); once it and all below it
    were rejected, the parent goes on with R = mass of (w p - Q)+, the target norm((w p - Q)+), the weight R / (R + 1 - w), and
    the law of the next child given those before. A node whose children are all rejected is accepted with its weight, and a
    token from its target follows. For one path, block verification.

    Why it is lossless. Claim: from the state (w, p) of a node, it is accepted with probability w in all, and what
    is emitted then follows p and the target. A leaf: by definition. Else, the child x is accepted with what is below it with its
    weight, on average over Q with mass min(Q, w p) on x, and the target follows, by the claim for x. It is rejected
    with probability 1 - w + R, and w p - min(Q, w p) = (w p - Q)+ is still to come: (1 - w + R) w' p' for the new
    state (w', p'). This holds for each x that was rejected, because the new state does not depend on x but through the law
    of the next child; so Q may be any law of a child given its elder siblings: the same again (i.i.d.), without
    the tokens rejected (without replacement), a point mass at a top token (hybrid drafting).

    From the source: trees without replacement, the order of the tests, the weights, and after a rejection the target
    norm((w p - Q)+) and the draft's law without the rejected token. Ours: the proof, which forces the new weight; hence any law of
    the children, i.i.d. and hybrid trees. Equal siblings stay apart: each is a draw of its own, with its own children.
    Source: Weng et al., Traversal verification for speculative tree decoding, 2025; checked exactly, with `evaluate`.
    """

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        """Every shape and every law will do: each law says what a child was drawn by, given its elder siblings."""

    def n_uniforms(self, bounds: Bounds) -> int:
        return bounds.size + 1

    def outcomes(self, nodes: Nodes, tree: PlainTree) -> list[Outcome]:
        return self._visit(nodes, tree.law, (), tree.forest, nodes.one)[0]

    def _visit(
        self, nodes: Nodes, law: DraftLaw, history: History, children: Forest, weight: Any
    ) -> tuple[list[Outcome], Any]:
        """Outcomes that may be decided at the node or below it, and the probability that nothing is."""
        return nodes.once(self, (law, history, children), lambda: self._tested(nodes, law, history, children, weight))

    def _tested(
        self, nodes: Nodes, law: DraftLaw, history: History, children: Forest, weight: Any
    ) -> tuple[list[Outcome], Any]:
        path = tuple(token for _, token in history)
        found: list[Outcome] = []
        p, refused = nodes.target(path), nodes.one
        elder: Path = ()
        siblings = xp.integers([token for token, _ in children], like=p)
        for token, below in children:
            if token >= 0:
                child, place = xp.integers([token], like=p), xp.integers([len(elder)], like=p)
                drawn_by = law_at(law, path).conditional(nodes.draft(path), siblings, place)
                (ratio,) = xp.divide(weight * xp.gather(p, child), xp.gather(drawn_by, child), 0).tolist()
                chance = min(nodes.one, ratio)
                known = len(elder) if Fact.INDEPENDENT in law.facts else elder
                decided, left = self._visit(nodes, law, (*history, (known, token)), below, chance)
                found += [(accepted, refused * probability, after) for accepted, probability, after in decided]
                (p, weight), refused = _refused(p, weight, drawn_by), refused * left
            elder = (*elder, token)
        return [*found, (path, refused * weight, p)], refused * (1 - weight)

    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        return select_by_traversal(tree, draws)


def _refused(p: Array, weight: Any, drawn_by: Array) -> tuple[Array, Any]:
    """Target (n,) and weight of a node after a child, drawn by this law, was refused."""
    left = xp.excess(weight * p, drawn_by)
    rest = left.sum(-1, keepdims=True)
    return xp.normalise(left, p), xp.divide(rest, rest + 1 - weight, 1).tolist()[0]
