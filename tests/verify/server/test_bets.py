"""Every bet is fair: with the past fixed, the mean of its payoff over all tokens, under the reported law, is what was said."""

from __future__ import annotations

import numpy as np
import pytest

from ot_draft.arrays import Array
from ot_draft.verify.server.bets import Bets, BetSettings
from ot_draft.verify.server.blocks import Tokens, stack
from ot_draft.verify.server.bound import Bound
from ot_draft.verify.server.past import Past, PastSettings, Seen
from ot_draft.verify.server.records import TOP, ListedMasses, Token, dense_row, top_row
from ot_draft.verify.server.wealth import Learner, Wealth, WealthSettings, in_context

from . import growth
from .chains import residual
from .growth import emitted, entropy_to, listed_alone, pairs
from .language import SAMPLERS

N = 12
BETS = Bets()
NONE = np.zeros(1)  # slack of one law


def laws(generator: np.random.Generator, count: int, n: int = N) -> Array:
    """Sharp ones and flat ones."""
    mass = generator.gamma(generator.choice([0.1, 0.4, 3.0], (count, 1)), size=(count, n)) + 1e-9
    return mass / mass.sum(1, keepdims=True)


def block(generator: np.random.Generator, listed: int, count: int = 60) -> Tokens:
    """Random tokens of three requests and two batches, with draft laws; listed < N: top tokens and the rest."""
    p, q = (
        laws(np.random.default_rng(9), 20)[generator.integers(20, size=count)],
        laws(generator, count),
    )  # laws come again
    known = {"request": generator.integers(3, size=count), "batch": generator.integers(2, size=count)}
    known["step_offset"] = generator.integers(-1, 6, size=count)
    token = generator.integers(N, size=count)
    if listed == N:
        return stack(Token.of_arrays(token, p, draft_probs=q, **known))
    rows = []
    for i in range(count):
        ids = np.argsort(-p[i])[:listed]
        own = float(p[i, token[i]])
        places = (int(known["request"][i]), -1, int(known["batch"][i]), int(known["step_offset"][i]))
        rows.append(Token(int(token[i]), top_row(ids, p[i][ids]), own, *places, q[i][ids]))
    return stack(rows)


def with_token(tokens: Tokens, token: int) -> Tokens:
    """The same laws, each with this token emitted."""
    fields = {name: getattr(tokens, name) for name in Tokens.__dataclass_fields__}
    return Tokens(**fields | {"token": np.full(len(tokens), token)})


def state(generator: np.random.Generator, listed: int) -> tuple[Past, Learner, Tokens, Seen]:
    """A past of several blocks, and one more block of which nothing is settled yet."""
    past, learner = Past(), Learner(len(BETS.scored))
    for _ in range(4):
        tokens = block(generator, listed)
        tokens = tokens.take(np.argsort(tokens.request, kind="stable"))
        seen = past.read(tokens)
        scored = BETS.scores(tokens, past, seen)
        learner.learn(tokens, scored, *scored.outcomes(tokens))
        past.learn(tokens, seen)
    last = block(generator, listed)
    last = last.take(np.argsort(last.request, kind="stable"))
    return past, learner, last, past.read(last)


def atoms(tokens: Tokens) -> list[tuple[Array, Tokens]]:
    """Every token that can come with its probability (T,): the listed ones by slot, and one that stands for the rest."""
    found = []
    for slot in range(tokens.mass.shape[1]):
        fields = {name: getattr(tokens, name) for name in Tokens.__dataclass_fields__}
        found.append((tokens.mass[:, slot], Tokens(**fields | {"token": tokens.ids[:, slot]})))
    return [*found, (tokens.residual_mass, with_token(tokens, 10**6))]


@pytest.mark.parametrize("listed", [N, 5, 1])
def test_every_bet_has_the_mean_that_it_says(listed: int) -> None:
    generator = np.random.default_rng(listed)
    past, learner, tokens, seen = state(generator, listed)
    means = np.zeros((len(tokens), len(BETS.placed)))
    combined, contexts = (
        np.zeros((len(tokens), len(WealthSettings.combined_precisions))),
        np.zeros((len(tokens), PastSettings().tilts)),
    )
    for mass, each in atoms(tokens):
        scored = BETS.scores(each, past, seen)
        sides = (scored.outcomes(each), BETS.overlaps(each, seen))
        y, m = (np.hstack(side) for side in zip(*sides, strict=True))
        assert np.all((y >= 0) & (y <= 1 + 1e-12))
        means += mass[:, None] * y
        score, centre, spread = learner.bet(each, scored, m[:, : len(BETS.scored)])
        combined += mass[:, None] * score
        tilt, tilt_centre, tilt_spread = in_context(each, past, seen, WealthSettings.reach)
        assert np.all(np.abs(tilt) <= WealthSettings.reach)
        contexts += mass[:, None] * tilt
    assert learner.weights.any()
    assert listed == 1 or m.any(axis=0).all(), "a bet that never applies is not tested"
    assert np.allclose(means, m, atol=1e-12)
    assert np.allclose(combined, centre, atol=1e-12)
    assert np.allclose(contexts, tilt_centre, atol=1e-12)
    assert contexts.any(axis=0).all()
    for share in (spread, tilt_spread):
        assert np.all((share > 0).any(axis=0)) and np.all(share <= WealthSettings.reach)


def test_suspects_earn_what_there_is_to_be_earned() -> None:
    """Scores of the two suspected errors against their laws from elsewhere; at the best tilt they grow by the relative entropy."""
    p, q = laws(np.random.default_rng(0), 200), laws(np.random.default_rng(1), 200)
    tokens = stack(Token.of_arrays(np.zeros(200, dtype=int), p, draft_probs=q))
    past = Past()
    scored, names = BETS.scores(tokens, past, past.read(tokens)), [bet.name for bet in BETS.scored]
    for name, (taken, refused, _) in (
        ("accepted too easily", (np.minimum(BetSettings.lenient_factor * p, q), residual(p, q), p)),
        ("noise of the draft", SAMPLERS["noise_again"](p, q)),
    ):
        law = np.take_along_axis(taken + (1 - taken.sum(1, keepdims=True)) * refused, tokens.ids, 1)
        mass = np.take_along_axis(p, tokens.ids, 1)
        y, stake = scored.listed[names.index(name)], np.expm1(WealthSettings.tilts[-1])
        assert np.all((np.abs(y - np.minimum(law / mass / 2, 1)) < 1e-6) | (mass < 1e-6))
        factor = (1 + stake * y) / (1 + stake * (mass * y).sum(1, keepdims=True))
        earned, most = (law * np.log(factor)).sum(1).mean(), entropy_to(law, mass).mean()
        assert 0.9 * most < earned <= most


def test_a_tolerance_covers_every_error_of_its_size() -> None:
    """The learner's bets, where all probabilities are off by a relative .1 in the directions that pay most."""
    generator = np.random.default_rng(6)
    past, learner, tokens, seen = state(generator, 5)
    learner.weights = 20 * learner.weights  # bold bets
    means, worst = 0.0, 0.0
    for mass, each in atoms(tokens):
        scored = BETS.scores(each, past, seen)
        y, m, spread = learner.bet(each, scored, scored.outcomes(each)[1])
        means, worst = means + mass[:, None] * y, worst + mass[:, None] * (y + 0.1 * np.abs(y))
    assert np.allclose(worst, means + 0.1 * spread)
    assert (spread > 0.01).any()
    wealth = Wealth(0.1)
    wealth.settle_learned((worst, m, spread), (0 * worst[:, :1], 0 * worst[:, :1], 0 * worst[:, :1]), NONE)
    assert np.all(wealth._combined <= 1e-9)


def test_the_wealth_is_fair_at_every_tilt() -> None:
    """The mean factor of every bet and tilt is 1; with a tolerance it is below."""
    generator = np.random.default_rng(1)
    past, _, tokens, seen = state(generator, 5)
    for tolerance in (0.0, 0.01):
        means = 0.0
        for mass, each in atoms(tokens.take(np.arange(1))):
            first = Seen(
                *(tuple(x[:1] for x in side) if type(side) is tuple else side[:1] for side in seen.__dict__.values())
            )
            scored = BETS.scores(each, past, first)
            sides = (scored.outcomes(each), BETS.overlaps(each, first))
            y, m = (np.hstack(side) for side in zip(*sides, strict=True))
            wealth = Wealth(tolerance)
            wealth.settle(y, m, np.zeros(1))
            means = means + mass[0] * np.exp(wealth._log)
        assert np.all(means <= 1 + 1e-12)
        assert np.allclose(means, 1, atol=1e-12) == (tolerance == 0)


def test_what_can_be_earned_at_most_on_real_laws() -> None:
    """Less by lists than by whole laws, less by texts, nothing where nothing is wrong."""
    p, q = pairs(1.0)
    assert 0.9 < growth.drafted(p, q) < 1 and np.allclose(emitted("right", p, q), p, atol=1e-12)
    for error in ("lenient", "noise_again"):
        b = emitted(error, p, q)
        whole, lists, texts = (
            entropy_to(b, p),
            entropy_to(listed_alone(b, p), listed_alone(p, p)),
            entropy_to(b, (b + p) / 2),
        )
        assert (
            np.all(lists <= whole + 1e-12) and np.all(texts <= whole + 1e-12) and lists.mean() > 2 * texts.mean() > 1e-4
        )


def test_settling_in_groups_is_settling_one_by_one() -> None:
    generator = np.random.default_rng(2)
    y, m = generator.random((100, len(BETS.placed))), generator.random((100, len(BETS.placed)))
    at_once, singly = Wealth(1e-4), Wealth(1e-4)
    at_once.settle(y, m, np.zeros(100))
    for i in range(100):
        singly.settle(y[[i]], m[[i]], np.zeros(1))
    assert np.allclose(at_once._log, singly._log)
    assert at_once.total == pytest.approx(singly.total)


def test_a_token_of_no_mass_is_worth_at_most_its_bound() -> None:
    """Mean factor 1 where the event has the largest mass that it can have."""
    m = 2.0**20 * 1e-15
    wealth = Wealth(0)
    wealth.settle_no_mass(np.array([True]), np.array([m]))
    there = np.exp(wealth._no_mass)
    wealth = Wealth(0)
    wealth.settle_no_mass(np.array([False]), np.array([m]))
    assert np.allclose(m * there + (1 - m) * np.exp(wealth._no_mass), 1, atol=1e-8)
    assert Wealth(0).total == pytest.approx(0)


def test_the_bound_holds_for_the_bias_that_there_is() -> None:
    """Texts drawn from laws with 2 % of a uniform law: the bound is above the bias of the sets, and close after many tokens."""
    generator = np.random.default_rng(3)
    table = laws(generator, 50)
    bound, distances = Bound(), []
    for _ in range(40):
        p = table[generator.integers(50, size=500)]
        drawn = 0.98 * p + 0.02 / N
        token = (drawn.cumsum(1) < generator.random(500)[:, None]).sum(1)
        bound.add(stack(Token.of_arrays(np.minimum(token, N - 1), p)), np.zeros(500))
        order = np.argsort(-p, axis=1)
        heads = np.take_along_axis(drawn - p, order, axis=1).cumsum(1)[:, [0, 1, 2, 4]]  # unions of cells by rank
        distances.append(heads.mean(0))
        assert bound.largest(0.999, 0) >= np.abs(np.mean(distances, axis=0)).max()
    assert bound.largest(0.999, 0) < 0.05
    assert bound.largest(0.9, 0) < bound.largest(0.999, 0) < bound.largest(0.999999, 0)


def cut(law: ListedMasses) -> tuple[np.ndarray, np.ndarray, float]:
    """The TOP most probable tokens in descending order, their probabilities, and that of all others."""
    order = np.lexsort((law.ids, -law.mass))[:TOP]
    mass = law.mass[order] / law.total
    return law.ids[order], mass, 0.0 if law.whole and law.size <= TOP else max(0.0, 1.0 - float(mass.sum()))


def test_a_large_vocabulary_is_cut_by_the_law_alone() -> None:
    generator = np.random.default_rng(4)
    law = generator.dirichlet(np.full(5000, 0.01))
    ids, mass, rest = cut(dense_row(law))
    order = np.argsort(-law, kind="stable")[: len(ids)]
    assert ids.tolist() == order.tolist() and np.allclose(mass, law[order])
    assert rest == pytest.approx(1 - law[order].sum())
    small, _, nothing = cut(dense_row(law[:20] / law[:20].sum()))
    assert nothing == 0 and len(small) == 20


def test_rows_of_all_lengths_become_one_block() -> None:
    """Each row sorted and padded as it would be alone; a law of more tokens than are kept, one with a draft law, one without."""
    generator = np.random.default_rng(8)
    rows = []
    for size, drafted, whole in ((3, True, True), (100, False, False), (7, False, False), (80, True, True)):
        law, ids = generator.dirichlet(np.ones(size)), generator.permutation(500)[:size]
        mass = law if whole else 0.9 * law
        draft = law[::-1].copy() if drafted else None
        rows.append(Token(int(ids[0]), top_row(ids, mass, whole), np.nan, 1, 2, 3, 4, draft))
    block = stack(rows)
    for row, (slot, added) in enumerate(zip(block.slot, rows, strict=True)):
        ids, mass, rest = cut(added.law)
        assert block.ids[row, : len(ids)].tolist() == ids.tolist() and set(block.ids[row, len(ids) :]) <= {-1}
        assert np.allclose(block.mass[row, : len(ids)], mass) and not block.mass[row, len(ids) :].any()
        assert block.residual_mass[row] == pytest.approx(rest, abs=1e-12)
        assert slot == (ids.tolist().index(added.token) if added.token in ids.tolist() else -1)
        if added.draft is None:
            assert np.isnan(block.draft[row]).all() and np.isnan(block.draft_residual_mass[row])
        else:
            q = dict(zip(added.law.ids.tolist(), added.draft.tolist(), strict=True))
            assert block.draft[row, : len(ids)].tolist() == [q[x] for x in ids.tolist()]
            assert block.draft_residual_mass[row] == pytest.approx(1 - sum(q[x] for x in ids.tolist()), abs=1e-12)


def test_requests_that_are_added_together_are_told_apart() -> None:
    """The token before, and the other request's token at the position, whatever the order of the rows."""
    p = np.full((6, 3), 1 / 3)
    token, request = np.array([0, 1, 2, 0, 1, 2]), np.array([7, 9, 7, 9, 7, 9])
    tokens = stack(Token.of_arrays(token, p, request=request))
    tokens = tokens.take(np.argsort(tokens.request, kind="stable"))
    past = Past()
    seen = past.read(tokens)
    assert tokens.token.tolist() == [0, 2, 1, 1, 0, 2]
    assert seen.before[:, -1].tolist() == [-2, 0, 2, -2, 1, 0]
    assert seen.same[:, -1].tolist() == [-2, -2, -2, 0, 2, 1] and (seen.same[:, :-1] == -2).all()
    again = past.read(tokens)
    assert again.before[:, -1].tolist() == [1, 0, 2, 2, 1, 0]
    assert np.allclose(seen.previous[1:3, 0], tokens.by_rank[0][:2])
