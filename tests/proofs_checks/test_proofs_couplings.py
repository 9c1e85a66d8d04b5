"""Watermarks, two vocabularies, chains and schedules: the statements hold, their planted errors do not, and known values come out."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from proofs_checks.couplings import factorised, scheduled, three_models, two_vocabularies
from proofs_checks.couplings.three_models import ThreeCase
from proofs_checks.couplings.two_vocabularies import TextCase
from proofs_checks.races import watermarks
from proofs_checks.random_cases import Case
from proofs_checks.statement import Statement
from proofs_checks.transport import transport

MODULES = (watermarks, two_vocabularies, three_models, factorised, scheduled)
ALL = [(module, statement) for module in MODULES for statement in module.STATEMENTS]
P, Q = (F(1, 2), F(1, 3), F(1, 6)), (F(1, 6), F(1, 3), F(1, 2))
RUNS = 40_000


@pytest.mark.parametrize(("module", "statement"), ALL, ids=[statement.name for _, statement in ALL])
def test_the_statement_holds_and_its_planted_errors_do_not(module: Any, statement: Statement) -> None:
    outcome = module.check(statement, 15)
    assert outcome.passed, outcome.verdict + outcome.controls


def test_a_transport_by_hand_and_one_by_brute_force() -> None:
    assert transport({0: F(1, 2), 1: F(1, 2)}, {0: F(1, 4), 1: F(3, 4)}, lambda a, b: a == b)[0] == F(3, 4)
    generator = np.random.default_rng(5)
    for _ in range(20):
        gain = generator.integers(-3, 4, (4, 4))
        uniform = dict.fromkeys(range(4), F(1, 4))
        value, plan = transport(uniform, uniform, lambda a, b, gain=gain: F(int(gain[a, b]), 3))
        best = max(sum(F(int(gain[a, b]), 12) for a, b in enumerate(order)) for order in permutations(range(4)))
        assert value == best == sum(F(int(gain[a, b]), 3) * mass for (a, b), mass in plan.items())


def test_prices_that_are_not_optimal_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs_checks.transport._prices", lambda supply, demand, gain: [F(7), F(0)])
    with pytest.raises(ValueError, match="not optimal"):
        transport({0: F(1, 2), 1: F(1, 2)}, {0: F(1, 4), 1: F(3, 4)}, lambda a, b: a == b)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_output_given_the_drafts_as_races_that_are_run_have_it(k: int) -> None:
    """The law of the output after the commonest drafts, of one race with k arrivals and of k races."""
    p, q = np.array(P, dtype=float), np.array(Q, dtype=float)
    one = np.random.default_rng([1, k]).exponential(size=(RUNS, 3))
    several = np.random.default_rng([2, k]).exponential(size=(RUNS, k, 3))
    runs = (
        (otd.rules.GumbelCoupling(), np.argsort(one / q, axis=-1)[:, :k], (one / p).argmin(-1)),
        (otd.rules.ListCoupling(), (several / q).argmin(-1), (several.min(1) / p).argmin(-1)),
    )
    for rule, drafts, outputs in runs:
        kinds, number, counts = np.unique(drafts, axis=0, return_inverse=True, return_counts=True)
        common = int(counts.argmax())
        exact = rule(np.array(P, dtype=object), np.array(Q, dtype=object), kinds[common]).output(kinds[common])
        found = np.bincount(outputs[number.reshape(-1) == common], minlength=3) / counts[common]
        assert abs(found - exact.astype(float)).max() < 5 / (2 * counts[common] ** 0.5)


def test_the_frontier_of_a_watermark() -> None:
    """p = (1/2, 1/3, 1/6), q reversed: acceptance falls from 2/3 to 7/12 where the strength rises from 5/6 to 1."""
    case = Case(P, Q, 1, 0)
    masses = watermarks.cells(case)
    assert sum(masses.values()) == 1
    assert watermarks.frontier_point(masses, P, F(1, 4)) == (F(2, 3), F(5, 6))
    assert watermarks.frontier_point(masses, P, F(3, 4)) == (F(7, 12), 1)


def test_one_key_for_draft_and_recovery_moves_the_law() -> None:
    case = Case((F(1, 10), F(3, 5), F(3, 10)), (F(4, 5), F(1, 10), F(1, 10)), 1, 0)
    assert watermarks.recovered(case, one_key=False) == case.p
    wrong = [float(mass) for mass in watermarks.recovered(case, one_key=True)]
    assert wrong == pytest.approx([0.1, 0.626, 0.274], abs=5e-4)  # as vLLM pull request 54282 measured it


def test_three_models_by_hand() -> None:
    """r and q differ everywhere: what they draft together is all that p needs."""
    case = ThreeCase((F(1, 2), F(1, 2)), (F(1), F(0)), (F(0), F(1)))
    assert three_models.best_of_three(case) == 1
    assert three_models.with_both(case, three_models.chain(case)) == 1
    same = ThreeCase((F(1, 2), F(1, 2)), (F(1), F(0)), (F(1), F(0)))
    assert three_models.best_of_three(same) == F(1, 2)


def test_two_vocabularies_by_hand() -> None:
    """The target has a, b and ab; the draft writes letters: ab is drafted where b follows a."""
    half = F(1, 2)
    case = TextCase(
        {"": {"a": F(0), "b": half, "ab": half}, "a": {"a": F(1)}, "b": {"b": F(1)}},
        {before: {"a": half, "b": half} for before in ("", "a", "b")},
    )
    assert two_vocabularies.ways(case) == {
        "optimum of a text": F(3, 4),  # b, and ab after a b
        "SLRS": F(3, 4),
        "SLEM": F(3, 8),
        "TLI": half,
        "OOV": F(3, 4),  # half of what drafts a goes to ab
    }


def test_heads_that_are_the_targets_own_marginals_lose_nothing_coupled_best() -> None:
    for seed in range(10):
        case = factorised.own_marginals(factorised.draw_heads(seed))
        assert factorised.best(case) == 2 == factorised.sampled(case, factorised.best_coupling(case)).expected_length


def test_targets_that_are_independent_on_average_and_their_ceilings_by_hand() -> None:
    """Two equal tokens, the second the first's or the other one: a drawn pair is right half of the time, four fixed ones always."""
    crowd = factorised.Crowd((0, 1), (0, 1), (0, 1), (0, 1))
    own = factorised.products(crowd)
    assert crowd.masses == factorised.prefix_masses([own]) and set(own.values()) == {F(1, 4)}
    assert factorised.blind(crowd, own) == F(3, 2)
    assert [factorised.ceiling(crowd, budget) for budget in (1, 2, 3)] == [1, F(3, 2), 2]
    assert factorised.program(crowd, 2, coupled=True)[0] == pytest.approx(1.5)
    one = factorised.Crowd((0, 1), (0, 1), (0, 1), (1,))
    assert factorised.program(one, 2, coupled=True)[0] == pytest.approx(2) and factorised.blind(one, own) == F(3, 2)
