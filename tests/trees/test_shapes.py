"""Draft shapes: Sequoia's program against all trees, the dynamic trees against searches in the open, and which rules they keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from slow import slow

import ot_draft as otd
from figures.trees.budget import WAYS, covered, simulate_budget
from llm_demo.bench.trees.shapes import best_by_level
from ot_draft.trees.drafting.baselines import ConfidentTree, SampledTree
from ot_draft.trees.evaluation.best_shapes import acceptance_by_child, expected_accepted, sequoia
from ot_draft.trees.evaluation.simulate import drafted_trees, simulate
from ot_draft.trees.model import SimulatedModel

MODEL = SimulatedModel(n=40)
WITHOUT = otd.rules.RecursiveRejectionWithoutReplacement()


def ordered_trees(nodes: int) -> Iterator[tuple[int, ...]]:
    """Parents of every ordered tree with so many nodes below the root, in breadth-first numbers."""
    for parents in product(*(range(node) for node in range(1, nodes + 1))):
        if list(parents) == sorted(parents):
            yield parents


@pytest.mark.parametrize(
    "acceptance", [(0.6, 0.3, 0.2), (0.9, 0.9), (0.2, 0.8, 0.5), (0.5, 0.0, 0.9), (1.0, 0.5), (0.4,)]
)
@pytest.mark.parametrize("length", [1, 2, 4])
def test_sequoia_is_the_best_of_all_trees(acceptance: tuple[float, ...], length: int) -> None:
    for budget in range(7):
        best = 0.0
        for nodes in range(budget + 1):
            for parents in ordered_trees(nodes):
                shape = otd.trees.TreeShape(parents)
                if shape.length <= length and max(shape.branching, default=0) <= len(acceptance):
                    best = max(best, expected_accepted(shape, acceptance))
        found = sequoia(acceptance, budget, length)
        assert found.size <= budget and found.length <= length
        assert expected_accepted(found, acceptance) == pytest.approx(best, abs=1e-12)


def test_sequoia_of_one_acceptance_is_a_chain_and_a_bush() -> None:
    assert sequoia((0.7,), 5, 8) == otd.trees.TreeShape.chains(1, 5)
    assert sequoia((0.7, 0.7, 0.7), 3, 1) == otd.trees.TreeShape.by_level((3,))
    assert expected_accepted(otd.trees.TreeShape.chains(1, 2), (0.5,)) == 0.75
    assert expected_accepted(otd.trees.TreeShape.by_level((2, 1)), (0.5, 0.5)) == 0.75 * 1.5


def test_measured_acceptance_of_one_token_adds_up() -> None:
    """The shares of the children, put together, are the rule's acceptance; the first child's is that of one draft."""
    k, contexts = 3, 200
    shares = acceptance_by_child(WITHOUT, MODEL, k, contexts)
    refused = np.prod([1 - share for share in shares])
    total = 0.0
    for number in range(contexts):
        p, q = MODEL.pair(MODEL.root(number))
        drafts = otd.WithoutReplacement().draw(q, np.random.default_rng([0, number]).random(k))
        total += WITHOUT(p, q, drafts).accept.sum() / contexts
    assert 1 - refused == pytest.approx(total)
    one, error = MODEL.acceptance(contexts)
    assert abs(shares[0] - one) < 6 * error


def test_the_last_of_all_tokens_is_accepted_with_a_probability() -> None:
    """Where a tree has a child for every token, rounding may not put the share above 1."""
    laws = [Fixed(*(np.random.default_rng([seed, i]).dirichlet(np.ones(3)) for i in range(2))) for seed in range(40)]
    shares = np.array([acceptance_by_child(WITHOUT, law, 3, 7) for law in laws])
    assert shares[:, -1].max() == pytest.approx(1) and shares.max() <= 1


@pytest.mark.parametrize("number", [800, slow(2000)])
def test_the_program_predicts_what_the_simulator_finds(number: int) -> None:
    """Its assumption, one acceptance everywhere, holds where no context differs: a draft that is one law, a target another."""
    model = SimulatedModel(n=12, order=0, sharpness_spread=0, noise=1.0, noise_spread=0)
    fixed = Fixed(*model.pair(()))
    shares = acceptance_by_child(WITHOUT, fixed, 4, number)
    shape = sequoia(shares, 8, 4)
    found = simulate(otd.trees.TokenWise(WITHOUT), fixed, shape, number, law=otd.WithoutReplacement())
    assert abs(found.expected_length - expected_accepted(shape, shares)) < 4 * found.error


class Fixed:
    """One target and one draft distribution, whatever came before."""

    def __init__(self, p: Any, q: Any) -> None:
        self.p, self.q = p, q

    def target(self, prefix: Any) -> Any:
        return self.p

    def draft(self, prefix: Any) -> Any:
        return self.q


@pytest.mark.parametrize(("budget", "length"), [(1, 3), (7, 2), (12, 4)])
def test_the_confident_tree_holds_the_likeliest_nodes(budget: int, length: int) -> None:
    model = SimulatedModel(n=5)
    tree = otd.trees.drafting.draft_trees(
        ConfidentTree(budget, length, budget, budget), model, [(9,)], np.zeros((1, 0))
    )
    shape = tree.shape(0)
    assert shape.size == budget and shape.length <= length

    @cache
    def value(way: tuple[int, ...]) -> float:
        return value(way[:-1]) * float(model.draft((9, *way[:-1]))[way[-1]]) if way else 1.0

    ways = [way for depth in range(1, length + 1) for way in product(range(5), repeat=depth)]
    best = set(sorted(ways, key=value, reverse=True)[:budget])
    assert {tuple(int(tree.tokens[0, above - 1]) for above in shape.path(v)) for v in range(1, budget + 1)} == best
    for node in range(budget + 1):  # siblings in falling order, as the law of the top tokens has them
        children = shape.children(node)
        tops = np.argsort(-tree.q[0, node], kind="stable")[: len(children)]
        assert [int(tree.tokens[0, child - 1]) for child in children] == tops.tolist()
        assert tree.fixed_count is not None and tree.fixed_count[0, node] == len(children)


def test_naive_target_sampling_on_confident_trees_accepts_what_they_cover() -> None:
    drafting = ConfidentTree(6, 4, 6, 6)
    simulation = simulate(otd.trees.NaivePath(), MODEL, drafting, 400, seed=2)
    trees = [tree for tree, _ in drafted_trees(MODEL, drafting, 400, 2)]
    differences = simulation.lengths - np.concatenate([covered(tree) for tree in trees])
    assert abs(np.mean(differences)) < 3 * np.std(differences) / np.sqrt(400)
    with pytest.raises(otd.InvalidDrafts, match="valid on trees whose children follow"):
        simulate(otd.trees.TokenWise(otd.rules.KSeq()), MODEL, drafting, 2)


@pytest.mark.parametrize("number", [400, slow(1000)])
def test_sampled_trees_keep_the_law_of_the_target(number: int) -> None:
    """Recursive rejection without replacement, on trees that grow by their own draws: chi-square of the first token."""
    model = SimulatedModel(n=4, seed=3, noise=1.0)
    rule, drafting = otd.trees.TokenWise(WITHOUT), SampledTree(4, 3, 4, 4)
    generator = np.random.default_rng(6)
    tree = otd.trees.drafting.draft_trees(
        drafting, model, [()] * number, generator.random((number, drafting.counts.n_uniforms))
    )
    shapes = [tree.shape(row) for row in range(number)]
    assert {shape.size for shape in shapes} == {4} and max(shape.length for shape in shapes) <= 3 < len(set(shapes))
    for row, shape in enumerate(shapes):
        for node in range(5):
            children = shape.children(node)
            assert len({int(tree.tokens[row, child - 1]) for child in children}) == len(children)
    chosen = rule.select(tree, generator.random((number, rule.n_uniforms(tree.bounds)))).tokens[:, 0]
    expected = number * model.target(())
    assert ((np.bincount(chosen, minlength=4) - expected) ** 2 / expected).sum() < 45  # 3 degrees: 1e-9


def test_stopping_by_predicted_acceptance() -> None:
    pairs = [MODEL.pair(MODEL.root(10_000 + number)) for number in range(100)]
    stop = otd.trees.StoppedPath(6, 0.5).fitted(*map(np.stack, zip(*pairs, strict=True)))
    assert all(0 <= chance <= 1 for chance in stop.accepted)
    (tree, _) = next(drafted_trees(MODEL, otd.trees.FixedTree.chains(1, 6), 200, 1))
    lengths = stop.lengths(tree)
    q = np.take_along_axis(tree.q[:, :6], tree.tokens[:, :, None], -1)[..., 0]
    for row, length in enumerate(lengths):
        chances = np.cumprod(np.array(stop.accepted)[np.searchsorted(stop.edges, q[row], side="right")])
        assert (1 - chances[: length - 1] <= 0.5).all() and (length == 6 or 1 - chances[length - 1] > 0.5)
    assert len(set(lengths.tolist())) > 2
    sure, never = (replace(stop, threshold=threshold) for threshold in (0.0, 1.0))
    assert (never.lengths(tree) == 6).all() and sure.lengths(tree).mean() < lengths.mean()


def test_bad_input() -> None:
    with pytest.raises(otd.InvalidArgument, match="child 2"):
        sequoia((0.5, 1.2), 4, 2)
    with pytest.raises(otd.InvalidArgument, match="budget must be an integer of at least 0, got -1"):
        sequoia((0.5,), -1, 2)
    with pytest.raises(otd.InvalidArgument, match="child 2"):
        expected_accepted(otd.trees.TreeShape.by_level((2,)), (0.5,))


@pytest.mark.parametrize("way", [slow(way) if way in ("Sequoia", "k-ary") else way for way in WAYS])
def test_ways_keep_to_their_budget(way: str) -> None:
    found = simulate_budget(way, MODEL, 6, 3, iterations=6)
    again = simulate_budget(way, MODEL, 6, 3, iterations=6)
    assert found.way == way and found.nodes <= 6 and (found.lengths == again.lengths).all()
    assert (
        len(found.lengths) == 6 and found.lengths.min() >= 0 and found.lengths.max() <= (6 if way == "SpecDec++" else 3)
    )


def test_more_nodes_cover_more() -> None:
    few, more = (simulate_budget("EAGLE-2", MODEL, budget, 4, 50).lengths for budget in (3, 9))
    assert (few < more).all()


def test_the_best_tree_by_level_is_the_best_of_all() -> None:
    shares = (0.5, 0.4, 0.3, 0.3)
    candidates = [
        otd.trees.TreeShape.by_level(children) for depth in (1, 2, 3) for children in product(range(1, 5), repeat=depth)
    ]
    for budget in (1, 5, 9):
        fitting = [shape for shape in candidates if shape.size <= budget]
        falling = best_by_level(shares, budget, 3)
        best = max(expected_accepted(shape, shares) for shape in fitting)
        assert falling.size <= budget and expected_accepted(falling, shares) == pytest.approx(best)


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(otd.InvalidArgument, match="must be one of k-ary, Sequoia"):
        simulate_budget("Medusa", MODEL, 4)
