"""Draft laws: probability, set probability and drawing tell the same story, exactly, whatever is zero or runs out."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction as F
from itertools import permutations, product
from math import lcm
from typing import Any, ClassVar

import numpy as np
import pytest
from random_problems import LAWS, all_token_sets, all_tuples, fits, fractions, random_masses, random_pair

import ot_draft as otd
from ot_draft.arrays import top_tokens
from ot_draft.laws import Fact, canonical, outside, probability_inside
from ot_draft.laws.fixed_tokens import fixed_part
from ot_draft.laws.hybrid import StandIn

ALL_LAWS = pytest.mark.parametrize("law", LAWS, ids=repr)


def draft_models(law: otd.DraftLaw, sizes: tuple[tuple[int, int], ...]) -> list[tuple[np.ndarray, int]]:
    """q and k: random, with zeros; one-hot, so that drafts must fall back; k = 0, k > n and n = 1 among the sizes."""
    generator = np.random.default_rng(11)
    cases = []
    for n, k in sizes:
        if fits(law, k):
            cases += [(random_masses(generator, n), k) for _ in range(3)]
            cases += [(fractions([0] * (n - 1) + [1]), k), (fractions([1] * n), k)]
    return cases


SIZES = ((1, 0), (1, 1), (1, 2), (1, 3), (2, 2), (2, 4), (3, 0), (3, 2), (3, 3), (4, 2), (4, 3), (2, 3))


@ALL_LAWS
def test_probabilities_are_masses_that_sum_to_one(law: otd.DraftLaw) -> None:
    for q, k in draft_models(law, SIZES):
        tuples = all_tuples(len(q), k)
        chance = law.probability(q, tuples)
        assert (chance >= 0).all() and chance.sum() == 1
        absent = (tuples == -1).sum(-1)
        assert (absent[chance > 0] == k - law.count(len(q), k)).all()


def independent(q: np.ndarray, fixed: np.ndarray, tuples: np.ndarray) -> np.ndarray:
    """Probabilities of draft tuples (m, k) of the fixed tokens (k,), -1 where a draft is an independent draw outside them."""
    free = outside(q, fixed)
    drawn = np.where(free.sum() > 0, free[tuples] * (tuples >= 0), tuples == -1)
    return np.where(fixed >= 0, tuples == fixed, drawn).prod(-1)


@ALL_LAWS
@pytest.mark.parametrize("fact", [Fact.INDEPENDENT, Fact.INDEPENDENT_OUTSIDE_FIXED])
def test_a_law_says_that_its_drafts_are_independent_where_they_are(law: otd.DraftLaw, fact: Fact) -> None:
    same = True
    for q, k in draft_models(law, SIZES):
        tuples = all_tuples(len(q), k)
        none_fixed = fact is Fact.INDEPENDENT or fact not in law.facts
        fixed = np.full(k, -1) if none_fixed else fixed_part(law, q, k)
        same = same and bool((law.probability(q, tuples) == independent(q, fixed, tuples)).all())
    assert same == (fact in canonical(law, 3).facts)  # Hybrid(0) is IID()


@ALL_LAWS
def test_set_probability_is_the_sum_over_tuples(law: otd.DraftLaw) -> None:
    for q, k in draft_models(law, SIZES):
        n = len(q)
        tuples = all_tuples(n, k)
        chance = law.probability(q, tuples)
        for token_set in all_token_sets(n):
            all_in = np.append(token_set, True)[tuples].all(-1)  # position -1, the last one, stands for absent drafts
            assert probability_inside(law, q, token_set, k) == chance[all_in].sum()


@ALL_LAWS
def test_among_the_prefixes_is_a_minimum_cut(law: otd.DraftLaw) -> None:
    """Every prefix's probability is that of its set, and no other set of the 2^n has a smaller cut."""
    generator = np.random.default_rng(12)
    for n, k in ((1, 2), (2, 2), (3, 2), (3, 5), (4, 2), (4, 3), (5, 2), (6, 4), (4, 0)):
        if not fits(law, k):
            continue
        pairs = [random_pair(generator, n) for _ in range(3 if n < 6 else 1)]
        for p, q in (*pairs, (random_masses(generator, n), fractions([0] * (n - 1) + [1]))):
            order = law.cut_order(p, q, k)
            inside = law.prefix_probabilities(q, order, k)
            sets = [np.isin(np.arange(n), order[:i]) for i in range(n + 1)]
            assert sorted(order.tolist()) == list(range(n))
            assert inside.tolist() == [probability_inside(law, q, s, k) for s in sets]
            cuts = [p[s].sum() - probability_inside(law, q, s, k) for s in all_token_sets(n)]
            assert min(p[s].sum() - x for s, x in zip(sets, inside, strict=True)) == min(cuts)


@ALL_LAWS
def test_drawing_follows_the_law_exactly(law: otd.DraftLaw) -> None:
    """All uniforms on a grid fine enough that every breakpoint is on it: frequencies are probabilities, with ==."""
    grid = lcm(1, 2, 3, 4)
    for masses in ([1], [1, 2, 1], [0, 3, 1], [0, 1], [2, 0, 0, 2], [0, 4, 0], [1, 1, 1, 1]):
        q = fractions(masses)
        for k in (0, 1, 2, 3):
            if fits(law, k):
                uniforms = np.array([[F(u, grid) for u in row] for row in product(range(grid), repeat=k)], dtype=object)
                drafts = law.draw(q, uniforms.reshape(grid**k, k))
                assert drafts.shape == (grid**k, k) and drafts.dtype.kind == "i"
                seen, number = np.unique(drafts, axis=0, return_counts=True)
                assert law.probability(q, seen).tolist() == [F(int(x), grid**k) for x in number]


def test_drawing_floats_and_batches_as_fractions() -> None:
    generator = np.random.default_rng(13)
    q = random_masses(generator, 6, 64, (5,))  # dyadic: float64 holds them exactly
    for law in LAWS:
        uniforms = generator.integers(0, 1 << 20, (5, 2)) * F(1, 1 << 20)
        exact = law.draw(q, uniforms)
        assert (law.draw(q.astype(float), uniforms.astype(float)) == exact).mean() > 0.9  # q outside T is rounded
        assert (np.stack([law.draw(a, u) for a, u in zip(q, uniforms, strict=True)]) == exact).all()


def test_without_replacement_is_the_race_of_successive_draws() -> None:
    q = fractions([4, 3, 2, 1])
    for x in permutations(range(4), 3):
        a, b, c = (q[i] for i in x)
        assert otd.WithoutReplacement().probability(q, np.array(x)) == a * b / (1 - a) * c / (1 - a - b)


def test_uniform_fallback_when_q_has_too_few_tokens() -> None:
    """Sequoia's rule: what q leaves out is drawn uniformly, and what is left of k beyond n is absent."""
    q, law = fractions([0, 1, 0, 0]), otd.WithoutReplacement()
    assert law.probability(q, np.array([[1, 0], [1, 2], [1, 3], [1, 1], [0, 1]])).tolist() == [F(1, 3)] * 3 + [0, 0]
    assert law.probability(q, np.array([1, 0, 2, 3, -1, -1])) == F(1, 6)
    assert probability_inside(law, q, np.array([True, True, False, True]), 3) == F(1, 3)
    assert otd.Hybrid(top=1).probability(q, np.array([[1, 0, 3], [1, 1, 0]])).tolist() == [F(1, 9), 0]
    assert otd.SpecHubLaw().probability(q, np.array([[1, 0], [0, 1]])).tolist() == [F(1, 3), 0]


def test_hybrid_ranks_equal_masses_by_token() -> None:
    q, law = fractions([1, 3, 3, 3]), otd.Hybrid(top=2)
    assert top_tokens(q, 2).tolist() == [1, 2]
    assert law.probability(q, np.array([[1, 2, 3], [1, 2, 0], [2, 1, 3]])).tolist() == [F(3, 4), F(1, 4), 0]
    assert top_tokens(q.astype(float), 2).tolist() == [1, 2]


def test_hub_pairs() -> None:
    """SpecHub: (i, a) has mass q(i), (a, i) mass q(a) q(i) / (1 - q(a))."""
    q, law = fractions([2, 5, 3]), otd.SpecHubLaw()
    assert law.probability(q, np.array([[0, 1], [2, 1]])).tolist() == [q[0], q[2]]
    assert law.probability(q, np.array([[1, 0], [1, 2]])).tolist() == [x * q[1] / (1 - q[1]) for x in (q[0], q[2])]
    assert law.probability(q, np.array([[0, 2], [1, 1], [0, 0]])).tolist() == [0, 0, 0]


def test_outside_is_what_is_left_normalised() -> None:
    q = fractions([[2, 5, 3], [0, 1, 0], [1, 1, 1]])
    drawn = np.array([[1, -1, -1], [1, 1, -1], [2, 0, 1]])
    assert outside(q, drawn).tolist() == [[F(2, 5), 0, F(3, 5)], [F(1, 2), 0, F(1, 2)], [0, 0, 0]]


@ALL_LAWS
def test_many_token_sets_at_once(law: otd.DraftLaw) -> None:
    q, sets = fractions([0, 1, 4, 2]), all_token_sets(4)
    assert probability_inside(law, q, sets, 2).tolist() == [probability_inside(law, q, s, 2) for s in sets]
    many = np.stack([q, q[::-1]])[:, None]
    assert probability_inside(law, many, sets, 2).tolist() == [
        [probability_inside(law, x[0], s, 2) for s in sets] for x in many
    ]


@pytest.mark.parametrize("cells", [1, 40 * StandIn().head * 7])
def test_the_number_of_top_tokens_does_not_depend_on_how_many_are_tried_at_once(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharpness = np.linspace(0, 12, 40)[:, None]
    q = np.exp(-sharpness * np.random.default_rng(0).random((40, 300)))
    q /= q.sum(-1, keepdims=True)
    at_once = StandIn().number(q, 30)
    parts, whole = [], StandIn._estimates

    def estimates(self: StandIn, head: np.ndarray, start: int, stop: int, k: int) -> np.ndarray:
        parts.append(stop - start)
        return whole(self, head, start, stop, k)

    monkeypatch.setattr(StandIn, "_estimates", estimates)
    assert (StandIn().number(q, 30, cells) == at_once).all() and len(np.unique(at_once)) > 10
    assert parts == ([1] * 31 if cells == 1 else [7, 7, 7, 7, 3])


@dataclass  # not frozen
class Delegating(otd.DraftLaw):
    """Hybrid(1) by delegation; it has the fact of a law with fixed tokens, and does not name them."""

    facts: ClassVar[Fact] = Fact.INDEPENDENT_OUTSIDE_FIXED

    def draw(self, q: Any, uniforms: Any) -> Any:
        return otd.Hybrid(1).draw(q, uniforms)

    def conditional(self, q: Any, siblings: Any, index: Any) -> Any:
        return otd.Hybrid(1).conditional(q, siblings, index)

    def cut_order(self, p: Any, q: Any, k: int) -> Any:
        return otd.Hybrid(1).cut_order(p, q, k)

    def prefix_probabilities(self, q: Any, order: Any, k: int) -> Any:
        return otd.Hybrid(1).prefix_probabilities(q, order, k)


def test_a_law_that_does_not_name_its_fixed_tokens() -> None:
    """The output distribution of Optimal and Joint would be wrong by 1/6."""
    p, q = [F(1, 6), F(1, 2), F(1, 3)], [F(1, 2), F(1, 4), F(1, 4)]
    law = Delegating()
    with pytest.raises(otd.InvalidDrafts, match="must name its fixed tokens"):
        otd.evaluate(otd.rules.Optimal(law=law), otd.Problem(p, q, k=2, law=law))
    model = otd.trees.MarkovModel({(): np.array(p, dtype=object)}, {(): np.array(q, dtype=object)}, 0)
    with pytest.raises(otd.InvalidDrafts, match="must name its fixed tokens"):
        otd.trees.evaluate(otd.trees.Joint(), model, (2, 1), law)


def test_a_law_without_a_hash() -> None:
    with pytest.raises(otd.InvalidArgument, match="frozen=True"):
        otd.check_rule(otd.rules.RecursiveRejection(law=Delegating()), max_examples=1)
