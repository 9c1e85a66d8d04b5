"""The optimum: equal to brute force over all token sets, certified by the set it returns, exact at a real vocabulary's size."""

from __future__ import annotations

from fractions import Fraction as F
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np
import pytest
from random_problems import LAWS, all_token_sets, fits, fractions, random_masses, random_pair
from slow import slow

import ot_draft as otd
from ot_draft import optimum
from ot_draft.laws import set_probabilities

ALL_LAWS = pytest.mark.parametrize("law", LAWS, ids=repr)


@ALL_LAWS
def test_equal_to_the_smallest_cut_of_all(law: otd.DraftLaw) -> None:
    generator = np.random.default_rng(18)
    for n, k in ((1, 2), (2, 2), (3, 1), (4, 2), (5, 3), (6, 2), (8, 2), (3, 7), (4, 0)):
        if fits(law, k):
            for _ in range(2):
                problem = otd.Problem(*random_pair(generator, n), k, law)
                alpha, token_set = otd.optimal_cut(problem.p, problem.q, k, law)
                assert alpha == min(otd.cut_value(problem, s) for s in all_token_sets(n))
                assert (
                    alpha == otd.cut_value(problem, token_set) == otd.optimal_acceptance(problem.p, problem.q, k, law)
                )
                assert token_set.shape == (n,) and token_set.dtype == bool and 0 <= alpha <= 1


@ALL_LAWS
def test_a_batch_is_each_row_alone(law: otd.DraftLaw) -> None:
    generator = np.random.default_rng(19)
    p, q = random_masses(generator, 5, 12, (3, 2)), random_masses(generator, 5, 60, (3, 2))
    alpha, sets = otd.optimal_cut(p, q, 2, law)
    assert alpha.shape == (3, 2) and sets.shape == (3, 2, 5)
    for row in np.ndindex(3, 2):
        assert alpha[row] == otd.optimal_acceptance(p[row], q[row], 2, law)
    assert (otd.cut_value(otd.Problem(p, q, 2, law), sets) == alpha).all()


@ALL_LAWS
def test_every_kind_agrees_with_fractions(kind: Any, law: otd.DraftLaw) -> None:
    if kind.meta and law == otd.WithoutReplacement():
        pytest.skip("its quadrature runs in numpy, on the host: it needs values")
    generator = np.random.default_rng(20)
    p, q = (random_masses(generator, 6, 256, (8,)) for _ in range(2))
    exact, sets = otd.optimal_cut(p, q, 2, law)
    alpha, found = otd.optimal_cut(kind.make(p), kind.make(q), 2, law)
    assert kind.agrees(alpha, exact)
    if not kind.meta:  # which of several optimal sets comes out may differ: each must have the optimum's value
        again = otd.cut_value(otd.Problem(p, q, 2, law), np.asarray(found))
        assert kind.agrees(kind.make(again), exact)
    assert tuple(found.shape) == sets.shape


@ALL_LAWS
def test_heavy_tails_in_floats(law: otd.DraftLaw) -> None:
    """Masses down to 1e-12 and below: the floats' optimum is that of the same numbers in rational arithmetic."""
    generator = np.random.default_rng(21)
    for n, k in ((3, 2), (5, 2), (7, 3), (7, 5)):
        if fits(law, k):
            p, q = (np.maximum(generator.dirichlet(np.full(n, 0.1)), 1e-14) for _ in range(2))
            p, q = p / p.sum(), q / q.sum()
            exact = [np.array([F(v) for v in x.tolist()], dtype=object) for x in (p, q)]
            alpha = otd.optimal_acceptance(*(x / x.sum() for x in exact), k, law)
            assert abs(otd.optimal_acceptance(p, q, k, law) - float(alpha)) <= 1e-9


@pytest.mark.parametrize("law", [otd.IID(), otd.WithoutReplacement()], ids=repr)
def test_never_falls_with_k(law: otd.DraftLaw) -> None:
    generator = np.random.default_rng(22)
    for n in (1, 2, 4, 6):
        for _ in range(4):
            p, q = random_pair(generator, n)
            values = [otd.optimal_acceptance(p, q, k, law) for k in range(8)]
            assert values[0] == 0 and values == sorted(values) and values[-1] <= 1
            if isinstance(law, otd.IID):  # the limit is the mass of p that can be drafted at all
                assert p[q > 0].sum() - F(1, 2) <= otd.optimal_acceptance(p, q, 500) <= p[q > 0].sum()


@pytest.mark.parametrize("n", [4_000, slow(16_000), slow(151_936)])
def test_exact_at_the_size_of_a_real_vocabulary(n: int) -> None:
    """16 classes of tokens of equal ratio p/q. A class behaves as one token, which brute force can do."""
    generator = np.random.default_rng(23)
    classes, k = 16, 3
    target, draft = generator.integers(1, 60, (2, classes))
    label, shares = np.arange(n) % classes, generator.integers(1, 5, n)  # a token's class, and its part of the class
    p, q = fractions(target[label] * shares), fractions(draft[label] * shares)
    alpha, token_set = otd.optimal_cut(p, q, k)
    p_class, q_class = (fractions(x * np.bincount(label, shares).astype(np.int64)) for x in (target, draft))
    assert type(alpha) is F and alpha == 1 + min(
        p_class[s].sum() - q_class[s].sum() ** k for s in all_token_sets(classes)
    )
    assert alpha == 1 + p[token_set].sum() - q[token_set].sum() ** k
    assert 0 < token_set.sum() < n and alpha < F(999, 1000)


def hard_pairs(generator: np.random.Generator, n: int) -> dict[str, tuple[Any, Any]]:
    """Masses p, q (n,) by what is hard about them: for a search by classes of nearly equal p/q, whose cut must be found inside one."""
    near, wide, other = (np.exp(generator.normal(0, scale, n)) for scale in (0.1, 3.0, 2.0))
    holes = np.where(generator.random((2, n)) < 0.6, 0, (wide, near)) + np.eye(2, n)
    return {
        "apart": (wide * other, wide),
        "nearly equal": (wide * near, wide),
        "one class": (wide * (1 + 1e-6 * near), wide),
        "equal": (wide, wide),
        "zeros": (holes[0], holes[1]),
        "ties": (generator.integers(1, 9, n), generator.integers(1, 9, n)),
        "nearly all in a few": tuple(generator.dirichlet(np.full(n, 0.01), 2)),
    }


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("k", [0, 1, 2, 8, 40])
def test_without_a_sort_it_is_what_it_is_with_one(k: int, dtype: str) -> None:
    """To the last bit, but where another set has the same value up to rounding."""
    generator = np.random.default_rng(k)
    for n in (2, 60, 3_000):
        for name, masses in hard_pairs(generator, n).items():
            p, q = ((x / x.sum()).astype(dtype) for x in map(np.asarray, masses))
            problem = otd.Problem(p, q, k, otd.IID())
            sought, of_all = (
                optimum._of_set(problem, chosen)
                for chosen in (optimum._by_classes(p, q, k), optimum._prefix(*optimum._least_cut(problem)[1:]))
            )
            assert sought == of_all or (abs(sought - of_all) <= 2e-15 and name != "apart"), (name, n)


@pytest.mark.parametrize(("rows", "ks"), [(1, (4,)), slow(16, (1, 2, 4, 8))])
def test_on_a_real_vocabulary_it_is_that_of_a_sort_to_the_last_bit(rows: int, ks: tuple[int, ...]) -> None:
    """Laws about as far apart as those of two language models, as in tests/bench."""
    generator = np.random.default_rng(29)
    logits = generator.normal(0, 3, (rows, 151_936))
    masses = np.exp([logits, logits + generator.normal(0, 1, logits.shape)])
    p, q = (masses / masses.sum(-1, keepdims=True)).astype(np.float32)
    for k in ks:
        problem = otd.Problem(p, q, k, otd.IID())
        of_all = optimum._prefix(*optimum._least_cut(problem)[1:])
        assert (otd.optimal_acceptance(p, q, k) == optimum._of_set(problem, of_all)).all()


def test_without_a_sort_it_is_that_of_fractions() -> None:
    generator = np.random.default_rng(26)
    for name, masses in hard_pairs(generator, 2_000).items():
        p, q = (fractions(np.asarray(np.ceil(x / np.max(x) * 2**30), dtype=np.int64)) for x in masses)
        exact = float(otd.optimal_acceptance(p, q, 3))
        alpha, chosen = otd.optimal_cut(p.astype(np.float64), q.astype(np.float64), 3)
        assert (
            abs(alpha - exact) <= 1e-12 and abs(otd.cut_value(otd.Problem(p, q, 3, otd.IID()), chosen) - exact) <= 1e-12
        ), name


def test_a_batch_without_a_sort_is_each_row_alone() -> None:
    p, q = np.random.default_rng(27).dirichlet(np.full(2_000, 0.3), (2, 3, 2))
    alpha, chosen = otd.optimal_cut(p, q, 4)
    assert alpha.shape == (3, 2) and chosen.shape == (3, 2, 2_000)
    for row in np.ndindex(3, 2):
        assert alpha[row] == otd.optimal_acceptance(p[row], q[row], 4)
    alpha, chosen = otd.optimal_cut(p[:, :0], q[:, :0], 4)
    assert alpha.shape == (3, 0) and chosen.shape == (3, 0, 2_000)


def test_rounding_leads_to_no_acceptance_above_1() -> None:
    """Where p is nearly q: of these pairs every tenth had 1 + 2e-16."""
    generator = np.random.default_rng(28)
    q = generator.dirichlet(np.full(1_100, 0.5), 60)
    p = q * np.exp(generator.normal(0, 1e-9, q.shape))
    for k in (2, 200):
        alpha = otd.optimal_acceptance(p / p.sum(-1, keepdims=True), q, k)
        assert (alpha <= 1).all() and (alpha > 1 - 1e-8).all()


def test_a_cut_bounds_every_rule() -> None:
    generator = np.random.default_rng(24)
    for rule in otd.rules.ALL:
        problem = otd.Problem(*random_pair(generator, 4), 2, rule.law)
        acceptance = otd.evaluate(rule, problem).acceptance
        assert all(acceptance <= otd.cut_value(problem, s) for s in all_token_sets(4))


@pytest.mark.parametrize(("number", "below"), [(100, None), slow(4_000, 1_103)])
def test_without_replacement_a_least_cut_is_a_prefix(number: int, below: int | None) -> None:
    """Of the tokens in the order of p/q, by all 2^n token sets: what docs/theory.md says.

    Sets of least cut are closed under union and intersection: the largest and the smallest are always prefixes, and where the optimum is
    below 1 and q has k tokens, all of them are. Tokens that nobody draws are left out.
    """
    generator, law, strict = np.random.default_rng(23), otd.WithoutReplacement(), 0
    for _ in range(number):
        n, k = int(generator.integers(2, 8)), int(generator.integers(2, 5))
        p, q = random_pair(generator, n)
        cut = [F(0)] * (1 << n)
        for drawn, chance in set_probabilities(law, q, k).items():
            cut[drawn] -= chance
        for token in range(n):  # of all subsets
            for bits in range(1 << n):
                cut[bits] += cut[bits ^ 1 << token] if bits >> token & 1 else 0
        cut = [x + sum(p[y] for y in range(n) if bits >> y & 1) for bits, x in enumerate(cut)]
        least = [bits for bits in range(1 << n) if cut[bits] == min(cut)]
        assert 1 + min(cut) == otd.optimal_acceptance(p, q, k, law)
        beyond = np.count_nonzero(q) < k  # then tokens without mass under q are drafted as well, with equal chances
        key = {y: (q[y] == 0, p[y] / (q[y] or 1) if q[y] or beyond else 0) for y in range(n) if p[y] or q[y] or beyond}

        assert is_prefix(reduce(or_, least), key) and is_prefix(reduce(and_, least), key)
        if min(cut) < 0 and not beyond:
            strict += 1
            assert all(is_prefix(bits, key) for bits in least)
    assert strict == below if below else strict > number / 10


def is_prefix(bits: int, key: dict[int, Any]) -> bool:
    inside, outside = ([key[y] for y in key if bits >> y & 1 == side] for side in (1, 0))
    return not inside or not outside or max(inside) <= min(outside)
