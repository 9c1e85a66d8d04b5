"""Path rules, on random Markov models, by enumeration: the law of the first L + 1 tokens is the target's, with == on Fractions."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from random_problems import Everywhere
from slow import slow

import ot_draft as otd
from ot_draft import trees
from ot_draft.trees.model import Model

SIZES = [(1, 2, 2), (2, 1, 3), (3, 1, 2), (3, 1, 3), (2, 2, 2), (2, 2, 3), (3, 2, 2), (2, 3, 3), (3, 3, 2), (3, 2, 3)]
MODELS = [(*size, 3) for size in [*SIZES[:7], (2, 3, 2)]]  # vocabulary, K, L, number of random models
ALL_MODELS = [(*size, 12) for size in SIZES] + [(3, 3, 3, 3)]  # 123 in all
SELECTION = [otd.rules.KSeq(), otd.rules.RecursiveRejection(), otd.rules.Optimal(), otd.rules.NaiveTarget()]
SPECULATIVE = trees.TokenWise(otd.rules.SpeculativeSampling())
PATH_RULES = [*(trees.TokenWise(rule) for rule in SELECTION), trees.Joint(), trees.Traversal()]
ONE_PATH = [SPECULATIVE, trees.BlockVerification()]
HALVES = np.array([F(1, 2), F(1, 2)])


def random_models(n: int, number: int, *seed: int) -> list[trees.MarkovModel]:
    generator = np.random.default_rng([n, *seed])
    return [trees.MarkovModel.random(generator, n, order=index % 3) for index in range(number)]


def rules_for(number_of_paths: int) -> list[trees.PathRule]:
    return PATH_RULES + ONE_PATH * (number_of_paths == 1)


@pytest.mark.parametrize(("n", "K", "L", "number"), [*MODELS, *(slow(*sizes) for sizes in ALL_MODELS)])
def test_the_first_tokens_have_exactly_the_law_of_the_target(n: int, K: int, L: int, number: int) -> None:
    for model in random_models(n, number, K, L):
        for rule in rules_for(K):
            result = trees.evaluate(rule, model, (K, L))
            assert result.law == result.target_law, rule.name
            assert result.lossless and result.error == 0
            assert isinstance(result.expected_length, F) and 0 <= result.expected_length <= L
            assert sum(result.law.values()) == 1


@pytest.mark.parametrize(("n", "K", "L"), [(2, 1, 3), (2, 3, 2), slow(2, 2, 3), slow(3, 2, 2)])
def test_floats_agree_with_fractions(n: int, K: int, L: int) -> None:
    for model in random_models(n, 6, K, L):
        for rule in rules_for(K):
            exact, rounded = (trees.evaluate(rule, m, (K, L)) for m in (model, model.in_floats()))
            assert rounded.lossless and rounded.tolerance > 0
            assert abs(float(exact.expected_length) - rounded.expected_length) < 1e-9


@pytest.mark.parametrize(("n", "L"), [(2, 1), (2, 3), (3, 2), (3, 3)])
def test_one_path(n: int, L: int) -> None:
    for model in random_models(n, 10, L):
        joint, traversal, block, token_wise = (
            trees.evaluate(rule, model, (1, L))
            for rule in (trees.Joint(), trees.Traversal(), trees.BlockVerification(), SPECULATIVE)
        )
        assert joint == traversal == block
        assert block.expected_length >= token_wise.expected_length
        for path in product(range(n), repeat=L):
            if prod(model.draft(path[:depth])[token] for depth, token in enumerate(path)):
                law = trees.BlockVerification()(model, [path])
                assert trees.Joint()(model, [path]) == trees.Traversal()(model, [path]) == law


def test_block_verification_of_a_model_by_hand() -> None:
    """Two tokens that do not depend on each other, as in Sun et al. 2024: token-wise 10/9, block verification 11/9."""
    model = Everywhere(np.array([F(1, 3), F(2, 3)]), np.array([F(2, 3), F(1, 3)]))
    assert trees.evaluate(SPECULATIVE, model, (1, 2)).expected_length == F(10, 9)
    assert trees.evaluate(trees.BlockVerification(), model, (1, 2)).expected_length == F(11, 9)


def test_more_paths_accept_more() -> None:
    for model in random_models(2, 6, 4):
        for rule in (trees.TokenWise(otd.rules.Optimal()), trees.Joint(), trees.Traversal()):
            lengths = [trees.evaluate(rule, model, (K, 2)).expected_length for K in (1, 2, 3)]
            assert lengths == sorted(lengths), rule.name


def test_the_law_given_the_drafts() -> None:
    """Every law sums to 1, and all but the last token emitted is the beginning of a drafted path."""
    (model,) = random_models(3, 1, 5)
    for rule in PATH_RULES:
        for drafts in product(product(range(3), repeat=2), repeat=2):
            law = rule(model, drafts)
            assert sum(law.values()) == 1 and min(law.values()) > 0
            assert all(any(path[: len(emitted) - 1] == emitted[:-1] for path in drafts) for emitted in law)


@pytest.mark.parametrize("rule", PATH_RULES + ONE_PATH, ids=lambda rule: rule.name)
def test_boundary_models(rule: trees.PathRule) -> None:
    K = 1 if rule in ONE_PATH else 2
    zero, one, masses = np.array([F(1), F(0)]), np.array([F(0), F(1)]), np.array([F(1, 7), F(6, 7)])
    for p, q, length in [
        (zero, zero, 2),
        (zero, one, 0),
        (masses, masses, 2),
        (HALVES, zero, None),
        (zero, HALVES, None),
    ]:
        result = trees.evaluate(rule, Everywhere(p, q), (K, 2))
        assert result.lossless
        if length is not None and "NaiveTarget" not in rule.name:
            assert result.expected_length == length
    only = trees.evaluate(rule, Everywhere(np.array([F(1)]), np.array([F(1)])), (K, 3))
    assert only.law == {(0, 0, 0, 0): 1} and only.expected_length == 3


@pytest.mark.parametrize("rule", PATH_RULES + ONE_PATH, ids=lambda rule: rule.name)
def test_paths_of_length_0_give_one_token_of_the_target(rule: trees.PathRule) -> None:
    result = trees.evaluate(rule, Everywhere(HALVES, HALVES[::-1]), (1, 0))
    assert result.law == {(0,): F(1, 2), (1,): F(1, 2)} and result.expected_length == 0
    assert result.lossless and result.block_efficiency == 1


def test_a_claim_of_tokens_that_were_not_drafted_does_not_count() -> None:
    def boaster(model: Model, drafts: Any) -> dict[tuple[int, ...], Any]:
        return {tokens: F(1, 8) for tokens in product(range(2), repeat=3)}

    result = trees.evaluate(boaster, Everywhere(HALVES, np.array([F(1), F(0)])), (1, 2))
    assert result.lossless and result.expected_length == F(1, 4) * 1 + F(1, 4) * 2
    with pytest.raises(otd.InvalidArgument, match="1 to L \\+ 1 = 2 tokens"):
        trees.evaluate(boaster, Everywhere(HALVES, HALVES), (1, 1))


def test_the_law_of_a_wrong_length_is_not_lossless() -> None:
    result = trees.evaluate(lambda model, drafts: {(0,): F(1, 2)}, Everywhere(HALVES, HALVES), (1, 1))
    assert not result.lossless and result.error > 0


def test_random_models_hold_zeros_ties_and_equal_rows() -> None:
    models = random_models(3, 20, 6)
    rows = [row for model in models for row in (*model.targets.values(), *model.drafts.values())]
    assert all(row.sum() == 1 and all(isinstance(mass, F) for mass in row) for row in rows)
    assert any((row == 0).any() for row in rows) and any((row == 1).any() for row in rows)
    assert any(len(set(row)) < 3 for row in rows)
    assert any((model.target(()) == model.draft(())).all() for model in models)
    again = random_models(3, 20, 6)
    assert all((one.target((0, 1)) == other.target((0, 1))).all() for one, other in zip(models, again, strict=True))
