"""The batched form of the path rules draws from exactly the law of the plain form, on every kind of array."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from kinds_of_arrays import KINDS
from random_problems import Everywhere
from replay import batched, law_of, tokens_of
from slow import slow
from test_trees_planted import random_models

import ot_draft as otd
from ot_draft.laws import is_defined
from ot_draft.laws.fixed_last import FixedLast
from ot_draft.trees.drafting.enumeration import trees_of_shape
from ot_draft.trees.model import Nodes
from ot_draft.trees.tree import PathSelection, PlainTree

SHAPES = [
    otd.trees.TreeShape.chains(3, 2),
    otd.trees.TreeShape.chains(1, 3),
    otd.trees.TreeShape.by_level((3, 2)),
    otd.trees.TreeShape.by_level((2, 2, 1)),
    otd.trees.TreeShape.by_level((2, 2)),
    otd.trees.TreeShape((0, 0, 1, 2, 2, 2)),
]
LAWS = [otd.IID(), otd.WithoutReplacement(), *(otd.Hybrid(top) for top in (0, 1, 2, -1, "auto")), otd.SpecHubLaw()]
FLOAT64 = next(kind for kind in KINDS if kind.name == "float64")
R = otd.rules
RULES = [
    *(otd.trees.TokenWise(rule) for rule in (R.KSeq(), R.RecursiveRejection(), R.Optimal(), R.NaiveTarget())),
    otd.trees.TokenWise(R.SpeculativeSampling()),
    otd.trees.TokenWise(R.RecursiveRejectionWithoutReplacement()),
    *(otd.trees.TokenWise(R.Optimal(law=law)) for law in LAWS if isinstance(law, otd.Hybrid)),
    otd.trees.TokenWise(R.Greedy()),
    otd.trees.TokenWise(R.SpecHub()),
    otd.trees.Joint(),
    otd.trees.Traversal(),
    otd.trees.BlockVerification(),
    otd.trees.NaivePath(),
]


def accepts(rule: otd.trees.PathRule, shape: otd.trees.TreeShape, law: otd.DraftLaw) -> bool:
    try:
        rule.check(shape, law)
        return all(is_defined(law, count) for count in shape.branching)
    except otd.InvalidDrafts:
        return False


def cases() -> list[tuple[otd.trees.PathRule, otd.trees.TreeShape, otd.DraftLaw]]:
    """Every rule under every law that it takes, the shapes in turn; the rules of paths on every shape."""
    found = []
    for rule in RULES:
        for law in LAWS:
            fits = [shape for shape in SHAPES if accepts(rule, shape, law)]
            fits = [
                shape for shape in fits if max(shape.branching) > 1
            ] or fits  # one child: the laws are hardly different
            every = isinstance(rule, otd.trees.Joint | otd.trees.Traversal) and law in (otd.IID(), otd.Hybrid(1))
            found += [(rule, shape, law) for shape in (fits if every else fits[len(found) % max(len(fits), 1) :: 5])]
    return found


CASES = cases()
assert {rule.name for rule, *_ in CASES} == {rule.name for rule in RULES}
IDS = [f"{rule.name}-{shape.parents}-{law}".replace(" ", "") for rule, shape, law in CASES]


def some_trees(shape: otd.trees.TreeShape, law: otd.DraftLaw, n: int, number: int, *seed: int) -> tuple[Any, list[Any]]:
    """A model, and trees drafted from it; absent nodes among them."""
    generator = np.random.default_rng([n, shape.size, *seed])
    model = otd.trees.MarkovModel.random(generator, n, order=2)
    every = [tree for tree, _ in trees_of_shape(Nodes.of(model), shape, law)]
    trees = [every[i] for i in generator.integers(len(every), size=number)]
    gone = generator.random((number, shape.size)) < 0.3
    if isinstance(law, otd.IID):  # which drafts are there does not depend on the tokens
        trees[: number // 2] = [
            PlainTree(shape, tuple(-1 if miss else token for token, miss in zip(tree.tokens, row, strict=True)), law)
            for tree, row in zip(trees, gone[: number // 2], strict=False)
        ]
    return model, trees


@pytest.mark.parametrize(("rule", "shape", "law"), CASES, ids=IDS)
def test_the_law_given_the_drafts_is_that_of_the_plain_form(rule: Any, shape: Any, law: Any) -> None:
    for seed in range(2):
        model, trees = some_trees(shape, law, 3 - seed if shape.size < 8 else 2, 2, seed)
        for tree in trees:
            assert law_of(rule, batched(model, [tree])) == rule(model, tree)


@pytest.mark.parametrize("law", [FixedLast(), FixedLast((1,)), FixedLast((3, 1))], ids=repr)
def test_tokens_fixed_behind_the_draws_of_a_fixed_shape(law: otd.DraftLaw) -> None:
    for shape in (otd.trees.TreeShape.by_level((3, 1)), otd.trees.TreeShape((0, 0, 1, 1))):
        model, trees = some_trees(shape, law, 4, 6, 3)
        for tree in trees:
            assert law_of(otd.trees.Traversal(), batched(model, [tree])) == otd.trees.Traversal()(model, tree)


@pytest.mark.parametrize(("rule", "shape", "law"), CASES[::4], ids=IDS[::4])
def test_every_kind_of_array_has_the_same_law(rule: Any, shape: Any, law: Any, floats: Any) -> None:
    model, trees = some_trees(shape, law, 2, 2, 7)
    for tree in trees:
        exact, rounded = rule(model, tree), law_of(rule, batched(model, [tree], floats))
        for emitted in exact.keys() | rounded.keys():
            assert abs(float(exact.get(emitted, 0)) - float(rounded.get(emitted, 0))) <= 20 * floats.tolerance


def stacked(kind: Any, law: otd.DraftLaw, shape: otd.trees.TreeShape, number: int = 8) -> Any:
    model, trees = some_trees(shape, law, 3 if shape.size < 8 else 2, number, 8)
    return batched(model, trees, kind)


def rows(tree: Any, chosen: Any) -> Any:
    return tree.rows(chosen)


def values(selection: PathSelection) -> list[Any]:
    return [np.asarray(x).tolist() for x in (selection.length, selection.nodes, selection.tokens)]


@pytest.mark.parametrize(("rule", "shape", "law"), CASES[::4], ids=IDS[::4])
def test_a_batch_is_its_rows(rule: Any, shape: Any, law: Any, floats: Any) -> None:
    """Each row by itself, the rows in another order, and a row beside nonsense: the same."""
    tree = stacked(floats, law, shape)
    uniforms = floats.make(np.random.default_rng(9).random((len(tree.tokens), rule.n_uniforms(shape))))
    whole = rule.select(tree, uniforms)
    for row in range(len(tree.tokens)):
        alone = rule.select(rows(tree, slice(row, row + 1)), uniforms[row : row + 1])
        tokens_of(tree, whole, row)
        assert values(alone) == [x[row : row + 1] for x in values(whole)]
    order = np.random.default_rng(10).permutation(len(tree.tokens))
    other = rule.select(rows(tree, order), uniforms[order])
    assert values(other) == [[x[i] for i in order] for x in values(whole)]
    none = rule.select(rows(tree, slice(0, 0)), uniforms[:0])
    shapes = [(0,), (0, shape.length), (0, shape.length + 1)]
    assert [tuple(x.shape) for x in (none.length, none.nodes, none.tokens)] == shapes


@pytest.mark.parametrize(("rule", "shape", "law"), CASES[::4], ids=IDS[::4])
def test_where_asking_would_be_a_wait_the_same_is_selected(
    rule: Any, shape: Any, law: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = stacked(FLOAT64, law, shape)
    uniforms = FLOAT64.make(np.random.default_rng(12).random((len(tree.tokens), rule.n_uniforms(shape))))
    asking = rule.select(tree, uniforms)
    monkeypatch.setattr(otd.arrays, "holds_without_sync", lambda condition: False)
    assert values(rule.select(tree, uniforms)) == values(asking)


@pytest.mark.parametrize("rule", [otd.trees.BlockVerification(), otd.trees.Joint()], ids=lambda rule: rule.name)
def test_a_tree_without_nodes_where_asking_would_be_a_wait(
    rule: otd.trees.PathRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, p = otd.trees.TreeShape(()), np.array([[[0.5, 0.25, 0.25]], [[0.0, 1.0, 0.0]]])
    monkeypatch.setattr(otd.arrays, "holds_without_sync", lambda condition: False)
    tree = shape.tree(np.zeros((2, 0), dtype=np.int64), p, np.zeros((2, 0, 3)), otd.IID())
    selection = rule.select(tree, np.full((2, rule.n_uniforms(shape)), 0.6))
    assert selection.tokens.tolist() == [[1], [1]] and selection.length.tolist() == [0, 0]


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize(
    ("rule", "shape", "law"),
    [slow(*case) if place % 4 else case for place, case in enumerate(CASES)],
    ids=IDS,
)
def test_nothing_is_asked_of_the_device(rule: Any, shape: Any, law: Any) -> None:
    torch = pytest.importorskip("torch")
    p = torch.empty((3, shape.size + 1, 5), device="meta")
    tokens = torch.empty((3, shape.size), dtype=torch.int64, device="meta")
    uniforms = torch.empty((3, rule.n_uniforms(shape)), device="meta")
    selection = rule.select(shape.tree(tokens, p, p, law), uniforms)
    assert selection.length.shape == (3,) and selection.nodes.shape == (3, shape.length)
    assert selection.tokens.shape == (3, shape.length + 1) and selection.tokens.device.type == "meta"


@pytest.mark.parametrize(("rule", "shape", "law"), CASES, ids=IDS)
def test_where_all_drafts_are_absent_the_target_speaks(rule: Any, shape: Any, law: Any) -> None:
    model = otd.trees.MarkovModel.random(np.random.default_rng(11), 3)
    tree = PlainTree(shape, (-1,) * shape.size, law)
    first = {(token,): mass for token, mass in enumerate(model.target(())) if mass}
    assert rule(model, tree) == law_of(rule, batched(model, [tree])) == first


@pytest.mark.parametrize(
    "rule", [otd.trees.TokenWise(R.Optimal()), otd.trees.Joint(), otd.trees.Traversal()], ids=lambda r: r.name
)
def test_frequencies_are_the_law(rule: otd.trees.PathRule) -> None:
    """float64. Chi-square with a false alarm in 10^9; a law with a fifth of the heaviest outcome moved is refused."""
    stats = pytest.importorskip("scipy.stats")
    number = 2_500
    masses = np.array([F(1, 6), F(1, 3), F(1, 2)])
    model, tree = Everywhere(masses, masses[::-1]), PlainTree(otd.trees.TreeShape.chains(2, 2), (0, 0, 0, 1))
    many = rows(batched(model, [tree], FLOAT64), np.zeros(number, dtype=np.int64))
    uniforms = np.random.default_rng(13).random((number, rule.n_uniforms(tree.shape)))
    selection = rule.select(many, uniforms)
    tokens, counts = np.unique(np.asarray(selection.tokens), axis=0, return_counts=True)
    seen = {tuple(int(t) for t in row if t >= 0): count for row, count in zip(tokens, counts, strict=True)}
    law = rule(model, tree)
    assert seen.keys() <= law.keys() and len(law) > 3
    expected = np.array([float(law[emitted]) * number for emitted in law])
    found = np.array([seen.get(emitted, 0) for emitted in law])
    assert stats.chisquare(found, expected).pvalue > 1e-9
    heavy = expected.argmax()
    wrong = expected + expected[heavy] / 5 / (len(law) - 1)
    wrong[heavy] = 0.8 * expected[heavy]
    assert stats.chisquare(found, wrong).pvalue < 1e-9


@pytest.mark.parametrize(
    "rule", [otd.trees.Joint(classes=1), otd.trees.Joint(classes=8), otd.trees.TokenWise(R.Optimal(classes=4))]
)
def test_classes_cost_acceptance_and_never_validity(rule: otd.trees.PathRule) -> None:
    """The batched form is judged itself, by enumerating drafts and choices in Fractions."""
    shape, whole = otd.trees.TreeShape.by_level((2, 1)), type(rule)
    for model in random_models(2, 3):
        result = otd.trees.evaluate(lambda model, tree: law_of(rule, batched(model, [tree])), model, shape)
        assert result.lossless
        best = otd.trees.Joint() if whole is otd.trees.Joint else otd.trees.TokenWise(R.Optimal())
        assert result.expected_length <= otd.trees.evaluate(best, model, shape).expected_length


def test_a_real_vocabulary() -> None:
    """torch float32 selects, but for rounding, what numpy float64 does; classes are used by both."""
    torch = pytest.importorskip("torch")
    n, number, shape = 3000, 12, otd.trees.TreeShape.chains(4, 3)
    generator = np.random.default_rng(14)
    logits = 3 * generator.standard_normal((number, shape.size + 1, n))
    p, q = (
        np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (logits, logits + generator.normal(size=logits.shape))
    )
    drawn = [otd.IID().draw(q[:, parent], generator.random((number, 1))) for parent in shape.parents]
    tokens = np.concatenate(drawn, -1)
    for rule in (otd.trees.TokenWise(R.KSeq()), otd.trees.Joint(), otd.trees.Traversal()):
        uniforms = generator.random((number, rule.n_uniforms(shape)))
        exact = rule.select(shape.tree(tokens, p, q), uniforms)
        single = [torch.tensor(x, dtype=torch.float32) for x in (p, q, uniforms)]
        rounded = rule.select(shape.tree(torch.tensor(tokens), *single[:2]), single[2])
        same = (exact.tokens == rounded.tokens.numpy()).all(-1)
        assert same.sum() >= number - 1 and exact.length.max() > 0


def test_greedy_drafts_of_a_vocabulary_smaller_than_their_number() -> None:
    """All three children were asked for, hence both that are there are fixed: neither is a draw from q."""
    p, q = (np.array([[row] * 4], dtype=object) for row in ([F(3, 10), F(7, 10)], [F(3, 5), F(2, 5)]))
    tree = otd.trees.TreeShape((0, 0, 0)).tree(np.array([[0, 1, -1]]), p, q, otd.Hybrid(-1))
    law = law_of(otd.trees.Traversal(), tree)
    assert sum(mass for path, mass in law.items() if path[0] == 0) == F(3, 10)
