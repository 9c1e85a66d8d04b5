"""Sampling: frequencies follow the exact laws, tokens of mass 0 never appear, and all randomness is the generator's."""

from __future__ import annotations

from fractions import Fraction as F
from functools import cache
from typing import Any

import numpy as np
import pytest
from random_problems import fits, fractions
from scipy import stats
from slow import slow

import ot_draft as otd
from ot_draft.arrays import inverse_cdf
from ot_draft.sampling import choose, uniforms

FALSE_ALARM = 1e-9
DRAWS, FEWER = 100_000, 20_000  # fewer where rules select
P, Q = fractions([0, 16, 8, 24, 10, 6]), fractions([20, 4, 17, 1, 22, 0])  # dyadic: floats hold them exactly


def generator_of(kind: Any, seed: int) -> Any:
    if kind.is_torch:
        import torch

        return torch.Generator().manual_seed(seed)
    return np.random.default_rng(seed)


def plausible(outcomes: Any, law: Any) -> bool:
    """Chi-square test of outcomes 0 .. n - 1 against a law; outcomes of probability 0 must not occur at all."""
    expected = np.asarray(law, dtype=np.float64) * np.size(outcomes)
    seen = np.bincount(np.asarray(outcomes).ravel(), minlength=len(expected))
    possible = expected > 1e-9
    statistic = ((seen - expected)[possible] ** 2 / expected[possible]).sum()
    return bool(not seen[~possible].any() and statistic <= stats.chi2.isf(FALSE_ALARM, max(1, possible.sum() - 1)))


@pytest.mark.parametrize(("draws", "distance"), [(DRAWS, F(2, 100)), (FEWER, F(45, 1000))])
def test_the_power_of_the_chi_square_test(draws: int, distance: F) -> None:
    """A law that is 2 % off in total variation passes less than once in 10,000 times; with fewer draws 4.5 %.

    The noncentrality is draws sum d^2 / p, at least draws (sum |d|)^2 = draws (2 TV)^2.
    """
    threshold = stats.chi2.isf(FALSE_ALARM, len(P) - 1)
    assert stats.ncx2.cdf(threshold, len(P) - 1, draws * (2 * float(distance)) ** 2) < 1e-4
    off = (P + np.array([0, 1, -1, 0, 0, 0]) * distance).astype(float)
    assert not plausible(np.random.default_rng(0).choice(len(P), draws, p=off), P)


@cache
def evaluated(rule: otd.SelectionRule, k: int) -> Any:
    return otd.evaluate(rule, otd.Problem(P, Q, k, rule.law))


@pytest.mark.parametrize("draws", [FEWER, slow(DRAWS)])
@pytest.mark.parametrize("rule", otd.rules.ALL, ids=lambda rule: rule.name)
def test_tokens_and_positions_follow_the_exact_law(rule: otd.SelectionRule, draws: int, floats: Any) -> None:
    k = 3 if fits(rule.law, 3) else 2
    p, q, generator = floats.make(P), floats.make(Q), generator_of(floats, 61)
    drafts = rule.law.draw(q, uniforms((draws, k), q, generator))
    token, position = otd.sample(rule, p, q, drafts, generator)
    assert tuple(token.shape) == tuple(position.shape) == (draws,)
    exact = evaluated(rule, k)
    accept = exact.accept.astype(float)
    token, position, drafts = (np.asarray(x) for x in (token, position, drafts))
    assert plausible(token, P)
    assert plausible(position + 1, [1 - accept.sum(), *accept])
    taken = position >= 0
    assert (token[taken] == drafts[taken, position[taken]]).all()
    assert plausible((drafts == token[:, None]).any(-1).astype(int), [1 - exact.acceptance, exact.acceptance])


@pytest.mark.parametrize("law", [otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=1), otd.SpecHubLaw()], ids=repr)
def test_drafts_follow_their_law(law: otd.DraftLaw, floats: Any) -> None:
    q = floats.make(Q)
    drafts = np.asarray(law.draw(q, uniforms((DRAWS, 2), q, generator_of(floats, 62))))
    pairs = np.array([(a, b) for a in range(6) for b in range(6)])
    assert plausible(drafts @ [6, 1], law.probability(Q, pairs))


def test_drawing_is_by_row(valued: Any) -> None:
    q = valued.make(fractions([[0, 1, 0], [0, 0, 1]]))
    drafts = otd.draw(otd.IID(), q, 2, generator_of(valued, 63))
    assert np.asarray(drafts).tolist() == [[1, 1], [2, 2]]
    token, position = otd.sample(otd.rules.KSeq(), q, q, drafts, generator_of(valued, 63))
    assert np.asarray(token).tolist() == [1, 2] and np.asarray(position).tolist() == [0, 0]


def test_without_drafts_the_target_is_sampled(valued: Any) -> None:
    p = valued.make(fractions([0, 1, 0]))
    token, position = otd.sample(otd.rules.KSeq(), p, p, valued.tokens(np.zeros((5, 0))), generator_of(valued, 64))
    assert np.asarray(token).tolist() == [1] * 5 and np.asarray(position).tolist() == [-1] * 5


def test_extreme_uniforms_never_choose_mass_zero(valued: Any) -> None:
    """At u = 0 and at the largest u below 1: no token and no position of probability 0."""
    last = 1 - F(1, 1 << (24 if valued.name == "torch float32" else 53))
    ends = np.array([[a, b] for a in (F(0), last) for b in (F(0), last)], dtype=object)
    drafts = valued.tokens([[0, 3, 0, 5]] * 4)
    for accept, positions in (
        ([F(0), F(1, 3), F(0), F(0)], [1, 1, -1, -1]),
        ([F(0), F(1, 3), F(0), F(2, 3)], [1, 1, 3, 3]),
        ([F(0)] * 4, [-1] * 4),
        ([F(1), F(0), F(0), F(0)], [0] * 4),
    ):
        rows = [np.array([row] * 4, dtype=object) for row in (accept, [F(0), F(0), F(1, 7), F(0), F(6, 7), F(0)])]
        token, position = choose(otd.Selection(*(valued.make(x) for x in rows)), drafts, valued.make(ends))
        if valued.exact or sum(accept) != 1:  # in floats, 1/3 + 2/3 may be rounded to below the last uniform
            assert np.asarray(position).tolist() == positions
        fresh = [2, 4, 2, 4]
        chosen = [fresh[i] if x < 0 else [0, 3, 0, 5][x] for i, x in enumerate(np.asarray(position).tolist())]
        assert np.asarray(token).tolist() == chosen


@pytest.mark.parametrize("n", [1, 2, 1000, 4095, 4096, 4097, 8191, 151_936, 151_937])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_inverse_cdf_is_searchsorted(n: int, dtype: Any) -> None:
    """Across block sizes; whole masses, so that sums are exact in any order. 8191 is a prime, 151,937 has no fit divisor."""
    generator = np.random.default_rng([65, n])
    mass = (generator.integers(0, 6, (2, n)) * (generator.random((2, n)) < 0.5)).astype(dtype)
    mass[:, n // 2] += 1
    uniform = (generator.integers(0, 1 << 20, (2, 300)) / (1 << 20)).astype(dtype)
    uniform[:, 0], uniform[:, 1] = 0, 1 - np.finfo(dtype).epsneg
    found = inverse_cdf(mass, uniform)
    for row in range(2):
        cumulative = np.cumsum(mass[row], dtype=dtype)
        target = np.minimum(uniform[row] * cumulative[-1], np.nextafter(cumulative[-1], dtype(0)))
        assert found[row].tolist() == np.searchsorted(cumulative, target, side="right").tolist()
    assert (np.take_along_axis(mass, found, -1) > 0).all()
    if (torch := pytest.importorskip("torch")) is not None:
        assert inverse_cdf(torch.tensor(mass), torch.tensor(uniform)).tolist() == found.tolist()


@pytest.mark.parametrize("n", [3, 9000, 10_007])
def test_inverse_cdf_of_no_rows(n: int) -> None:
    nothing = np.zeros((0, n))
    assert inverse_cdf(nothing, np.zeros((0, 2))).shape == (0, 2)
    torch = pytest.importorskip("torch")
    assert tuple(inverse_cdf(torch.tensor(nothing), torch.zeros(0, 2)).shape) == (0, 2)


def test_inverse_cdf_of_fractions_is_exact_across_blocks() -> None:
    mass = fractions(np.random.default_rng(66).integers(0, 3, 5000))
    cumulative = np.cumsum(mass)
    uniform = np.append(cumulative[[10, 999, 1024, 4998]], [F(0), 1 - F(1, 10**30)]) * F(1)
    uniform = np.minimum(uniform, 1 - F(1, 10**30))
    assert inverse_cdf(mass, uniform).tolist() == [int((cumulative <= u).sum()) for u in uniform]


@pytest.mark.parametrize("rule", [otd.rules.KSeq(), otd.rules.Greedy()], ids=lambda rule: rule.name)
def test_all_randomness_is_the_generators(rule: otd.SelectionRule, valued: Any) -> None:
    p, q = (valued.make(np.broadcast_to(x, (200, 6))) for x in (P, Q))

    def run(seed: int) -> list[Any]:
        generator = generator_of(valued, seed)
        drafts = otd.draw(rule.law, q, 2, generator)
        first, second = (otd.sample(rule, p, q, drafts, generator) for _ in range(2))
        assert np.asarray(first[0]).tolist() != np.asarray(second[0]).tolist()  # fresh at every call
        return [np.asarray(x).tolist() for x in (drafts, *first, *second)]

    before = global_states(valued)
    assert run(67) == run(67) != run(68)
    assert global_states(valued) == before


def global_states(kind: Any) -> str:
    state = np.random.get_state()[1].tobytes().hex()  # noqa: NPY002  # that it is left alone is the point
    if kind.is_torch:
        import torch

        state += str(torch.get_rng_state().tolist())
    return state


def test_uniforms_are_below_one_and_of_the_right_type(kind: Any) -> None:
    drawn = uniforms((1000, 2), kind.make([F(1)]), None if kind.meta else generator_of(kind, 69))
    assert tuple(drawn.shape) == (1000, 2)
    if not kind.meta:
        values = kind.back(drawn)
        assert (values >= 0).all() and (values < 1).all() and len(set(values.ravel().tolist())) > 1900
        assert drawn.dtype == kind.make([F(1)]).dtype
