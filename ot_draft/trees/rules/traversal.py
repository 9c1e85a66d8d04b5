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

History = tuple[tuple[Any, int], ...]  # by node of a path: the earlier siblings, which were rejected, and the token


@dataclass(frozen=True)
class Traversal(PathRule):
    """Test every node from the leaves upward; a rejected node is removed from the tree, and its parent's target becomes the residual.

    A node has a weight w, the probability that it or a node below it is accepted; that of the root is 1. Children are visited in
    drawing order. A child with token x, drawn from Q, gets the weight min(1, w p(x) / Q(x)). Once it and all nodes below it are
    rejected, the parent continues with R = mass of (w p - Q)+, the target norm((w p - Q)+), the weight R / (R + 1 - w), and the
    distribution of the next child given those before. A node whose children are all rejected is accepted with its weight, and a token
    from its target follows. For one path this is block verification.

    Why it is lossless. Claim: from the state (w, p) of a node, it or a node below it is accepted with probability w, and the tokens
    emitted after it follow p and then the target. For a leaf this is the definition. Otherwise the child x is accepted, or a node below it,
    with its weight, which on average over Q is mass min(Q, w p) on x, and the target follows by the claim for x. It is rejected with
    probability 1 - w + R, and w p - min(Q, w p) = (w p - Q)+ remains: (1 - w + R) w' p' for the new state (w', p'). This holds for each
    rejected x, because the new state depends on x only through the distribution of the next child. Q may therefore be any distribution
    of a child given its earlier siblings: q again (i.i.d.), q without the rejected tokens (without replacement), or a point mass at a top
    token (hybrid drafting).

    The source has trees without replacement, the order of the tests, the weights, and after a rejection the target norm((w p - Q)+) and q
    without the rejected token. This project adds the proof, which determines the new weight, and hence other draft laws. Equal siblings are
    separate draws with separate children.
    Source: Weng et al., Traversal verification for speculative tree decoding, 2025; checked exactly with `evaluate`.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> model = otd.trees.MarkovModel({(): np.array([F(1, 2), F(1, 2)])}, {(): np.array([F(3, 4), F(1, 4)])}, 0)
    >>> otd.trees.evaluate(otd.trees.Traversal(), model, (1, 2)).expected_length
    Fraction(11, 8)
    """

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        """Every shape and every draft law is valid, since each has the distribution of a child given its earlier siblings."""

    def n_uniforms(self, bounds: Bounds) -> int:
        return bounds.size + 1

    def outcomes(self, nodes: Nodes, tree: PlainTree) -> list[Outcome]:
        return self._visit(nodes, tree.law, (), tree.forest, nodes.one)[0]

    def _visit(
        self, nodes: Nodes, law: DraftLaw, history: History, children: Forest, weight: Any
    ) -> tuple[list[Outcome], Any]:
        """Outcomes at the node or below it, and the probability of none."""
        return nodes.once(self, (law, history, children), lambda: self._tested(nodes, law, history, children, weight))

    def _tested(
        self, nodes: Nodes, law: DraftLaw, history: History, children: Forest, weight: Any
    ) -> tuple[list[Outcome], Any]:
        path = tuple(token for _, token in history)
        found: list[Outcome] = []
        p, refused = nodes.target(path), nodes.one
        earlier: Path = ()
        siblings = xp.integers([token for token, _ in children], like=p)
        for token, below in children:
            if token >= 0:
                child, place = xp.integers([token], like=p), xp.integers([len(earlier)], like=p)
                drawn_by = law_at(law, path).conditional(nodes.draft(path), siblings, place)
                (ratio,) = xp.divide(weight * xp.gather(p, child), xp.gather(drawn_by, child), 0).tolist()
                chance = min(nodes.one, ratio)
                known = len(earlier) if Fact.INDEPENDENT in law.facts else earlier
                decided, left = self._visit(nodes, law, (*history, (known, token)), below, chance)
                found += [(accepted, refused * probability, after) for accepted, probability, after in decided]
                (p, weight), refused = _refused(p, weight, drawn_by), refused * left
            earlier = (*earlier, token)
        return [*found, (path, refused * weight, p)], refused * (1 - weight)

    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        return select_by_traversal(tree, draws)


def _refused(p: Array, weight: Any, drawn_by: Array) -> tuple[Array, Any]:
    """Target (n,) and weight of a node after a child drawn from this distribution is rejected."""
    left = xp.excess(weight * p, drawn_by)
    rest = left.sum(-1, keepdims=True)
    return xp.normalise(left, p), xp.divide(rest, rest + 1 - weight, 1).tolist()[0]
