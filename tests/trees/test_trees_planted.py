"""Slow, obvious versions of the path rules: they agree with the package's, and every planted mistake makes them lossy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction as F
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from slow import slow

import ot_draft as otd
from ot_draft import trees
from ot_draft.rules.optimal.rule import selection_probabilities
from ot_draft.trees.model import Model

Law = dict[tuple[int, ...], Any]
RULE = otd.rules.RecursiveRejection()


def random_models(number: int, n: int = 2, seed: int = 11) -> list[trees.MarkovModel]:
    """Every token possible after every prefix, so that no mistake can hide."""
    generator = np.random.default_rng([seed, n])

    def row() -> Any:
        counts = generator.integers(1, 12, n)
        return np.array([F(int(count), int(counts.sum())) for count in counts])

    contexts = [context for length in range(3) for context in product(range(n), repeat=length)]
    return [trees.MarkovModel({c: row() for c in contexts}, {c: row() for c in contexts}, 2) for _ in range(number)]


def excess(p: Any, m: Any) -> Any:
    return np.maximum(p - m, F(0))


def token_wise(mistake: str = "") -> Any:
    """TokenWise(RULE), or what a mistake makes of it."""

    def path_rule(model: Model, drafts: Any) -> Law:
        law: Law = defaultdict(F)

        def walk(prefix: tuple[int, ...], survivors: list[Any], mass: Any) -> None:
            p, q = model.target(prefix), model.draft(prefix)
            depth = len(prefix)
            if depth == len(drafts[0]):
                for y, chance in enumerate(q if mistake == "bonus token from the draft" else p):
                    law[(*prefix, y)] += mass * chance
                return
            tokens = np.array([path[depth] for path in survivors])
            for y, chance in enumerate(RULE(p, q, tokens).output(tokens)):
                if y not in tokens:
                    law[(*prefix, y)] += mass * chance
                elif mistake == "survivors not filtered":
                    walk((*prefix, y), survivors, mass * chance)
                else:
                    walk((*prefix, y), [path for path in survivors if path[depth] == y], mass * chance)

        walk((), list(drafts), F(1))
        return law

    return path_rule


def selected_walks(model: Model, drafts: Any) -> Iterator[tuple[tuple[int, ...], Any, list[Any], list[Any]]]:
    """Every way down that joint selection can take: path, probability, weights, laws of the selected tokens (by enumeration)."""

    def walk(prefix: tuple[int, ...], survivors: list[Any], mass: Any, weights: list[Any], laws: list[Any]) -> Any:
        depth = len(prefix)
        if depth == len(drafts[0]):
            yield prefix, mass, weights, laws
            return
        p, q = model.target(prefix), model.draft(prefix)
        every = np.array(list(product(range(len(p)), repeat=len(survivors))))
        chances = selection_probabilities(weights[-1] * p, q, every)[0] * q[every].prod(-1)[:, None]
        m = np.array([chances[every == y].sum() for y in range(len(p))])
        choice = selection_probabilities(weights[-1] * p, q, np.array([path[depth] for path in survivors]))[0]
        for path, chance in zip(survivors, choice, strict=True):
            y = path[depth]
            alive = [other for other in survivors if other[depth] == y]
            weight = min(F(1), weights[-1] * p[y] / m[y])
            yield from walk((*prefix, y), alive, mass * chance, [*weights, weight], [*laws, m])

    yield from walk((), list(drafts), F(1), [F(1)], [])


def chances_to_pass(model: Model, path: tuple[int, ...], weights: list[Any], laws: list[Any]) -> list[Any]:
    """h_0 .. h_L of block verification."""
    passes = []
    for i, m in enumerate(laws):
        left = excess(weights[i] * model.target(path[:i]), m).sum()
        passes.append(left / (left + 1 - weights[i]) if left or weights[i] < 1 else F(1))
    return [*passes, weights[-1]]


def lengths_of(passes: list[Any], token_wise: bool) -> list[Any]:
    """Law of the accepted length: the longest that passes; token-wise, the last before the first that does not."""
    law = []
    for i, chance in enumerate(passes):
        refused = [1 - other for other in passes[i + 1 :]]
        law.append(prod(passes[1 : i + 1]) * prod(refused[:1]) if token_wise else chance * prod(refused))
    return law


def joint(mistake: str = "") -> Any:
    """Joint (block verification where there is one path), or what a mistake makes of it."""

    def path_rule(model: Model, drafts: Any) -> Law:
        law: Law = defaultdict(F)
        for path, mass, weights, laws in selected_walks(model, drafts):
            drafted = [model.draft(path[:i]) for i in range(len(path))]
            passes = chances_to_pass(model, path, weights, drafted if mistake == "h with q in the place of m" else laws)
            lengths = lengths_of(passes, token_wise=mistake == "block test used token-wise")
            for i, chance in enumerate(lengths):
                node = i + 1 if mistake == "residual of the wrong node" and i + 1 < len(path) else i
                p = model.target(path[:node])
                if node == len(path):
                    following = model.draft(path) if mistake == "bonus token from the draft" else p
                else:
                    left = excess(weights[node] * p, laws[node])
                    following = left / left.sum() if left.any() else p
                for y, share in enumerate(following):
                    law[(*path[:i], y)] += mass * chance * share
        return law

    return path_rule


def without_zeros(law: Law) -> Law:
    return {emitted: mass for emitted, mass in law.items() if mass}


@pytest.mark.parametrize(("n", "K", "L"), [(2, 1, 3), (2, 2, 2), slow(3, 2, 2), slow(2, 3, 2)])
def test_the_slow_versions_agree_given_the_drafts(n: int, K: int, L: int) -> None:
    for model in random_models(2, n):
        for drafts in product(product(range(n), repeat=L), repeat=K):
            assert without_zeros(token_wise()(model, drafts)) == trees.TokenWise(RULE)(model, drafts)
            assert without_zeros(joint()(model, drafts)) == trees.Joint()(model, drafts)


@pytest.mark.parametrize(("n", "K", "L"), [(2, 1, 3), (3, 1, 2), (2, 2, 2), slow(2, 3, 2), slow(3, 2, 2)])
def test_the_expected_length_is_the_sum_of_the_expected_weights(n: int, K: int, L: int) -> None:
    for model in random_models(3, n):
        expected = F(0)
        for drafts in product(product(range(n), repeat=L), repeat=K):
            probability = F(1)
            for path in drafts:
                for depth, token in enumerate(path):
                    probability *= model.draft(path[:depth])[token]
            expected += probability * sum(mass * sum(w[1:]) for _, mass, w, _ in selected_walks(model, drafts))
        assert trees.evaluate(trees.Joint(), model, (K, L)).expected_length == expected
        if K == 1:
            assert trees.evaluate(trees.BlockVerification(), model, (K, L)).expected_length == expected


MISTAKES = [
    (token_wise, "survivors not filtered", 2),
    (token_wise, "bonus token from the draft", 2),
    (joint, "h with q in the place of m", 2),
    (joint, "residual of the wrong node", 1),
    (joint, "residual of the wrong node", 2),
    (joint, "bonus token from the draft", 1),
    (joint, "bonus token from the draft", 2),
    (joint, "block test used token-wise", 1),
    (joint, "block test used token-wise", 2),
]


@pytest.mark.parametrize(("rule", "mistake", "K"), MISTAKES, ids=[f"{r.__name__}-{m}-{k}" for r, m, k in MISTAKES])
def test_a_planted_mistake_is_found_out(rule: Any, mistake: str, K: int) -> None:
    found = [not trees.evaluate(rule(mistake), model, (K, 2)).lossless for model in random_models(8)]
    assert sum(found) >= 4


@pytest.mark.parametrize(("rule", "K"), dict.fromkeys((rule, K) for rule, _, K in MISTAKES))
def test_without_a_mistake_they_are_lossless(rule: Any, K: int) -> None:
    assert all(trees.evaluate(rule(), model, (K, 2)).lossless for model in random_models(2))
