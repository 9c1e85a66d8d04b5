"""Set probabilities without replacement: the sum over sets is exact, the quadrature agrees with an independent sum."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction as F
from functools import partial
from itertools import permutations
from math import perm

import numpy as np
import pytest
from random_problems import fractions, random_masses

import ot_draft as otd
from ot_draft.laws import probability_inside
from ot_draft.laws.without_replacement import prefixes

inside = partial(probability_inside, otd.WithoutReplacement())


def by_decimals(q: np.ndarray, k: int) -> np.ndarray:
    """P(all k drafts among the first i tokens), by going through all drawn sets with 60 digits. q > 0 throughout."""
    n = len(q)
    with localcontext() as context:
        context.prec = 60
        mass = [Decimal(float(x)) for x in q]
        whole = sum(mass)
        mass = [x / whole for x in mass]
        layer = {0: Decimal(1)}  # bit mask of the drawn tokens -> probability
        for _ in range(k):
            following: dict[int, Decimal] = {}
            for drawn, chance in layer.items():
                left = sum(mass[y] for y in range(n) if not drawn >> y & 1)
                for y in range(n):
                    if not drawn >> y & 1:
                        key = drawn | 1 << y
                        following[key] = following.get(key, Decimal(0)) + chance * mass[y] / left
            layer = following
        return np.array([float(sum(c for drawn, c in layer.items() if drawn < 1 << i)) for i in range(n + 1)])


def heavy_tailed(generator: np.random.Generator, n: int, floor: float) -> np.ndarray:
    x = np.maximum(generator.dirichlet(np.full(n, 0.1)), floor)
    return x / x.sum()


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 10])
@pytest.mark.parametrize("floor", [1e-3, 1e-12, 1e-30, 1e-310])
def test_quadrature_against_the_sum_over_sets(k: int, floor: float) -> None:
    generator = np.random.default_rng([14, k])
    for n in (k + 1, 11):
        q = heavy_tailed(generator, n, floor)
        for order in (np.argsort(q), np.argsort(-q), generator.permutation(n)):
            assert np.abs(prefixes(q[order], k) - by_decimals(q[order], k)).max() <= 1e-9


def test_subnormal_masses() -> None:
    """Two masses of 5e-324 beside two of 1/2: the third draft is either of them."""
    q = np.array([0.5, 0.5, 5e-324, 5e-324])
    assert np.abs(prefixes(q, 3) - [0, 0, 0, 0.5, 1]).max() <= 1e-9
    assert np.abs(prefixes(q[::-1], 3) - [0, 0, 0, 0, 1]).max() <= 1e-9


def test_quadrature_on_even_masses() -> None:
    """With equal masses every set of k is as likely: P = C(i, k) / C(n, k). The narrow peak of many drafts is the hardest."""
    for n, k in ((4, 2), (50, 3), (100, 8), (1000, 8), (100, 10), (1000, 14), (1000, 15)):
        members = np.arange(n + 1)
        exact = np.ones(n + 1)
        for j in range(k):
            exact *= np.maximum(members - j, 0) / (n - j)
        assert np.abs(prefixes(np.full(n, 1 / n), k) - exact).max() <= (1e-9 if k <= 10 else 1e-8)


def test_the_sum_over_sets_is_exact() -> None:
    generator = np.random.default_rng(15)
    for n in (1, 2, 3, 4, 5):
        for k in range(n + 2):
            q = random_masses(generator, n)
            found = prefixes(q, k)
            law, drawn = otd.WithoutReplacement(), min(n, k)
            orders = np.array(list(permutations(range(n), drawn)), dtype=np.int64).reshape(perm(n, drawn), drawn)
            chance = law.probability(q, np.pad(orders, ((0, 0), (0, k - drawn)), constant_values=-1))
            assert chance.sum() == 1
            for i in range(n + 1):
                assert found[i] == chance[(orders < i).all(-1)].sum()


def test_floats_agree_with_fractions_where_q_runs_out() -> None:
    generator = np.random.default_rng(16)
    for n, k in ((3, 2), (4, 3), (5, 4), (6, 3), (6, 6), (5, 9)):
        first, last = np.eye(n, dtype=int)[[0, -1]]
        for counts in (last, 2 * first + last, generator.integers(0, 2, n) + first):
            q = fractions(counts)
            for token_set in generator.random((8, n)) < 0.7:
                exact = inside(q, token_set, k)
                assert abs(inside(q.astype(float), token_set, k) - float(exact)) <= 1e-9


def test_prefix_probabilities_rise_from_zero_to_one() -> None:
    generator = np.random.default_rng(17)
    logits = generator.normal(0, 4, 20_000)
    q = np.exp(logits) / np.exp(logits).sum()
    found = prefixes(q, 4)
    assert found[0] == 0 and found[-1] == 1 and (np.diff(found) >= -1e-9).all()
    assert (found[:4] == 0).all() or found[:4].max() <= 1e-9
    some = np.arange(20_000) < 12_345
    assert abs(inside(q, some, 4) - found[12_345]) <= 1e-12


def test_too_many_sets_are_refused_with_the_remedy() -> None:
    with pytest.raises(
        otd.InvalidArgument,
        match=r"for over 200000 draft sets, got Fractions and \d+ sets of 6 among 40 tokens\. Convert",
    ):
        prefixes(np.full(40, F(1, 40), dtype=object), 6)
