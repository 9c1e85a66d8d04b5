"""The tree with most tokens per second for given costs: chosen by levels and nodes, since a level costs many times a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ot_draft as otd
from llm_demo.bench.trees.shapes import expected_accepted, sequoia


@dataclass(frozen=True)
class TreeChoice:
    """A shape, its expected tokens per target call, the cost of a step in autoregressive steps, and the speed-up."""

    shape: otd.trees.TreeShape
    tokens_per_call: float
    cost: float

    @property
    def speed_up(self) -> float:
        """Tokens per second, compared with autoregressive decoding."""
        return self.tokens_per_call / self.cost


def fastest_tree(
    acceptance: Sequence[float], costs: otd.trees.Costs, nodes: int, levels: int, rule: str = "Traversal"
) -> TreeChoice:
    """Return the tree with the largest speed-up, among Sequoia's best trees of all numbers of levels and nodes.

    Parameters
    ----------
    acceptance : sequence of float
        P(child i is accepted | those before it were rejected), the same at every node.
    costs : Costs
        Costs of a target call by positions, of a draft call by rows, and of a selection.
    nodes, levels : int
        Largest numbers of drafted nodes and of draft calls.
    rule : str, default="Traversal"
        Path rule whose selection is paid for.

    Returns
    -------
    choice : TreeChoice
        One without nodes, autoregressive decoding, where nothing is faster.

    References
    ----------
    .. [1] Chen et al., "Sequoia: scalable and robust speculative decoding", NeurIPS 2024, section 4.
    """
    best = TreeChoice(otd.trees.TreeShape(), 1.0, 1.0)
    for depth in range(1, levels + 1):
        for budget in range(depth, nodes + 1):
            shape = sequoia(acceptance, budget, depth)
            width = max(map(len, shape.levels))
            if shape.length < depth or not costs.reach_tree(shape.size, width):
                continue
            cost = costs.of_tree(shape.size, shape.length, width, rule) / costs.verify[1]
            found = TreeChoice(shape, 1 + expected_accepted(shape, acceptance), cost)
            best = max(best, found, key=lambda choice: choice.speed_up)
    return best
