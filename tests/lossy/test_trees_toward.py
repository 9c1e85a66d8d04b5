"""Path rules for another target: lossless for it with ==, in the plain form and in the batched one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import ot_draft as otd
from ot_draft import trees
from ot_draft.lossy.base import Target
from proofs_checks.lossy import published_targets

TARGETS = [
    otd.lossy.TotalVariation(Fraction(1, 8)),
    otd.lossy.Ratio(factor=Fraction(3, 2)),
    published_targets.Lenience(Fraction(1, 2)),
]
RULES = [trees.Joint(), trees.TokenWise(otd.rules.KSeq()), trees.Traversal()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_emitted_law_is_the_targets(rule: trees.PathRule, target: Target) -> None:
    for seed in range(3):
        model = trees.MarkovModel.random(np.random.default_rng(seed), 2)
        toward = trees.TowardPath(target, rule)
        kept = toward.retargeted(model, trees.TreeShape.chains(2, 2), otd.IID())
        of_target = trees.evaluate(rule, kept, (2, 2))
        lossy = trees.evaluate(toward, model, (2, 2))
        assert of_target.lossless
        assert lossy.expected_length == of_target.expected_length
        drafts = ((0, 1), (1, 1))
        assert toward(model, drafts) == rule(kept, drafts)


def test_the_batched_form_selects_for_the_target() -> None:
    generator = np.random.default_rng(4)
    shape = trees.TreeShape.chains(3, 2)
    p, q = generator.dirichlet(np.ones(5), (4, shape.size + 1)), generator.dirichlet(np.ones(5), (4, shape.size + 1))
    p[:, 2:4], q[:, 2:4] = p[:, 1:2], q[:, 1:2]
    tokens = generator.integers(0, 5, (4, shape.size))
    tokens[:, 1:3] = tokens[:, :1]  # nodes with the same tokens before them hold the same laws
    tree = shape.tree(tokens, p, q)
    target = otd.lossy.KL(0.1)
    toward = trees.TowardPath(target, trees.Joint())
    uniforms = generator.random((4, toward.n_uniforms(shape)))
    r = np.concatenate((target(p[:, :1], q[:, :1], 3), target(p[:, 1:4], q[:, 1:4], 1), p[:, 4:]), 1)
    wanted = trees.Joint().select(shape.tree(tokens, r, q), uniforms)
    found = toward.select(tree, uniforms)
    for name in vars(wanted):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name


def test_what_is_known_of_the_rule_is_known_of_it_for_another_target() -> None:
    generator = np.random.default_rng(6)
    shape = trees.TreeShape.chains(2, 2)
    p, q = generator.dirichlet(np.ones(5), (1, shape.size + 1)), generator.dirichlet(np.ones(5), (1, shape.size + 1))
    p[:, 2], q[:, 2] = p[:, 1], q[:, 1]  # nodes with the same token before them
    first, second = (q / p).argmax(-1)[0, :2]  # not taken for certain
    tree = shape.tree(np.array([[first, first, second, second]]), p, q)
    rule = trees.TokenWise(otd.rules.Optimal(law=otd.Hybrid(1)))
    toward = trees.TowardPath(published_targets.Ensemble(0.3), trees.TokenWise(otd.rules.KSeq()))
    r = published_targets.Ensemble(0.3)(p, q)
    for chosen in (np.empty((1, 0), dtype=np.int64), np.array([[first]])):
        wanted = toward.rule.output_distribution(shape.tree(tree.tokens, r, q), chosen)
        assert np.allclose(toward.output_distribution(tree, chosen), wanted)
        assert not np.allclose(toward.rule.output_distribution(tree, chosen), wanted)
    along_paths = trees.TowardPath(otd.lossy.KL(0.1), trees.Joint())
    assert (toward.looks_ahead, along_paths.looks_ahead) == (False, True)
    assert along_paths.output_distribution(tree, chosen) is None
    assert trees.TowardPath(otd.lossy.KL(0.1), rule).law == otd.Hybrid(1)
    quick = trees.TowardPath(otd.lossy.KL(0.1), rule).approximate_for(otd.IID())
    assert quick.rule == rule.approximate_for(otd.IID()) and quick.target == otd.lossy.KL(0.1)


def test_what_is_no_target_and_uneven_shapes_are_refused() -> None:
    with pytest.raises(otd.InvalidDrafts, match="target"):
        trees.TowardPath(0.1, trees.Joint())
    with pytest.raises(otd.InvalidDrafts, match="equally many"):
        trees.TowardPath(otd.lossy.KL(0.1), trees.Joint()).check(trees.TreeShape((0, 0, 1)), otd.IID())
