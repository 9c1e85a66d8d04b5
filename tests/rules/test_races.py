"""Races: exact also where masses are zero, and what a polytope's volume says without any formula of the rules.

Exponential clocks divided by their sum are uniform on a simplex. That these are the drafts and this the output is a set of
comparisons of two clocks each, which cuts a polytope out of it: its share of the simplex is the chance.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction as F
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, HalfspaceIntersection

import ot_draft as otd
from ot_draft.rules import races

P, Q = [F(0), F(1, 4), F(1, 8), F(3, 8), F(1, 4)], [F(1, 4), F(1, 8), F(3, 8), F(0), F(1, 4)]
Lists = tuple[tuple[int, ...], ...]


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """What an error has made is no later test's."""
    races.output_distribution.cache_clear()
    yield
    races.output_distribution.cache_clear()


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("rule", [otd.rules.GumbelCoupling(), otd.rules.ListCoupling()], ids=lambda rule: rule.name)
def test_the_law_is_the_targets_with_zeros_in_both(rule: otd.SelectionRule, k: int) -> None:
    result = otd.evaluate(rule, otd.Problem(P, Q, k, rule.law))
    assert result.lossless and result.output.tolist() == P


def share(rows: Sequence[np.ndarray], clocks: int) -> float:
    """Of the simplex of so many clocks, where row . clocks <= 0 for every row."""
    cuts = np.array([*rows, *-np.eye(clocks)])
    normals, bounds = cuts[:, 1:] - cuts[:, :1], -cuts[:, 0]  # the first clock is what the others leave
    size = np.linalg.norm(normals, axis=1)
    if (bounds[size < 1e-13] < 0).any():
        return 0.0
    normals, bounds, size = normals[size >= 1e-13], bounds[size >= 1e-13], size[size >= 1e-13]
    normals, bounds, free = normals / size[:, None], bounds / size, clocks - 1
    if free == 1:
        ends = bounds / normals[:, 0]
        return max(0.0, min(ends[normals[:, 0] > 0]) - max(ends[normals[:, 0] < 0]))
    margin = np.c_[normals, np.ones(len(normals))]
    inside = linprog(np.r_[np.zeros(free), -1], margin, bounds, bounds=[(None, None)] * free + [(0, None)])
    if inside.x is None or inside.x[-1] < 1e-12:
        return 0.0
    corners = HalfspaceIntersection(np.c_[normals, -bounds], inside.x[:-1]).intersections
    options = "QJ" if free > 4 else None
    return float(ConvexHull(np.unique(corners.round(13), axis=0), qhull_options=options).volume) * math.factorial(free)


def before(first: int, rate: F, later: int, other: F, clocks: int) -> np.ndarray:
    """That clock / rate is at most the other clock / rate."""
    row = np.zeros(clocks)
    row[first], row[later] = 1 / rate, -1 / other
    return row


def law_by_volumes(p: Sequence[F], q: Sequence[F], lists: Lists) -> np.ndarray | None:
    """Law (n,) of the output given the first arrivals of every list; None where there are no such arrivals."""
    n, clocks, rows = len(p), len(p) * len(lists), list[np.ndarray]()
    for number, drafts in enumerate(lists):
        waiting = set(range(n))
        for draft in drafts:
            waiting -= {draft}
            if not q[draft] and any(q[z] for z in waiting):
                return None  # tokens of rate 0 race behind all others, at equal rates
            for z in waiting:
                if bool(q[z]) == bool(q[draft]):
                    rates = q[draft] or F(1), q[z] or F(1)
                    rows.append(before(number * n + draft, rates[0], number * n + z, rates[1], clocks))
    law, races_of = np.zeros(n), list(product(range(len(lists)), (z for z in range(n) if p[z])))
    for winner, token in races_of:
        wins = [
            before(winner * n + token, p[token], number * n + z, p[z], clocks)
            for number, z in races_of
            if (number, z) != (winner, token)
        ]
        law[token] += share([*rows, *wins], clocks)
    return law / law.sum() if law.sum() > 1e-12 else None


def masses(*weights: int) -> tuple[F, ...]:
    return tuple(F(weight, sum(weights)) for weight in weights)


PAIRS = {
    "n = 2": (masses(2, 3), masses(3, 1)),
    "a target of one token": (masses(0, 1), masses(3, 1)),
    "n = 3": (masses(3, 2, 4), masses(1, 5, 2)),
    "zero in p": (masses(0, 3, 4), masses(5, 2, 2)),
    "zero in q": (masses(2, 3, 4), masses(5, 0, 2)),
    "zeros in both": (masses(0, 3, 4), masses(5, 0, 2)),
    "disjoint": (masses(0, 3, 0, 1), masses(5, 0, 2, 0)),
    "equal": (masses(2, 3, 4), masses(2, 3, 4)),
    "a draft of one token": (masses(2, 3, 4), masses(0, 1, 0)),
    "n = 4, zeros in both": (masses(3, 0, 2, 5), masses(4, 1, 0, 2)),
    "n = 4": (masses(1, 2, 3, 4), masses(5, 1, 2, 2)),
    "ties of p / q": (masses(2, 2, 1, 1), masses(1, 1, 2, 2)),
}


def drafted(n: int, most: int) -> list[Lists]:
    """First arrivals of one race of any length, and of up to so many clocks in races of one draft each."""
    one = [(drafts,) for k in range(1, n + 1) for drafts in permutations(range(n), k)]
    several = [combinations_with_replacement(range(n), k) for k in range(2, most // n + 1)]
    return one + [tuple((draft,) for draft in drafts) for found in several for drafts in found]


def farthest(p: Sequence[F], q: Sequence[F], most: int) -> float:
    """The largest difference of a law of `output_distribution` from that by volumes."""
    laws = [(lists, law_by_volumes(p, q, lists)) for lists in drafted(len(p), most)]
    apart = [
        np.abs(np.array(races.output_distribution(p, q, lists), float) - law).max()
        for lists, law in laws
        if law is not None
    ]
    assert apart
    return float(max(apart))


@pytest.mark.parametrize("name", PAIRS)
def test_the_output_given_the_drafts_is_what_the_clocks_say(name: str) -> None:
    assert farthest(*PAIRS[name], most=6) < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_of_random_pairs_too(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = int(generator.integers(2, 5))
    p, q = (
        masses(*(generator.permutation([1] + [0] * (n - 1)) + generator.integers(0, 9, n) * generator.integers(0, 2, n)).tolist())
        for _ in "pq"
    )  # fmt: skip
    assert farthest(p, q, most=8) < 1e-6


def _terms_of_one_exponent_overwrite_each_other(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(races, "_at", lambda terms, u: {(a + b * u, races.ZERO): c for (a, b), c in terms.items()})


def _a_draft_arrives_from_the_beginning_on(patch: pytest.MonkeyPatch) -> None:
    made = races._integrated
    patch.setattr(races, "_integrated", lambda pieces, start, rate: made(pieces, races.ZERO, rate))


def _a_winner_may_arrive_at_any_time(patch: pytest.MonkeyPatch) -> None:
    made = races._times
    patch.setattr(races, "_times", lambda pieces, start, token, wins: made(pieces, start, token, False))


@pytest.mark.parametrize(
    "plant",
    [
        _terms_of_one_exponent_overwrite_each_other,
        _a_draft_arrives_from_the_beginning_on,
        _a_winner_may_arrive_at_any_time,
    ],
)
def test_an_error_in_the_integrals_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert max(farthest(*pair, most=0) for pair in list(PAIRS.values())[2:10]) > 1e-3


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("rule", [otd.rules.GumbelCoupling(), otd.rules.ListCoupling()], ids=lambda rule: rule.name)
def test_the_law_is_the_targets_for_one_to_four_drafts(rule: otd.SelectionRule, name: str) -> None:
    p, q = PAIRS[name]
    for k in range(1, min(4, len(p)) + 1):
        result = otd.evaluate(rule, otd.Problem(list(p), list(q), k, rule.law))
        assert result.lossless and tuple(result.output) == p


@pytest.mark.parametrize("name", PAIRS)
def test_one_draft_is_accepted_as_published(name: str) -> None:
    """sum_j 1 / sum_i max(p_i / p_j, q_i / q_j) over the tokens of both (Daliri et al. 2024)."""
    p, q = PAIRS[name]
    both = [j for j in range(len(p)) if p[j] and q[j]]
    wanted = sum((1 / sum(max(p[i] / p[j], q[i] / q[j]) for i in range(len(p))) for j in both), F(0))
    for rule in (otd.rules.GumbelCoupling(), otd.rules.ListCoupling()):
        assert otd.evaluate(rule, otd.Problem(list(p), list(q), 1, rule.law)).acceptance == wanted
