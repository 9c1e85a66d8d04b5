"""Draws without replacement with fixed tokens behind them: every method against enumeration of the draft tuples."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.laws import FixedFirst, WithoutReplacement, outside, probability_inside
from ot_draft.laws.fixed_last import FixedLast, PerNodeFixedTokensLast

Q = np.array([F(1, 10), F(2, 10), F(3, 10), F(4, 10)], dtype=object)
P = np.array([F(4, 10), F(1, 10), F(4, 10), F(1, 10)], dtype=object)
ALL = np.array(list(product(range(4), repeat=3)))
LAWS = [FixedLast(), FixedLast((2,)), FixedLast((3, 0)), FixedLast((1, 2, 3))]
EACH = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)


def masses(law: FixedLast) -> list[F]:
    return law.probability(Q, ALL).tolist()


@EACH
def test_the_fixed_tokens_stand_last_and_the_draws_are_from_the_rest(law: FixedLast) -> None:
    assert sum(masses(law)) == 1
    free = outside(Q, np.array(law.tokens, dtype=np.int64))
    draws = 3 - len(law.tokens)
    for drafts, mass in zip(ALL, masses(law), strict=True):
        expected = WithoutReplacement().probability(free, drafts[:draws]) if draws else F(1)
        assert mass == (expected if tuple(drafts[draws:]) == law.tokens else 0)
    if not law.tokens:
        assert masses(law) == WithoutReplacement().probability(Q, ALL).tolist()


@EACH
def test_sets_and_orders_are_those_of_the_enumeration(law: FixedLast) -> None:
    for members in product((False, True), repeat=4):
        chosen = np.array(members)
        expected = sum(mass for drafts, mass in zip(ALL, masses(law), strict=True) if chosen[drafts].all())
        assert probability_inside(law, Q, chosen, 3) == expected
    for order in (np.array([2, 0, 3, 1]), law.cut_order(P, Q, 3)):
        along = law.prefix_probabilities(Q, order, 3)
        assert [along[i] for i in range(5)] == [
            probability_inside(law, Q, np.isin(np.arange(4), order[:i]), 3) for i in range(5)
        ]
    order = law.cut_order(P, Q, 3)
    by_order = [1 + sum(P[order[:i]]) - law.prefix_probabilities(Q, order, 3)[i] for i in range(5)]
    every = [np.array(members) for members in product((False, True), repeat=4)]
    assert min(by_order) == min(1 + sum(P[chosen]) - probability_inside(law, Q, chosen, 3) for chosen in every)


@EACH
def test_one_child_after_the_other_is_the_law(law: FixedLast) -> None:
    draws, number = 3 - len(law.tokens), np.array([len(law.tokens)])
    for drafts, mass in zip(ALL, masses(law), strict=True):
        if tuple(drafts[draws:].tolist()) != law.tokens:  # which children are fixed ones is known of them
            assert mass == 0
            continue
        steps = [law.conditional(Q, drafts, np.array([place])) for place in range(3)]
        assert np.prod([steps[place][drafts[place]] for place in range(3)]) == mass
        for place, step in enumerate(steps):
            assert PerNodeFixedTokensLast().conditional(Q, drafts, np.array([place]), number).tolist() == step.tolist()


SEVERAL = otd.Several([P, np.roll(Q, 1)])


@pytest.mark.parametrize(
    "law", [otd.IID(), WithoutReplacement(), otd.Fixed((2, 0)), otd.Hybrid(1), otd.SpecHubLaw(), SEVERAL], ids=repr
)
def test_one_child_after_the_other_is_every_law(law: otd.DraftLaw) -> None:
    """Place by place, and with another place in every row."""
    k = 2 if law == otd.SpecHubLaw() else 3
    tuples = np.unique(ALL[:, :k], axis=0)
    places = np.arange(k)[:, None]
    fixed = law.fixed_drafts(Q, k) if isinstance(law, FixedFirst) else np.full(k, -1)
    number = int((fixed >= 0).sum())
    for drafts, mass in zip(tuples, law.probability(Q, tuples), strict=True):
        if drafts[:number].tolist() == fixed[:number].tolist():
            steps = [law.conditional(Q, drafts, np.array([place])) for place in range(k)]
            assert np.prod([step[token] for step, token in zip(steps, drafts, strict=True)]) == mass
            rows = [np.broadcast_to(x, (k, *x.shape)) for x in (Q, drafts)]
            told = (number + 0 * places,) if isinstance(law, FixedFirst) else ()
            assert law.conditional(*rows, places, *told).tolist() == [step.tolist() for step in steps]


def test_what_is_drawn_follows_the_law() -> None:
    law, q = FixedLast((2,)), Q.astype(float)
    drafts = law.draw(q, np.random.default_rng(1).random((20_000, 3)))
    assert (drafts[:, 2] == 2).all() and (drafts[:, 0] != drafts[:, 1]).all()
    for tuple_, mass in zip(ALL, masses(law), strict=True):
        seen, chance = (drafts == tuple_).all(-1).mean(), float(mass)
        assert abs(seen - chance) <= 6 * (chance * (1 - chance) / 20_000) ** 0.5


@pytest.mark.parametrize(
    ("tokens", "drafted"),
    [
        ((1,), {(0, 2, 1): F(3, 4), (2, 0, 1): F(1, 4)}),
        ((2, 0), {(1, 2, 0): F(1)}),
        ((2, 0, 1), {(2, 0, 1): F(1)}),
    ],
)
@pytest.mark.parametrize("k", [3, 4, 5])
def test_with_more_places_than_tokens_the_last_are_absent(
    tokens: tuple[int, ...], drafted: dict[tuple[int, ...], F], k: int
) -> None:
    law, q = FixedLast(tokens), np.array([F(1, 2), F(1, 3), F(1, 6)], dtype=object)
    expected = {(*drafts, *[-1] * (k - 3)): mass for drafts, mass in drafted.items()}
    tuples = np.array(list(product(range(-1, 3), repeat=k)))
    found = dict(zip(map(tuple, tuples.tolist()), law.probability(q, tuples).tolist(), strict=True))
    assert {drafts: mass for drafts, mass in found.items() if mass} == expected
    drawn = law.draw(q.astype(float), np.random.default_rng(1).random((200, k)))
    assert set(map(tuple, drawn.tolist())) == set(expected)
    assert otd.evaluate(otd.rules.NaiveTarget(law), otd.Problem(q[::-1], q, k, law)).lossless


def test_floats_whose_mass_is_all_on_the_fixed_tokens() -> None:
    law, q, order = FixedLast((0, 1)), np.array([F(1), F(0), F(0), F(0)], dtype=object), np.array([2, 0, 1, 3])
    exact = law.prefix_probabilities(q, order, 3)
    assert exact.tolist() == [0, 0, 0, F(1, 2), 1]
    assert law.prefix_probabilities(q.astype(float), order, 3).tolist() == exact.astype(float).tolist()


def test_errors() -> None:
    for tokens in ((1, 1), (-1,), (True,)):
        with pytest.raises(
            otd.InvalidArgument, match=r"tokens must be distinct|each of tokens must be an integer of at least 0"
        ):
            FixedLast(tokens)
    with pytest.raises(otd.InvalidDrafts, match=r"must be token ids in 0 \.\. 3, got 4"):
        FixedLast((4,)).draw(Q.astype(float), np.zeros(2))
    for ask in (lambda law: law.n_fixed(Q, 2), lambda law: law.conditional(Q, ALL[0], np.array([0]))):
        with pytest.raises(otd.InvalidDrafts, match="PerNodeFixedTokensLast"):
            ask(PerNodeFixedTokensLast())
