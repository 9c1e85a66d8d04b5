"""Path rules on trees, by enumerating every tree that can be drafted: lossless with ==, and what breaks that."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from slow import slow
from test_trees_planted import random_models

import ot_draft as otd
from ot_draft import trees
from ot_draft.laws import is_defined
from ot_draft.trees.drafting.enumeration import number_of_trees, trees_of_shape
from ot_draft.trees.model import Nodes
from ot_draft.trees.tree import PlainTree

R = otd.rules
ANY = [trees.Traversal(), trees.NaivePath()]
RULES = {
    otd.IID(): [
        trees.TokenWise(R.KSeq()),
        trees.TokenWise(R.RecursiveRejection()),
        trees.TokenWise(R.Optimal()),
        trees.Joint(),
    ],
    otd.WithoutReplacement(): [
        trees.TokenWise(R.RecursiveRejectionWithoutReplacement()),
        trees.TokenWise(R.SpeculativeSampling()),
    ],
    otd.SpecHubLaw(): [trees.TokenWise(R.SpecHub())],
    otd.Hybrid(-1): [trees.TokenWise(R.Greedy()), trees.TokenWise(R.Optimal(law=otd.Hybrid(-1))), trees.Joint()],
    **{otd.Hybrid(top): [trees.TokenWise(R.Optimal(law=otd.Hybrid(top))), trees.Joint()] for top in (1, 2, "auto")},
}
SHAPES = {  # vocabulary and shape
    "2 binary": (2, trees.TreeShape.by_level((2, 2, 1))),
    "3 wide": (3, trees.TreeShape.by_level((3, 1))),
    "3 binary": (3, trees.TreeShape.by_level((2, 2))),
    "4 flat": (4, trees.TreeShape((0, 0, 0))),
    "3 uneven": (3, trees.TreeShape((0, 0, 1, 1, 2))),
}
CASES = [
    (n, shape, law, rule)
    for n, shape in SHAPES.values()
    for law in RULES
    for rule in RULES[law] + ANY
    if all(is_defined(law, count) for count in shape.branching)
    and not (shape.parents == (0, 0, 1, 1, 2) and law in (otd.Hybrid(-1), otd.Hybrid("auto")) and rule not in ANY)
]
IDS = [f"{n}-{shape.parents}-{law}-{rule.name}".replace(" ", "") for n, shape, law, rule in CASES]


def dear(n: int, shape: trees.TreeShape, law: otd.DraftLaw) -> bool:
    """The i.i.d. trees of most nodes: `make test` tries every rule on i.i.d. trees of the three other shapes."""
    return law == otd.IID() and n**shape.size > 700


@pytest.mark.parametrize(
    ("n", "shape", "law", "rule"), [slow(*case) if dear(*case[:3]) else case for case in CASES], ids=IDS
)
def test_on_trees_the_first_tokens_have_exactly_the_law_of_the_target(n: int, shape: Any, law: Any, rule: Any) -> None:
    """Two models for every shape and law: every token possible, and with zeros, ties and one-hot laws."""
    seed = list(RULES).index(law)
    corners = np.random.default_rng([n, shape.size, seed])
    for model in (*random_models(1, n, seed=20 + seed), trees.MarkovModel.random(corners, n, 2)):
        result = trees.evaluate(rule, model, shape, law)
        assert result.law == result.target_law
        assert result.lossless and 0 <= result.expected_length <= shape.length


@pytest.mark.parametrize("law", [otd.Hybrid(1), slow(otd.IID()), slow(otd.WithoutReplacement())], ids=repr)
def test_trees_of_twelve_nodes(law: Any) -> None:
    n = 3 if law == otd.WithoutReplacement() else 2
    shape = trees.TreeShape.by_level((3, 3)) if n == 3 else trees.TreeShape.by_level((2, 2, 1))
    shape = shape if n == 3 else trees.TreeShape((*shape.parents, 7, 8))
    assert shape.size == 12
    (model,) = random_models(1, n)
    for rule in [RULES[law][-1], trees.Traversal()]:
        assert trees.evaluate(rule, model, shape, law).lossless


def test_chains_as_a_tree_are_chains() -> None:
    for model in random_models(2):
        for K, L in [(1, 3), (2, 2), (3, 1)]:
            for rule in RULES[otd.IID()] + [trees.Traversal()]:
                tree = trees.evaluate(rule, model, trees.TreeShape.chains(K, L))
                assert tree == trees.evaluate(rule, model, (K, L))


def test_all_trees_have_probability_1_together() -> None:
    (model,) = random_models(1, 3)
    for law in RULES:
        for shape in (trees.TreeShape.by_level((2, 2)), trees.TreeShape((0, 0, 1, 1, 3))):
            if all(is_defined(law, count) for count in shape.branching):
                nodes = Nodes.of(model)
                every = list(trees_of_shape(nodes, shape, law))
                assert sum(mass for _, mass in every) == 1 and len({tree for tree, _ in every}) == len(every)
                assert len(every) == number_of_trees(nodes, shape, law)


def test_tokens_that_no_tree_holds_are_not_accepted() -> None:
    (model,) = random_models(1)
    result = trees.evaluate(lambda model, tree: {(0, 0, 0): F(1)}, model, trees.TreeShape.by_level((1, 1)))
    q, after = model.draft(()), model.draft((0,))
    assert result.expected_length == q[0] * after[0] * 2 + q[0] * after[1] and not result.lossless
    with pytest.raises(otd.InvalidArgument, match="cases must be enumerated"):
        trees.evaluate(trees.NaivePath(), model, trees.TreeShape.by_level((5, 5)))


class Forced(trees.TokenWise):
    """TokenWise without its check of the law."""

    def check(self, shape: trees.TreeShape, law: otd.DraftLaw) -> None:
        pass


class Careless(trees.Joint):
    """Joint on trees that are neither i.i.d. nor hybrid."""

    def check(self, shape: trees.TreeShape, law: otd.DraftLaw) -> None:
        pass


BINARY = trees.TreeShape.by_level((2, 2))
FORCED = [
    (Forced(R.KSeq()), otd.WithoutReplacement(), BINARY),
    (Forced(R.RecursiveRejection()), otd.WithoutReplacement(), BINARY),
    (Forced(R.Optimal()), otd.WithoutReplacement(), BINARY),
    (Careless(), otd.WithoutReplacement(), BINARY),
    (Forced(R.RecursiveRejectionWithoutReplacement()), otd.IID(), BINARY),
    (Forced(R.KSeq()), otd.Hybrid(1), BINARY),
    (Forced(R.Greedy()), otd.IID(), BINARY),
    (Forced(R.SpeculativeSampling()), otd.Hybrid(1), BINARY),
]


@pytest.mark.parametrize("number", [2, slow(6)])
@pytest.mark.parametrize(("rule", "law", "shape"), FORCED, ids=lambda x: repr(x)[:50].replace(" ", ""))
def test_the_wrong_law_is_lossy_and_the_check_refuses_it(rule: Any, law: Any, shape: Any, number: int) -> None:
    models = random_models(number, 3)
    assert sum(not trees.evaluate(rule, model, shape, law).lossless for model in models) >= number // 2 + number // 6
    honest = trees.TokenWise(rule.rule) if isinstance(rule, Forced) else trees.Joint()
    with pytest.raises(otd.InvalidDrafts, match="valid on trees whose children follow") as refused:
        trees.evaluate(honest, models[0], shape, law)
    assert repr(law) in str(refused.value) and "take Traversal() or NaivePath()" in str(refused.value)


@pytest.mark.parametrize("law", dict.fromkeys(law for _, law, _ in FORCED), ids=repr)
@pytest.mark.parametrize("rule", ANY, ids=lambda rule: rule.name)
def test_what_the_check_recommends_is_lossless_under_these_laws(rule: Any, law: Any) -> None:
    (model,) = random_models(1, 3)
    assert trees.evaluate(rule, model, BINARY, law).lossless


def survivors(mistake: str) -> Any:
    """TokenWise(KSeq) on i.i.d. trees, and the children of all nodes given to the rule: or only of those that live."""

    def path_rule(model: Any, tree: PlainTree) -> Any:
        law: Any = defaultdict(F)

        def walk(prefix: Any, alive: Any, mass: Any) -> None:
            p, q = model.target(prefix), model.draft(prefix)
            offered = [child for children in alive for child in children]
            if not offered:
                for y, chance in enumerate(p):
                    law[(*prefix, y)] += mass * chance
                return
            tokens = np.array([token for token, _ in offered])
            for y, chance in enumerate(R.RecursiveRejection()(p, q, tokens).output(tokens)):
                holds = [below for token, below in offered if token == y]
                if not holds:
                    law[(*prefix, y)] += mass * chance
                elif chance:
                    walk((*prefix, y), [below for _, below in offered] if mistake else holds, mass * chance)

        walk((), [tree.forest], F(1))
        return {emitted: mass for emitted, mass in law.items() if mass}

    return path_rule


class WrongTraversal(trees.Traversal):
    """Traversal that takes the law of the first child for all of them."""

    def check(self, shape: trees.TreeShape, law: otd.DraftLaw) -> None:
        pass

    def __call__(self, model: Any, drafts: Any) -> Any:
        return super().__call__(model, PlainTree(drafts.shape, drafts.tokens, otd.IID()))


def test_planted_mistakes_on_trees_are_found_out() -> None:
    models = random_models(4)
    for mistake, expected in (("", 0), ("survivors not filtered", 3)):
        found = [not trees.evaluate(survivors(mistake), model, BINARY).lossless for model in models]
        assert sum(found) >= expected and (expected or not any(found))
    for model in models[:2]:
        for tree, _ in trees_of_shape(Nodes.of(model), BINARY, otd.IID()):
            assert survivors("")(model, tree) == trees.TokenWise(R.RecursiveRejection())(model, tree)
    lossy = [
        not trees.evaluate(WrongTraversal(), m, BINARY, otd.WithoutReplacement()).lossless for m in random_models(4, 3)
    ]
    assert sum(lossy) >= 3


@pytest.mark.parametrize("top", [1, 2])
def test_joint_selection_uses_the_top_tokens_of_one_level_as_well_as_any_rule(top: int) -> None:
    """On one level the expected length is the optimum of the law, as that of `Optimal`."""
    for model in random_models(4, 4):
        p, q = model.target(()), model.draft(())
        optimum = otd.optimal_acceptance(p, q, 3, otd.Hybrid(top))
        result = trees.evaluate(trees.Joint(), model, trees.TreeShape.by_level((3,)), otd.Hybrid(top))
        assert result.expected_length == (optimum[()] if isinstance(optimum, np.ndarray) else optimum)


def test_a_chain_may_be_longer_than_the_interpreter_nests_calls() -> None:
    assert trees.TreeShape.chains(1, 2000).path(2000) == tuple(range(1, 2001))
