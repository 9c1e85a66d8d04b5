"""The constructed plan: optimal with ==, its marginals exact, its rows those of the rule `Optimal`, at every size; and planted errors."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from itertools import combinations, product

import numpy as np
import pytest
import torch
from random_problems import random_masses, random_pair
from slow import slow

import ot_draft as otd
from ot_draft.laws import is_defined
from ot_draft.lp.program import build
from ot_draft.transport import construction
from ot_draft.transport import solve as solving
from ot_draft.transport.construction import RangeMaximum, construct, subsets, times_drawn
from ot_draft.transport.selected_law import selected_law

LAWS = [
    otd.IID(),
    otd.Hybrid(1),
    otd.SpecHubLaw(),
    otd.Fixed((0,)),
    otd.Hybrid(-1),
    otd.Hybrid(2),
    otd.Fixed((2, 0)),
    otd.Hybrid("auto"),
]


def problem_of(generator, law):
    """n <= 8, k <= 4, in Fractions with zeros and ties in plenty."""
    n = int(generator.integers(3 if law == otd.Fixed((2, 0)) else 1, 9))
    k = 2 if law == otd.SpecHubLaw() else int(generator.integers(0, 5))
    return otd.Problem(*random_pair(generator, n), k, law)


def is_plan(problem, table):
    """Whether the rows are >= 0 and sum to the law of the set, as the linear program has it, and the columns to p."""
    program, dense = build(problem), table.dense
    wanted = dict(zip(program.token_sets, program.set_mass, strict=True))
    sets = [tuple(token for token in row if token >= 0) for row in table.drafts.tolist()]
    marginals = (dense.sum(0) == problem.p).all() and (dense.sum(1) == table.mass).all()
    return bool(marginals and (dense >= 0).all() and dict(zip(sets, table.mass, strict=True)) == wanted)


@pytest.mark.parametrize("seed", [*range(4), *map(slow, range(4, 25))])
def test_as_good_as_the_flow_with_exact_marginals(seed):
    """1,000 random problems, all four laws."""
    generator = np.random.default_rng([81, seed])
    for law in LAWS * 5:
        problem = problem_of(generator, law)
        found, by_flow = otd.solve(problem), otd.solve(problem, "flow")
        assert (found.solver, found.status) == ("construction", "optimal")
        assert isinstance(found.acceptance, F) and found.acceptance == by_flow.acceptance
        assert is_plan(problem, found.plan.table()) and found.plan.table().flow.sum() == found.acceptance
        assert found.residuals == by_flow.residuals
        proved = found.certificate()
        assert proved.exact and proved.lower == found.plan.value == found.acceptance
        assert proved.upper == otd.cut_value(problem, found.token_set)


@pytest.mark.parametrize("law", [*LAWS, otd.WithoutReplacement()], ids=repr)
def test_the_plan_of_all_tuples_has_the_two_marginals(law):
    generator = np.random.default_rng(82)
    for n, k in ((3, 1), (3, 2), (4, 3)):
        if is_defined(law, k) and (k == 1 or law != otd.WithoutReplacement()):
            problem = otd.Problem(*random_pair(generator, n), k, law)
            drafts, mass = otd.solve(problem, "construction").plan.full()
            assert (mass.sum(0) == problem.p).all()
            assert (mass.sum(1) == law.probability(problem.q[None], drafts)).all()
            drafted = (drafts[:, :, None] == np.arange(n)).any(1)
            assert mass[drafted].sum() == otd.optimal_acceptance(problem.p, problem.q, k, law)


def by_the_rule(problem, tokens, rule):
    """Mass and row of a draft set the slow, obvious way: the rule's output on every tuple that holds just these tokens."""
    tuples = [row for row in product(tokens, repeat=problem.k) if set(row) == set(tokens)]
    drafts = np.array(tuples, dtype=np.int64).reshape(len(tuples), problem.k)
    chance = problem.law.probability(problem.q[None], drafts)
    return chance.sum(), (chance[:, None] * rule(problem.p[None], problem.q[None], drafts).output(drafts)).sum(0)


@pytest.mark.parametrize("law", [otd.IID(), otd.Hybrid(1), otd.Hybrid(2)], ids=repr)
def test_rows_are_the_rule_averaged_over_the_order_of_drawing(law):
    generator = np.random.default_rng(83)
    for n, k in ((4, 2), (4, 3), (5, 4)):
        for _ in range(3 if k < 4 else 1):
            problem = otd.Problem(*random_pair(generator, n), k, law)
            plan = otd.solve(problem).plan
            for size in range(1, k + 1):
                for tokens in combinations(range(n), size):
                    mass, row = by_the_rule(problem, tokens, otd.rules.Optimal(law))
                    drafts = generator.permutation([*tokens, *(-1,) * (k - size)])
                    assert (plan[drafts] == row).all() and plan[drafts].sum() == mass


def test_rows_of_a_whole_vocabulary():
    """One row in the place of 10^14."""
    n, k, generator = 151_936, 3, np.random.default_rng(84)
    p, q = generator.dirichlet(np.full(n, 0.3), 2)
    problem = otd.Problem(p, q, k)
    found = otd.solve(problem)
    assert found.residuals.gap <= solving.bound(problem)
    assert found.acceptance == pytest.approx(otd.optimal_acceptance(p, q, k), abs=solving.bound(problem))
    rows = generator.choice(n, (6, k), p=q)
    rows[0] = rows[0, [0, 0, 1]]
    for row, drafts in zip(found.plan[rows], rows, strict=True):
        mass, output = by_the_rule(problem, np.unique(drafts), otd.rules.Optimal())
        np.testing.assert_allclose(row, output, rtol=1e-8, atol=1e-12 * mass)
        np.testing.assert_allclose(row.sum(), mass, rtol=1e-8)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_floats_agree_with_fractions(law):
    generator = np.random.default_rng(85)
    for n, k in ((3, 2), (8, 2), (12, 2)) if law == otd.SpecHubLaw() else ((3, 2), (8, 3), (12, 4)):
        p, q = random_masses(generator, n, 1 << 20), random_masses(generator, n, 1 << 20)  # floats hold them exactly
        exact, found = (otd.solve(otd.Problem(x, y, k, law)) for x, y in ((p, q), (p.astype(float), q.astype(float))))
        assert isinstance(found.acceptance, float) and abs(found.acceptance - exact.acceptance) <= 1e-14
        assert (found.token_set == exact.token_set).all()
        table, wanted = found.plan.table(), exact.plan.table()
        assert table.drafts.tolist() == wanted.drafts.tolist() and table.dense.dtype == np.float64
        np.testing.assert_allclose(table.mass, wanted.mass.astype(float), rtol=1e-13)
        np.testing.assert_allclose(table.dense, wanted.dense.astype(float), atol=1e-14)
        proved = found.certificate()
        assert proved.lower <= exact.acceptance == proved.upper and proved.width <= 1e-14


@pytest.mark.parametrize(
    ("spread", "n"),
    [(s, n) if (s, n) != (0.01, 5_000) else slow(s, n) for s in (1.0, 0.1, 0.01) for n in (200, 5_000, 50_000)],
)
def test_primal_and_dual_meet_in_floats(n, spread):
    """To the stated bound, with masses down to 0; and proved in rationals, where there are no more than 5,000 tokens."""
    generator = np.random.default_rng([86, n])
    p, q = generator.dirichlet(np.full(n, spread), 2)
    for k in (1, 2, 8, 64):
        problem = otd.Problem(p, q, k)
        found = otd.solve(problem)
        assert found.residuals.gap <= solving.bound(problem)
        if n <= 5_000:
            proved = found.certificate()
            assert 0 <= proved.width <= solving.bound(problem)
            assert float(proved.lower) == pytest.approx(found.acceptance, abs=solving.bound(problem))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_torch_is_read_as_numpy(dtype):
    generator = np.random.default_rng(87)
    p, q = (torch.as_tensor(generator.dirichlet(np.ones(9)), dtype=dtype) for _ in range(2))
    found, same = (otd.solve(otd.Problem(x, y, 3)) for x, y in ((p, q), (p.numpy(), q.numpy())))
    assert found.acceptance == same.acceptance and isinstance(found.acceptance, float)
    assert (found.plan.table().dense == same.plan.table().dense).all()
    flow = otd.solve(otd.Problem(p, q, 3), "flow").certificate()
    assert flow.upper == found.certificate().upper and found.certificate().width <= 1e-15


def test_nothing_given_is_changed():
    p, q = (np.array(x) for x in ([0.5, 0.2, 0.3], [0.1, 0.3, 0.6]))
    drafts = np.array([[0, 1], [2, 2]])
    for x in (p, q, drafts):
        x.setflags(write=False)
    found = otd.solve(otd.Problem(p, q, 2))
    assert found.plan[drafts].shape == (2, 3) and found.plan[drafts[None]].shape == (1, 2, 3)


def test_what_is_refused():
    generator = np.random.default_rng(88)
    p, q = generator.dirichlet(np.ones(300), 2)
    plan = otd.solve(otd.Problem(p, q, 4)).plan
    with pytest.raises(otd.InvalidArgument, match=r"335291425 draft sets of 4 drafts.*plan\[drafts\]"):
        plan.table()
    with pytest.raises(otd.InvalidArgument, match=r"got 300\^5\. .*plan\[drafts\]"):
        plan.full()
    with pytest.raises(otd.InvalidArgument, match=r"got \(3,\). Pass 4 token ids per row, -1 for an absent one"):
        plan[[0, 1, 2]]
    with pytest.raises(otd.InvalidDrafts, match=r"token must be in 0 \.\. 299, .* got 300"):
        plan[[0, 1, 2, 300]]
    with pytest.raises(
        otd.InvalidArgument, match=r"solver must be omitted under WithoutReplacement\(\), which has no construction"
    ):
        otd.solve(otd.Problem(p, q, 2, otd.WithoutReplacement()), "construction")
    with pytest.raises(otd.InvalidDistribution, match=r"batch of shape \(2,\)"):
        otd.solve(otd.Problem(np.stack((p, p)), np.stack((q, q))), "construction")


def test_other_laws_are_solved_by_the_program():
    problem = otd.Problem([F(1, 2), F(1, 4), F(1, 4)], [F(3, 4), F(1, 4), F(0)], 2, otd.WithoutReplacement())
    found = otd.solve(problem)
    assert found.solver == "highs" and construct(problem) is None
    assert found.acceptance == pytest.approx(float(otd.optimal_acceptance(problem.p, problem.q, 2, problem.law)))


PLANTED = otd.Problem([F(3, 16), F(3, 16), F(6, 16), F(4, 16)], [F(8, 16), F(4, 16), F(3, 16), F(1, 16)], 3)


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: {"level": 0 * plan.level},
        lambda plan: {"level": plan.level[::-1]},
        lambda plan: {"level": 1 + 0 * plan.level},
        lambda plan: {"draws": plan.draws - 1},
        lambda plan: {"fixed": np.array([3])},
        lambda plan: {"rank": plan.rank[::-1]},
        lambda plan: {"selected": plan.selected[::-1]},
    ],
    ids=[
        "no levels",
        "levels reversed",
        "levels at 1",
        "a draft less",
        "a fixed token",
        "another order",
        "another law",
    ],
)
def test_a_certificate_sees_a_plan_that_is_none(change):
    """It computes anew what the levels select."""
    found = otd.solve(PLANTED)
    assert found.certificate().exact
    wrong = replace(found, plan=replace(found.plan, **change(found.plan)))
    with pytest.raises(
        otd.SolverFailed, match=r"the plan selects token \d with probability|has 3 draws in addition to the tokens \[\]"
    ):
        wrong.certificate()


def test_a_value_above_the_cut_is_no_certificate(monkeypatch):
    found = otd.solve(PLANTED)
    other = replace(found, token_set=~found.token_set).certificate()
    assert other.lower == found.acceptance < other.upper and not other.exact
    law = construction.selected_law
    monkeypatch.setattr(
        construction, "selected_law", lambda *given: ([2 * mass for mass in law(*given)[0]], law(*given)[1])
    )
    plan = replace(found.plan, selected=2 * found.plan.selected)
    with pytest.raises(otd.SolverFailed, match="exceeds the cut"):
        plan.certificate(found.token_set)


def test_a_certificate_sees_levels_that_attain_less():
    """With a law m that is right for them."""
    found = otd.solve(PLANTED)
    weak = replace(found.plan, level=0 * found.plan.level, selected=PLANTED.q)
    assert is_plan(PLANTED, weak.table())
    proved = weak.certificate(found.token_set)
    assert proved.lower == weak.accepted < proved.upper == found.acceptance


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: {"selected": 0 * plan.selected},
        lambda plan: {"selected": plan.selected + F(1, 100)},
        lambda plan: {"selected": plan.selected[::-1].copy()},
        lambda plan: {"fixed": np.array([0])},
    ],
    ids=["nothing selected", "too much selected", "of other tokens", "a token for certain"],
)
def test_a_plan_that_misses_the_cut_is_refused(monkeypatch, change):
    honest = construct(PLANTED)
    monkeypatch.setattr(solving, "construct", lambda problem: replace(honest, **change(honest)))
    with pytest.raises(otd.SolverFailed, match="below its cut"):
        otd.solve(PLANTED)


@pytest.mark.parametrize("field", ["level", "rank", "selected"])
def test_marginals_see_a_wrong_plan(field):
    """What the test of the marginals must find."""
    plan = otd.solve(PLANTED).plan
    assert is_plan(PLANTED, plan.table())
    wrong = replace(plan, **{field: getattr(plan, field)[::-1].copy()})
    assert not is_plan(PLANTED, wrong.table())


def test_law_of_the_selected_token_from_any_levels():
    """Against the selection on every draft tuple."""
    generator = np.random.default_rng(89)
    for n, k in ((1, 2), (2, 1), (3, 3), (4, 2), (5, 3)):
        units = generator.integers(1, 9, n).tolist()
        q = np.array([F(mass, sum(units)) for mass in units])
        level = generator.integers(0, 6, n - 1).tolist()
        problem = otd.Problem(q, q, k)
        levels = np.array([*(F(x, 5) for x in level), F(0)])
        plan = replace(construct(problem), rank=np.arange(n), level=levels, selected=q)
        table = plan.table()
        law = [(table.mass[:, None] * table.accept * (table.drafts == y)).sum() for y in range(n)]  # p / m is 1 here
        numerators, denominator = selected_law(units, k, level, 5)
        assert [F(x, denominator) for x in numerators] == law


def test_stretches_and_subsets():
    generator = np.random.default_rng(90)
    for length in (1, 2, 3, 8, 13):
        x = generator.random(length)
        start, stop = np.array(list(product(range(length + 1), repeat=2))).T
        start, stop = start[start < length], stop[start < length]
        wanted = [max(x[a:b], default=0) for a, b in zip(start, stop, strict=True)]
        assert RangeMaximum(x).highest(start, stop).tolist() == wanted
    for number, size in product(range(6), range(4)):
        assert subsets(number, size).tolist() == [list(each) for each in combinations(range(number), size)]
    assert [(counts.tolist(), ways) for counts, ways in times_drawn(4, 2)] == [([1, 3], 4), ([2, 2], 6), ([3, 1], 4)]
