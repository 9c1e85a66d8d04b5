"""Drafts of several models: the least cut against all token sets and the linear program, rules, and the errors."""

from __future__ import annotations

import numpy as np
import pytest
from random_problems import all_token_sets, all_tuples, fractions, random_masses

import ot_draft as otd
from ot_draft import trees
from ot_draft.laws import Several, probability_inside
from ot_draft.laws.several import least_cut


def problems(number: int) -> list[otd.Problem]:
    generator = np.random.default_rng(3)
    found = []
    for _ in range(number):
        n, k = int(generator.integers(1, 6)), int(generator.integers(1, 4))
        p, q = random_masses(generator, n), random_masses(generator, n)
        others = [random_masses(generator, n) if generator.integers(5) else p for _ in range(k - 1)]
        found.append(otd.Problem(p, q, k, Several(others)))
    return found


def test_the_optimum_is_that_of_all_sets_and_of_the_linear_program() -> None:
    for problem in problems(60):
        p, q, k, law = problem.p, problem.q, problem.k, problem.law
        best, chosen = otd.optimal_cut(p, q, k, law)
        sets = all_token_sets(len(p))
        cuts = [otd.cut_value(problem, token_set) for token_set in sets]
        assert best == min(cuts) == otd.cut_value(problem, chosen)
        assert otd.solve(problem, "flow").acceptance == best
        assert abs(float(best) - otd.optimal_acceptance(p.astype(float), q.astype(float), k, law)) < 1e-12


def test_one_sorted_list_is_not_enough() -> None:
    """The order of p over the sum of the laws has no least cut among its prefixes: H is {0, 2}, and token 1 stands before token 0."""
    p, q, other = fractions([21, 9, 0, 70]), fractions([6, 0, 0, 14]), fractions([0, 3, 17, 0])
    law = Several([other])
    order = [2, 1, 0, 3]
    assert [float(p[y] / (q[y] + other[y])) for y in order] == sorted(float(p[y] / (q[y] + other[y])) for y in range(4))
    prefixes = [np.isin(np.arange(4), order[:i]) for i in range(5)]
    cuts = [p[s].sum() - probability_inside(law, q, s, 2) for s in prefixes]
    assert otd.optimal_acceptance(p, q, 2, law) < 1 + min(cuts)


def test_masses_of_few_sizes() -> None:
    """Zeros, equal tokens and one heavy one, where tokens cost exactly what they add."""
    generator = np.random.default_rng(4)
    for _ in range(150):
        n, k = int(generator.integers(1, 8)), int(generator.integers(1, 5))
        p, *laws = (fractions([*generator.choice([0, 0, 1, 1, 2, 50], n).tolist(), 1]) for _ in range(k + 1))
        values = [p[s].sum() - np.multiply.reduce(np.stack(laws)[:, s].sum(-1)) for s in all_token_sets(n + 1)]
        chosen, value = least_cut(p, np.stack(laws))
        assert p[chosen].sum() - np.multiply.reduce(np.stack(laws)[:, chosen].sum(-1)) == value == min(values)
        assert abs(least_cut(p.astype(float), np.stack(laws).astype(float))[1] - float(min(values))) < 1e-10


def test_a_token_that_carries_nearly_all() -> None:
    """In or out, it decides about all others; prices alone would be halved without end."""
    generator = np.random.default_rng(6)
    for k in (2, 3, 4):
        rows = generator.dirichlet(np.full(300, 0.3), k + 1) * 10 ** -generator.uniform(1, 4, (k + 1, 1))
        rows[:, 0] += 1 - rows.sum(-1)
        p, laws = rows[0], rows[1:]
        chosen, value = least_cut(p, laws)
        flips = [p[s].sum() - np.prod(laws[:, s].sum(-1)) for s in chosen ^ np.eye(300, dtype=bool)]
        assert value <= min(flips) + 1e-12 and abs(p[chosen].sum() - np.prod(laws[:, chosen].sum(-1)) - value) < 1e-12


def test_a_large_vocabulary() -> None:
    generator = np.random.default_rng(5)
    n = 32_000
    common = generator.standard_exponential(n)
    p, *laws = np.exp(2 * common + generator.standard_normal((4, n)))
    p, laws = p / p.sum(), [law / law.sum() for law in laws]
    chosen, value = least_cut(p, np.stack(laws))
    flips = [
        p[s].sum() - np.prod([q[s].sum() for q in laws])
        for s in (chosen ^ (np.arange(n) == y) for y in range(0, n, 800))
    ]
    assert value <= min(flips) + 1e-12
    same = least_cut(p, np.stack([laws[0]] * 3))[1]
    assert abs(1 + same - otd.optimal_acceptance(p, laws[0], 3)) < 1e-10


def test_probabilities_and_draws() -> None:
    q, law = fractions([1, 2, 1]), Several([fractions([0, 1, 1])])
    tuples = all_tuples(3, 2)
    chance = law.probability(q, tuples)
    assert chance.sum() == 1 and (chance[(tuples < 0).any(-1)] == 0).all()
    for token_set in all_token_sets(3):
        assert probability_inside(law, q, token_set, 2) == chance[np.append(token_set, False)[tuples].all(-1)].sum()
    drafts = otd.draw(law, np.broadcast_to(q.astype(float), (8000, 3)), 2, np.random.default_rng(1))
    seen = np.array([(drafts == t).all(-1).mean() for t in tuples])
    assert np.abs(seen - chance.astype(float)).max() < 0.03
    assert law.marginals(q, 2).tolist() == [chance[(tuples == y).any(-1)].sum() for y in range(3)]


def test_rules_for_it_are_exact() -> None:
    for problem in [problem for problem in problems(40) if len(problem.p) ** problem.k <= 30]:
        law, best = problem.law, otd.optimal_acceptance(problem.p, problem.q, problem.k, problem.law)
        for rule in (otd.rules.FromCoupling(law), otd.rules.RandomOrder(law), otd.rules.NaiveTarget(law)):
            result = otd.evaluate(rule, problem)
            assert result.lossless and result.acceptance <= best
        assert otd.evaluate(otd.rules.FromCoupling(law), problem).acceptance == best
    model = trees.MarkovModel.random(np.random.default_rng(1), 2)
    law, shape = Several([fractions([1, 2])]), trees.TreeShape.by_level((2, 2))
    for rule in (trees.Traversal(), trees.TokenWise(otd.rules.FromCoupling(law)), trees.NaivePath()):
        assert trees.evaluate(rule, model, shape, law).lossless
    with pytest.raises(otd.InvalidDrafts, match=r"take Traversal\(\)"):
        trees.Joint().check(shape, law)


def test_errors() -> None:
    with pytest.raises(otd.InvalidArgument, match="others must be k - 1 distributions"):
        Several([[0.5, 0.6]])
    with pytest.raises(otd.InvalidDrafts, match=r"k must be 2 for Several.*, got 3"):
        otd.Problem([1.0], [1.0], 3, Several([[1.0]]))
    with pytest.raises(otd.InvalidDrafts, match="others must have 2 tokens, as many as q, got 1"):
        otd.optimal_acceptance([0.5, 0.5], [0.5, 0.5], 2, Several([[1.0]]))
