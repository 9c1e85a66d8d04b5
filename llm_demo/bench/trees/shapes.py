"""The best shapes of a tree that is the same everywhere, from acceptance by child: Sequoia's, and those with equal nodes in a level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft.trees.model import Rows


def acceptance_by_child(
    rule: otd.SelectionRule, model: Any, k: int, contexts: int = 400, seed: int = 0
) -> tuple[float, ...]:
    """(k,) P(the rule accepts child i | it refused those before), over the model's contexts and the rule's own draft law.

    The rule's acceptance probabilities are averaged, not its decisions: no noise but that of contexts and drafts.
    """
    rows, taken = Rows(model), np.zeros(k)
    for number in range(contexts):
        p, q = rows.pair(rows.root(number), {})
        drafts = rule.law.draw(q, np.random.default_rng([seed, number]).random(k))
        taken += rule(p, q, drafts).accept / contexts
    refused = 1 - np.concatenate(([0.0], np.cumsum(taken)[:-1]))
    shares = np.divide(taken, refused, out=np.zeros(k), where=refused > 1e-12)
    return tuple(np.minimum(shares, 1.0).tolist())  # the last of all tokens is accepted, but for rounding


def sequoia(acceptance: Sequence[float], budget: int, length: int) -> otd.trees.TreeShape:
    """The tree of at most `budget` drafted nodes and depth `length` with the most expected accepted tokens.

    acceptance: P(child i is accepted | those before it were refused), taken to be the same at every node; nodes have at
    most so many children. The expected number of accepted tokens is the sum over the nodes of the product of the
    acceptances on the way (`expected_accepted`), and dynamic programming over (depth, child, nodes) maximises it.
    Source: Chen et al., Sequoia: scalable and robust speculative decoding, NeurIPS 2024, section 4.1.
    """
    taken = _unconditional(acceptance)
    if budget < 0 or length < 0:
        raise otd.InvalidArgument(f"budget is {budget}, length is {length}: give numbers of nodes and of levels >= 0")
    # best[d][i][m]: most expected tokens of m nodes in the subtrees of children i, i + 1, ... with d levels left below;
    # split[d][i][m]: how many of them child i's subtree holds, itself included.
    best = np.full((length + 1, len(taken) + 1, budget + 1), -np.inf)
    split = np.zeros(best.shape, dtype=np.int64)
    best[:, :, 0] = 0.0
    for d in range(1, length + 1):
        subtree = 1 + best[d - 1, 0, :budget]  # of 1 .. budget nodes: itself, and what its children make of the rest
        for i in range(len(taken) - 1, -1, -1):
            own = np.where(np.isfinite(subtree), taken[i] * np.maximum(subtree, 0), -np.inf)  # 0 * inf is no number
            for m in range(1, budget + 1):
                gain = own[:m] + best[d, i + 1, m - 1 :: -1]
                split[d, i, m] = 1 + int(np.argmax(gain))
                best[d, i, m] = gain[split[d, i, m] - 1]
    return otd.trees.TreeShape.ordered(_children(split, length, 0, int(np.argmax(best[length, 0]))))


def _children(split: np.ndarray, d: int, i: int, m: int) -> tuple[Any, ...]:
    """Children i, i + 1, ... of a node that share m nodes."""
    if m == 0:
        return ()
    own = int(split[d, i, m])
    return (_children(split, d - 1, 0, own - 1), *_children(split, d, i + 1, m - own))


def expected_accepted(shape: otd.trees.TreeShape, acceptance: Sequence[float]) -> float:
    """Expected accepted tokens of a tree when P(child i is accepted | those before it refused) is the same at every node."""
    taken = _unconditional(acceptance)
    reached = [1.0]
    for node in range(1, shape.size + 1):
        place = shape.place(node)
        if place >= len(taken):
            raise otd.InvalidArgument(
                f"node {node} is child {place + 1}: acceptance is given for {len(taken)} children"
            )
        reached.append(reached[shape.parents[node - 1]] * taken[place])
    return sum(reached[1:])


def _unconditional(acceptance: Sequence[float]) -> list[float]:
    """P(child i is accepted), which means that those before it were refused."""
    taken, refused = [], 1.0
    for place, share in enumerate(acceptance):
        if not 0 <= share <= 1:
            raise otd.InvalidArgument(f"acceptance of child {place + 1} is {share!r}: give probabilities")
        taken.append(refused * share)
        refused *= 1 - share
    return taken


def best_by_level(acceptance: Sequence[float], budget: int, length: int) -> otd.trees.TreeShape:
    """The tree of at most `budget` nodes with equally many children at each level that has most expected tokens."""
    shapes = [
        otd.trees.TreeShape.by_level(children) for children in _by_level(budget, length, min(len(acceptance), budget))
    ]
    return max(shapes, key=lambda shape: expected_accepted(shape, acceptance))


def _by_level(budget: int, length: int, widest: int, width: int = 1) -> Iterator[tuple[int, ...]]:
    """Numbers of children by level that do not increase, with at most `budget` nodes."""
    for children in range(1, widest + 1):
        nodes = width * children
        if nodes <= budget and length:
            yield (children,)
            for further in _by_level(budget - nodes, length - 1, children, nodes):
                yield (children, *further)
