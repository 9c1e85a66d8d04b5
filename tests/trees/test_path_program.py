"""The path program: block verification's value for one path, an upper bound of every rule, the same from three solvers."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from random_problems import Everywhere

import ot_draft as otd
from ot_draft import trees
from ot_draft.trees.evaluation import program as path_program
from ot_draft.trees.evaluation.certificate import price_bound
from ot_draft.trees.model import Nodes

pytest.importorskip("scipy")
RULES = [
    trees.Joint(),
    trees.Traversal(),
    *(trees.TokenWise(rule) for rule in (otd.rules.KSeq(), otd.rules.RecursiveRejection(), otd.rules.Optimal())),
    trees.TokenWise(otd.rules.NaiveTarget()),
]
SIZES = [(2, 2, 2), (2, 2, 3), (3, 2, 2), (2, 3, 2), (3, 3, 2)]  # vocabulary, K, L


def random_models(n: int, number: int, *seed: int) -> list[trees.MarkovModel]:
    generator = np.random.default_rng([n, *seed])
    return [trees.MarkovModel.random(generator, n, order=index % 3) for index in range(number)]


def paths_program(model: trees.MarkovModel) -> path_program.PathProgram:
    """The program of two paths of length two."""
    nodes = Nodes.of(model)
    return path_program.program_of(nodes, path_program._sets_of_paths(nodes, 2, 2))


@pytest.mark.parametrize(("n", "L"), [(2, 1), (2, 3), (3, 2), (3, 3), (4, 2)])
def test_for_one_path_the_bound_is_block_verification(n: int, L: int) -> None:
    for model in random_models(n, 6, 1, L):
        exact = trees.evaluate(trees.BlockVerification(), model, (1, L)).expected_length
        bound = trees.path_bound(model, 1, L)
        assert abs(bound.value - exact) <= 1e-9
        assert bound.certificate.lower <= exact <= bound.certificate.upper
        assert bound.certificate.width <= 1e-9


@pytest.mark.parametrize(("n", "K", "L"), SIZES)
def test_no_lossless_rule_exceeds_the_certified_bound(n: int, K: int, L: int) -> None:
    for model in random_models(n, 3, K, L):
        certificate = trees.path_bound(model, K, L).certificate
        for rule in RULES:
            result = trees.evaluate(rule, model, (K, L))
            assert result.lossless and result.expected_length <= certificate.upper, rule.name


def test_a_boaster_exceeds_it() -> None:
    """The bound can fail: a rule that always emits the first path is not lossless, and accepts more."""
    halves = Everywhere(np.array([F(1, 4), F(3, 4)]), np.array([F(3, 4), F(1, 4)]))
    boast = trees.evaluate(lambda model, drafts: {(*next(iter(drafts)), 0): F(1)}, halves, (2, 2))
    assert not boast.lossless and boast.expected_length > trees.path_bound(halves, 2, 2).certificate.upper


@pytest.mark.parametrize(("n", "K", "L"), [(3, 2, 2), (2, 3, 3)])
def test_three_solvers_agree(n: int, K: int, L: int) -> None:
    pytest.importorskip("cvxpy")
    pytest.importorskip("pulp")
    for model in random_models(n, 3, K, L, 7):
        bounds = [trees.path_bound(model, K, L, solver) for solver in ("highs", "cvxpy", "pulp")]
        values = [float(bound.value) for bound in bounds]
        assert max(values) - min(values) < 1e-6
        for one, other in pairwise(bounds):
            assert one.certificate.lower <= other.certificate.upper
            assert other.certificate.lower <= one.certificate.upper
        for bound in bounds:
            assert 0 <= bound.certificate.width < 1e-6


@pytest.mark.parametrize("K", [1, 2, 3])
def test_for_one_token_the_bound_is_the_optimum_of_one_selection(K: int) -> None:
    for p, q in [(["1/2", "1/2"], ["3/4", "1/4"]), (["1/5", "0", "4/5"], ["1/3", "1/3", "1/3"])]:
        target, draft = (np.array([F(mass) for mass in masses], dtype=object) for masses in (p, q))
        certificate = trees.path_bound(Everywhere(target, draft), K, 1).certificate
        optimum = otd.optimal_acceptance(target, draft, K)
        assert certificate.lower <= optimum <= certificate.upper and certificate.width <= 1e-9


def test_prices_of_a_token_set_give_its_cut() -> None:
    """Exactly: 1 + p(H) - q(H)^K for prices 1 on H and 0 outside."""
    p, q = [F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)]
    targets = {(y,): mass for y, mass in enumerate(p)}
    drafted = [((x, y), q[x] * q[y]) for x in range(3) for y in range(3)]
    sets = {tuple((y,) for y in sorted(set(pair))): F(0) for pair, _ in drafted}
    for pair, mass in drafted:
        sets[tuple((y,) for y in sorted(set(pair)))] += mass
    for chosen in [(), (0,), (1, 2), (0, 1, 2)]:
        prices = {(y,): F(int(y in chosen)) for y in range(3)}
        inside = sum((q[y] for y in chosen), F(0))
        assert price_bound(prices, targets, sets) == 1 + sum((p[y] for y in chosen), F(0)) - inside**2


def test_any_prices_bound_every_rule() -> None:
    generator = np.random.default_rng(4)
    for model in random_models(3, 4, 9):
        program = paths_program(model)
        best = max(trees.evaluate(rule, model, (2, 2)).expected_length for rule in RULES)
        for _ in range(5):
            prices = {v: F(int(generator.integers(0, 9)), 4) for v in program.targets}
            assert price_bound(prices, program.targets, program.sets) >= best


def test_a_wrong_answer_of_a_solver_is_not_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masses doubled are made feasible; prices halved prove less than they should: no bound comes out too low or too high."""
    (model,) = random_models(3, 1, 2, 5)
    right = trees.path_bound(model, 2, 2).certificate
    solve = path_program.SOLVERS["highs"]

    def planted(masses: float, prices: float) -> Any:
        def answer(*given: Any) -> Any:
            x, y, status = solve(*given)
            return x * masses, y * prices, status

        return answer

    monkeypatch.setitem(path_program.SOLVERS, "highs", planted(2.0, 1.0))
    try:
        found = trees.path_bound(model, 2, 2)
        assert found.certificate.lower <= right.upper
    except otd.SolverFailed:
        pass
    monkeypatch.setitem(path_program.SOLVERS, "highs", planted(1.0, 0.5))
    with pytest.raises(otd.SolverFailed, match="apart"):
        trees.path_bound(model, 2, 2)


def test_floats_and_boundaries() -> None:
    (model,) = random_models(3, 1, 3, 3)
    exact, rounded = (trees.path_bound(m, 2, 2).value for m in (model, model.in_floats()))
    assert isinstance(exact, F) and isinstance(rounded, float) and abs(float(exact) - rounded) < 1e-8
    one, zero = np.array([F(1), F(0)]), np.array([F(0), F(1)])
    assert trees.path_bound(Everywhere(one, zero), 2, 2).certificate.upper == 0
    assert float(trees.path_bound(Everywhere(one, one), 2, 3).value) == pytest.approx(3, abs=1e-9)
    assert trees.path_bound(Everywhere(one, zero), 2, 0).value == 0
    assert "lies between" in str(trees.path_bound(model, 1, 1).certificate)


def test_bad_input() -> None:
    (model,) = random_models(2, 1, 8)
    with pytest.raises(otd.SolverFailed, match="highs, cvxpy, cvxpy-highs, pulp"):
        trees.path_bound(model, 1, 1, "simplex")
    with pytest.raises(otd.InvalidDrafts, match=r"K must be .* got 0"):
        trees.path_bound(model, 0, 1)
    with pytest.raises(otd.InvalidArgument, match="smaller vocabulary"):
        trees.path_bound(Everywhere(*2 * (np.full(9, F(1, 9), dtype=object),)), 2, 9)


def test_models_may_give_lists() -> None:
    exact = trees.MarkovModel.random(np.random.default_rng(3), 2, order=1)

    class Lists:
        def target(self, prefix: tuple[int, ...]) -> list[F]:
            return exact.target(prefix).tolist()

        def draft(self, prefix: tuple[int, ...]) -> list[F]:
            return exact.draft(prefix).tolist()

    assert trees.path_bound(Lists(), 2, 2).value == trees.path_bound(exact, 2, 2).value
