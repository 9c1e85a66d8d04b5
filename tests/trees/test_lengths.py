"""How many drafted tokens are accepted, given the drafts: as in the law of all that is emitted, exactly."""

from __future__ import annotations

import numpy as np
import pytest

import ot_draft as ot
from ot_draft.trees.tree import PlainTree

SHAPES = (ot.trees.TreeShape.chains(2, 2), ot.trees.TreeShape((0, 0, 1, 1, 2)), ot.trees.TreeShape.chains(1, 3))
CASES = [
    (ot.trees.Joint(), ot.IID()),
    (ot.trees.Joint(), ot.Hybrid(1)),
    (ot.trees.BlockVerification(), ot.IID()),
    (ot.trees.Traversal(), ot.IID()),
    (ot.trees.Traversal(), ot.WithoutReplacement()),
    (ot.trees.NaivePath(), ot.WithoutReplacement()),
    (ot.trees.TokenWise(ot.rules.Optimal()), ot.IID()),
    (ot.trees.TokenWise(ot.rules.RecursiveRejectionWithoutReplacement()), ot.WithoutReplacement()),
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("rule", "law"), CASES, ids=str)
def test_lengths_are_those_of_the_emitted_tokens(rule: ot.trees.PathRule, law: ot.DraftLaw, seed: int) -> None:
    generator = np.random.default_rng(seed)
    model = ot.trees.MarkovModel.random(generator, 3)
    for shape in (shape for shape in SHAPES if ot.trees.rules.fits(rule, shape, law)):
        tree = ot.trees.drafting.draft_trees(
            ot.trees.FixedTree(shape, law), model.in_floats(), [()], generator.random((1, shape.size))
        )
        plain = PlainTree(shape, tuple(tree.tokens[0].tolist()), law)
        wanted: dict[int, object] = {}
        for tokens, probability in rule(model, plain).items():
            wanted[len(tokens) - 1] = wanted.get(len(tokens) - 1, 0) + probability
        assert ot.trees.rules.lengths(rule, model, plain) == wanted
        assert sum(wanted.values()) == 1
