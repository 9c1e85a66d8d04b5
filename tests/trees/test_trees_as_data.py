"""Path rules on trees whose shapes are data: the same selections as on a tree of one shape, from the same random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from replay import batched, law_of

import ot_draft as otd
from ot_draft import trees
from ot_draft.trees.model import SimulatedModel
from ot_draft.trees.tree import PlainTree, TreeBounds

SHAPES = [
    trees.TreeShape.by_level((3, 2, 1)),
    trees.TreeShape.chains(3, 3),
    trees.TreeShape((0, 0, 0, 1, 1, 2, 4, 4, 7, 9)),
    trees.TreeShape((0, 1, 2, 3)),
    trees.TreeShape((0,)),
]
LAWS = [otd.IID(), otd.WithoutReplacement(), otd.Hybrid(1)]
SIZE, DEEP, MOST = 17, 5, 4


def in_post_order(shape: trees.TreeShape, node: int = 0) -> list[int]:
    """The slow way: children and all below them, then the node; without the root."""
    below = [other for child in shape.children(node) for other in in_post_order(shape, child)]
    return below + ([node] if node else [])


def as_data(tree: trees.DraftTree, size: int = SIZE) -> trees.DraftTree:
    """The same trees with their shape as data, and room for more nodes."""
    shape, batch, n = tree.shape(0), len(tree.tokens), tree.p.shape[-1]
    more = size - shape.size
    tokens = np.concatenate((tree.tokens, np.full((batch, more), -1)), -1)
    parents = np.broadcast_to(np.array([*shape.parents, *[size] * more]), (batch, size))
    p, q = (np.concatenate((x, np.zeros((batch, size + 1 - x.shape[1], n))), 1) for x in (tree.p, tree.q))
    return trees.DraftTree(parents, tokens, p, q, TreeBounds(size, DEEP, MOST), tree.law)


def drafted(shape: trees.TreeShape, law: Any, batch: int = 6) -> trees.DraftTree:
    model = SimulatedModel(n=20)
    uniforms = np.random.default_rng(shape.size).random((batch, shape.size))
    return trees.drafting.draft_trees(
        trees.FixedTree(shape, law), model, [model.root(i) for i in range(batch)], uniforms
    )


def in_floats(tree: trees.DraftTree, torch: Any, dtype: Any) -> trees.DraftTree:
    parts = [torch.from_numpy(np.ascontiguousarray(x)) for x in (tree.tokens, tree.p, tree.q, tree.parents)]
    tokens, p, q, parents = parts
    return trees.DraftTree(parents, tokens, p.to(dtype), q.to(dtype), tree.bounds, tree.law)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.size} nodes")
def test_the_selections_are_those_of_one_shape(shape: trees.TreeShape, law: Any) -> None:
    rule, tree = trees.Traversal(), drafted(shape, law)
    free = as_data(tree)
    lengths = set()
    for seed in range(8):
        numbers = np.random.default_rng(seed).random((len(tree.tokens), SIZE + 1))
        one, other = rule.select(tree, numbers[:, : shape.size + 1]), rule.select(free, numbers)
        assert np.array_equal(one.length, other.length)
        assert np.array_equal(one.tokens, other.tokens[:, : shape.length + 1])
        assert np.array_equal(one.nodes, other.nodes[:, : shape.length])
        lengths.update(one.length.tolist())
        for row in (0, 3):
            alone = rule.select(free.rows(slice(row, row + 1)), numbers[row : row + 1])
            assert alone.tokens.tolist() == other.tokens[row : row + 1].tolist()
    assert len(lengths) > 1


def test_torch_in_both_precisions_selects_the_same() -> None:
    torch = pytest.importorskip("torch")
    rule = trees.Traversal()
    for law in LAWS:
        tree = as_data(drafted(SHAPES[2], law))
        numbers = np.random.default_rng(1).random((6, SIZE + 1))
        expected = rule.select(tree, numbers)
        for dtype in (torch.float64, torch.float32):
            given = torch.from_numpy(numbers).to(dtype)
            for rows in (slice(0, 6), slice(2, 3)):
                part = in_floats(tree, torch, dtype)
                part = part if rows == slice(0, 6) else part.rows(slice(2, 3))
                found = rule.select(part, given[rows])
                assert found.tokens.tolist() == expected.tokens[rows].tolist()


def test_the_callers_arrays_are_not_changed() -> None:
    tree = as_data(drafted(SHAPES[0], otd.WithoutReplacement(), 1))
    before = [x.copy() for x in (tree.tokens, tree.p, tree.q, tree.parents)]
    trees.Traversal().select(tree, np.random.default_rng(2).random((1, SIZE + 1)))
    assert all(
        np.array_equal(one, other)
        for one, other in zip(before, (tree.tokens, tree.p, tree.q, tree.parents), strict=True)
    )


def test_the_order_is_that_of_the_recursion() -> None:
    for shape in SHAPES:
        tree = as_data(drafted(shape, otd.IID(), 2))
        layout = tree.layout
        order = [node for node in layout.post_order[0].tolist() if node <= shape.size]
        assert order == in_post_order(shape)
        assert layout.places[1, : shape.size].tolist() == [shape.place(node) for node in range(1, shape.size + 1)]


ABSENT = {  # anywhere among siblings, with tokens below them that do not count
    "the elder of two": (trees.TreeShape.by_level((2, 2)), (-1, 1, 0, 1, 1, 0)),
    "the middle one": (trees.TreeShape((0, 0, 0, 1, 3)), (1, -1, 0, 1, 0)),
    "the first and one below": (trees.TreeShape((0, 0, 0, 2, 2, 3)), (-1, 1, 1, -1, 0, 1)),
    "all but the last": (trees.TreeShape((0, 0, 0, 3)), (-1, -1, 1, 0)),
}
RULES = [trees.Traversal(), trees.Joint(), trees.NaivePath(), trees.TokenWise(otd.rules.RecursiveRejection())]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("name", ABSENT)
def test_absent_nodes_may_stand_anywhere(rule: trees.PathRule, name: str) -> None:
    shape, tokens = ABSENT[name]
    for seed in range(4):
        model = trees.MarkovModel.random(np.random.default_rng([seed, 3]), 2, 1)
        tree = PlainTree(shape, tokens)
        drafted = batched(model, [tree])
        assert law_of(rule, drafted) == rule(model, tree)
