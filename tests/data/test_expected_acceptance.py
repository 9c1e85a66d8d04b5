"""The formulas for a rule's acceptance are those of enumeration, and estimates are as good as they say."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_problems import fits, random_problems

import ot_draft as otd
from ot_draft.data import estimate
from ot_draft.data.estimate import _control, _drawn, _estimate, _given, closed_form, expected_acceptance, mean_and_error
from ot_draft.exact import all_drafts

SIZES = [(1, 3), (2, 1), (2, 4), (3, 2), (3, 4), (5, 2)]
RULES = [
    *otd.rules.ALL,
    otd.rules.KSeq(factor=Fraction(7, 2)),
    otd.rules.Optimal(otd.Hybrid(top=1)),
    otd.rules.Optimal(otd.Hybrid(top="auto")),
    otd.rules.NaiveTarget(otd.Hybrid(top=1)),
    otd.rules.NaiveTarget(otd.SpecHubLaw()),
    otd.rules.FromCoupling(otd.WithoutReplacement()),
]
NO_FORMULA = (
    otd.rules.RecursiveRejectionWithoutReplacement,
    otd.rules.HeadAndTail,
    otd.rules.RandomOrder,
    otd.rules.GumbelCoupling,
)
EXACT_ONLY_BY_ENUMERATION = (*NO_FORMULA, otd.rules.ImportanceWeighted)
REAL = Path(__file__).parents[2] / "figures" / "data" / "smollm2_pairs.npz"


def problems(rule: otd.SelectionRule, seed: int = 4) -> list[otd.Problem]:
    sizes = [(n, k) for n, k in SIZES if fits(rule.law, k)]
    return [problem for n, k in sizes for problem in random_problems(seed, n, k, rule.law, 4)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_formulas_equal_enumeration_on_fractions(rule: otd.SelectionRule) -> None:
    for problem in problems(rule):
        found, exact = closed_form(rule, problem), otd.evaluate(rule, problem)
        assert (found is None) == isinstance(rule, EXACT_ONLY_BY_ENUMERATION)
        if found is not None:
            assert found == (exact.acceptance, exact.accept.sum(-1))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_formulas_equal_enumeration_on_floats(rule: otd.SelectionRule) -> None:
    for problem in problems(rule):
        floats = otd.Problem(problem.p.astype(float), problem.q.astype(float), problem.k, rule.law)
        found, exact = closed_form(rule, floats), otd.evaluate(rule, problem)
        assert (found is None) == isinstance(rule, NO_FORMULA)
        if found is not None:
            wanted = (float(exact.acceptance), float(exact.accept.sum(-1)))
            assert found == pytest.approx(wanted, abs=2e-12)  # K-SEQ's rounding of its factor


def test_the_two_notions_differ_where_the_residual_may_hit_a_draft() -> None:
    problem = otd.Problem([Fraction(1, 2)] * 2, [Fraction(1, 4), Fraction(3, 4)], 2)
    found = expected_acceptance(otd.rules.SpeculativeSampling(), problem)
    assert (found.value, found.taken, found.method) == (Fraction(13, 16), Fraction(3, 4), "enumerated")
    wide = expected_acceptance(otd.rules.KSeq(factor=2), problem)
    assert wide.taken == 1 - (1 - Fraction(1, 2)) ** 2 < wide.value


@pytest.mark.parametrize("k", [1, 2, 8])
def test_k_seq_keeps_its_bound_with_what_it_takes(k: int) -> None:
    for problem in random_problems(8, 6, k, otd.IID(), 20):
        best = otd.optimal_acceptance(problem.p, problem.q, k)
        assert expected_acceptance(otd.rules.KSeq(), problem).taken >= otd.kseq_bound(k) * best


def test_no_draft_no_acceptance_and_a_batch_goes_row_by_row() -> None:
    pairs = np.random.default_rng(0).dirichlet(np.ones(5), (2, 3))
    for rule in otd.rules.ALL:
        if fits(rule.law, 0):
            assert (expected_acceptance(rule, otd.Problem(*pairs, 0, rule.law)).value == 0).all()
        if fits(rule.law, 2):
            batch = expected_acceptance(rule, otd.Problem(*pairs, 2, rule.law))
            rows = [
                expected_acceptance(rule, otd.Problem(p, q, 2, rule.law)).value for p, q in zip(*pairs, strict=True)
            ]
            np.testing.assert_allclose(batch.value, rows, rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def real_pair() -> Any:
    with np.load(REAL, allow_pickle=False) as stored:
        return stored["p"][0, 3], stored["q"][0, 3]


@pytest.mark.parametrize(
    "rule", [rule for rule in otd.rules.ALL if not rule.cost.solves_program], ids=lambda rule: rule.name
)
def test_formulas_and_estimates_agree_on_a_real_pair(rule: otd.SelectionRule, real_pair: Any) -> None:
    k = 2 if isinstance(rule, otd.rules.SpecHub) else 8
    problem = otd.Problem(*real_pair, k, rule.law)
    found = expected_acceptance(rule, problem, generator=np.random.default_rng(1))
    again = _estimate(rule, problem, 1000, np.random.default_rng(2))
    assert found.exact == (not isinstance(rule, NO_FORMULA))
    assert abs(found.value - again.value) < 4 * np.hypot(found.error, again.error) + 1e-12
    assert 0 <= again.error < 0.02  # 0 up to rounding for K-SEQ, whose acceptance is a control
    best = otd.optimal_acceptance(*real_pair, k, rule.law)
    assert found.value <= best + 4 * found.error + 1e-12


def test_the_error_of_an_estimate_is_its_spread() -> None:
    """Over 200 seeds: estimates scatter around the exact value as their standard errors say, within a factor of 1.2."""
    rule = otd.rules.RecursiveRejectionWithoutReplacement()
    problem = otd.Problem(*np.random.default_rng(3).dirichlet(np.ones(4), 2), 2, rule.law)
    exact = float(otd.evaluate(rule, problem).acceptance)
    found = [_estimate(rule, problem, 64, np.random.default_rng(seed)) for seed in range(200)]
    scores = [(estimate.value - exact) / estimate.error for estimate in found]
    assert abs(np.mean(scores)) < 3 / np.sqrt(200)
    assert 1 / 1.2 < np.std(scores) < 1.2


@pytest.mark.parametrize("law", [otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=1)], ids=lambda law: law.name)
def test_the_control_of_an_estimate_has_expectation_0(law: otd.DraftLaw) -> None:
    """Averaged over all draft tuples with their probabilities."""
    for problem in random_problems(5, 4, 3, law, 3):
        floats = otd.Problem(problem.p.astype(float), problem.q.astype(float), problem.k, law)
        tuples = np.concatenate(list(all_drafts(problem)))
        weights = law.probability(floats.q, tuples)
        np.testing.assert_allclose(weights @ _control(floats, tuples), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("rule", "share"),
    [
        (otd.rules.KSeq(), 1e-9),
        (otd.rules.RecursiveRejection(), 0.75),
        (otd.rules.RecursiveRejectionWithoutReplacement(), 0.7),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_control_reduces_the_standard_error(rule: otd.SelectionRule, share: float, real_pair: Any) -> None:
    problem = otd.Problem(*real_pair, 4, rule.law)
    drafts = _drawn(problem, 256, np.random.default_rng(0))
    accepted = _given(rule, problem.p, problem.q, drafts)[1]
    _, plain = mean_and_error(accepted)
    _, adjusted = mean_and_error(accepted - _control(problem, drafts))
    assert adjusted < share * plain


def test_the_errors_of_estimates_are_their_spread_on_peaked_pairs() -> None:
    """Real pairs at temperature 0.6. With a fitted coefficient of the control, errors are a third of the spread, and estimates worse."""
    with np.load(REAL, allow_pickle=False) as stored:
        problem = otd.Problem(stored["p"][1, :40], stored["q"][1, :40], 4)
    rule = otd.rules.SpeculativeSampling()
    exact = rule.closed_form(problem)[0]
    found = _estimate(rule, problem, 256, np.random.default_rng(1))
    plain, _ = mean_and_error(_given(rule, problem.p, problem.q, _drawn(problem, 256, np.random.default_rng(1)))[0])
    known = found.error > 2e-4
    assert known.mean() > 0.8
    assert np.sqrt(np.mean(((found.value - exact) / found.error)[known] ** 2)) < 1.5
    assert np.sum((found.value - exact) ** 2) < 1.2 * np.sum((plain - exact) ** 2)


def test_rules_of_one_law_are_estimated_from_the_same_tuples(real_pair: Any) -> None:
    seen: list[Any] = []

    class Watched(otd.rules.NaiveTarget):
        def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
            seen.append(drafts)
            return super().__call__(p, q, drafts)

    class Other(Watched):
        pass

    p, q = (masses[None] for masses in real_pair)
    for rule in (Watched(), Other()):
        estimate.evaluate_pairs(rule, otd.Problem(p, q, 4), 32, 0, lambda row: (row,))
    half = len(seen) // 2
    assert half > 0 and np.array_equal(np.concatenate(seen[:half]), np.concatenate(seen[half:]))


def test_a_rule_that_writes_into_its_arguments_changes_no_numbers_of_others(real_pair: Any) -> None:
    class Overwrites(otd.SelectionRule):
        law = otd.IID()

        def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
            found = otd.rules.RecursiveRejection()(p, q, drafts)
            p[...] = q
            return found

    p, q = (np.array(masses[:100] / masses[:100].sum()) for masses in real_pair)
    problem = otd.Problem(p, q, 4)
    before = problem.p.copy()
    with pytest.raises(otd.InvalidArgument, match="must not write into its arguments"):
        expected_acceptance(Overwrites(), problem, 8)
    assert np.array_equal(problem.p, before)


def test_the_same_generator_gives_the_same_estimate(real_pair: Any) -> None:
    rule = otd.rules.RecursiveRejectionWithoutReplacement()
    problem = otd.Problem(*real_pair, 4, rule.law)
    values = [expected_acceptance(rule, problem, 32, np.random.default_rng(seed)).value for seed in (5, 5, 6)]
    assert values[0] == values[1] != values[2]


def test_torch_problems_are_taken() -> None:
    torch = pytest.importorskip("torch")
    p, q = (torch.tensor(masses) for masses in np.random.default_rng(0).dirichlet(np.ones(4), 2))
    found = expected_acceptance(otd.rules.KSeq(), otd.Problem(p, q, 3))
    assert found.value == pytest.approx(
        float(otd.evaluate(otd.rules.KSeq(), otd.Problem(p, q, 3)).acceptance), abs=1e-12
    )


class Timid(otd.rules.KSeq):
    """K-SEQ that never takes a draft: lossless, and not what K-SEQ's formula is about."""

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        return otd.Selection(0 * super().__call__(p, q, drafts).accept, p)


def test_a_subclass_with_a_call_of_its_own_does_not_inherit_the_formula() -> None:
    (problem,) = random_problems(1, 4, 2, otd.IID(), 1)
    assert closed_form(otd.rules.KSeq(), problem) is not None
    assert closed_form(Timid(), problem) is None
    assert expected_acceptance(Timid(), problem).value == otd.evaluate(Timid(), problem).acceptance


def test_a_rule_that_plans_on_the_host_plans_once_for_many_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan takes longer than the selections by it; the estimate is the one of drafts taken one by one."""
    plans, of_pair = 0, otd.rules.HeadAndTail._plan

    def counted(*arguments: Any) -> Any:
        nonlocal plans
        plans += 1
        return of_pair(*arguments)

    monkeypatch.setattr(otd.rules.HeadAndTail, "_plan", counted)
    generator = np.random.default_rng(0)
    p, q = (generator.dirichlet(np.full(300, 0.1)) for _ in range(2))
    problem = otd.Problem(p, q, 4, otd.WithoutReplacement())
    rule = otd.rules.HeadAndTail()
    found = estimate.expected_acceptance(rule, problem, 20)
    assert plans == 1
    one_by_one = estimate._estimate(rule, problem, 20, np.random.default_rng(0), cache_cells=1)
    assert one_by_one == found and plans == 2
    drafts = estimate._drawn(problem, 20, np.random.default_rng(0), cache_cells=1)
    alone = [estimate._given(rule, problem.p, problem.q, drafts[row : row + 1])[0] for row in range(20)]
    control = estimate._control(problem, drafts)
    assert plans == 22 and found.value == estimate.mean_and_error(np.concatenate(alone) - control)[0]
