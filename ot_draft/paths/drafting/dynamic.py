"""Drafted trees whose shape depends on what was drafted: by the draft's confidence (EAGLE-2, DySpec), or by stopping (SpecDec++).

A rule is lossless on them only if the shape tells it nothing about tokens that it has not come to yet:
- `confident_tree`: the children are no draws but the draft's top tokens, so the rule must be naive target sampling.
- `sampled_tree`: whether a node has one more child depends on tokens drawn before that child, never on its own, so that
  rules which take the children in turn and end with the residual of the last are lossless: recursive rejection without
  replacement. Rules that use the *number* of children (K-SEQ, Optimal, Joint) are not.
- `StoppingRule`: the path ends after a token by what was drafted up to it: lossless with token-wise speculative
  sampling and with block verification, which take the end of the path as it comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ...arrays import gather
from ...errors import InvalidDrafts
from ...laws import Hybrid, WithoutReplacement, outside
from ..model import Path
from ..tree import DraftTree, TreeShape
from .trees import Rows, draft_trees


def confident_tree(model: Any, root: Path, budget: int, length: int) -> DraftTree:
    """The `budget` nodes of largest draft probability of the way down to them, at most `length` deep: a batch of one tree.

    Children are the draft's top tokens, in falling order. As no child is likelier than its parent, best-first search
    finds them. Only naive target sampling is lossless; its expected accepted length is `covered(tree)`.
    Source: Li et al., EAGLE-2, EMNLP 2024 (which searches a beam).
    """
    tree = _Growing(model, root)
    heap: list[tuple[float, int, int]] = []  # minus the probability of the way, parent, which of its top tokens

    def offer(parent: int, place: int) -> None:
        ranked = tree.ranked(parent, budget)
        if tree.depths[parent] < length and place < len(ranked):
            heappush(heap, (-tree.values[parent] * float(tree.q[parent][ranked[place]]), parent, place))

    offer(0, 0)
    while heap and len(tree.parents) < budget:
        value, parent, place = heappop(heap)
        offer(tree.add(parent, int(tree.ranked(parent, budget)[place]), -value), 0)
        offer(parent, place + 1)
    return tree.breadth_first(Hybrid(max(budget, 1)))


def sampled_tree(model: Any, root: Path, budget: int, length: int, generator: np.random.Generator) -> DraftTree:
    """A tree of `budget` nodes, children drawn without replacement, always drawn where acceptance looks likeliest.

    The draft takes its own probabilities for acceptances: the first child y of a node that is reached with v is reached
    with v q(y), the next child is tried with v (1 - q(y)), and so on with q outside the drawn tokens.
    Source: Xiong et al., DySpec, 2024.
    """
    tree = _Growing(model, root)
    heap = [(-1.0, 0)] if length else []  # minus the estimate that the next child of the node is tried
    drawn: dict[int, list[int]] = {}
    while heap and len(tree.parents) < budget:
        value, parent = heappop(heap)
        before = drawn.setdefault(parent, [])
        q = tree.q[parent]
        left = outside(q, np.array(before, dtype=np.int64))
        token = int(WithoutReplacement().draw(left, generator.random(1))[0])
        node = tree.add(parent, token, -value * left[token])
        before.append(token)
        if tree.depths[node] < length:
            heappush(heap, (-tree.values[node], node))
        if len(before) < len(q):
            heappush(heap, (value * (1 - left[token]), parent))
    return tree.breadth_first(WithoutReplacement())


def covered(tree: DraftTree) -> np.ndarray:
    """(B,) expected accepted length of naive target sampling where no siblings are equal: the sum over the nodes of the
    target's probability of the way down to them."""
    shape, p = tree.shape, np.asarray(tree.p)
    reached = np.ones((len(p), shape.size + 1))
    for node in range(1, shape.size + 1):
        parent = shape.parents[node - 1]
        reached[:, node] = reached[:, parent] * gather(p[:, parent], tree.tokens[:, node - 1 : node])[:, 0]
    return reached[:, 1:].sum(-1)


class _Growing:
    """A tree in the order in which its nodes were added; node 0 is the root."""

    def __init__(self, model: Any, root: Path) -> None:
        self._rows = Rows.of(model)
        self._prefixes, self._tops = [root], dict[int, np.ndarray]()
        p, q = self._rows.pair(root, {})
        self.p, self.q, self.values, self.depths = [p], [q], [1.0], [0]
        self.parents: list[int] = []
        self.tokens: list[int] = []

    def add(self, parent: int, token: int, value: float) -> int:
        """The new node's number."""
        self.parents.append(parent)
        self.tokens.append(token)
        self.values.append(value)
        self.depths.append(self.depths[parent] + 1)
        self._prefixes.append((*self._prefixes[parent], token))
        p, q = self._rows.pair(self._prefixes[-1], {})
        self.p.append(p)
        self.q.append(q)
        return len(self.parents)

    def ranked(self, node: int, count: int) -> np.ndarray:
        """The draft's likeliest tokens at a node, in falling order; equal ones by id."""
        if node not in self._tops:
            self._tops[node] = np.argsort(-self.q[node], kind="stable")[:count]
        return self._tops[node]

    def breadth_first(self, law: Any) -> DraftTree:
        """The tree as data, numbered level by level; siblings in the order in which they were added."""
        place = {0: 0}
        order: list[int] = []
        level = [0]
        while level:
            level = [node for parent in level for node in self._children(parent)]
            for node in level:
                order.append(node)
                place[node] = len(order)
        shape = TreeShape(tuple(place[self.parents[node - 1]] for node in order))
        tokens = np.array([[self.tokens[node - 1] for node in order]], dtype=np.int64)
        p, q = (np.stack([rows[node] for node in (0, *order)])[None] for rows in (self.p, self.q))
        return DraftTree(shape, tokens, p, q, law)

    def _children(self, parent: int) -> list[int]:
        return [node for node, above in enumerate(self.parents, 1) if above == parent]


@dataclass(frozen=True)
class StoppingRule:
    """Stop drafting a path as soon as P(at least one token was refused so far) exceeds the threshold.

    The draft predicts P(a drafted token is accepted) from its own q(token): edges (bins - 1,) of the bins, increasing, and
    accepted (bins,), the mean of min(1, p/q) in each.
    Source: Huang, Guo, Wang, SpecDec++, 2024, who train a head for the prediction.
    """

    edges: np.ndarray
    accepted: np.ndarray
    threshold: float

    @classmethod
    def fit(cls, model: Any, threshold: float, contexts: int = 400, bins: int = 12, seed: int = 0) -> StoppingRule:
        """Predictions measured on drafted tokens of the model, in bins of equally many."""
        if not 0 <= threshold <= 1:
            raise InvalidDrafts(f"threshold is {threshold!r}: give a probability")
        found = []
        for tree, _ in draft_trees(model, TreeShape.chains(1, 1), contexts, seed):
            q = gather(tree.q[:, 0], tree.tokens)[:, 0]
            found.append(np.stack((q, np.minimum(1, gather(tree.p[:, 0], tree.tokens)[:, 0] / q))))
        q, accepted = np.concatenate(found, -1)
        edges = np.unique(np.quantile(q, np.linspace(0, 1, bins + 1)[1:-1]))
        place = np.searchsorted(edges, q, side="right")
        means = [accepted[place == i].mean() if (place == i).any() else 0.0 for i in range(len(edges) + 1)]
        return cls(edges, np.array(means), threshold)

    def lengths(self, tree: DraftTree) -> np.ndarray:
        """(B,) number of tokens drafted on each path of a batch of single chains, at least 1."""
        q = gather(np.asarray(tree.q), tree.tokens[:, :, None])[..., 0]
        predicted = self.accepted[np.searchsorted(self.edges, q, side="right")]
        refused = 1 - np.cumprod(predicted, axis=-1) > self.threshold
        return np.where(refused.any(-1), refused.argmax(-1) + 1, tree.shape.length)
