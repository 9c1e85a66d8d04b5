"""Static trees with the most expected tokens: Sequoia's program, and the tree with the most tokens per second for given costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...boundary import int_from
from ...errors import InvalidArgument
from ...selection import SelectionRule
from ..model import Rows
from ..tree import TreeShape
from .wall_clock import Costs

__all__ = ["FastestTree", "acceptance_by_child", "expected_accepted", "fastest_tree", "sequoia"]


def acceptance_by_child(
    rule: SelectionRule, model: Any, k: int, contexts: int = 400, seed: int = 0
) -> tuple[float, ...]:
    """Return P(the rule accepts child i | it rejected the children before it), over the model's contexts.

    Parameters
    ----------
    rule : SelectionRule
        Children are drawn by its draft law.
    model : SimulatedModel or MarkovModel
        Target and draft model.
    k : int
        Number of children.
    contexts : int, default=400
        Number of contexts. The rule's acceptance probabilities are averaged, not its decisions.
    seed : int, default=0
        Random seed of the drafts.

    Returns
    -------
    acceptance : tuple of k floats

    Examples
    --------
    >>> import ot_draft as otd
    >>> from ot_draft.trees.model import SimulatedModel
    >>> rule = otd.rules.RecursiveRejectionWithoutReplacement()
    >>> len(otd.trees.acceptance_by_child(rule, SimulatedModel(n=40), k=3, contexts=10))
    3
    """
    rows, taken = Rows(model), np.zeros(k)
    for number in range(contexts):
        p, q = rows.pair(rows.root(number), {})
        drafts = rule.law.draw(q, np.random.default_rng([seed, number]).random(k))
        taken += rule(p, q, drafts).accept / contexts
    rejected = 1 - np.concatenate(([0.0], np.cumsum(taken)[:-1]))
    shares = np.divide(taken, rejected, out=np.zeros(k), where=rejected > 1e-12)
    return tuple(np.minimum(shares, 1.0).tolist())  # at most 1 except for rounding


def sequoia(acceptance: Sequence[float], budget: int, length: int) -> TreeShape:
    """Return the tree with the most expected accepted tokens, by dynamic programming.

    Parameters
    ----------
    acceptance : sequence of float
        P(child i is accepted | the children before it were rejected), the same at every node. A node has at most as many children.
    budget : int
        Maximum number of drafted nodes.
    length : int
        Maximum number of levels.

    Returns
    -------
    shape : TreeShape

    Raises
    ------
    InvalidArgument
        If a value of acceptance is not a probability, or budget or length is negative.

    References
    ----------
    .. [1] Chen et al., "Sequoia: scalable and robust speculative decoding", NeurIPS 2024, section 4.1.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.trees.sequoia((0.6, 0.3), budget=4, length=3).parents
    (0, 0, 1, 3)
    """
    int_from("budget", budget, 0)
    int_from("length", length, 0)
    best, split = _program(_unconditional(acceptance), budget, length)
    return _shape(split, length, int(np.argmax(best[length, 0])))


def expected_accepted(shape: TreeShape, acceptance: Sequence[float]) -> float:
    """Return the expected number of accepted tokens of a tree.

    Parameters
    ----------
    shape : TreeShape
    acceptance : sequence of float
        As for `sequoia`.

    Returns
    -------
    tokens : float
        Sum over the nodes of the product of the acceptances on the path to the node.

    Raises
    ------
    InvalidArgument
        If acceptance has fewer values than a node has children.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.trees.expected_accepted(otd.trees.TreeShape.chains(1, 2), (0.5,))
    0.75
    """
    taken = _unconditional(acceptance)
    reached = [1.0]
    for node in range(1, shape.size + 1):
        child = shape.place(node)
        if child >= len(taken):
            raise InvalidArgument(
                f"acceptance must hold a value for child {child + 1} of node {node}, got {len(taken)} values."
            )
        reached.append(reached[shape.parents[node - 1]] * taken[child])
    return sum(reached[1:])


@dataclass(frozen=True)
class FastestTree:
    """A tree and the speed-up that is expected of it.

    Parameters
    ----------
    shape : TreeShape
        Without nodes for autoregressive decoding.
    tokens_per_call : float
        Expected tokens per target call.
    cost : float
        Cost of a step, in autoregressive steps.
    """

    shape: TreeShape
    tokens_per_call: float
    cost: float

    @property
    def speed_up(self) -> float:
        """Tokens per second, divided by those of autoregressive decoding."""
        return self.tokens_per_call / self.cost


def fastest_tree(
    acceptance: Sequence[float], costs: Costs, nodes: int, levels: int, rule: str = "Traversal"
) -> FastestTree:
    """Return the tree with the most tokens per second among Sequoia's best trees of all numbers of levels and nodes.

    A level costs a draft call and a node costs one position of the target call, so that cheap levels make the tree deep.

    Parameters
    ----------
    acceptance : sequence of float
        As for `sequoia`.
    costs : Costs
        Costs of a target call by positions, of a draft call by rows, and of a selection.
    nodes, levels : int
        Maximum numbers of drafted nodes and of draft calls.
    rule : str, default="Traversal"
        Path rule, whose selection cost is used.

    Returns
    -------
    fastest : FastestTree

    Raises
    ------
    InvalidArgument
        If a value of acceptance is not a probability, or nodes or levels is negative.

    References
    ----------
    .. [1] Chen et al., "Sequoia: scalable and robust speculative decoding", NeurIPS 2024, section 4.

    Examples
    --------
    >>> import ot_draft as otd
    >>> costs = otd.trees.Costs(verify={1: 1.0, 33: 1.2}, draft={1: 0.1, 8: 0.1})
    >>> otd.trees.fastest_tree((0.6, 0.3), costs, nodes=8, levels=4).shape.parents
    (0, 0, 1, 1, 2, 3, 3, 5)
    """
    int_from("nodes", nodes, 0)
    int_from("levels", levels, 0)
    best, split = _program(_unconditional(acceptance), nodes, levels)
    fastest = FastestTree(TreeShape(), 1.0, 1.0)
    for depth in range(1, levels + 1):
        for size in range(depth, nodes + 1):
            if not np.isfinite(best[depth, 0, size]):
                continue
            shape = _shape(split, depth, size)
            width = max(map(len, shape.levels))
            if shape.length < depth or not costs.reach_tree(size, width):
                continue
            cost = costs.of_tree(size, depth, width, rule) / costs.verify[1]
            found = FastestTree(shape, 1 + float(best[depth, 0, size]), cost)
            fastest = max(fastest, found, key=lambda tree: tree.speed_up)
    return fastest


def _program(taken: Sequence[float], budget: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Solve Sequoia's recursion.

    best[d, i, m]: most expected tokens of m nodes in the subtrees of children i, i + 1, ... with d levels; -inf where they do not fit.
    split[d, i, m]: number of these nodes in child i's subtree, itself included.
    """
    best = np.full((length + 1, len(taken) + 1, budget + 1), -np.inf)
    split = np.zeros(best.shape, dtype=np.int64)
    best[:, :, 0] = 0.0
    for d in range(1, length + 1):
        subtree = 1 + best[d - 1, 0, :budget]  # of 1 .. budget nodes
        for i in range(len(taken) - 1, -1, -1):
            own = np.where(np.isfinite(subtree), taken[i] * np.maximum(subtree, 0), -np.inf)  # 0 * inf would be NaN
            for m in range(1, budget + 1):
                gain = own[:m] + best[d, i + 1, m - 1 :: -1]
                split[d, i, m] = 1 + int(np.argmax(gain))
                best[d, i, m] = gain[split[d, i, m] - 1]
    return best, split


def _shape(split: np.ndarray, length: int, size: int) -> TreeShape:
    return TreeShape.ordered(_children(split, length, 0, size))


def _children(split: np.ndarray, d: int, i: int, m: int) -> tuple[Any, ...]:
    """Children i, i + 1, ... of a node that share m nodes."""
    if m == 0:
        return ()
    own = int(split[d, i, m])
    return (_children(split, d - 1, 0, own - 1), *_children(split, d, i + 1, m - own))


def _unconditional(acceptance: Sequence[float]) -> list[float]:
    """P(child i is accepted), which implies that those before it were rejected."""
    taken, rejected = [], 1.0
    for child, share in enumerate(acceptance):
        if not 0 <= share <= 1:
            raise InvalidArgument(f"acceptance must hold probabilities, got {share!r} for child {child + 1}.")
        taken.append(rejected * share)
        rejected *= 1 - share
    return taken
