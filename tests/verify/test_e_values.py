"""The tests behind check_sampler: e-values have mean 1 exactly, stated error probabilities and powers hold."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import pairwise, product
from math import log, prod
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ot_draft.verify.e_values import (
    CONCENTRATIONS,
    MISS,
    chi_square,
    log_bet,
    log_bets,
    log_dirichlet_mixture,
    log_e_value,
    missed,
    smallest_distance,
)

NEVER = 1e-9  # probability that a test here fails by chance
P = [F(1, 2), F(1, 3), F(1, 6)]


def rising(x: Any, count: int) -> Any:
    """x (x + 1) ... (x + count - 1)."""
    return prod((x + i for i in range(count)), start=F(1))


def ratio(counts: Any, law: Any, c: Any) -> Any:
    """Likelihood ratio of a sequence with these counts, term by term: Dirichlet(c law) against the law, in Fractions."""
    mixed = prod((rising(c * p, int(m)) for p, m in zip(law, counts, strict=True)), start=F(1))
    return mixed / rising(c, int(sum(counts))) / prod(p ** int(m) for p, m in zip(law, counts, strict=True))


def slow_e_value(counts: Any, law: Any) -> Any:
    return sum(ratio(counts, law, F(c)) for c in CONCENTRATIONS) / len(CONCENTRATIONS)


def slow_e_value_of_pairs(counts: Any, law: Any) -> Any:
    return sum(prod(ratio(row, law, F(c)) for row in counts) for c in CONCENTRATIONS) / len(CONCENTRATIONS)


def counts_of(sequence: Any, n: int) -> Any:
    return np.bincount(np.array(sequence, dtype=int), minlength=n)


def transitions(sequence: Any, n: int) -> Any:
    counts = np.zeros((n, n), dtype=int)
    for before, after in pairwise(sequence):
        counts[before, after] += 1
    return counts


@pytest.mark.parametrize(("tally", "e_value"), [(counts_of, slow_e_value), (transitions, slow_e_value_of_pairs)])
@pytest.mark.parametrize("law", [P, [F(1, 2), F(1, 2)]], ids=str)
def test_an_e_value_has_mean_1_and_is_a_martingale(tally: Any, e_value: Any, law: list[F]) -> None:
    """All sequences of length 4, in Fractions; then, given any three outcomes, the mean of the next value is the value."""
    n = len(law)

    def value(sequence: Any) -> Any:
        return e_value(tally(sequence, n), law)

    chances = {each: prod(law[x] for x in each) for each in product(range(n), repeat=4)}
    assert sum(chance * value(each) for each, chance in chances.items()) == 1
    for start in product(range(n), repeat=3):
        assert sum(law[x] * value((*start, x)) for x in range(n)) == value(start)


def test_the_fast_e_values_are_the_exact_ones() -> None:
    law = np.array(P, dtype=float)
    for counts in [c for c in product(range(5), repeat=3) if sum(c) <= 6] + [(300, 20, 10), (0, 0, 900)]:
        exact = slow_e_value(counts, P)
        assert abs(float(log_e_value(np.array(counts), law)) - log_of(exact)) < 1e-9
    table = np.array([[3, 0, 1], [0, 2, 0], [40, 1, 0]])
    exact = slow_e_value_of_pairs(table, P)
    assert abs(float(log_dirichlet_mixture(table, law)) - log_of(exact)) < 1e-9
    assert log_e_value(np.zeros(3), law) == pytest.approx(0, abs=1e-12)


def log_of(exact: F) -> float:
    return log(exact.numerator) - log(exact.denominator)


def test_e_values_of_a_batch_are_those_of_its_rows_and_mass_0_is_proof() -> None:
    generator = np.random.default_rng(1)
    laws = generator.dirichlet(np.ones(4), 5)
    laws[0, 1] = 0
    laws /= laws.sum(-1, keepdims=True)
    counts = generator.multinomial(50, laws)
    together = log_e_value(counts, laws)
    assert [float(log_e_value(c, p)) for c, p in zip(counts, laws, strict=True)] == pytest.approx(together)
    counts[0, 1] = 1
    assert log_e_value(counts, laws)[0] == np.inf


def longest_run(law: Any, drawn_by: Any, runs: int, steps: int, generator: np.random.Generator) -> Any:
    """Largest log e-value on the way, looked at after every 5 outcomes: (runs,)."""
    outcomes = (generator.random((runs, steps, 1)) >= np.cumsum(drawn_by)[:-1]).sum(-1)
    counts = (outcomes[..., None] == np.arange(len(law))).cumsum(1)[:, 4::5]
    return log_e_value(counts, np.broadcast_to(law, counts.shape)).max(-1)


def test_false_alarms_are_as_rare_as_stated_and_small_deviations_are_found() -> None:
    """At an error probability of 0.05, looked at 40 times on the way; the bound fails a right test once in 10^9."""
    law, generator = np.array([0.5, 0.3, 0.2]), np.random.default_rng(2)
    alarms = int((longest_run(law, law, 3000, 200, generator) >= np.log(20)).sum())
    assert 0 < alarms <= stats.binom.isf(NEVER, 3000, 0.05)
    assert (longest_run(law, [0.2, 0.3, 0.5], 300, 200, generator) >= np.log(20)).all()


def test_chi_square_p_values_are_uniform() -> None:
    law, generator = np.array([0.4, 0.3, 0.2, 0.1]), np.random.default_rng(3)
    values = np.array([chi_square(generator.multinomial(500, law), law) for _ in range(2000)])
    assert stats.kstest(values, "uniform").pvalue > 1e-6  # counts are whole: not exactly uniform
    for level in (0.05, 0.5):
        assert (
            stats.binom.isf(1 - NEVER, 2000, level) * 0.9
            <= (values <= level).sum()
            <= stats.binom.isf(NEVER, 2000, level) * 1.1
        )


def test_chi_square_is_scipys_pools_rare_cells_and_is_exact_for_two() -> None:
    counts, law = np.array([30, 40, 30]), np.array([0.25, 0.5, 0.25])
    assert chi_square(counts, law) == pytest.approx(stats.chisquare(counts, 100 * law).pvalue)
    rare = np.array([0.02, 0.02, 0.02, 0.47, 0.47])
    assert chi_square(np.array([1, 2, 6, 45, 46]), rare) == pytest.approx(
        stats.chisquare([9, 45, 46], [6, 47, 47]).pvalue
    )
    few = np.array([0.5, 0.5])
    assert chi_square(np.array([10, 0]), few) == pytest.approx(2 / 2**10)
    assert chi_square(np.array([3, 1]), few) == 1.0  # too few for any cell
    assert chi_square(np.array([7, 0]), np.array([1.0, 0.0])) == 1.0


@pytest.mark.parametrize(("cells", "samples"), [(2, 4000), (6, 500), (6, 20_000), (30, 4000)])
def test_the_power_is_what_the_formula_says(cells: int, samples: int) -> None:
    """The law at the stated distance that is hardest to find, equal shifts up and down, is found as often as stated."""
    law, limit, runs = np.full(cells, 1 / cells), 1e11, 2000
    distance = smallest_distance(samples, cells, 1 / limit)
    off = law + distance * 2 / cells * np.where(np.arange(cells) < cells / 2, 1, -1)
    counts = np.random.default_rng(4).multinomial(samples, off, size=runs)
    found = int((log_e_value(counts, np.broadcast_to(law, counts.shape)) >= np.log(limit)).sum())
    assert stats.binom.ppf(NEVER, runs, 1 - MISS - 0.001) <= found
    near = law + (off - law) / 2
    counts = np.random.default_rng(5).multinomial(samples, near, size=runs)
    seldom = int((log_e_value(counts, np.broadcast_to(law, counts.shape)) >= np.log(limit)).sum())
    assert seldom <= stats.binom.isf(NEVER, runs, 1 - missed(distance / 2, samples, cells, 1 / limit) + 0.02)


def test_more_samples_show_smaller_distances() -> None:
    found = [smallest_distance(samples, 6, 1e-11) for samples in (1, 100, 1000, 10_000, 100_000)]
    assert found == sorted(found, reverse=True) and found[0] == 1.0 and 0 < found[-1] < 0.021
    assert missed(found[-1], 100_000, 6, 1e-11) == pytest.approx(MISS)
    assert smallest_distance(10, 1, 1e-9) == 0.0  # a single possible outcome: any other is proof
    assert smallest_distance(0, 6, 1e-9) == 1.0


@pytest.mark.parametrize("tokens", [1, 31, 200])
def test_the_fast_bets_are_sums_of_single_ones_and_have_mean_1(tokens: int) -> None:
    generator = np.random.default_rng(tokens)
    y, m = generator.random((2, tokens, 3))
    c = np.array([0.01, 5.0, 100.0, -0.01, -0.5, -0.99])
    slow = log_bet(y, m, c[:, None, None]).sum(1)
    np.testing.assert_allclose(log_bets(y, m, m, c, c), slow, rtol=1e-12, atol=1e-12)
    above, below = np.minimum(m + 0.1, 1), np.maximum(m - 0.1, 0)
    slow = np.concatenate([log_bet(y, above, c[:3, None, None]).sum(1), log_bet(y, below, c[3:, None, None]).sum(1)])
    np.testing.assert_allclose(log_bets(y, above, below, c, c), slow, rtol=1e-12, atol=1e-12)
    expected = m * np.exp(log_bet(1, m, c[:, None, None])) + (1 - m) * np.exp(log_bet(0, m, c[:, None, None]))
    np.testing.assert_allclose(expected, 1, rtol=1e-12)
