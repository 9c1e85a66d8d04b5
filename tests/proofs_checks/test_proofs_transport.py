"""The proof checks of the optimum, of draft laws and of one-token rules: they pass, fail when they must, and say what they say."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
import z3
from scipy.integrate import quad
from slow import slow

import ot_draft as otd
from proofs_checks.by_z3 import decide, greatest, is_law, least, power, reals
from proofs_checks.optimum import cover_property, linear_program, spectr_bound, spectr_gbv, top_tokens, two_drafts
from proofs_checks.random_cases import Case, draw
from proofs_checks.rules import boundary_uniforms, importance_weighting
from proofs_checks.statement import Statement

MODULES = (
    linear_program,
    spectr_bound,
    two_drafts,
    top_tokens,
    cover_property,
    importance_weighting,
    spectr_gbv,
    boundary_uniforms,
)
ALL = [(module, statement) for module in MODULES for statement in module.STATEMENTS]
REFUTED = {"two drafts are accepted always only where p = q", "SpecTr-GBV's largest acceptance"}
BERNOULLI = Case((F(1, 2), F(1, 2)), (F(3, 4), F(1, 4)), 2, 0)

DEAR = (
    "cover property: who has it",
    "no impossible output",
    "linear program = token set, any draft law",
)  # seconds each
CASES = [(slow if s.name in DEAR else pytest.param)(m, s, id=s.name) for m, s in ALL]


@pytest.mark.parametrize(("module", "statement"), CASES)
def test_the_statement_comes_out_as_expected_and_so_do_its_controls(module: Any, statement: Statement) -> None:
    outcome = module.check(statement, 12)
    assert outcome.passed, outcome.verdict + outcome.controls
    by_prover = statement.prove is not None and statement.name != "cover property: who has it"
    assert outcome.kind == ("refuted" if statement.name in REFUTED else "proved" if by_prover else "verified")
    assert (len(outcome.counterexamples) > 0) == (statement.name in REFUTED)


def test_a_prover_that_gives_up_has_not_proved() -> None:
    x = z3.Real("x")
    proof = decide("proved", [("trivial", [], x == x), ("beyond", [x > 1], x**x != 7)])
    assert proof.undecided.startswith("beyond") and not proof.counterexample and proof.count == 1
    false = decide("proved", [("trivial", [], x == x), ("square", [x >= 0], x * x >= x), ("never", [], x == x)])
    assert false.counterexample.startswith("square: x = ") and false.count == 1 and not false.undecided


def test_terms_of_the_prover_have_the_values_they_should() -> None:
    numbers = [z3.RealVal(value) for value in ("1/3", "-2", "5", "1/2")]
    value = z3.simplify(least(*numbers) + 10 * greatest(*numbers) + 100 * power(numbers[3], 3))
    assert value.as_fraction() == -2 + 50 + F(100, 8)
    p = reals("p", 2)
    assert decide("", [("law", is_law(p), z3.And(p[0] <= 1, p[1] == 1 - p[0]))]).count == 1


def test_the_cuts_of_the_program_are_those_of_the_library() -> None:
    """n = 3, k = 2: the polynomials at rational numbers are 1 + p(H) - Q(all drafts in H), the least of them the optimum."""
    cases = [case for case in map(draw, range(150)) if (len(case.p), case.k) == (3, 2)]
    assert len(cases) > 3
    for case in cases:
        flow = linear_program.Flow(3, 2)
        drawn = [case.q[x[0]] ** 2 if len(x) == 1 else 2 * case.q[x[0]] * case.q[x[1]] for x in flow.sets]
        values = zip([*flow.p, *flow.s], [*case.p, *drawn], strict=True)
        substitutions = [(variable, z3.RealVal(str(value))) for variable, value in values]
        cuts = [z3.simplify(z3.substitute(cut, *substitutions)).as_fraction() for cut in flow.cuts()]
        assert min(cuts) == otd.optimal_acceptance(list(case.p), list(case.q), 2)


def test_a_wrong_coupling_is_seen() -> None:
    problem = BERNOULLI.problem()
    solution = otd.solve(problem, "flow")
    assert linear_program.is_coupling(problem, solution, alone=False)
    assert not linear_program.is_coupling(problem, solution, alone=True)
    swapped = otd.Problem(problem.q, problem.p, 2)
    assert not linear_program.is_coupling(swapped, solution, alone=False)


def test_the_bound_of_spectr_by_hand() -> None:
    """Draft Ber(1/4), target Ber(1/2), k = 2: O empty gives 9/16 -> 1/2, 3/16 twice, 1/16."""
    bounds = spectr_bound.bounds(BERNOULLI, spectr_bound.some_draft)
    assert bounds[()] == F(1, 2) + 2 * F(3, 16) + F(1, 16) == F(15, 16) == min(bounds.values())
    assert bounds[(0, 1)] == F(1, 2) + F(7, 16)


def test_the_claim_of_spectr_gbv_by_hand() -> None:
    assert spectr_gbv.claimed(BERNOULLI, 2) == F(7, 8)
    assert spectr_gbv.claimed(BERNOULLI, 1) == F(3, 4)
    assert "a lossless rule accepts 15/16, claimed 7/8" in spectr_gbv.shown(BERNOULLI)


def test_two_drafts_can_be_accepted_always_though_the_laws_differ() -> None:
    evaluation = otd.evaluate(otd.rules.Optimal(), two_drafts.OTHER.problem())
    assert two_drafts.OTHER.p != two_drafts.OTHER.q and evaluation.lossless and evaluation.acceptance == 1


def test_greedy_drafting_by_hand() -> None:
    case = Case((F(1, 5), F(3, 5), F(1, 5)), (F(1, 2), F(1, 8), F(3, 8)), 2, 0)
    assert top_tokens.closed_form(case) == F(1, 5) + F(1, 4) + F(1, 5)


def test_who_has_the_cover_property() -> None:
    proof = cover_property.table("")
    assert (
        "Have it: RecursiveRejectionWithoutReplacement, HeadAndTail, RandomOrder, Greedy, SpecHub, GumbelCoupling."
        in proof.said
    )
    assert "KSeq 3/4" in proof.said and proof.kind == "verified" and not proof.counterexample
    assert all(sum(mass > 0 for mass in case.q) == case.k for case in cover_property.covered_cases())


@pytest.mark.parametrize("seed", [4, 9, 13, 22])
def test_the_picked_law_is_the_integral_by_quadrature(seed: int) -> None:
    case = draw(seed)
    w = importance_weighting.weights_of(case)
    q, weight = (np.array(x, dtype=float) for x in (case.q, w))
    for y, exact in enumerate(importance_weighting.by_integral(case, w)):
        value, _ = quad(
            lambda t, y=y: np.exp(-t * weight[y]) * (q @ np.exp(-t * weight)) ** (case.k - 1), 0, 200, limit=400
        )
        assert case.k * q[y] * weight[y] * value == pytest.approx(float(exact), abs=1e-6)
