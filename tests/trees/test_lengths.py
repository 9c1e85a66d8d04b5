"""How many drafted tokens are accepted, given the drafts: as in the law of all that is emitted, exactly."""

from __future__ import annotations

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.trees.tree import PlainTree

SHAPES = (otd.trees.TreeShape.chains(2, 2), otd.trees.TreeShape((0, 0, 1, 1, 2)), otd.trees.TreeShape.chains(1, 3))
CASES = [
    (otd.trees.Joint(), otd.IID()),
    (otd.trees.Joint(), otd.Hybrid(1)),
    (otd.trees.BlockVerification(), otd.IID()),
    (otd.trees.Traversal(), otd.IID()),
    (otd.trees.Traversal(), otd.WithoutReplacement()),
    (otd.trees.NaivePath(), otd.WithoutReplacement()),
    (otd.trees.TokenWise(otd.rules.Optimal()), otd.IID()),
    (otd.trees.TokenWise(otd.rules.RecursiveRejectionWithoutReplacement()), otd.WithoutReplacement()),
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("rule", "law"), CASES, ids=str)
def test_lengths_are_those_of_the_emitted_tokens(rule: otd.trees.PathRule, law: otd.DraftLaw, seed: int) -> None:
    generator = np.random.default_rng(seed)
    model = otd.trees.MarkovModel.random(generator, 3)
    for shape in (shape for shape in SHAPES if otd.trees.rules.fits(rule, shape, law)):
        tree = otd.trees.drafting.draft_trees(
            otd.trees.FixedTree(shape, law), model.in_floats(), [()], generator.random((1, shape.size))
        )
        plain = PlainTree(shape, tuple(tree.tokens[0].tolist()), law)
        wanted: dict[int, object] = {}
        for tokens, probability in rule(model, plain).items():
            wanted[len(tokens) - 1] = wanted.get(len(tokens) - 1, 0) + probability
        assert otd.trees.rules.lengths(rule, model, plain) == wanted
        assert sum(wanted.values()) == 1
