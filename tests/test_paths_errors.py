"""Path rules refuse what they cannot take, and say what to give instead."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from random_problems import Everywhere

import ot_draft as ot
from ot_draft import paths

HALVES = np.array([F(1, 2), F(1, 2)])


UNIFORM = Everywhere(HALVES, HALVES)
ERRORS = [
    (lambda: paths.BlockVerification()(UNIFORM, [(0, 1), (1, 1)]), ot.InvalidDrafts, "one drafted path, not 2.*Joint"),
    (lambda: paths.TokenWise(ot.rules.Greedy()), ot.InvalidDrafts, "i.i.d.: give a rule with law IID"),
    (lambda: paths.TokenWise(ot.rules.Optimal(ot.Hybrid(1))), ot.InvalidDrafts, "Hybrid"),
    (lambda: paths.TokenWise(ot.rules.KSeq), ot.InvalidDrafts, "give a selection rule"),
    (lambda: paths.Joint()(UNIFORM, []), ot.InvalidDrafts, "K >= 1"),
    (lambda: paths.Joint()(UNIFORM, [(0, 1), (0,)]), ot.InvalidDrafts, r"lengths \[2, 1\]"),
    (lambda: paths.Joint()(UNIFORM, [(0, 2)]), ot.InvalidDrafts, "path 0 holds 2"),
    (lambda: paths.Joint()(UNIFORM, [(0, -1)]), ot.InvalidDrafts, "path 0 holds -1"),
    (lambda: paths.Joint()(UNIFORM, np.array([[0.5]])), ot.InvalidDrafts, "token ids"),
    (lambda: paths.evaluate(paths.Joint(), UNIFORM, 0, 1), ot.InvalidDrafts, "K is 0"),
    (lambda: paths.evaluate(paths.Joint(), UNIFORM, 1, -1), ot.InvalidDrafts, "L is -1"),
    (lambda: paths.evaluate(paths.Joint(), UNIFORM, 1, 1.0), ot.InvalidDrafts, "L is 1.0"),
    (lambda: paths.evaluate(paths.Joint(), UNIFORM, 7, 3), ot.InvalidDrafts, r"8\^7 tuples.*out of reach"),
    (lambda: paths.evaluate(paths.Joint(), UNIFORM, 1, 30), ot.InvalidDrafts, r"2\^31 sequences"),
    (lambda: paths.MarkovModel.random(np.random.default_rng(0), 0), ot.InvalidDistribution, "n >= 1"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=[text for *_, text in ERRORS])
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    ("p", "q", "text"),
    [
        (HALVES, np.array([F(1, 2), F(1, 3)]), r"draft distribution after prefix \(\): .*sums to 5/6"),
        (HALVES, np.array([0.5, 0.5]), "one kind"),
        (HALVES, np.array([F(1)]), "shapes must be equal"),
        (np.array([HALVES]), np.array([HALVES]), "one vector"),
    ],
)
def test_a_model_that_gives_no_distributions_is_refused(p: Any, q: Any, text: str) -> None:
    with pytest.raises(ot.InvalidDistribution, match=text):
        paths.Joint()(Everywhere(p, q), [(0,)])


def test_a_vocabulary_that_changes_is_refused() -> None:
    row = {0: [F(1)], 1: [F(1, 2), F(1, 2)]}
    model = paths.MarkovModel({(): row[1], (0,): row[0], (1,): row[1]}, {(): row[1]}, 1)
    with pytest.raises(
        ot.InvalidDistribution, match=r"target distribution after prefix \(0,\).*one vector of n masses"
    ):
        paths.Joint()(model, [(0,)])


def test_torch_is_refused_for_now() -> None:
    torch = pytest.importorskip("torch")
    half = torch.tensor([0.5, 0.5])
    with pytest.raises(ot.InvalidDistribution, match="torch"):
        paths.Joint()(Everywhere(half, half), [(0,)])
