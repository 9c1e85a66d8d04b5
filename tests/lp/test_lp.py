"""The linear program: every solver, every law, exact certificates, and what happens when a solver is wrong."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from fractions import Fraction as F
from functools import partial
from importlib.util import find_spec
from itertools import chain, combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

import ot_draft as otd
from ot_draft import arrays as xp
from ot_draft import optional
from ot_draft.exact import all_drafts
from ot_draft.laws import sets
from ot_draft.lp import float_solvers, flow_plan, network_simplex, program, solution
from ot_draft.lp.program import RawSolution

LAWS = [otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=1), otd.SpecHubLaw()]
POT = ["pot", "pot-dense", "pot-warm"]
WITHOUT_ORTOOLS = pytest.mark.skipif(find_spec("ortools") is None, reason="the extra ortools is not installed")
SOLVERS = ["flow", "highs", "cvxpy", "cvxpy-highs", "pulp", *POT, pytest.param("ortools", marks=WITHOUT_ORTOOLS)]
AGREES = {
    "flow": 1e-9,
    "highs": 1e-9,
    "ortools": 1e-9,
    "cvxpy": 1e-6,
    "cvxpy-highs": 1e-6,
    "pulp": 1e-6,
} | dict.fromkeys(POT, 1e-9)


def masses(generator, n, heavy, floor):
    """A random distribution; heavy: most of the mass on few tokens, with masses down to 1e-12 or exact zeros."""
    x = generator.dirichlet(np.full(n, 0.1 if heavy else 1.0))
    if heavy:
        x = np.maximum(x, 1e-12) if floor else np.where(x < 1e-3, 0.0, x)
    return x / x.sum()


def random_problem(i, heavy):
    generator = np.random.default_rng([7, i, heavy])
    law = LAWS[i % 4]
    n, k = int(generator.integers(2, 7)), 2 if i % 4 == 3 else int(generator.integers(1, 4))
    return otd.Problem(masses(generator, n, heavy, i % 3), masses(generator, n, heavy, i % 2), k, law)


def random_fractions(generator, n):
    weights = generator.integers(0, 8, n) * generator.integers(0, 2, n)
    weights[generator.integers(n)] += 1
    return [F(int(w), int(weights.sum())) for w in weights]


PROBLEMS = [random_problem(i, False) for i in range(150)] + [random_problem(i, True) for i in range(50)]
OPTIMA = [float(otd.optimal_acceptance(x.p, x.q, x.k, x.law)) for x in PROBLEMS]


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_agree_with_the_optimum(solver):
    # Modelling packages take longer. Every fifth problem includes every draft law, and masses with and without zeros.
    step = 5 if AGREES[solver] > 1e-9 else 1
    for problem, optimum in zip(PROBLEMS[::step], OPTIMA[::step], strict=True):
        found = otd.solve(problem, solver)
        assert abs(found.acceptance - optimum) <= AGREES[solver]
        assert 0 <= found.residuals.gap <= AGREES[solver]
        assert found.residuals.primal <= 1e-6 and found.residuals.dual <= 1e-6
        assert abs(float(otd.cut_value(problem, found.token_set)) - optimum) <= AGREES[solver]


def equality_form(problem, unit=1.0, **options):
    """SpecTr's program as in the paper, over all draft tuples, to scipy's HiGHS, by default with its own settings."""
    n, drafts = problem.n, np.concatenate(list(all_drafts(problem)))
    rows, columns = np.kron(np.eye(len(drafts)), np.ones((1, n))), np.kron(np.ones((1, len(drafts))), np.eye(n))
    member = (drafts[:, :, None] == np.arange(n)).any(1)
    bounds = unit * np.concatenate((problem.law.probability(problem.q[None], drafts), problem.p)).astype(float)
    objective = -member.ravel().astype(float)
    return linprog(objective, A_eq=np.vstack((rows, columns)), b_eq=bounds, method="highs", options=options)


def by_the_paper(problem):
    """The optimum of that program. Masses fall under HiGHS's tolerances, hence in a finer unit and without presolve."""
    unit = float(1 << 20)
    return -equality_form(problem, unit, presolve=False).fun / unit


def test_the_program_of_the_paper_has_the_same_value():
    for problem, optimum in zip(PROBLEMS[::3], OPTIMA[::3], strict=True):
        assert abs(by_the_paper(problem) - optimum) <= 1e-9
        assert abs(otd.solve(problem, "highs").acceptance - by_the_paper(problem)) <= 2e-9


def heavy_tailed(seed):
    generator = np.random.default_rng(seed)
    n, k = int(generator.integers(2, 6)), int(generator.integers(1, 4))
    return otd.Problem(masses(generator, n, True, True), masses(generator, n, True, True), k)


def test_raw_highs_calls_feasible_problems_infeasible_and_ours_does_not():
    called_infeasible = 0
    for seed in range(120):
        problem = heavy_tailed(seed)
        status = equality_form(problem).status
        assert status in (0, 2)
        if status == 2:
            called_infeasible += 1
            optimum = float(otd.optimal_acceptance(problem.p, problem.q, problem.k))
            assert abs(otd.solve(problem, "highs").acceptance - optimum) <= 1e-9
    assert called_infeasible >= 3


@pytest.mark.parametrize("seed", [328, 754, 1144, 1180])
def test_masses_down_to_1e_38(seed):
    """With presolve HiGHS calls the paper's program of these infeasible even in the finer unit."""
    generator = np.random.default_rng(seed)
    n, k = int(generator.integers(2, 7)), int(generator.integers(1, 4))
    p, q = (generator.dirichlet(np.full(n, (0.1, 0.02, 1.0)[seed % 3])) for _ in range(2))
    optimum = float(otd.optimal_acceptance(p, q, k))
    for found in (by_the_paper(otd.Problem(p, q, k)), otd.solve(otd.Problem(p, q, k), "highs").acceptance):
        assert abs(found - optimum) <= 1e-9


def test_the_plan_of_all_tuples_refuses_large_problems():
    uniform = np.full(20, 0.05)
    with pytest.raises(otd.InvalidArgument, match=r"got 20\^5\."):
        otd.solve(otd.Problem(uniform, uniform, 4), "flow").plan.full()


def every_cut(problem):
    """The minimum over all 2^n token sets, by the law's own P(all drafts in H)."""
    n = problem.n
    sets = chain.from_iterable(combinations(range(n), size) for size in range(n + 1))
    return min(otd.cut_value(problem, np.isin(np.arange(n), tokens)) for tokens in sets)


@pytest.mark.parametrize("law", [*LAWS, otd.Hybrid(top=-1), otd.Hybrid(top=2)], ids=repr)
def test_flow_is_exact_on_fractions(law):
    generator = np.random.default_rng(3)
    for n, k in product((1, 2, 3, 4), (2,) if law == otd.SpecHubLaw() else (0, 1, 2, 3, 5)):
        problem = otd.Problem(random_fractions(generator, n), random_fractions(generator, n), k, law)
        found = otd.solve(problem, "flow")
        certificate = found.certificate()
        assert isinstance(found.acceptance, F)
        assert found.acceptance == every_cut(problem) == otd.optimal_acceptance(problem.p, problem.q, k, law)
        assert certificate.lower == certificate.upper == found.acceptance and certificate.exact
        assert found.residuals == solution.Residuals(0.0, 0.0, 0.0)
        assert found.acceptance == otd.cut_value(problem, found.token_set)


@pytest.mark.parametrize("solver", SOLVERS)
def test_certificate_bounds_the_exact_optimum(solver):
    generator = np.random.default_rng(4)
    for n in (2, 3, 4):
        p, q = random_fractions(generator, n), random_fractions(generator, n)
        optimum = otd.optimal_acceptance(p, q, 2)
        certificate = otd.solve(otd.Problem(p, q, 2), solver).certificate()
        assert certificate.lower <= optimum <= certificate.upper
        assert certificate.width <= AGREES[solver]


def test_certificate_of_floats_is_about_the_binary_rationals():
    for problem in PROBLEMS[140:200]:
        exact = [np.array([F(float(x)) for x in row]) for row in (problem.p, problem.q)]
        p, q = (row / row.sum() for row in exact)
        certificate = otd.solve(problem, "flow").certificate()
        assert certificate.exact and certificate.lower == otd.optimal_acceptance(p, q, problem.k, problem.law)


def test_certificate_says_what_it_proves():
    exact = str(otd.solve(otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], 2), "flow").certificate())
    assert "is exactly 15/16, for the problem as given." in exact
    generator = np.random.default_rng(0)
    problem = otd.Problem(generator.dirichlet(np.ones(6)), generator.dirichlet(np.ones(6)), 3)
    assert "is exactly a rational number near 0." in str(otd.solve(problem, "flow").certificate())
    interval = str(otd.solve(problem, "highs").certificate())
    assert (
        "an interval of width" in interval
        and "read as binary rational numbers and divided by their exact sum" in interval
    )


def test_certificate_refuses_a_plan_that_breaks_a_constraint():
    found = otd.solve(otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], 2), "flow")
    flow = found.plan.numerators
    for tampered in ((flow[0] + 1, *flow[1:]), (-1, *flow[1:])):
        with pytest.raises(otd.SolverFailed, match=r"exceeds its mass|is not allowed"):
            replace(found, plan=replace(found.plan, numerators=tampered)).certificate()


def test_certificate_with_another_token_set_is_wider():
    found = otd.solve(otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], 2), "flow")
    other = replace(found, token_set=~found.token_set).certificate()
    assert not other.exact and (other.lower, other.upper) == (F(15, 16), 1 + F(1, 2) - F(1, 16))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("q", "optimum"), [(F(1, 4), F(15, 16)), (F(1, 10), F(69, 100)), (F(1), F(1, 2))])
def test_bernoulli_check_values(solver, q, optimum):
    problem = otd.Problem([F(1, 2), F(1, 2)], [1 - q, q], 2)
    found = otd.solve(problem, solver)
    assert abs(by_the_paper(problem) - optimum) <= 1e-9
    assert (
        found.acceptance == optimum if solver == "flow" else abs(found.acceptance - optimum) <= AGREES.get(solver, 1e-9)
    )


HALF = np.array([0.5, 0.5, 0.0])
ULP = np.array([0.5 + 2**-53, 0.5 - 2**-53])
BOUNDARY = {
    "p equals q": (HALF, HALF, 2, otd.IID(), 1.0),
    "one-hot p": (np.eye(3)[0], np.full(3, 1 / 3), 2, otd.IID(), 5 / 9),
    "one-hot q": (np.full(3, 1 / 3), np.eye(3)[0], 2, otd.IID(), 1 / 3),
    "disjoint supports": (np.array([0.5, 0.5, 0, 0]), np.array([0, 0, 0.5, 0.5]), 3, otd.IID(), 0.0),
    "disjoint supports, all drawn": (
        np.array([0.5, 0.5, 0, 0]),
        np.array([0, 0, 0.5, 0.5]),
        4,
        otd.WithoutReplacement(),
        1.0,
    ),
    "no draft": (HALF, HALF, 0, otd.IID(), 0.0),
    "no draft, without replacement": (HALF, HALF, 0, otd.WithoutReplacement(), 0.0),
    "one token": (np.ones(1), np.ones(1), 2, otd.IID(), 1.0),
    "one token, absent drafts": (np.ones(1), np.ones(1), 3, otd.WithoutReplacement(), 1.0),
    "one token, hub": (np.ones(1), np.ones(1), 2, otd.SpecHubLaw(), 1.0),
    "more drafts than tokens": (np.array([0.2, 0.3, 0.5]), np.array([0.9, 0.1, 0.0]), 5, otd.WithoutReplacement(), 1.0),
    "one ulp apart": (ULP, ULP[::-1].copy(), 1, otd.IID(), 1.0),
    "subnormal mass": (np.array([5e-324, 1.0]), np.array([1.0, 5e-324]), 2, otd.IID(), 0.0),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", BOUNDARY)
def test_boundary_cases(case, solver):
    p, q, k, law, optimum = BOUNDARY[case]
    found = otd.solve(otd.Problem(p, q, k, law), solver)
    assert abs(found.acceptance - optimum) <= AGREES.get(solver, 1e-9)
    assert found.certificate().width <= AGREES.get(solver, 1e-9)


def test_one_ulp_is_seen_exactly():
    found = otd.solve(otd.Problem(ULP, ULP[::-1].copy(), 1), "flow")
    assert found.certificate().lower == 1 - F(1, 2**52)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_full_plan_has_the_two_marginals(law):
    generator = np.random.default_rng(5)
    for solver, n in product(("flow", "highs"), (1, 2, 4)):
        problem = otd.Problem(random_fractions(generator, n), random_fractions(generator, n), 2, law)
        found = otd.solve(problem, solver)
        drafts, mass = found.plan.full()
        assert (mass >= 0).all()
        assert (mass.sum(0) == problem.p).all()
        assert (mass.sum(1) == law.probability(problem.q[None, :], drafts)).all()
        drafted = (drafts[:, :, None] == np.arange(n)).any(1)
        assert found.acceptance <= mass[drafted].sum() <= otd.optimal_acceptance(problem.p, problem.q, 2, law)


def test_full_plan_in_floats():
    for problem, optimum in zip(PROBLEMS[:40], OPTIMA, strict=False):
        drafts, mass = otd.solve(problem, "cvxpy").plan.full()
        assert mass.dtype == np.float64 and np.abs(mass.sum(0) - problem.p).max() <= 1e-15
        drafted = (drafts[:, :, None] == np.arange(problem.n)).any(1)
        assert abs(mass[drafted].sum() - optimum) <= 1e-6


def test_a_plan_shows_flow_acceptance_and_residual():
    plan = otd.solve(otd.Problem([0.5, 0.5], [0.75, 0.25], 2), "flow").plan
    assert plan.program.token_sets == ((0,), (0, 1), (1,))
    assert plan.program.rows.tolist() == [0, 1, 1, 2] and plan.program.tokens.tolist() == [0, 0, 1, 1]
    assert plan.flow.sum() == 15 / 16 and plan.flow[0] == 0.5 and plan.flow[3] == 1 / 16
    table = plan.table()
    assert table.drafts.tolist() == [[0, -1], [0, 1], [1, -1]] and table.mass.tolist() == [9 / 16, 6 / 16, 1 / 16]
    assert table.accept.tolist() == [[8 / 9, 0], [0, 1], [1, 0]]
    assert plan.residual.tolist() == table.residual.tolist() == [0, 1]
    np.testing.assert_allclose(table.dense.sum(0), [0.5, 0.5], rtol=1e-15)
    np.testing.assert_allclose(table.dense, plan[table.drafts], rtol=1e-15)
    np.testing.assert_allclose(table.flow.sum(), 15 / 16, rtol=1e-15)


@pytest.mark.parametrize(
    "law", [otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=0), otd.Hybrid(top=2), otd.Hybrid(top=-1)], ids=repr
)
def test_draft_sets_agree_with_enumeration(law):
    generator = np.random.default_rng(6)
    for n, k in product((1, 2, 3, 4), (0, 1, 2, 3, 4)):
        problem = otd.Problem(random_fractions(generator, n), random_fractions(generator, n), k, law)
        enumerated = {sets.tokens_of(bits): mass for bits, mass in sets.enumerated(law, problem.q, k).items()}
        assert program.drafted_sets(problem) == enumerated


@pytest.mark.parametrize(("n", "k"), [(50, 3), (10, 6)])
def test_large_programs(n, k):
    generator = np.random.default_rng(8)
    problem = otd.Problem(generator.dirichlet(np.ones(n)), generator.dirichlet(np.ones(n)), k)
    found = otd.solve(problem, "flow")
    assert found.residuals.gap == 0
    assert abs(found.acceptance - float(otd.optimal_acceptance(problem.p, problem.q, k))) <= 1e-12


@dataclass(frozen=True)
class Twice(otd.DraftLaw):
    """A user's law: one draw from q, drafted twice. weight and power are 1 when it is right."""

    weight: F = F(1)
    power: int = 1

    def probability(self, q, drafts):
        return self.weight * np.where(
            (drafts == drafts[..., :1]).all(-1), q[..., drafts[..., 0]].reshape(len(drafts)), F(0)
        )

    def draw(self, q, uniforms):
        raise NotImplementedError

    def conditional(self, q, siblings, place):
        raise NotImplementedError

    def cut_order(self, p, q, k):
        raise NotImplementedError

    def prefix_probabilities(self, q, order, k):
        return xp.prefix_sums(xp.take_along_axis(q, order)) ** self.power


def test_a_law_of_the_user_is_enumerated():
    found = otd.solve(otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], 2, Twice()), "flow")
    assert found.acceptance == F(3, 4) and found.certificate().exact


def test_a_law_that_contradicts_itself_is_refused():
    with pytest.raises(otd.InvalidDrafts, match="must sum to 1, got 1/2"):
        otd.solve(otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], 2, Twice(weight=F(1, 2))), "flow")
    found = otd.solve(otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], 2, Twice(power=2)), "flow")
    with pytest.raises(otd.SolverFailed, match=r"P\(all drafts in H\) differs"):
        found.certificate()


def patched(monkeypatch, change, name="highs"):
    """Let a solver's answer be changed before it is checked."""
    honest = solution.SOLVERS[name]
    monkeypatch.setitem(solution.SOLVERS, name, lambda built: change(honest(built)))


@pytest.mark.parametrize("name", ["highs", "flow"])
@pytest.mark.parametrize(
    "change",
    [
        lambda raw: replace(raw, flow=[0 * mass for mass in raw.flow]),
        lambda raw: replace(raw, flow=[raw.flow[0], *(0 * mass for mass in raw.flow[1:])]),
        lambda raw: replace(raw, flow=[-mass for mass in raw.flow]),
        lambda raw: replace(raw, prices=np.zeros_like(raw.prices)),
        lambda raw: replace(raw, prices=-raw.prices),
    ],
    ids=["no flow", "one pair only", "flow negative", "no prices", "prices negative"],
)
def test_wrong_answers_are_refused(monkeypatch, change, name):
    patched(monkeypatch, change, name)
    with pytest.raises(otd.SolverFailed, match=r'below the cut of its dual .* solver="flow"'):
        otd.solve(otd.Problem([0.5, 0.3, 0.2], [0.1, 0.2, 0.7], 2), name)


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: replace(raw, flow=np.full_like(raw.flow, np.nan)),
        lambda raw: replace(raw, flow=raw.flow[:-1]),
        lambda raw: replace(raw, prices=np.full_like(raw.prices, np.inf)),
        lambda raw: replace(raw, prices=raw.prices[:-1]),
    ],
    ids=["nan flow", "short flow", "infinite prices", "short prices"],
)
def test_missing_and_infinite_numbers_are_refused(monkeypatch, change):
    patched(monkeypatch, change)
    with pytest.raises(otd.SolverFailed, match="missing or not finite"):
        otd.solve(otd.Problem([0.5, 0.3, 0.2], [0.1, 0.2, 0.7], 2), "highs")


def test_a_small_excess_is_reported_and_taken_back(monkeypatch):
    def changed(raw):
        of_sets, of_tokens = np.split(raw.prices, [-3])
        return replace(raw, flow=raw.flow * (1 + 1e-10), prices=np.append(of_sets - 1e-3, of_tokens))

    patched(monkeypatch, changed)
    problem = otd.Problem([F(1, 2), F(3, 10), F(1, 5)], [F(1, 10), F(1, 5), F(7, 10)], 2)
    found = otd.solve(problem, "highs")
    assert 1e-12 < found.residuals.primal < 1e-9 and found.residuals.dual == pytest.approx(1e-3)
    optimum = otd.optimal_acceptance(problem.p, problem.q, 2)
    assert optimum - F(1, 10**9) <= found.acceptance <= optimum
    assert found.certificate().lower == found.acceptance


@pytest.mark.parametrize(
    ("package", "solver"),
    [("cvxpy", "cvxpy"), ("pulp", "pulp"), ("scipy.optimize", "highs"), ("ortools", "ortools"), ("ot", "pot")],
)
def test_missing_packages_are_named_with_their_remedy(monkeypatch, package, solver):
    for name in [loaded for loaded in sys.modules if loaded.startswith("ortools.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    name = {"ot": "POT"}.get(package, package.split(".")[0])
    with pytest.raises(otd.MissingPackage, match=rf"{name} is not installed\. Run  pip install "):
        otd.solve(otd.Problem([0.5, 0.5], [0.25, 0.75]), solver)


def test_a_package_that_does_not_load_is_no_missing_package(monkeypatch):
    def clash(name):
        raise ImportError("undefined symbol")

    monkeypatch.setattr(optional, "import_module", clash)
    with pytest.raises(ImportError, match="undefined symbol") as raised:
        otd.solve(otd.Problem([0.5, 0.5], [0.25, 0.75]), "cvxpy")
    assert not isinstance(raised.value, otd.MissingPackage)


def test_what_solve_refuses():
    uniform = np.full((2, 3), 1 / 3)
    with pytest.raises(otd.InvalidDistribution, match=r"batch of shape \(2,\).*Use otd.optimal_acceptance for batches"):
        otd.solve(otd.Problem(uniform, uniform))
    meta = torch.full((3,), 1 / 3, device="meta")
    with pytest.raises(otd.InvalidDistribution, match="meta device"):
        otd.solve(otd.Problem(meta, meta))
    with pytest.raises(
        otd.InvalidArgument,
        match="solver must be one of construction, flow, ortools, pot, pot-dense, pot-warm, highs, cvxpy, cvxpy-highs, pulp",
    ):
        otd.solve(otd.Problem(uniform[0], uniform[0]), "simplex")


def test_limits_name_the_remedy(monkeypatch):
    problem = otd.Problem(np.full(6, 1 / 6), np.full(6, 1 / 6), 3)
    few_bits = partial(program.common_denominator, max_total_bits=100)
    monkeypatch.setattr(program, "common_denominator", few_bits)
    with pytest.raises(otd.SolverFailed, match='Use solver="highs"'):
        otd.solve(problem, "flow")
    monkeypatch.setattr(sets, "MAX_SETS", 10)
    with pytest.raises(otd.InvalidArgument, match="optimal_acceptance gives the optimum without it"):
        otd.solve(problem, "highs")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_torch_is_read_as_numpy(dtype):
    generator = np.random.default_rng(9)
    p, q = (torch.as_tensor(generator.dirichlet(np.ones(5)), dtype=dtype) for _ in range(2))
    found = otd.solve(otd.Problem(p, q, 2), "flow")
    same = otd.solve(otd.Problem(p.numpy(), q.numpy(), 2), "flow")
    assert found.acceptance == same.acceptance and isinstance(found.acceptance, float)
    assert abs(found.acceptance - float(otd.optimal_acceptance(p, q, 2))) <= 10 * torch.finfo(dtype).eps
    assert found.plan.flow.dtype == np.float64


def test_flow_in_floats_is_rounded_down_into_the_constraints():
    built = program.build(otd.Problem([0.5, 0.5], [0.75, 0.25], 1))
    raw = RawSolution(np.array([0.9, -0.5]), np.zeros(4), "made up")
    assert flow_plan.feasible(built, raw).flow.tolist() == [0.5, 0.0]


@pytest.mark.parametrize("solver", sorted(float_solvers.SOLVERS))
def test_float_solvers_take_any_linear_program(solver):
    """As that of paths, whose coefficients are not 0 and 1; a constraint without variables has the price 0."""
    sparse = pytest.importorskip("scipy.sparse")
    if solver != "highs":
        pytest.importorskip(solver.split("-")[0])
    matrix = sparse.csr_matrix(np.array([[2.0, 1.0], [0.0, 0.0], [1.0, 3.0]]))
    mass, prices, status = float_solvers.SOLVERS[solver](
        SimpleNamespace(matrix=matrix, bounds=np.array([4.0, 1.0, 6.0]))
    )
    np.testing.assert_allclose(mass, [1.2, 1.6], atol=1e-7)
    np.testing.assert_allclose(prices, [0.4, 0.0, 0.2], atol=1e-6)
    assert status == "optimal"


@pytest.mark.parametrize("solver", POT)
def test_network_simplex_is_as_good_as_the_flow(solver):
    """Its plan in floats, brought inside the constraints in rationals, is not further from the exact optimum than rounding."""
    generator = np.random.default_rng(11)
    for i in range(60):
        law = LAWS[i % 4]
        n, k = int(generator.integers(2, 9)), 2 if law == otd.SpecHubLaw() else int(generator.integers(1, 5))
        problem = otd.Problem(random_fractions(generator, n), random_fractions(generator, n), k, law)
        exact, found = otd.solve(problem, "flow").acceptance, otd.solve(problem, solver)
        assert exact - F(1, 10**14) <= found.acceptance <= exact
        assert found.certificate().upper == exact and found.residuals.dual <= 1e-14 and found.residuals.primal <= 1e-14


def test_a_dense_cost_that_fills_the_memory_is_refused():
    problem = otd.Problem(np.full(6, 1 / 6), np.full(6, 1 / 6), 3)
    with pytest.raises(otd.InvalidArgument, match=r'41 draft sets by 6 tokens are too many .* Use solver="pot"'):
        network_simplex.dense(program.build(problem), max_entries=100)


def test_a_network_simplex_that_stops_early_is_refused(monkeypatch):
    monkeypatch.setattr(network_simplex, "_emd", partial(network_simplex._emd, max_pivots=1))
    generator = np.random.default_rng(12)
    for solver in POT:
        with pytest.raises(otd.SolverFailed, match=r'POT: numItermax.*Use solver="flow"'):
            otd.solve(otd.Problem(*generator.dirichlet(np.ones(9), 2), 3), solver)


def test_the_dual_that_a_network_simplex_starts_from_is_one():
    """[S inside H] - [y in H] is at most the cost of every arc, and its value is that of the cut."""
    for problem, optimum in zip(PROBLEMS[:60], OPTIMA, strict=False):
        built = program.build(problem)
        of_sets, of_tokens = network_simplex._potentials(built)
        inside = np.zeros((len(of_sets), problem.n))
        inside[built.rows, built.tokens] = 1
        assert (of_sets[:, None] + of_tokens <= 1 - inside).all()
        assert 1 - built.bounds @ np.concatenate((of_sets, of_tokens)) == pytest.approx(optimum, abs=1e-12)
