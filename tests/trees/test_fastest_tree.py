"""Trees chosen by levels and nodes."""

from __future__ import annotations

from itertools import product

import pytest

import ot_draft as otd
from ot_draft.trees import Costs, TreeShape
from ot_draft.trees.evaluation.best_shapes import expected_accepted, fastest_tree

ACCEPTANCE = (0.5, 0.3, 0.2)


def costs(level: float, node: float) -> Costs:
    return Costs({1: 1.0, 33: 1 + 32 * node}, {1: level, 32: level})


def test_as_the_best_of_all_shapes() -> None:
    """Up to five nodes, three children each: every shape is tried."""
    given = costs(0.1, 0.02)
    rates = []
    for size in range(6):
        for parents in product(*(range(node + 1) for node in range(size))):
            if list(parents) == sorted(parents) and all(parents.count(parent) <= 3 for parent in parents):
                shape = TreeShape(parents)
                cost = given.of_tree(shape.size, shape.length, max(map(len, shape.levels))) if size else 1.0
                rates.append((1 + expected_accepted(shape, ACCEPTANCE)) / cost)
    assert fastest_tree(ACCEPTANCE, given, 5, 5).speed_up == pytest.approx(max(rates))


def test_a_level_that_costs_twenty_nodes_makes_the_tree_shallow() -> None:
    """The same cost of a node, and of all nodes together, with cheap and with expensive levels."""
    deep, shallow = (fastest_tree(ACCEPTANCE, costs(level, 0.005), 16, 8) for level in (0.005, 0.1))
    assert deep.shape.length > shallow.shape.length >= 1
    assert shallow.speed_up < deep.speed_up
    assert fastest_tree(ACCEPTANCE, costs(2.0, 0.005), 16, 8).shape.size == 0
    chain = costs(0.1, 0.005).of_tree(16, 8, 4)
    assert costs(0.1, 0.005).of(2, 8) - chain == pytest.approx(0)
    assert chain == pytest.approx(1 + 16 * 0.005 + 8 * 0.1)


@pytest.mark.parametrize(("nodes", "levels"), [(-1, 2), (4, -1)])
def test_negative_sizes(nodes: int, levels: int) -> None:
    with pytest.raises(otd.InvalidArgument, match=r"(nodes|levels) must be an integer of at least 0, got -1"):
        fastest_tree(ACCEPTANCE, costs(0.1, 0.02), nodes, levels)


def test_given_costs_count_the_nodes_of_a_tree() -> None:
    """Not its width times its length."""
    from ot_draft.decoding import Drafting
    from ot_draft.decoding.tuning.costs import GivenCosts

    tree = otd.trees.FixedTree(TreeShape((0, 0, 0, 1, 4)))
    assert tree.counts.n_paths == 3 and tree.length == 3
    given = GivenCosts(costs(0.1, 0.01))
    assert given.step(Drafting.of(tree)) == pytest.approx(1 + 5 * 0.01 + 3 * 0.1)
    assert not GivenCosts(Costs({1: 1.0, 5: 1.1}, {1: 0.1, 4: 0.1})).reach(Drafting.of(tree))
