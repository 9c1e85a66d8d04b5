"""Counted acceptance and the tree that goes by it: against what is known exactly, and Sequoia's tree where the draft says nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ot_draft import paths
from ot_draft.paths.drafting.usual_acceptance import USUAL_ACCEPTANCE
from ot_draft.rules import RecursiveRejectionWithoutReplacement

PAIRS = Path(__file__).parents[2] / "figures" / "data" / "smollm2_pairs.npz"


def pairs_of(model: paths.SimulatedModel, count: int) -> tuple[np.ndarray, np.ndarray]:
    p, q = zip(*(model.pair(model.root(10_000 + number)) for number in range(count)), strict=True)
    return np.stack(p), np.stack(q)


def test_the_usual_acceptance_is_that_of_the_real_pair() -> None:
    with np.load(PAIRS, allow_pickle=False) as data:
        p, q = (data[name].reshape(-1, data[name].shape[-1]) for name in "pq")
    assert paths.CountedAcceptance.counted(p, q) == USUAL_ACCEPTANCE


def test_the_first_draw_is_counted_exactly_and_the_others_as_the_rule_accepts_them() -> None:
    model = paths.SimulatedModel(n=200)
    p, q = pairs_of(model, 300)
    counted = paths.CountedAcceptance.counted(p, q, most=4)
    assert counted.typical[0] == pytest.approx(np.minimum(p, q).sum(-1).mean(), abs=1e-4)
    shares = paths.acceptance_by_child(RecursiveRejectionWithoutReplacement(), model, 4, contexts=300)
    refused = np.cumprod([1, *(1 - share for share in shares[:-1])])
    assert counted.typical == pytest.approx(np.array(shares) * refused, abs=0.05)


def test_a_draft_that_is_the_target_is_always_accepted() -> None:
    q = np.random.default_rng(1).dirichlet(np.full(20, 0.3), 50)
    counted = paths.CountedAcceptance.counted(q, q, most=3)
    assert counted.typical == (1, 0, 0) and all(row == (1, 0, 0) for row in counted.of_node)


def test_where_the_draft_says_nothing_the_tree_is_sequoias() -> None:
    """One row for all: the shape is that of most expected tokens for this acceptance, or as good."""
    model = paths.SimulatedModel(n=200)
    for budget in (6, 12, 24, 40):
        counted = paths.CountedAcceptance.counted(*pairs_of(model, 200), most=10, edges=(2.0,))
        counted = replace(counted, of_share=((1.0, 1.0),))
        drafting = paths.CountedTree(budget, 6, counted)
        tree = drafting.draft(model, [model.root(1)], np.random.default_rng(budget).random((1, drafting.draws)))
        assert (tree.tokens >= 0).all()
        taken = np.array(counted.typical)
        shares = tuple(taken / (1 - np.concatenate(([0], np.cumsum(taken)[:-1]))))
        found = paths.expected_accepted(paths.TreeShape(tuple(tree.parents[0].tolist())), shares)
        best = paths.expected_accepted(paths.sequoia(shares, budget, 6), shares)
        assert 0.995 * best <= found <= best + 1e-9


def test_the_budget_goes_where_the_draft_is_trusted() -> None:
    acceptance = paths.CountedAcceptance(((0.3, 0.25, 0.2), (0.95, 0.01, 0.01)), ((1.0, 1.0),), (0.6, 0.1, 0.1), (0.6,))
    drafting = paths.CountedTree(6, 4, acceptance)
    sure, unsure = np.array([0.9, 0.05, 0.05]), np.array([0.4, 0.35, 0.25])
    for law, children in ((sure, 1), (unsure, 3)):
        growing = drafting.begin(np.full((1, 6), 0.5))
        growing.grow(law[None, None])
        assert int((growing.slots >= 0).sum()) == children
    # No child without mass: the second of a law of one token is not drafted.
    growing = drafting.begin(np.full((1, 6), 0.5))
    for _ in range(4):
        growing.grow(np.array([[[0.0, 1.0, 0.0]]]))
    assert growing.grown().tokens.tolist() == [[1, 1, 1, 1, -1, -1]]
