"""Path rules refuse what they cannot take, and say what to give instead."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from random_problems import Everywhere

import ot_draft as otd
from ot_draft import trees
from ot_draft.trees.drafting.growing import Growing, Grown, TreeDraws
from ot_draft.trees.tree import PlainTree

HALVES = np.array([F(1, 2), F(1, 2)])


UNIFORM = Everywhere(HALVES, HALVES)
WIDE, UNEVEN = trees.TreeShape((0, 0)), trees.TreeShape((0, 0, 1, 1, 2))


def drafted(shape: Any = WIDE, rows: int = 0, dtype: Any = np.float64, law: otd.DraftLaw | None = None) -> Any:
    """One drafted tree in float64, or one that does not fit together."""
    p = np.full((1, rows or shape.size + 1, 2), 0.5)
    return shape.tree(np.zeros((1, shape.size), dtype=np.int64), p, p.astype(dtype), law or otd.IID())


ERRORS = [
    (lambda: trees.BlockVerification()(UNIFORM, [(0, 1), (1, 1)]), otd.InvalidDrafts, "one draft path, got 2.*Joint"),
    (
        lambda: trees.TokenWise(otd.rules.Greedy())(UNIFORM, [(0, 1), (0, 1)]),
        otd.InvalidDrafts,
        r"children follow Hybrid\(top=-1\), and .* IID\(\): take Traversal\(\) or NaivePath\(\)",
    ),
    (
        lambda: trees.TokenWise(otd.rules.KSeq())(UNIFORM, PlainTree(WIDE, (0, 1), otd.WithoutReplacement())),
        otd.InvalidDrafts,
        r"follow IID\(\), and .* WithoutReplacement\(\): take Traversal\(\)",
    ),
    (
        lambda: trees.Joint()(UNIFORM, PlainTree(WIDE, (0, 1), otd.WithoutReplacement())),
        otd.InvalidDrafts,
        r"Joint\(\) is valid on trees whose children follow IID\(\) or Hybrid\(top\)",
    ),
    (
        lambda: trees.BlockVerification()(UNIFORM, PlainTree(trees.TreeShape((0,)), (0,), otd.Hybrid(1))),
        otd.InvalidDrafts,
        r"Hybrid\(top=1\): take Traversal\(\) or NaivePath\(\), valid under every draft law",
    ),
    (
        lambda: trees.Joint()(UNIFORM, PlainTree(UNEVEN, (0, 1, 0, 1, 0), otd.Hybrid(-1))),
        otd.InvalidDrafts,
        r"equally many children, or none, under .* Use Hybrid\(top=j\)",
    ),
    (
        lambda: trees.TokenWise(otd.rules.Greedy())(UNIFORM, PlainTree(UNEVEN, (0, 1, 0, 1, 0), otd.Hybrid(-1))),
        otd.InvalidDrafts,
        "equally many children",
    ),
    (
        lambda: trees.TreeShape((0, 2)),
        otd.InvalidDrafts,
        "parent of node 2 must be .* below 2, got 2. Number the nodes breadth first",
    ),
    (
        lambda: trees.TreeShape((0, 0, 1, 0)),
        otd.InvalidDrafts,
        "parent of node 4 must be an integer of at least 1 .* got 0",
    ),
    (lambda: trees.TreeShape.chains(0, 2), otd.InvalidDrafts, "K must be an integer of at least 1, got 0"),
    (
        lambda: trees.TreeShape.by_level((2, 0)),
        otd.InvalidDrafts,
        "each of children must be an integer of at least 1, got 0",
    ),
    (lambda: drafted(rows=2), otd.InvalidDrafts, r"\(B, 3, n\) and \(B, M, n\) with M >= 1"),
    (lambda: drafted(dtype=np.float32), otd.InvalidDrafts, "one dtype and one device"),
    (lambda: drafted(law="iid"), otd.InvalidDrafts, "law must be a draft law, got 'iid'"),
    (lambda: drafted(law=otd.SpecHubLaw(), shape=trees.TreeShape((0,))), otd.InvalidDrafts, "hub law has k = 2"),
    (
        lambda: trees.Joint().select(drafted(), np.zeros((1, 2))),
        otd.InvalidArgument,
        r"uniforms must have shape \(1, 3\) for Joint",
    ),
    (
        lambda: trees.Joint().select(drafted(law=otd.WithoutReplacement()), np.zeros((1, 3))),
        otd.InvalidDrafts,
        "drawn by WithoutReplacement",
    ),
    (lambda: trees.TokenWise(otd.rules.KSeq), otd.InvalidArgument, "rule must be a selection rule, got"),
    (lambda: trees.Joint()(UNIFORM, []), otd.InvalidDrafts, "drafts must hold at least one draft path, got none"),
    (lambda: trees.Joint()(UNIFORM, [(0, 1), (0,)]), otd.InvalidDrafts, r"lengths \[2, 1\]"),
    (lambda: trees.Joint()(UNIFORM, [(0, 2)]), otd.InvalidDrafts, "each token of path 0 must be .* below 2, got 2"),
    (
        lambda: trees.Joint()(UNIFORM, [(0, -1)]),
        otd.InvalidDrafts,
        "each token of path 0 must be .* at least 0 .* got -1",
    ),
    (lambda: trees.Joint()(UNIFORM, np.array([[0.5]])), otd.InvalidDrafts, "token ids"),
    (
        lambda: trees.evaluate(trees.Joint(), UNIFORM, (0, 1)),
        otd.InvalidDrafts,
        "K must be an integer of at least 1, got 0",
    ),
    (
        lambda: trees.evaluate(trees.Joint(), UNIFORM, (1, -1)),
        otd.InvalidDrafts,
        "L must be an integer of at least 0, got -1",
    ),
    (
        lambda: trees.evaluate(trees.Joint(), UNIFORM, (1, 1.0)),
        otd.InvalidDrafts,
        "L must be an integer of at least 0, got 1.0",
    ),
    (
        lambda: trees.evaluate(trees.Joint(), UNIFORM, (7, 3)),
        otd.InvalidArgument,
        "cases must be enumerated, got 2097152 drafted trees",
    ),
    (lambda: trees.evaluate(trees.Joint(), UNIFORM, (1, 30)), otd.InvalidArgument, r"2\^31 sequences"),
    (
        lambda: trees.MarkovModel.random(np.random.default_rng(0), 0),
        otd.InvalidDistribution,
        "n must be >= 1 and order >= 0, got 0",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=[text for *_, text in ERRORS])
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    ("p", "q", "text"),
    [
        (HALVES, np.array([F(1, 2), F(1, 3)]), r"draft distribution after prefix \(\): .*must sum to 1 .*got 5/6"),
        (HALVES, np.array([0.5, 0.5]), "one kind"),
        (HALVES, np.array([F(1)]), "must have one shape"),
        (np.array([HALVES]), np.array([HALVES]), "one vector"),
    ],
)
def test_a_model_that_gives_no_distributions_is_refused(p: Any, q: Any, text: str) -> None:
    with pytest.raises(otd.InvalidDistribution, match=text):
        trees.Joint()(Everywhere(p, q), [(0,)])


def test_a_vocabulary_that_changes_is_refused() -> None:
    row = {0: [F(1)], 1: [F(1, 2), F(1, 2)]}
    model = trees.MarkovModel({(): row[1], (0,): row[0], (1,): row[1]}, {(): row[1]}, 1)
    with pytest.raises(
        otd.InvalidDistribution, match=r"target distribution after prefix \(0,\).*one vector of n probabilities"
    ):
        trees.Joint()(model, [(0,)])


def test_torch_is_refused_for_now() -> None:
    torch = pytest.importorskip("torch")
    half = torch.tensor([0.5, 0.5])
    with pytest.raises(otd.InvalidDistribution, match="torch"):
        trees.Joint()(Everywhere(half, half), [(0,)])


class Giving(trees.NaivePath):
    """A rule whose outcomes are what it is given."""

    def __init__(self, outcomes: Any) -> None:
        self.given = outcomes

    def outcomes(self, nodes: Any, tree: Any) -> Any:
        return self.given


@pytest.mark.parametrize(
    "outcomes",
    [
        None,
        5,
        [None],
        [(1, 2)],
        [((), 1, None)],
        [((), 1, [1, 0])],
        [((), "a", HALVES)],
        [(3, F(1), HALVES)],
        [((5,), F(1), HALVES)],
    ],
    ids=repr,
)
def test_what_a_rule_of_ones_own_gives_is_named(outcomes: Any) -> None:
    with pytest.raises(
        otd.InvalidArgument, match=r"Giving.outcomes must return \(accepted tokens, probability, distribution"
    ):
        trees.evaluate(Giving(outcomes), UNIFORM, (2, 1))


@pytest.mark.parametrize("law", [None, 5, {3: 1}, {(7,): 1}, {(0,): "a"}], ids=repr)
def test_what_a_function_gives_is_named(law: Any) -> None:
    with pytest.raises(otd.InvalidArgument, match=r"path_rule must return .* got .*Return a dictionary"):
        trees.evaluate(lambda model, drafts: law, UNIFORM, (2, 1))


class Grows(Growing):
    """A tree that is as it is given, after a level that reads a token."""

    def __init__(self, draws: TreeDraws, tokens: list[int], parents: list[int], read: list[int]) -> None:
        super().__init__(draws, 1 + len(read))
        self.slots = 0 * draws.root
        self._given, self._reads = (tokens, parents), read

    def grow(self, q: Any) -> None:
        self.levels -= 1
        if self._reads:
            one = 1 + 0 * self._draws.root
            self._show(one, self._reads.pop() * one, 0 * one)

    def grown(self) -> Grown:
        rows, size = len(self._draws.root), len(self._given[0])
        tokens, parents = (np.tile(each, (rows, 1)) for each in self._given)
        return Grown(
            tokens, parents, np.zeros((rows, size + 1), dtype=np.int64), np.zeros((rows, size + 1), dtype=np.int64)
        )


class Own(trees.TreeDrafter):
    """A drafter of one's own."""

    bounds, law, rule, label = trees.TreeShape((0, 0)), otd.IID(), trees.NaivePath(), "own"  # type: ignore[assignment]

    def __init__(self, *given: list[int]) -> None:
        self.given = given

    def growing(self, draws: TreeDraws) -> Growing:
        return Grows(draws, *map(list, self.given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (([0, 1], [2, 0], []), "parent of node 1 must be an earlier node, got 2"),
        (([0, 1], [0, 5], []), "parent of node 2 must be an earlier node, got 5"),
        (([0, 7], [0, 0], []), "got 7. Pass token ids"),
        (([0, 1], [0, 0], [7]), "token of slot 1 must be from 0 to 1, got 7"),
    ],
)
def test_a_drafter_of_ones_own_that_names_what_is_not_there(given: Any, said: str) -> None:
    assert trees.evaluate(trees.NaivePath(), UNIFORM, Own([0, 1], [0, 0], [1])).lossless
    with pytest.raises(otd.InvalidDrafts, match=said):
        trees.evaluate(trees.NaivePath(), MarkovOnly(), Own(*given))


class MarkovOnly:
    """A model that knows its own tokens alone."""

    def target(self, prefix: Any) -> Any:
        return {(): HALVES, 0: HALVES, 1: HALVES}[prefix[-1] if prefix else ()]

    draft = target


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((5, UNIFORM, (2, 1)), "path_rule must be .* got 5"),
        ((trees.NaivePath, UNIFORM, (2, 1)), "path_rule must be .* got <class"),
        ((trees.NaivePath(), 5, (2, 1)), "model must have .* got 5"),
        ((trees.NaivePath(), UNIFORM, 5), "drafting must be .* got 5"),
        ((trees.NaivePath(), UNIFORM, (2,)), r"drafting must be .* got \(2,\)"),
    ],
)
def test_what_is_evaluated_is_named(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        trees.evaluate(*given)
