"""`batched_form`: what is wrong in `_select` alone, which `decode` runs, shows in `otd.trees.evaluate`, as do errors of the plain form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contributing import example

import ot_draft as otd
from ot_draft import arrays as xp
from ot_draft import trees
from ot_draft.laws import is_defined
from ot_draft.trees.tree import PathSelection

SHAPES = (
    trees.TreeShape.by_level((2, 1)),
    trees.TreeShape.chains(1, 2),
    trees.TreeShape(()),
    trees.TreeShape((0, 0, 2)),
)
MODEL = trees.MarkovModel.random(np.random.default_rng(3), 2)


@pytest.mark.parametrize(
    "rule", [rule for rule in trees.rules.every() if not trees.rules.solves_program(rule)], ids=lambda rule: rule.name
)
def test_the_library_s_rules_are_right_in_both_forms(rule: trees.PathRule) -> None:
    shapes = [shape for shape in (*SHAPES, trees.TreeShape((0, 0))) if trees.rules.fits(rule, shape, rule.law)]
    shapes = [shape for shape in shapes if all(is_defined(rule.law, count) for count in shape.branching)]
    assert shapes
    for shape in shapes:
        form = trees.batched_form(rule)
        plain, batched = (trees.evaluate(each, MODEL, shape, rule.law) for each in (rule, form))
        assert plain.lossless and batched.lossless and batched.law == plain.law
        assert batched.expected_length == plain.expected_length


def test_paths_are_taken_as_by_the_rule() -> None:
    joint = trees.Joint()
    plain, batched = (trees.evaluate(each, MODEL, (2, 1)) for each in (joint, trees.batched_form(joint)))
    assert batched.lossless and batched.expected_length == plain.expected_length


@pytest.fixture
def first_step(monkeypatch: pytest.MonkeyPatch) -> Any:
    return example("first_step", monkeypatch).FirstStep


def of_the_draft(self: Any, tree: Any, draws: Any) -> PathSelection:
    """The token is drawn from q."""
    following = draws.index(tree.q[:, 0], 0)
    return PathSelection(
        0 * following[:, 0], xp.integers([[-1] * tree.bounds.length], like=tree.tokens), with_none(following, tree)
    )


def with_none(following: Any, tree: Any) -> Any:
    return np.concatenate((following, np.full((len(following), tree.bounds.length), -1)), -1)


def one_uniform(self: Any, tree: Any, draws: Any) -> PathSelection:
    draws.index(tree.p[:, 0], 0)
    following = draws.index(tree.p[:, 0], 0)
    return PathSelection(0 * following[:, 0], np.full((1, tree.bounds.length), -1), with_none(following, tree))


def too_many(self: Any, tree: Any, draws: Any) -> PathSelection:
    following = draws.index(tree.p[:, 0], 7)
    return PathSelection(0 * following[:, 0], np.full((1, tree.bounds.length), -1), with_none(following, tree))


def by_itself(self: Any, tree: Any, draws: Any) -> PathSelection:
    following = xp.inverse_cdf(tree.p[:, 0], draws._uniforms_of_all[:, :1])
    return PathSelection(0 * following[:, 0], np.full((1, tree.bounds.length), -1), with_none(following, tree))


def another_token(self: Any, tree: Any, draws: Any) -> PathSelection:
    """The first node is accepted, and another token is said to be its."""
    following = draws.index(tree.p[:, 0], 0)
    tokens = np.concatenate((1 - tree.tokens[:, :1], following, np.full((1, tree.bounds.length - 1), -1)), -1)
    return PathSelection(1 + 0 * following[:, 0], np.array([[1, *[-1] * (tree.bounds.length - 1)]]), tokens)


def a_leaf(self: Any, tree: Any, draws: Any) -> PathSelection:
    """A node of the second level, without the one above it."""
    following = draws.index(tree.p[:, 0], 0)
    tokens = np.concatenate((tree.tokens[:, 2:3], following, np.full((1, tree.bounds.length - 1), -1)), -1)
    return PathSelection(1 + 0 * following[:, 0], np.array([[3, *[-1] * (tree.bounds.length - 1)]]), tokens)


@pytest.mark.parametrize(
    ("select", "said"),
    [
        (of_the_draft, None),
        (one_uniform, "a separate column of uniforms for every choice, got column 0 twice"),
        (too_many, "_select must use columns 0 .. 1 of the uniforms, got 7"),
        (by_itself, "by draws.index, draws.first or draws.happens, got draws._uniforms_of_all"),
        (another_token, "must return the nodes' tokens"),
        (a_leaf, "must return a path from a child of the root"),
        (lambda self, tree, draws: None, "_select must return a PathSelection, got None"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_an_error_in_the_batched_form_alone_is_found(first_step: Any, select: Any, said: str | None) -> None:
    rule = type("Wrong", (first_step,), {"_select": select})()
    shape = SHAPES[0]
    assert trees.evaluate(rule, MODEL, shape).lossless
    if said is None:
        assert not trees.evaluate(trees.batched_form(rule), MODEL, shape).lossless
        return
    with pytest.raises(otd.InvalidArgument, match=said):
        trees.evaluate(trees.batched_form(rule), MODEL, shape)


def test_the_example_is_right(first_step: Any) -> None:
    for law in otd.laws.ALL:
        assert trees.evaluate(trees.batched_form(first_step()), MODEL, trees.TreeShape.by_level((2, 2)), law).lossless
