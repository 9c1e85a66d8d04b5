"""Counted acceptance and the tree that goes by it: against what is known exactly, and Sequoia's tree where the draft says nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from llm_demo.models.acceptance import EMBEDDED
from ot_draft import trees
from ot_draft.rules import RecursiveRejectionWithoutReplacement
from ot_draft.trees.drafting.counted_acceptance import CountedAcceptance, LookedUpAcceptance
from ot_draft.trees.drafting.growing import Grown, grow_all
from ot_draft.trees.evaluation.best_shapes import acceptance_by_child, expected_accepted, sequoia
from ot_draft.trees.model import SimulatedModel

DATA = Path(__file__).parents[2] / "figures" / "data"
PAIRS, PLANS = DATA / "smollm2_pairs.npz", DATA / "real_trees_plans.json"


def pairs_of(model: SimulatedModel, count: int) -> tuple[np.ndarray, np.ndarray]:
    p, q = zip(*(model.pair(model.root(10_000 + number)) for number in range(count)), strict=True)
    return np.stack(p), np.stack(q)


def test_the_usual_acceptance_is_that_of_the_real_pair() -> None:
    with np.load(PAIRS, allow_pickle=False) as data:
        p, q = (data[name].reshape(-1, data[name].shape[-1]) for name in "pq")
    assert CountedAcceptance.counted(p, q) == EMBEDDED.drawn


def test_the_first_draw_is_counted_exactly_and_the_others_as_the_rule_accepts_them() -> None:
    model = SimulatedModel(n=200)
    p, q = pairs_of(model, 300)
    counted = CountedAcceptance.counted(p, q, max_children=4)
    assert counted.typical[0] == pytest.approx(np.minimum(p, q).sum(-1).mean(), abs=1e-4)
    shares = acceptance_by_child(RecursiveRejectionWithoutReplacement(), model, 4, contexts=300)
    refused = np.cumprod([1, *(1 - share for share in shares[:-1])])
    assert counted.typical == pytest.approx(np.array(shares) * refused, abs=0.05)


def test_a_draft_that_is_the_target_is_always_accepted() -> None:
    q = np.random.default_rng(1).dirichlet(np.full(20, 0.3), 50)
    counted = CountedAcceptance.counted(q, q, max_children=3)
    assert counted.typical == (1, 0, 0) and all(row == (1, 0, 0) for row in counted.of_node)


def test_looked_up_tokens_are_counted_by_the_drafts_mass() -> None:
    p, q, behind = np.array([0.9, 0.7, 0.5, 0.3]), np.array([0.01, 0.01, 0.5, 0.01]), np.array([0, 0, 0, 1])
    counted = LookedUpAcceptance.counted(p, q, behind)
    middle = [0.01, 0.06, 0.25, 0.6, 0.885, 0.985]  # of every bin: what a mass there says by itself
    first = [(0.9 + 0.7 + 3 * middle[0]) / 5, *middle[1:3], (0.5 + 3 * middle[3]) / 4, *middle[4:]]
    assert counted.first == pytest.approx(first, abs=1e-4)
    assert counted.further == pytest.approx([(0.3 + 3 * middle[0]) / 4, *middle[1:]], abs=1e-4)
    masses = np.array([[0.0, 0.02], [0.5, 1.0]])
    assert counted.chance(masses, first=True) == pytest.approx(
        np.array([[first[0], first[1]], [first[3], first[5]]]), abs=1e-4
    )


def test_usually_looked_up_tokens_are_accepted_as_with_the_embedded_pair() -> None:
    plans = json.loads(PLANS.read_text(encoding="utf-8"))["plans"]["embedded"]
    for name in ("first", "further"):
        found = np.mean([plans[temperature]["looked_up"][name] for temperature in ("0.6", "1.0")], 0)
        assert getattr(EMBEDDED.looked_up, name) == pytest.approx(found, abs=1e-4)


def drafted_beside_lookup(first: float, further: float) -> Grown:
    """12 nodes, of which 4 may be looked-up tokens, on which the draft has little mass."""
    model = SimulatedModel(n=200)
    seldom = LookedUpAcceptance((first, 1.0), (further, 1.0), edges=(0.3,))
    drafting = trees.LookupTree(12, 5, EMBEDDED.drawn, seldom)
    draws = np.random.default_rng(3).random((1, drafting.counts.n_uniforms))
    return grow_all(
        trees.drafting.begin(drafting, draws, np.array([[7, 8, 9, 10]])),
        [model.root(1)],
        lambda prefix: model.pair(prefix)[1],
    )


@pytest.mark.parametrize(("first", "further", "nodes"), [(0.0, 0.9, 0), (0.9, 0.0, 1), (0.9, 0.9, 4)])
def test_looked_up_tokens_are_drafted_where_they_are_worth_a_draw(first: float, further: float, nodes: int) -> None:
    tree = drafted_beside_lookup(first, further)
    assert tree.fixed_count.sum() == nodes
    assert (tree.tokens >= 0).all()  # what they do not take is drawn
    node = 0
    for token in (7, 8, 9, 10)[:nodes]:
        (below,) = np.flatnonzero((tree.parents[0] == node) & (tree.tokens[0] == token))
        node = int(below) + 1


def test_the_surer_a_looked_up_token_the_fewer_draws_stand_beside_it() -> None:
    beside = [int((drafted_beside_lookup(first, 0.0).parents[0] == 0).sum()) for first in (0.1, 0.5, 0.99)]
    assert beside[0] > beside[1] > beside[2] == 1


def test_where_the_draft_says_nothing_the_tree_is_sequoias() -> None:
    """One row for all: the shape is that of most expected tokens for this acceptance, or as good."""
    model = SimulatedModel(n=200)
    for budget in (6, 12, 24, 40):
        counted = CountedAcceptance.counted(*pairs_of(model, 200), max_children=10, edges=(2.0,))
        counted = replace(counted, of_share=((1.0, 1.0),))
        drafting = trees.CountedTree(budget, 6, counted)
        tree = trees.drafting.draft_trees(
            drafting, model, [model.root(1)], np.random.default_rng(budget).random((1, drafting.counts.n_uniforms))
        )
        assert (tree.tokens >= 0).all()
        taken = np.array(counted.typical)
        shares = tuple(taken / (1 - np.concatenate(([0], np.cumsum(taken)[:-1]))))
        found = expected_accepted(trees.TreeShape(tuple(tree.parents[0].tolist())), shares)
        best = expected_accepted(sequoia(shares, budget, 6), shares)
        assert 0.995 * best <= found <= best + 1e-9


def test_the_budget_goes_where_the_draft_is_trusted() -> None:
    acceptance = CountedAcceptance(((0.3, 0.25, 0.2), (0.95, 0.01, 0.01)), ((1.0, 1.0),), (0.6, 0.1, 0.1), (0.6,))
    drafting = trees.CountedTree(6, 4, acceptance)
    sure, unsure = np.array([0.9, 0.05, 0.05]), np.array([0.4, 0.35, 0.25])
    for law, children in ((sure, 1), (unsure, 3)):
        growing = trees.drafting.begin(drafting, np.full((1, 6), 0.5))
        growing.grow(law[None, None])
        assert int((growing.slots >= 0).sum()) == children
    # No child without mass: the second of a law of one token is not drafted.
    growing = trees.drafting.begin(drafting, np.full((1, 6), 0.5))
    for _ in range(4):
        growing.grow(np.array([[[0.0, 1.0, 0.0]]]))
    assert growing.grown().tokens.tolist() == [[1, 1, 1, 1, -1, -1]]


def test_what_was_counted_of_a_pair_goes_to_trees_that_were_given_nothing() -> None:
    few = CountedAcceptance(((0.4, 0.3), (0.8, 0.1)), ((1.0, 1.0),), (0.6, 0.2), (0.5,))
    for tree in (trees.CountedTree(8), trees.LookupTree(8)):
        told = tree.for_pair(EMBEDDED)
        assert isinstance(told, type(tree)) and told.acceptance == EMBEDDED.drawn != tree.acceptance
        assert replace(tree, acceptance=few).for_pair(EMBEDDED).acceptance == few
    assert trees.LookupTree(8).for_pair(EMBEDDED).looked_up == EMBEDDED.looked_up


def test_where_nothing_was_counted_the_drafts_own_masses_say_it() -> None:
    """Children where the draft hesitates, depth where it is sure; no table of other models."""
    drafting = trees.CountedTree(12, 6)
    rows = drafting.acceptance.of_node
    assert all(sum(row) < 1.001 and list(row) == sorted(row, reverse=True) for row in rows)
    assert all(one[0] < other[0] for one, other in pairwise(rows))
    children = []
    for law in (np.array([0.96, 0.02, 0.02]), np.array([0.4, 0.35, 0.25])):
        growing = trees.drafting.begin(drafting, np.full((1, 12), 0.3))
        growing.grow(law[None, None])
        children.append(int((growing.slots >= 0).sum()))
    assert children[0] < children[1]
