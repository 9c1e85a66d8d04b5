"""The bound for large models: exactly `cap_bound` as a mean over texts, above what rules accept, and found wrong where a factor is."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

import ot_draft as ot
from ot_draft import paths
from ot_draft.paths.evaluation import program
from ot_draft.paths.evaluation.program import drafted_chances, sampled_cap_bound
from ot_draft.paths.evaluation.simulate import simulate
from ot_draft.paths.model import Nodes, SimulatedModel

S = paths.TreeShape
UNEVEN = S((0, 0, 1, 1, 2, 3))
DRAFTINGS = [
    paths.FixedTree(shape, law)
    for shape in (S.chains(1, 3), S.chains(2, 2), S.by_level((2, 2)), UNEVEN)
    for law in (ot.IID(), ot.WithoutReplacement(), ot.Hybrid(1), ot.Fixed((1,)))
]
EACH = pytest.mark.parametrize("drafting", DRAFTINGS, ids=lambda d: f"{d.label} {d.law!r}")


def texts(model: Any, L: int) -> tuple[Any, Any, Any, Any]:
    """All texts of L tokens that the target may write: their laws, tokens and probabilities."""
    n = len(model.target(()))
    chance = {
        t: prod((model.target(t[:d])[y] for d, y in enumerate(t)), start=F(1)) for t in product(range(n), repeat=L)
    }
    tokens = [t for t, mass in chance.items() if mass]
    p, q = (np.array([[law(t[:d]) for d in range(L)] for t in tokens]) for law in (model.target, model.draft))
    return p, q, np.array(tokens), np.array([chance[t] for t in tokens])


def exact(drafting: paths.FixedTree, model: Any) -> Any:
    p, q, tokens, mass = texts(model, drafting.length)
    return (mass * sampled_cap_bound(drafting, p, q, tokens)).sum()


@EACH
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_over_all_texts_it_is_the_sum_of_the_caps(drafting: paths.FixedTree, seed: int) -> None:
    model = paths.MarkovModel.random(np.random.default_rng([seed, 41]), 2 if drafting.length > 2 else 3, order=1)
    assert exact(drafting, model) == paths.cap_bound(model, drafting.every_tree(Nodes.of(model)))


@EACH
def test_the_chances_are_those_of_the_enumeration(drafting: paths.FixedTree) -> None:
    model = paths.MarkovModel.random(np.random.default_rng(5), 2, order=1)
    _, q, tokens, _ = texts(model, drafting.length)
    trees = [(program._prefixes(tree.forest, ()), mass) for tree, mass in drafting.every_tree(Nodes.of(model))]
    for text, chances in zip(tokens.tolist(), drafted_chances(drafting, q, tokens).tolist(), strict=True):
        for depth, chance in enumerate(chances, 1):
            assert chance == sum(mass for held, mass in trees if tuple(text[:depth]) in held)


def test_on_one_path_it_is_what_block_verification_accepts() -> None:
    model = paths.MarkovModel.random(np.random.default_rng(7), 3, order=1)
    accepted = paths.evaluate(paths.BlockVerification(), model, (1, 2)).expected_length
    assert exact(paths.FixedTree(S.chains(1, 2)), model) == accepted


@pytest.mark.parametrize("planted", ["no minimum along the way", "one draw a node"])
def test_planted_errors_are_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = paths.MarkovModel.random(np.random.default_rng([2, 41]), 3, order=1)
    drafting = paths.FixedTree(S.by_level((2, 2)))
    right = paths.cap_bound(model, drafting.every_tree(Nodes.of(model)))
    if planted == "one draw a node":
        whole = program._independent
        monkeypatch.setattr(program, "_independent", lambda law, q, x, k: whole(law, q, x, k) * (np.arange(k) == 0))
    else:
        monkeypatch.setattr(program.xp, "prefix_minimum", lambda x: x)
    assert exact(drafting, model) != right


@pytest.mark.parametrize(
    "drafting", [paths.FixedTree(S.chains(4, 3)), paths.FixedTree(S.by_level((3, 2)), ot.WithoutReplacement())]
)
def test_large_vocabularies_by_sampling(drafting: paths.FixedTree) -> None:
    """Means over texts lie above what the rules accept, by more than both errors."""
    model, L = SimulatedModel(n=200), drafting.length
    generator, rows = np.random.default_rng(8), []
    for number in range(300):
        text: tuple[int, ...] = ()
        for _ in range(L):
            text += (int(generator.choice(200, p=model.target(model.root(number) + text))),)
        rows.append(text)
    laws = [[model.pair(model.root(number) + text[:d]) for d in range(L)] for number, text in enumerate(rows)]
    p, q = (np.array([[pair[i] for pair in row] for row in laws]) for i in range(2))
    found = sampled_cap_bound(drafting, p, q, np.array(rows))
    bound, error = found.mean(), found.std() / len(found) ** 0.5
    accepted = simulate(drafting.rule, model, drafting, 300, 1)
    assert found.min() >= 0 and found.max() <= L
    assert accepted.expected_length - 3 * accepted.error < bound + 3 * error < 2 * accepted.expected_length


def test_bad_input() -> None:
    p = np.full((2, 2, 3), 1 / 3)
    drafting = paths.FixedTree(S.chains(2, 2))
    with pytest.raises(ot.InvalidArgument, match=r"trees of depth 2 take \(B, 2\)"):
        sampled_cap_bound(drafting, p, p, np.zeros((2, 3), dtype=np.int64))
    with pytest.raises(ot.InvalidArgument, match="give a law of independent drafts"):
        sampled_cap_bound(
            paths.FixedTree(S.chains(2, 1), ot.Hub()), p[:, :1], p[:, :1], np.zeros((2, 1), dtype=np.int64)
        )
