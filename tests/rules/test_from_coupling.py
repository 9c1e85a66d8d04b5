"""FromCoupling: the rule read off the linear program is valid whatever the solver, and optimal under every law."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
import torch

import ot_draft as otd
from ot_draft.lp.program import as_fractions
from ot_draft.rules import from_coupling
from ot_draft.rules.from_coupling import FromCoupling

LAWS = [otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=1), otd.Hybrid(top=-1), otd.SpecHubLaw()]


def random_fractions(generator, shape):
    weights = generator.integers(0, 8, shape) * generator.integers(0, 2, shape)
    weights[..., 0] += 1
    return np.vectorize(F, otypes=[object])(weights) / weights.sum(-1, keepdims=True)


def counts(law):
    return (2,) if law == otd.SpecHubLaw() else (0, 1, 2, 3, 4)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_exact_on_fractions(law):
    generator = np.random.default_rng(1)
    for n, k in product((1, 2, 3, 4), counts(law)):
        problem = otd.Problem(random_fractions(generator, n), random_fractions(generator, n), k, law)
        result = otd.evaluate(FromCoupling(law), problem)
        assert (result.output == problem.p).all()
        assert result.acceptance == otd.optimal_acceptance(problem.p, problem.q, k, law)


@pytest.mark.parametrize("solver", ["highs", "cvxpy", "pulp"])
def test_float_solvers_give_exactly_valid_rules(solver):
    generator = np.random.default_rng(2)
    for n in (2, 3, 4):
        problem = otd.Problem(random_fractions(generator, n), random_fractions(generator, n), 2)
        result = otd.evaluate(FromCoupling(solver=solver), problem)
        optimum = otd.optimal_acceptance(problem.p, problem.q, 2)
        assert (result.output == problem.p).all()
        assert optimum - F(1, 10**6) <= result.acceptance <= optimum


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_valid_and_optimal_on_floats(law):
    generator = np.random.default_rng(3)
    for alpha, k in product((1.0, 0.1), counts(law)):
        p, q = (generator.dirichlet(np.full(4, alpha), (2, 3)) for _ in range(2))
        result = otd.evaluate(FromCoupling(law), otd.Problem(p, q, k, law))
        assert result.output.shape == (2, 3, 4) and result.error.max() <= 1e-14
        assert np.abs(result.acceptance - otd.optimal_acceptance(p, q, k, law)).max() <= 1e-9


BOUNDARY = {
    "p equals q": ([0.25, 0.75, 0.0], [0.25, 0.75, 0.0]),
    "one-hot p": ([0.0, 1.0, 0.0], [0.5, 0.25, 0.25]),
    "one-hot q": ([0.5, 0.25, 0.25], [0.0, 1.0, 0.0]),
    "disjoint supports": ([0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]),
    "one ulp apart": ([0.5 + 2**-53, 0.5 - 2**-53], [0.5 - 2**-53, 0.5 + 2**-53]),
    "subnormal mass": ([5e-324, 1.0], [1.0, 5e-324]),
}


@pytest.mark.parametrize("law", [otd.IID(), otd.WithoutReplacement(), otd.SpecHubLaw()], ids=repr)
@pytest.mark.parametrize("case", BOUNDARY)
def test_boundary_cases(case, law):
    problem = otd.Problem(*BOUNDARY[case], 2, law)
    result = otd.evaluate(FromCoupling(law), problem)
    optimum = otd.optimal_acceptance(as_fractions(problem.p), as_fractions(problem.q), 2, law)
    assert result.error <= 1e-15 and abs(result.acceptance - float(optimum)) <= 1e-15


def test_repeats_and_absent_drafts():
    p, q = np.array([F(1, 2), F(3, 10), F(1, 5)]), np.array([F(1, 10), F(1, 5), F(7, 10)])
    rule = FromCoupling()
    drafts = np.array([[2, 2, 0], [2, 0, 2], [-1, 2, 0], [2, -1, -1], [-1, -1, -1]])
    selection = rule(p, q, drafts)
    assert selection.accept[0, 1] == selection.accept[1, 2] == 0  # repeats
    assert selection.accept[0, [0, 2]].tolist() == selection.accept[1, [0, 1]].tolist()
    assert (selection.accept[0] != 0).any()
    two = rule(p, q, np.array([[2, 0]]))
    assert selection.accept[2].tolist() == [0, *two.accept[0].tolist()]
    assert (selection.residual[2] == two.residual[0]).all()
    one = rule(p, q, np.array([[2]]))
    assert one.accept[0].tolist() == [F(2, 7)] == [selection.accept[3, 0]]
    assert (selection.residual[3] == [F(4, 5), F(1, 5), 0]).all()
    assert selection.accept[4].tolist() == [0, 0, 0] and (selection.residual[4] == p).all()


def test_no_draft_left_gives_p_to_the_last_bit():
    p = np.array([0.1, 0.2, 0.7]) * (1 + 1e-10)  # normalising would change it
    nothing = FromCoupling()(p, p[::-1].copy(), np.array([[-1, -1], [0, 1]]))
    assert (nothing.residual[0] == p).all() and (nothing.accept[0] == 0).all()
    assert (FromCoupling()(p, p, np.zeros((2, 0), dtype=np.int64)).residual == p).all()


def test_survivors_of_different_number_are_each_valid():
    """k differs from row to row: averaged over its own number of drafts, every row has the target's law."""
    generator = np.random.default_rng(4)
    p, q = random_fractions(generator, 3), random_fractions(generator, 3)
    everything = np.array(list(product(range(-1, 3), repeat=3)))
    rows = FromCoupling()(p, q, everything).output(everything)
    for absent in product((True, False), repeat=3):
        here = ((everything < 0) == absent).all(-1)
        weight = np.where(everything < 0, F(1), q[everything]).prod(-1)[here]
        assert weight.sum() == 1 and ((weight[:, None] * rows[here]).sum(0) == p).all()


def test_drafts_of_probability_zero_are_left_alone():
    p, q = np.array([F(1, 2), F(1, 2), F(0)]), np.array([F(1, 2), F(0), F(1, 2)])
    selection = FromCoupling()(p, q, np.array([[1, 1]]))
    assert selection.accept.tolist() == [[0, 0]] and selection.residual.sum() == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_torch_in_torch_out(dtype):
    generator = np.random.default_rng(5)
    p, q = (torch.as_tensor(generator.dirichlet(np.ones(4), (2, 1)), dtype=dtype) for _ in range(2))
    drafts = torch.tensor([[0, 1], [2, 2], [3, -1]])
    selection = FromCoupling()(p, q, drafts)
    assert selection.accept.shape == (2, 3, 2) and selection.residual.shape == (2, 3, 4)
    assert selection.accept.dtype == selection.residual.dtype == dtype
    same = FromCoupling()(p.numpy(), q.numpy(), drafts.numpy())
    assert (selection.accept.numpy() == same.accept).all() and (selection.residual.numpy() == same.residual).all()
    assert otd.evaluate(FromCoupling(), otd.Problem(p[:, 0], q[:, 0], 2)).lossless


def test_float32_numpy_stays_float32():
    p, q = np.array([0.3, 0.7], dtype=np.float32), np.array([0.6, 0.4], dtype=np.float32)
    selection = FromCoupling()(p, q, np.array([0, 1]))
    assert selection.accept.dtype == selection.residual.dtype == np.float32
    assert selection.accept.shape == (2,) and selection.residual.shape == (2,)


def test_empty_batch():
    nothing = np.zeros((0, 3))
    selection = FromCoupling()(nothing, nothing, np.zeros((0, 2), dtype=np.int64))
    assert selection.accept.shape == (0, 2) and selection.residual.shape == (0, 3)


def test_meta_device_is_refused():
    p = torch.full((3,), 1 / 3, device="meta")
    with pytest.raises(otd.InvalidDistribution, match="meta device"):
        FromCoupling()(p, p, torch.zeros(2, dtype=torch.int64, device="meta"))


def test_solutions_are_remembered(monkeypatch):
    from_coupling._plan.cache_clear()
    solved = []

    def counting(problem, solver):
        solved.append(problem.k)
        return otd.solve(problem, solver)

    monkeypatch.setattr(from_coupling, "solve_program", counting)
    p, q = np.array([[0.5, 0.5], [0.5, 0.5], [0.25, 0.75]]), np.array([[0.75, 0.25]] * 3)
    for _ in range(3):
        FromCoupling()(p, q, np.array([[0, 1], [1, -1], [0, 0]]))
    assert sorted(solved) == [1, 2, 2]  # the first two rows differ in the number of drafts, the third in p
    assert from_coupling._plan.cache_info().maxsize == 64


def test_inputs_are_not_changed():
    p, q, drafts = np.array([[0.5, 0.5]]), np.array([[0.75, 0.25]]), np.array([[1, 0]])
    for x in (p, q, drafts):
        x.setflags(write=False)
    selection = FromCoupling()(p, q, drafts)
    assert p.tolist() == [[0.5, 0.5]] and selection.residual.tolist() == [[0, 1]]
