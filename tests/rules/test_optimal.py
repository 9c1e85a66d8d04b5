"""Optimal selection: any levels keep p, classes cost acceptance only, every number type and number of drafts, a real vocabulary's size."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from random_problems import SIZES, SMALL_SIZES, all_tuples, random_masses, random_pair
from slopes import slopes_of
from slow import slow

import ot_draft as otd
from ot_draft.arrays import argsort, gather, prefix_sums, ratio
from ot_draft.arrays.ratio_classes import classify, layout
from ot_draft.rules.coupling import couple
from ot_draft.rules.optimal.classes import at_levels
from ot_draft.rules.optimal.rule import selection_probabilities

Array = Any


def selected_law(choice: Array, drafts: Array, q: Array) -> Array:
    """Law of the selected token, from what is selected on every draft tuple."""
    weight = otd.IID().probability(q, drafts)
    return np.array([(weight[:, None] * choice * (drafts == y)).sum() for y in range(len(q))], dtype=q.dtype)


def mixed_counts(generator: np.random.Generator, rows: int, n: int, k: int) -> Array:
    """Drafts of which any number are absent, anywhere."""
    drafts = generator.integers(0, n, (rows, k))
    return np.where(generator.random((rows, k)) < generator.random((rows, 1)), -1, drafts)


@dataclass(frozen=True)
class AnyLevels(otd.SelectionRule):
    """Levels out of nowhere, and m recomputed for them."""

    level: tuple[F, ...]
    law: otd.DraftLaw = otd.IID()

    def __call__(self, p: Array, q: Array, drafts: Array) -> otd.Selection:
        order = argsort(ratio(p, q))[0]
        rank = np.argsort(order)[None]
        t = prefix_sums(q[0, order])
        used = np.flatnonzero(np.append(np.diff(t) > 0, True))  # a token that is never drafted has no step of its own
        level = np.array(self.level, dtype=object)
        slope = np.full(len(order), F(0), dtype=object)
        slope[used[:-1]] = slopes_of(t[used], t[used] ** drafts.shape[-1], np.append(level[:1], level[used[:-1]]))
        choice = at_levels(level[None], gather(rank, drafts), drafts >= 0)
        return couple(p, (slope[rank[0]] * q[0])[None], choice, drafts)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_any_levels_keep_the_law_of_the_target(steps: int) -> None:
    generator = np.random.default_rng([61, steps])
    for n, k in SMALL_SIZES:
        for _ in range(6):
            p, q = random_pair(generator, n)
            rule = AnyLevels(tuple(F(int(c), steps) for c in generator.integers(0, steps + 1, n)))
            result = otd.evaluate(rule, otd.Problem(p, q, k))
            assert result.lossless and result.acceptance <= otd.optimal_acceptance(p, q, k)


def test_levels_of_classes_are_not_those_of_the_optimum() -> None:
    """The example of docs/formal.md: what `any_levels.v` asks of levels, for the optimum, holds for no classes."""
    problem = otd.Problem([F(1, 5), F(1, 5), F(3, 5)], [F(1, 5), F(2, 5), F(2, 5)], 2)
    result = otd.evaluate(otd.rules.Optimal(classes=4), problem)
    assert result.lossless and result.acceptance == F(143, 150)
    assert otd.optimal_acceptance(problem.p, problem.q, 2) == 1


@pytest.mark.parametrize("classes", [4, 16, 256])
def test_classes_cost_acceptance_only_and_nothing_where_each_holds_one_ratio(classes: int) -> None:
    generator, without_loss = np.random.default_rng(62), 0
    for n, k in SMALL_SIZES:
        for _ in range(8):
            p, q = random_pair(generator, n)
            result = otd.evaluate(otd.rules.Optimal(classes=classes), otd.Problem(p, q, k))
            alpha = otd.optimal_acceptance(p, q, k)
            assert result.lossless and result.acceptance <= alpha
            rank = np.zeros(n, dtype=np.int64)
            classify(p, q, layout(classes, k), rank)
            pairs = {(int(c), min(a / b, F(k))) for c, a, b in zip(rank, p, q, strict=True) if b > 0}
            if len({c for c, _ in pairs}) == len(pairs):
                assert result.acceptance == alpha
                without_loss += n > 1
    assert without_loss >= 20


def test_many_tokens_of_few_ratios_lose_nothing() -> None:
    ratios = np.array([F(0), F(1, 2), F(1), F(3, 2), F(5)] * 20, dtype=object)
    q = random_masses(np.random.default_rng(63), 100, 5000)
    p = ratios * q / (ratios * q).sum()
    drafts = np.random.default_rng(63).integers(0, 100, (50, 5))
    for classes in (None, 64):
        _, m = selection_probabilities(p, q, drafts, classes)
        assert m.sum() == 1 and np.minimum(p, m).sum() == otd.optimal_acceptance(p, q, 5)


@pytest.mark.parametrize(("n", "k"), SIZES)
@pytest.mark.parametrize("classes", [None, slow(16)])
def test_floats_agree_with_fractions(n: int, k: int, classes: int | None, floats: Any) -> None:
    generator = np.random.default_rng([64, n, k])
    for _ in range(3):
        p, q = random_masses(generator, n, 1024), random_masses(generator, n, 1024)  # dyadic: floats hold them exactly
        drafts = np.resize(all_tuples(n, k) if (n + 1) ** k <= 3000 else generator.integers(-1, n, (300, k)), (300, k))
        _, exact = selection_probabilities(p[None], q[None], drafts, classes)
        _, m = selection_probabilities(floats.make(p[None]), floats.make(q[None]), floats.tokens(drafts), classes)
        attained = np.minimum(p, exact).sum(-1)
        assert floats.agrees(floats.make(np.minimum(p, floats.back(m).astype(object)).sum(-1)), attained, 10)
        assert floats.agrees(m.sum(-1), (drafts >= 0).any(-1).astype(int), 10)
        result = otd.evaluate(otd.rules.Optimal(classes=classes), otd.Problem(floats.make(p), floats.make(q), k))
        assert result.lossless and floats.agrees(result.output, p, 10)
        if classes is None:
            assert floats.agrees(result.acceptance, otd.optimal_acceptance(p, q, k), 10)


@pytest.mark.parametrize("classes", [None, 32])
def test_any_number_of_drafts_in_one_batch(classes: int | None, valued: Any) -> None:
    """Every row is as if alone with the drafts that it has; k = 0 and k = 1 are among them."""
    generator = np.random.default_rng(65)
    p, q = random_masses(generator, 5, 64, (20,)), random_masses(generator, 5, 64, (20,))
    drafts = mixed_counts(generator, 20, 5, 4)
    counts = (drafts >= 0).sum(-1)
    assert set(counts) == {0, 1, 2, 3, 4}
    selection = otd.rules.Optimal(classes=classes)(valued.make(p), valued.make(q), valued.tokens(drafts))
    law = selection.output(valued.tokens(drafts))
    for row, present in enumerate(drafts >= 0):
        alone = otd.rules.Optimal(classes=classes)(p[row], q[row], drafts[row, present])
        assert valued.agrees(selection.accept[row][present], alone.accept, 100)
        assert (valued.back(selection.accept[row])[~present] == 0).all()
        assert valued.agrees(law[row], alone.output(drafts[row, present]), 100)
    for k in (0, 1):
        first = otd.rules.Optimal(classes=classes)(p, q, np.maximum(drafts[:, :k], 0))
        one = otd.rules.SpeculativeSampling()(p, q, np.maximum(drafts[:, :k], 0))
        assert (first.accept == one.accept).all() and (first.residual == one.residual).all()


def test_a_scaled_target_in_a_batch(valued: Any) -> None:
    """For w p what is selected and taken is min(w p, m), the most that can be."""
    generator = np.random.default_rng(66)
    w = np.array([F(0), F(1, 64), F(1, 4), F(1, 2), F(7, 8), F(1)], dtype=object)[:, None]
    for n, k in ((1, 2), (3, 3), (4, 2), (2, 5)):
        q = random_masses(generator, n, 64)
        p = w * random_masses(generator, n, 64, (len(w),))
        drafts = all_tuples(n, k)
        drafts = drafts[(drafts >= 0).all(-1) & (otd.IID().probability(q, drafts) > 0)]
        for row in range(len(w)):
            choice, m = selection_probabilities(p[row][None], q[None], drafts)
            assert (selected_law(choice, drafts, q) == m[0]).all() and m[0].sum() == 1
            least = min(1 + p[row][list(s)].sum() - q[list(s)].sum() ** k for s in subsets(n))
            assert np.minimum(p[row], m[0]).sum() == least
        tuples = np.resize(drafts, (len(w), k))
        exact = selection_probabilities(p, q[None], tuples)
        found = selection_probabilities(valued.make(p), valued.make(q[None]), valued.tokens(tuples))
        assert all(valued.agrees(a, b, 100) for a, b in zip(found, exact, strict=True))


def subsets(n: int) -> list[Array]:
    return [np.flatnonzero([bits >> y & 1 for y in range(n)]) for bits in range(2**n)]


@pytest.mark.parametrize(("n", "k"), SMALL_SIZES)
def test_hybrid_drafting_is_optimal_for_every_number_of_top_tokens(n: int, k: int) -> None:
    generator = np.random.default_rng([67, n, k])
    for top in (*range(k + 1), -1, "auto"):
        law = otd.Hybrid(top)
        for _ in range(3):
            p, q = random_pair(generator, n)
            result = otd.evaluate(otd.rules.Optimal(law), otd.Problem(p, q, k, law))
            assert result.lossless and result.acceptance == otd.optimal_acceptance(p, q, k, law)


@pytest.mark.parametrize("largest", [100, slow(400)])
def test_the_number_of_top_tokens_depends_on_the_draft_alone_and_not_on_its_kind(largest: int) -> None:
    generator, numbers = np.random.default_rng(79), set()
    for n in (2, 5, 30, largest):
        for k in (1, 2, 4, 8):
            q = generator.permutation(generator.dirichlet(np.full(n, 0.3)) + np.arange(n) * 1e-9)  # no equal masses
            q /= q.sum()
            law = otd.Hybrid("auto")
            fixed = law.fixed_drafts(q, k)
            exact = np.array([*map(F, q.tolist())], dtype=object)
            assert (law.fixed_drafts(exact, k) == fixed).all()
            torch = pytest.importorskip("torch")
            assert (law.fixed_drafts(torch.from_numpy(q), k).numpy() == fixed).all()
            number = int((fixed >= 0).sum())
            numbers.add(number)
            drafts = np.where(fixed >= 0, fixed, generator.integers(0, n, (3, k)))
            for _ in range(2):  # another target, the same number
                p = generator.dirichlet(np.ones(n))
                auto, named = (otd.rules.Optimal(otd.Hybrid(top))(p, q, drafts) for top in ("auto", number))
                assert (auto.accept == named.accept).all() and (auto.residual == named.residual).all()
    assert len(numbers) > 3


@pytest.mark.parametrize(
    "rule", [otd.rules.Optimal(classes=4), otd.rules.HeadAndTail(classes=4)], ids=lambda rule: rule.name
)
def test_a_ratio_beyond_floats_is_in_the_last_class(rule: otd.SelectionRule) -> None:
    tiny = F(5e-324)
    problem = otd.Problem([tiny / 2, 1 - tiny / 2], [1 - tiny, tiny], 1, rule.law)
    assert otd.evaluate(rule, problem).lossless
