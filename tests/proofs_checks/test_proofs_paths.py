"""The proof checks of path rules: they pass, fail when they must, and find the known counterexamples."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from slow import slow_except

from ot_draft import trees
from proofs_checks.paths import (
    adapted_trees,
    expected_rejections,
    path_rules,
    selected_siblings,
    traversed_trees,
    yardstick,
)
from proofs_checks.paths.path_cases import SIZES, PathCase, draw_one_path, draw_paths, markov
from proofs_checks.statement import Statement

ALL = [
    (module, statement)
    for module in (path_rules, expected_rejections, adapted_trees, traversed_trees, selected_siblings, yardstick)
    for statement in module.STATEMENTS
]
REFUTED = {"a repeated draw may be drawn anew", "equal siblings may be drafted after one by one"}
REFUTED |= {"one more child after a look below", "Joint >= Traversal", "Joint >= TokenWise(KSeq)"}
REFUTED |= {"one more draw before a fixed token after a look below it", "siblings selected at once, drawn by a token"}
FEW = (adapted_trees, traversed_trees, selected_siblings, yardstick)  # of whose cases each is a tree of all drafts


@pytest.mark.parametrize(
    ("module", "statement"),
    slow_except(
        ALL,
        "block verification, one path",
        "Joint >= TokenWise(Optimal)",
        "equal siblings may be drafted after one by one",
        "one more draw before a fixed token after a look below it",
        "siblings selected at once",
        "siblings selected at once, drawn by a token",
        name=lambda pair: pair[1].name,
    ),
)
def test_the_statement_comes_out_as_expected_and_so_do_its_controls(module: Any, statement: Statement) -> None:
    outcome = module.check(statement, 6 if module in FEW else 2 * len(SIZES))
    assert outcome.passed, outcome.verdict + outcome.controls
    assert outcome.kind == ("refuted" if statement.name in REFUTED else "proved" if statement.prove else "verified")


def test_the_counterexamples_by_value() -> None:
    case = path_rules.BELOW_TRAVERSAL
    joint, traversal = (case.evaluate(rule).expected_length for rule in (trees.Joint(), trees.Traversal()))
    assert joint == F(4967, 4032) < traversal == F(311, 252)
    case = path_rules.BELOW_K_SEQ
    assert case.evaluate(trees.Joint()).expected_length == F(171653, 120000)
    assert not path_rules.not_less(path_rules.K_SEQ)(case, "") and path_rules.not_less(path_rules.K_SEQ)(
        case, "on one path"
    )
    assert str(path_rules.BELOW_TRAVERSAL).startswith(
        "K = 2, L = 2; after nothing p = (1/6, 5/6), q = (1/4, 3/4); after 0"
    )


def test_siblings_selected_at_once_by_value() -> None:
    """Two tokens, two leaves below each of two: Traversal in turn is the library's, and what the selection gains is not negative."""
    for seed in (21, 43, 65):  # two children of two
        case = selected_siblings.draw_siblings(seed)
        assert case.shape == trees.TreeShape.by_level((2, 2))
        lengths = [
            trees.evaluate(rule, case.model, case.shape, selected_siblings.LAW).expected_length
            for rule in (
                trees.Traversal(),
                *(
                    selected_siblings.SelectedSiblings(f)
                    for f in (len, selected_siblings.leaves, selected_siblings.alike)
                ),
            )
        ]
        assert lengths[0] == lengths[1] <= lengths[2]


def test_the_cases_are_the_same_in_every_run_and_of_all_sizes() -> None:
    cases = [draw_paths(seed) for seed in range(3 * len(SIZES))]
    assert list(map(str, cases)) == [str(draw_paths(seed)) for seed in range(3 * len(SIZES))]
    assert {(len(case.model.target(())), case.K, case.L) for case in cases} == set(SIZES)
    assert {case.model.order for case in cases} == {0, 1, 2} and draw_one_path(1).K == 1


def test_a_rule_that_is_not_lossless_is_no_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = path_rules.told(trees.Joint(), path_rules.BELOW_TRAVERSAL, path_rules.BONUS)
    monkeypatch.setattr(trees, "Joint", lambda: wrong)
    with pytest.raises(AssertionError, match="not lossless"):
        path_rules.not_less(trees.Traversal())(path_rules.BELOW_TRAVERSAL, "")


def test_weights_and_rejections_by_hand() -> None:
    """Tokens that do not depend on each other, TV = 1/3 at each: token-wise 2/3 + 4/9 accepted, block verification 11/9."""
    case = PathCase(markov(["1/3 2/3"] * 3, ["2/3 1/3"] * 3), 1, 2)
    assert path_rules.expected_weights(case, capped=False) == F(10, 9)
    assert path_rules.expected_weights(case, capped=True) == F(11, 9)
    refused = [
        expected_rejections.rejections(case.model, rule, (), T)
        for rule in (expected_rejections.SPECULATIVE, trees.BlockVerification())
        for T in (0, 1, 3)
    ]
    assert refused[:3] == [0, F(1, 3), 1] and refused[4] == F(1, 3) and refused[5] < 1


def test_texts_have_their_probabilities() -> None:
    model = markov(["1/3 2/3", "1 0", "1/2 1/2"], ["1 0", "1 0", "1 0"])
    assert expected_rejections.texts(model.target, 2) == [((0, 0), F(1, 3)), ((1, 0), F(1, 3)), ((1, 1), F(1, 3))]
    assert expected_rejections.texts(model.draft, 0) == [((), 1)]
    assert np.isclose(float(sum(chance for _, chance in expected_rejections.texts(model.target, 3))), 1)
