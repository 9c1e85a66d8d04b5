"""Trees whose shapes are data: the batched rules against the plain ones, and the drafting that follows q against its plan."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from replay import law_of, tokens_of

import ot_draft as otd
from ot_draft import arrays
from ot_draft.laws import PerNodeFixedTokens
from ot_draft.laws.hybrid import StandIn
from ot_draft.trees.model import Nodes, SimulatedModel
from ot_draft.trees.tree import PlainTree, TreeBounds
from proofs_checks.paths.adapted_trees import any_order, draw_adapted
from proofs_checks.paths.stepwise import FIRST, Expansion, adaptive, drafted_tree, histories

OPTIMAL = otd.trees.TokenWise(otd.rules.Optimal(law=PerNodeFixedTokens()))
RULES = [otd.trees.Joint(), OPTIMAL, otd.trees.NaivePath(), otd.trees.Traversal()]
EACH_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def as_data(model: Any, plain: PlainTree, size: int, most: int, make: Any = None) -> otd.trees.DraftTree:
    """One tree in plain form as data, absent nodes at its end, with the model's laws in an array kind (default Fractions)."""
    make = make or (lambda values: np.array(values, dtype=object))
    shape, number = plain.shape, plain.shape.size
    prefixes = [tuple(plain.tokens[node - 1] for node in shape.path(v)) for v in range(number + 1)]
    prefixes += [()] * (size - number)
    tokens = np.array([[*plain.tokens, *[-1] * (size - number)]], dtype=np.int64)
    parents = np.array([[*shape.parents, *[size] * (size - number)]], dtype=np.int64)
    fixed = [
        len(plain.law.at(prefix).tokens) if shape.children(v) else 0 for v, prefix in enumerate(prefixes[: number + 1])
    ]
    fixed_count = np.array([[*fixed, *[0] * (size - number)]], dtype=np.int64)
    p, q = (make([[law(prefix) for prefix in prefixes]]) for law in (model.target, model.draft))
    bounds = TreeBounds(size, max(shape.length, 1), most)
    return otd.trees.DraftTree(parents, tokens, p, q, bounds, PerNodeFixedTokens(), fixed_count)


def some_trees(seed: int) -> tuple[Any, list[PlainTree]]:
    """Drafted trees of one random plan and model."""
    case = draw_adapted(seed)
    every = [drafted_tree(history) for history, _ in histories(Nodes.of(case.model), any_order(case), (), F(1), FIRST)]
    return case.model, [every[i] for i in np.random.default_rng(seed).integers(len(every), size=3)]


@EACH_RULE
def test_the_law_given_the_drafts_is_that_of_the_plain_form(rule: Any) -> None:
    for seed in range(10):
        model, trees = some_trees(seed)
        for tree in trees:
            for size in (tree.shape.size, tree.shape.size + 2):
                assert law_of(rule, as_data(model, tree, size, 4)) == rule(model, tree)


@EACH_RULE
def test_a_batch_of_trees_of_several_shapes_is_its_rows(rule: Any) -> None:
    model, trees = some_trees(1)
    rows = [as_data(model.in_floats(), tree, 7, 4, np.array) for tree in trees]
    names = ("parents", "tokens", "p", "q", "fixed_count")
    parents, tokens, p, q, fixed_count = (np.concatenate([getattr(row, name) for row in rows]) for name in names)
    batch = otd.trees.DraftTree(parents, tokens, p, q, TreeBounds(7, 3, 4), PerNodeFixedTokens(), fixed_count)
    uniforms = np.random.default_rng(2).random((len(rows), rule.n_uniforms(batch.bounds)))
    whole = rule.select(batch, uniforms)
    for row, plain in enumerate(trees):
        one = batch.rows(slice(row, row + 1))
        alone = rule.select(one, uniforms[row : row + 1])
        assert tokens_of(batch, whole, row, plain.shape) == tokens_of(one, alone, 0, plain.shape)


@EACH_RULE
def test_nothing_is_asked_of_the_device(rule: Any) -> None:
    torch = pytest.importorskip("torch")
    drafting = otd.trees.AdaptiveTree(6, 3, 4)
    growing = otd.trees.drafting.begin(drafting, torch.empty((2, 6), device="meta"))
    p = torch.empty((2, 7, 5), device="meta")
    while growing.levels:
        growing.grow(torch.empty((2, growing.slots.shape[1], 5), device="meta"))
    tree = otd.trees.drafting.as_trees(drafting, growing.grown(), p, p)
    selection = rule.select(tree, torch.empty((2, rule.n_uniforms(tree.bounds)), device="meta"))
    assert selection.tokens.shape == (2, 4) and selection.tokens.device.type == "meta"


def history_of(tree: otd.trees.DraftTree, row: int) -> tuple[Expansion, ...]:
    """What was drafted, one prefix after the other, breadth first."""
    tokens, parents = tree.tokens[row].tolist(), tree.parents[row].tolist()
    prefixes: list[tuple[int, ...]] = [()]
    children: dict[int, list[int]] = {}
    for token, parent in zip(tokens, parents, strict=True):
        if token < 0:
            prefixes.append(())
            continue
        prefixes.append((*prefixes[parent], token))
        children.setdefault(parent, []).append(token)
    return tuple(
        Expansion(
            prefixes[node],
            tuple(drafts[: int(tree.fixed_count[row, node])]),
            tuple(drafts[int(tree.fixed_count[row, node]) :]),
        )
        for node, drafts in sorted(children.items())
    )


def test_the_batched_drafting_is_its_plan() -> None:
    generator = np.random.default_rng(3)
    drawn = fixed = 0
    for seed in range(6):
        n = 2 + seed % 3
        model = otd.trees.MarkovModel.random(np.random.default_rng(seed), n, 1).in_floats()
        drafting = otd.trees.AdaptiveTree(3 + seed, 1 + seed % 4, 3)
        tree = otd.trees.drafting.draft_trees(drafting, model, [()] * 4, generator.random((4, drafting.bounds.size)))
        step = adaptive(drafting, model).step
        for row in range(4):
            history = history_of(tree, row)
            for number, done in enumerate(history):
                assert step(history[:number]) == (done.prefix, done.fixed, len(done.drawn))
            assert step(history) is None
            fixed, drawn = (
                total + sum(len(getattr(done, name)) for done in history)
                for total, name in ((fixed, "fixed"), (drawn, "drawn"))
            )
    assert fixed and drawn


def test_it_spends_its_budget_where_the_draft_is_sure() -> None:
    model = SimulatedModel(n=60)
    drafting = otd.trees.AdaptiveTree(12, 5, 6)
    tree = otd.trees.drafting.draft_trees(
        drafting, model, [model.root(i) for i in range(6)], np.random.default_rng(4).random((6, 12))
    )
    assert (tree.tokens >= 0).all()
    counts = [np.bincount(parents, minlength=13) for parents in tree.parents]
    assert all(count.max() <= 6 for count in counts)
    assert len({tuple(parents) for parents in tree.parents.tolist()}) > 3  # shapes differ
    sure, unsure = np.array([0.96, *[0.01] * 4]), np.full(5, 0.2)
    count, tops = drafting.numbers_at(
        drafting.estimate(np.stack([sure, unsure])[None]), np.ones((1, 2)), np.array([[4]]), 1
    )
    assert count[0, 0] < count[0, 1] and (tops <= count).all() and count.sum() == 4
    assert drafting.numbers_at(drafting.estimate(sure[None, None]), np.ones((1, 1)), np.array([[0]]), 3)[0].sum() == 0


def test_the_stand_in_is_fitted_to_a_draft() -> None:
    q = np.random.default_rng(6).dirichlet(np.full(40, 0.3), 50)
    head = np.where(q >= np.sort(q, -1)[:, -8:-7], q**0.6, 0)
    p = 0.75 * head / head.sum(-1, keepdims=True) + 0.25 * (head == 0) / (head == 0).sum(-1, keepdims=True)
    found = StandIn.fitted(p, q, head=8)
    assert (found.head, found.power) == (8, 0.6) and abs(found.seen - 0.75) < 1e-9


def test_the_drafting_is_fitted_so_that_a_draw_is_accepted_as_often() -> None:
    model = SimulatedModel(n=50)
    p, q = map(np.array, zip(*(model.pair(model.root(number)) for number in range(30)), strict=True))
    drafting = otd.trees.AdaptiveTree(8, 3, 1).fitted(p, q)
    estimates, tops = drafting.estimate(q).acceptances
    drawn = np.minimum(p, q).sum(-1).mean()
    assert 0 < drafting.spread < 1 and estimates.shape == (30, 2) == tops.shape
    assert estimates[:, 1].mean() >= drawn - 1e-9  # a draw, or the top token where that promises more


def test_torch_drafts_the_same() -> None:
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(5)
    q, reached = generator.dirichlet(np.full(30, 0.2), (3, 4)), generator.random((3, 4))
    drafting = otd.trees.AdaptiveTree(9, 4, 5)
    left = np.array([[9], [4], [1]])
    here, there = drafting.estimate(q), drafting.estimate(torch.from_numpy(q))  # on the CPU both are numpy
    mine, theirs = (drafting.numbers_at(estimate, reached, left, 3) for estimate in (here, there))
    assert all((a == b).all() for a, b in zip(mine, theirs, strict=True))
    tokens = np.array([[[0, 3, 5, 5, -1]] * 4] * 3)
    number, count = np.array([[[1]] * 4] * 3), np.array([[[4]] * 4] * 3)
    masses = arrays.gather(q, tokens)
    chances = here.below(masses, tokens, number, count)
    assert (chances[..., 4] == 0).all() and (chances >= 0).all() and (chances <= 1).all()
    assert np.allclose(there.below(torch.from_numpy(masses), tokens, number, count), chances)


def test_errors() -> None:
    bounds, tokens, p = TreeBounds(3, 2, 2), np.zeros((1, 3), dtype=np.int64), np.full((1, 4, 2), 0.5)
    with pytest.raises(otd.InvalidDrafts, match=r"parents must have shape \(1, 3\), one per token, got \(1, 2\)"):
        otd.trees.DraftTree(tokens[:, :2], tokens, p, p, bounds, PerNodeFixedTokens())
    with pytest.raises(otd.InvalidDrafts, match="one number per row of q"):
        otd.trees.DraftTree(tokens, tokens, p, p, bounds, PerNodeFixedTokens(), tokens)
    toward = otd.trees.TowardPath(otd.lossy.KL(0.1), otd.trees.Joint())
    with pytest.raises(otd.InvalidDrafts, match="equally many children"):
        toward.check(bounds, otd.IID())
    with pytest.raises(otd.InvalidDrafts, match="max_children must be an integer of at least 1, got 0"):
        TreeBounds(3, 2, 0)
    with pytest.raises(otd.InvalidDrafts, match="fixed_count must be set in the tree"):
        PerNodeFixedTokens().n_fixed(p, 2)
