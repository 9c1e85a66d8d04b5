"""The simulator: its mean accepted length is the exact one, its numbers depend on the seed alone, its models are what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from slow import slow

import ot_draft as otd
from figures.trees.budget import covered
from ot_draft.trees.drafting.fixed import first_chains
from ot_draft.trees.evaluation.simulate import Simulation, drafted_trees, simulate, simulate_all, simulate_chains
from ot_draft.trees.model import SimulatedModel

TOKEN_WISE = [otd.rules.KSeq(), otd.rules.RecursiveRejection(), otd.rules.Optimal(), otd.rules.NaiveTarget()]
RULES = [*(otd.trees.TokenWise(rule) for rule in TOKEN_WISE), otd.trees.Joint(), otd.trees.Traversal()]
ONE_PATH = [otd.trees.BlockVerification(), otd.trees.TokenWise(otd.rules.SpeculativeSampling())]
SIZES = [(2, 1, 3), (3, 1, 2), (2, 2, 2), (2, 2, 3), (3, 2, 2), (2, 3, 2)]  # vocabulary, K, L
SMALL = SimulatedModel(n=50)
FIRST_MASSES = [7.271416e-10, 5.720269e-11, 6.968903e-09]  # of SMALL after (3, 4), on every machine


@pytest.mark.parametrize(("n", "K", "L"), [*SIZES[:3], *(slow(*sizes) for sizes in SIZES[3:])])
def test_the_mean_is_the_exact_one_within_three_standard_errors(n: int, K: int, L: int) -> None:
    generator = np.random.default_rng([n, K, L])
    rules = RULES + ONE_PATH * (K == 1)
    for order in (1, 2):
        model = otd.trees.MarkovModel.random(generator, n, order)
        found = simulate_all(rules, model.in_floats(), (K, L), 1000, seed=order)
        for rule, simulation in zip(rules, found, strict=True):
            exact = float(otd.trees.evaluate(rule, model, (K, L)).expected_length)
            assert abs(simulation.expected_length - exact) <= 3 * simulation.error + 1e-12, rule.name


def test_a_wrong_rule_is_told_from_the_right_one() -> None:
    """The test above can fail: one more token accepted in one iteration of five is more than three standard errors."""
    generator = np.random.default_rng(3)
    model = otd.trees.MarkovModel.random(generator, 3, 1)
    exact = float(otd.trees.evaluate(otd.trees.Joint(), model, (2, 3)).expected_length)
    simulation = simulate(otd.trees.Joint(), model.in_floats(), (2, 3), 2000)
    generous = simulation.lengths + (generator.random(2000) < 0.2)
    wrong = Simulation(np.minimum(generous, 3))
    assert abs(simulation.expected_length - exact) <= 3 * simulation.error < wrong.expected_length - exact


@pytest.mark.parametrize("number", [500, slow(1500)])
@pytest.mark.parametrize("law", [otd.WithoutReplacement(), otd.Hybrid(3)], ids=str)
def test_trees_of_other_laws_agree_with_the_sum_over_nodes(law: otd.DraftLaw, number: int) -> None:
    """Naive target sampling accepts a node with the target's probability of the way to it, whatever the law."""
    shape = otd.trees.TreeShape.by_level((3, 2))
    simulation = simulate(otd.trees.TokenWise(otd.rules.NaiveTarget()), SMALL, shape, number, seed=2, law=law)
    trees = [tree for tree, _ in drafted_trees(SMALL, otd.trees.FixedTree(shape, law), number, 2)]
    expected = np.concatenate([covered(tree) for tree in trees])
    difference = simulation.lengths - expected
    assert abs(difference.mean()) <= 3 * difference.std() / np.sqrt(number)
    for tree in trees:
        assert tree.law == law and all(len(set(row[:3])) == 3 for row in tree.tokens.tolist())


def test_numbers_depend_on_the_seed_alone() -> None:
    first = simulate(otd.trees.Joint(), SMALL, (3, 4), 40, seed=5)
    rules = [otd.trees.TokenWise(otd.rules.KSeq()), otd.trees.Joint()]
    again = simulate_all(rules, SMALL, (3, 4), 40, seed=5, max_bytes=1)[1]  # one tree per batch
    assert (first.lengths == again.lengths).all()
    assert (first.lengths != simulate(otd.trees.Joint(), SMALL, (3, 4), 40, seed=6).lengths).any()
    assert (first.lengths[:20] == simulate(otd.trees.Joint(), SMALL, (3, 4), 20, seed=5).lengths).all()


def test_smaller_sizes_are_cut_from_larger_drafts() -> None:
    rules = [*RULES, *ONE_PATH]
    found = simulate_chains(rules, SMALL, [(1, 2), (3, 2), (3, 4)], 60, seed=1)
    assert (otd.trees.BlockVerification(), 1, 2) in found and (otd.trees.BlockVerification(), 3, 2) not in found
    whole = simulate_all(RULES, SMALL, (3, 4), 60, seed=1)
    for rule, simulation in zip(RULES, whole, strict=True):
        assert (found[rule, 3, 4].lengths == simulation.lengths).all()
    (tree, _) = next(drafted_trees(SMALL, otd.trees.FixedTree.chains(3, 4), 60, 1))
    cut = first_chains(tree, 3, 2)
    token_wise = otd.trees.TokenWise(otd.rules.KSeq())
    uniforms = np.stack([np.random.default_rng([1, number]).random(12 + 5)[12:] for number in range(60)])
    assert (token_wise.select(cut, uniforms).length == found[token_wise, 3, 2].lengths).all()
    assert (cut.tokens == tree.tokens[:, :6]).all() and cut.q.shape[1] == 4


def test_the_first_chains_are_chains() -> None:
    (tree, _) = next(drafted_trees(SMALL, otd.trees.FixedTree.chains(3, 4), 5, 1))
    cut = first_chains(tree, 2, 3)
    for path in range(2):
        for depth in range(3):
            here, there = 1 + 2 * depth + path, 1 + 3 * depth + path
            assert (cut.tokens[:, here - 1] == tree.tokens[:, there - 1]).all()
            assert (cut.p[:, here] == tree.p[:, there]).all()
            assert depth == 2 or (cut.q[:, here] == tree.q[:, there]).all()


def test_rows_of_a_drafted_tree_are_the_models() -> None:
    shape = otd.trees.TreeShape.by_level((2, 2))
    uniforms = np.random.default_rng(0).random((2, shape.size))  # as many as three children with one each take
    tree = otd.trees.drafting.draft_trees(otd.trees.FixedTree(shape), SMALL, [(7,), (8, 9)], uniforms)
    for row, root in enumerate([(7,), (8, 9)]):
        for node in range(shape.size + 1):
            prefix = (*root, *(int(tree.tokens[row, above - 1]) for above in shape.path(node)))
            assert (tree.p[row, node] == SMALL.target(prefix)).all()
            if shape.children(node):
                assert (tree.q[row, node] == SMALL.draft(prefix)).all()
    drafting = otd.trees.FixedTree(otd.trees.TreeShape.by_level((3, 1)), otd.WithoutReplacement())
    few = otd.trees.drafting.draft_trees(drafting, SimulatedModel(n=2), [()], uniforms[:1])
    assert few.tokens[0, 2] == few.tokens[0, 5] == -1 and few.tokens[0, 3] >= 0


@pytest.mark.parametrize("number", [1500, slow(4000)])
def test_drafts_follow_the_law_of_the_draft(number: int) -> None:
    model = SimulatedModel(n=6, order=0)
    tokens = np.concatenate(
        [tree.tokens for tree, _ in drafted_trees(model, otd.trees.FixedTree.chains(2, 3), number, 3)]
    )
    for column in tokens.T:
        counts, q = np.bincount(column, minlength=6), model.draft(())
        assert ((counts - number * q) ** 2 / (number * q)).sum() < 45  # chi-square, 5 degrees: 1.5e-8


def test_mean_and_standard_error() -> None:
    simulation = Simulation(np.array([0, 1, 1, 3]))
    assert simulation.block_efficiency == 2.25 and simulation.error == pytest.approx(np.std([0, 1, 1, 3], ddof=1) / 2)


def test_the_simulated_models_are_reproducible_distributions() -> None:
    model = SimulatedModel(n=32_000)
    p, q = model.pair((5, 6))
    assert p.shape == q.shape == (32_000,) and abs(p.sum() - 1) < 1e-12 and p.min() > 0
    assert (model.target((1, 5, 6)) == p).all() and (model.draft((1, 5, 6)) == q).all()  # the last two tokens
    assert (model.target((6, 5)) != p).any() and (model.target((6,)) != p).any()
    assert (SimulatedModel(n=32_000, seed=1).target((5, 6)) != p).any()
    assert SMALL.target((3, 4))[:3] == pytest.approx(FIRST_MASSES, rel=1e-5)


def test_defaults_are_as_their_docstring_says() -> None:
    mean, error = SimulatedModel(n=4000).acceptance(400)
    assert abs(mean - 0.56) < 4 * error


def test_entropy_and_closeness_can_be_set() -> None:
    def entropy(model: SimulatedModel) -> Any:
        rows = [model.target(model.root(number)) for number in range(100)]
        return np.mean([-(p * np.log(p)).sum() for p in rows])

    assert entropy(SimulatedModel(n=500, temperature=0.6)) < entropy(SimulatedModel(n=500))
    for wanted in (0.3, 0.8, 0.95):  # 0.95: more than without noise
        model = SimulatedModel(n=500).with_acceptance(wanted)
        assert model.acceptance()[0] == pytest.approx(wanted, abs=2e-3)
    with pytest.raises(otd.InvalidDistribution, match=r"mean acceptance must be from .* got"):
        SimulatedModel(n=500).with_acceptance(1.5)


def test_bad_input() -> None:
    with pytest.raises(otd.InvalidDistribution, match="temperature above 0"):
        SimulatedModel(temperature=0)
    with pytest.raises(otd.InvalidDistribution, match="seed"):
        SimulatedModel(seed=-1)
    with pytest.raises(otd.InvalidArgument, match="at least 2"):
        simulate(otd.trees.Joint(), SMALL, (1, 1), 1)
    with pytest.raises(otd.InvalidDrafts, match=r"K must be .* got 0"):
        simulate(otd.trees.Joint(), SMALL, (0, 1), 10)
    with pytest.raises(otd.InvalidDrafts):
        simulate(otd.trees.TokenWise(otd.rules.KSeq()), SMALL, (2, 2), 10, law=otd.WithoutReplacement())
    for rules in ([], [otd.trees.BlockVerification()]):
        with pytest.raises(
            otd.InvalidArgument, match=r"path_rules must include a rule for sizes \(K, L\) \[\(2, 2\)\], got"
        ):
            simulate_chains(rules, SMALL, [(2, 2)], 10)
