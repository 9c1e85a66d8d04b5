"""The bound for large models: exactly `cap_bound` as a mean over texts, above what rules accept, and found wrong where a factor is."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from slow import slow

import ot_draft as otd
from ot_draft.trees.drafting import enumeration, fixed
from ot_draft.trees.drafting.baselines import ConfidentTree, SampledTree
from ot_draft.trees.drafting.counted_acceptance import LookedUpAcceptance, neutral_acceptance
from ot_draft.trees.drafting.forced import ForcedDraws
from ot_draft.trees.evaluation import program
from ot_draft.trees.evaluation.program import sampled_cap_bound
from ot_draft.trees.evaluation.simulate import simulate
from ot_draft.trees.model import Nodes, SimulatedModel

S = otd.trees.TreeShape
UNEVEN = S((0, 0, 1, 1, 2, 3))
DRAFTINGS = [
    otd.trees.FixedTree(shape, law)
    for shape in (S.chains(1, 3), S.chains(2, 2), S.by_level((2, 2)), UNEVEN)
    for law in (otd.IID(), otd.WithoutReplacement(), otd.Hybrid(1), otd.Fixed((1,)))
]
EACH = pytest.mark.parametrize("drafting", DRAFTINGS, ids=lambda d: f"{d.label} {d.law!r}")


FEW = neutral_acceptance(2)  # draws a node
DYNAMIC: list[otd.trees.TreeDrafter] = [
    otd.trees.AdaptiveTree(4, 2, 3, spread=1.0),
    otd.trees.CountedTree(3, 2, FEW),
    otd.trees.LookupTree(3, 2, FEW, looked_up=LookedUpAcceptance((0.9,), (0.9,), ())),
    SampledTree(2, 2, 2, 4),
    ConfidentTree(3, 2, 2, 2),
    otd.trees.StoppedPath(3, 0.5),
]
GIVEN = (1, 0)  # tokens that were looked up
EACH_DYNAMIC = pytest.mark.parametrize("drafting", DYNAMIC, ids=lambda d: d.label)


def texts(model: Any, L: int) -> dict[tuple[int, ...], Any]:
    """All texts of L tokens that the target may write, and their probabilities."""
    every = product(range(len(model.target(()))), repeat=L)
    chances = {t: prod((model.target(t[:d])[y] for d, y in enumerate(t)), start=F(1)) for t in every}
    return {text: chance for text, chance in chances.items() if chance}


def masses(model: Any, text: tuple[int, ...]) -> Any:
    return np.array([model.target(text[:d])[y] for d, y in enumerate(text)])


def laws(model: Any) -> Any:
    return lambda prefixes: [model.draft(prefix) for prefix in prefixes]


def mean_bound(drafting: otd.trees.TreeDrafter, model: Any, *how: Any) -> Any:
    each = texts(model, drafting.bounds.length).items()
    return sum(mass * sampled_cap_bound(drafting, laws(model), text, masses(model, text), *how) for text, mass in each)


def chance_of(trees: Any, text: tuple[int, ...], depth: int) -> Any:
    return sum(mass for held, mass in trees if text[:depth] in held)


def every_tree(drafting: otd.trees.TreeDrafter, model: Any, given: tuple[int, ...] = ()) -> list[tuple[Any, Any]]:
    nodes = Nodes.of(model)
    grown = enumeration.every_growth(nodes, lambda draws: drafting.growing(with_given(draws, given)), drafting.law)
    return [
        (program._prefixes(tree.forest, ()), mass) for tree, mass in (grown if given else drafting.every_tree(nodes))
    ]


def with_given(draws: Any, given: tuple[int, ...]) -> Any:
    draws.given = np.tile(np.array(given), (len(draws.root), 1))
    return draws


@EACH
@pytest.mark.parametrize("seed", [1, slow(2), slow(3)])
def test_over_all_texts_it_is_the_sum_of_the_caps(drafting: otd.trees.FixedTree, seed: int) -> None:
    model = otd.trees.MarkovModel.random(
        np.random.default_rng([seed, 41]), 2 if drafting.bounds.length > 2 else 3, order=1
    )
    assert mean_bound(drafting, model) == otd.trees.cap_bound(model, drafting.every_tree(Nodes.of(model)))


@EACH
def test_the_chances_are_those_of_the_enumeration(drafting: otd.trees.FixedTree) -> None:
    model = otd.trees.MarkovModel.random(np.random.default_rng(5), 2, order=1)
    trees = every_tree(drafting, model)
    for text in texts(model, drafting.bounds.length):
        (chances,) = drafting.held(laws(model), text)[0].tolist()
        assert chances == [chance_of(trees, text, depth) for depth in range(1, drafting.bounds.length + 1)]


def apart(drafting: otd.trees.TreeDrafter, seed: int, runs: int) -> float:
    """Largest distance of the estimated chances from the enumeration, in standard errors."""
    model = otd.trees.MarkovModel.random(np.random.default_rng([seed, 3]), 3, order=1)
    given = GIVEN if drafting.counts.n_lookup_tokens else ()
    trees, floats, found = every_tree(drafting, model, given), model.in_floats(), [0.0]
    for text in texts(model, drafting.bounds.length):
        rows = np.prod(drafting.held(laws(floats), text, np.random.default_rng(seed), runs, given), 0)
        for depth, column in enumerate(rows.T, 1):
            error = max(column.std() / runs**0.5, 1e-9)
            found.append(abs(column.mean() - float(chance_of(trees, text, depth))) / error)
    return max(found)


@EACH_DYNAMIC
@pytest.mark.parametrize("seed", [1, slow(2), slow(3)])
def test_estimated_chances_are_those_of_the_enumeration(drafting: otd.trees.TreeDrafter, seed: int) -> None:
    assert apart(drafting, seed, 400) < 5


@pytest.mark.parametrize("drafting", [DYNAMIC[0], DYNAMIC[1], DYNAMIC[3]], ids=lambda d: d.label)
def test_a_forced_draw_without_its_weight_is_found(drafting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    force = ForcedDraws._force

    def planted(self: ForcedDraws, *how: Any) -> None:
        force(self, *how)
        self._ratio = 1.0

    monkeypatch.setattr(ForcedDraws, "_force", planted)
    assert max(apart(drafting, seed, 400) for seed in (1, 2, 3)) > 8


@EACH_DYNAMIC
def test_no_rule_exceeds_the_estimated_caps_nor_they_the_caps(drafting: otd.trees.TreeDrafter) -> None:
    """Estimated, they lie above the caps by what the halves do not know of each other."""
    model = otd.trees.MarkovModel.random(np.random.default_rng([2, 3]), 3, order=1)
    caps = otd.trees.cap_bound(model, drafting.every_tree(Nodes.of(model)))
    found = mean_bound(drafting, model.in_floats(), np.random.default_rng(1), 400)
    assert -0.02 < found - caps < 0.05
    assert otd.trees.evaluate(drafting.rule, model, drafting).expected_length <= caps


@EACH_DYNAMIC
@pytest.mark.parametrize("seed", [4, slow(6)])
def test_with_three_runs_it_is_not_below_the_caps_nor_they_below_the_program(
    drafting: otd.trees.TreeDrafter, seed: int
) -> None:
    model = otd.trees.MarkovModel.random(np.random.default_rng([seed, 41]), 3, order=1)
    trees = list(drafting.every_tree(Nodes.of(model)))
    caps, optimum = otd.trees.cap_bound(model, trees), otd.trees.tree_program_bound(model, trees).certificate.lower
    found = [mean_bound(drafting, model.in_floats(), np.random.default_rng(number), 3) for number in range(12)]
    assert optimum <= caps < np.mean(found) + 3 * np.std(found) / 12**0.5 + 1e-9


@pytest.mark.parametrize("planted", [False, True])
def test_a_run_that_judges_by_itself_is_found(planted: bool) -> None:
    """Noisy ratios of known means: the sum of their prefix minima is not missed, but where all runs choose and count."""
    means = np.array([0.9, 1.2, 0.5, 0.8, 0.5])
    runs = np.random.default_rng(1).exponential(means, (2000, 4, 5))
    plug_in = lambda ratios: np.minimum.accumulate(np.minimum(ratios.mean(0), 1)).sum()  # noqa: E731
    found = [plug_in(ratios) if planted else program._by_the_others(ratios, np.ones(5)) for ratios in runs]
    above, error = np.mean(found) - (0.9 + 0.9 + 3 * 0.5), np.std(found) / 2000**0.5
    assert above < -5 * error if planted else -3 * error < above < 1


def test_on_one_path_it_is_what_block_verification_accepts() -> None:
    model = otd.trees.MarkovModel.random(np.random.default_rng(7), 3, order=1)
    accepted = otd.trees.evaluate(otd.trees.BlockVerification(), model, (1, 2)).expected_length
    assert mean_bound(otd.trees.FixedTree(S.chains(1, 2)), model) == accepted


@pytest.mark.parametrize("planted", ["no minimum along the way", "one draw a node"])
def test_planted_errors_are_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = otd.trees.MarkovModel.random(np.random.default_rng([2, 41]), 3, order=1)
    drafting = otd.trees.FixedTree(S.by_level((2, 2)))
    right = otd.trees.cap_bound(model, drafting.every_tree(Nodes.of(model)))
    if planted == "one draw a node":
        whole = fixed.independent
        monkeypatch.setattr(fixed, "independent", lambda law, q, x, k: whole(law, q, x, k) * (np.arange(k) == 0))
    else:
        monkeypatch.setattr(program.xp, "prefix_minimum", lambda x: x)
    assert mean_bound(drafting, model) != right


@pytest.mark.parametrize(
    "drafting",
    [
        otd.trees.FixedTree(S.chains(4, 3)),
        otd.trees.FixedTree(S.by_level((3, 2)), otd.WithoutReplacement()),
        otd.trees.CountedTree(4, 3),
        slow(otd.trees.CountedTree(8, 3)),
        slow(otd.trees.AdaptiveTree(8, 3)),
    ],
    ids=lambda d: d.label,
)
def test_large_vocabularies_by_sampling(drafting: otd.trees.TreeDrafter) -> None:
    """Means over texts lie above what the rules accept, by more than both errors."""
    model, L = SimulatedModel(n=200), drafting.bounds.length
    generator, bounds = np.random.default_rng(8), []
    for number in range(200):
        root, text = model.root(number), ()
        for _ in range(L):
            text += (int(generator.choice(200, p=model.target(root + text))),)
        of_target = np.array([model.target(root + text[:d])[y] for d, y in enumerate(text)])
        draft = lambda prefixes, root=root: [model.draft(root + prefix) for prefix in prefixes]  # noqa: E731
        bounds.append(float(sampled_cap_bound(drafting, draft, text, of_target, generator, 8)))
    bound, error = np.mean(bounds), np.std(bounds) / len(bounds) ** 0.5
    accepted = simulate(drafting.rule, model, drafting, 300, 1)
    assert accepted.expected_length - 3 * accepted.error < bound + 3 * error < 2 * accepted.expected_length


def test_bad_input() -> None:
    model = otd.trees.MarkovModel.random(np.random.default_rng(1), 3)
    with pytest.raises(otd.InvalidArgument, match=r"text must have 2 tokens, .* got 3"):
        otd.trees.FixedTree(S.chains(2, 2)).held(laws(model), (0, 0, 0))
    with pytest.raises(otd.InvalidArgument, match="law must have independent drafts"):
        otd.trees.FixedTree(S.chains(2, 1), otd.SpecHubLaw()).held(laws(model), (0,))
