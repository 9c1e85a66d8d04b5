"""The numbers in the figures are those of the theory."""

from __future__ import annotations

import operator
from fractions import Fraction

import numpy as np
import pytest
from slopes import slopes_of

import ot_draft as otd

pytest.importorskip("matplotlib")
from figures.acceptance import acceptance_bernoulli, temperature
from figures.laws import draft_laws, hybrid, without_replacement
from figures.selection import construction, division_factor, k_seq_share, khisti_figure_2, list_level, transport_plans
from ot_draft.data.estimate import expected_acceptance


def test_bernoulli_curves_pass_through_the_check_values() -> None:
    rows = acceptance_bernoulli.compute(ks=(2,))
    for draft, values in acceptance_bernoulli.CHECKS.items():
        by_rule = {row["rule"]: row["acceptance"] for row in rows if str(row["draft"]) == draft}
        acceptances = [by_rule[name] for name in ("optimum", "KSeq", "RecursiveRejection")]
        assert [float(value) for value in acceptances] == pytest.approx(values, abs=1e-4)
        assert isinstance(acceptances[0], Fraction)


def test_khisti_curves_reach_one_exactly_where_they_should() -> None:
    """Acceptance 1 with k = 2 iff p(H) >= q(H)^2 for every H: every mass at least 1/9, every pair of masses at least 4/9."""
    rows = [row for row in khisti_figure_2.compute(steps=30) if row["rule"] == "optimum"]
    for row in rows:
        masses = (row["first"], row["x"], 1 - row["first"] - row["x"])
        possible = all(Fraction(1, 9) <= mass <= Fraction(5, 9) for mass in masses)
        assert (row["acceptance"] == 1) == possible


def test_the_construction_that_is_drawn_is_the_rules() -> None:
    rows = construction.compute()
    t, g, envelope, level = ([row[name] for row in rows] for name in ("t", "g", "G", "level"))
    p, q, m = ([row[name] for row in rows[1:]] for name in ("p", "q", "m"))
    evaluation = otd.evaluate(otd.rules.Optimal(), otd.Problem(p, q, construction.K))
    assert evaluation.lossless and evaluation.acceptance == sum(map(min, p, m)) == otd.optimal_acceptance(
        p, q, construction.K
    )
    slopes = slopes_of(*(np.array(values, dtype=object) for values in (t, g, level)))
    assert [mass * slope for mass, slope in zip(q, slopes, strict=True)] == m
    assert any(a > b for a, b in zip(envelope, g, strict=True)) and any(map(operator.eq, p, m))


def test_hybrid_ways_are_in_order() -> None:
    rows = {(row["temperature"], row["way"], row["j"]): row["mean"] for row in hybrid.compute(limit=2, ks=(4,))}
    for group in ("1.0", "0.6"):
        for j in range(5):
            assert rows[group, hybrid.RULE, j] == pytest.approx(rows[group, hybrid.FIXED, j], abs=1e-9)
            assert rows[group, hybrid.FIXED, j] <= rows[group, hybrid.BEST, ""]
        assert rows[group, hybrid.AUTO, ""] <= rows[group, hybrid.BEST, ""]
    assert len({way for _, way, _ in rows if way.startswith(hybrid.AUTO)}) == 1 + len(hybrid.CONSTANTS)


def test_no_rule_beats_the_optimum_without_replacement() -> None:
    gaps = {(row["pairs"], row["way"]): row["gap"] for row in without_replacement.compute(count=2, ks=(2,))}
    for (pairs, way), gap in gaps.items():
        if way in without_replacement.ORDERS:
            assert gap > -1e-9
            assert gaps[pairs, "RandomOrder"] <= gap + 1e-6


def test_the_race_is_the_one_that_it_says() -> None:
    """Its acceptance by quadrature against the closed form for one draft, and against the race itself, run."""
    generator = np.random.default_rng(3)
    p, q = generator.dirichlet(np.ones(6), 2)
    closed_form = sum(1 / np.maximum(p / p[j], q / q[j]).sum() for j in range(6))
    assert list_level.race_acceptance(p, q, 1) == pytest.approx((closed_form, closed_form), abs=1e-12)
    for k in (2, 6):
        clocks = generator.exponential(size=(40_000, k, 6))
        output, drafts = (clocks / p).min(1).argmin(-1), (clocks / q).argmin(-1)
        met = (drafts == output[:, None]).any(-1)
        accepted, bound = list_level.race_acceptance(p, q, k)
        assert abs(met.mean() - accepted) < 6 * met.std() / len(met) ** 0.5
        assert bound < accepted < otd.optimal_acceptance(p, q, k)


def test_the_linear_programs_of_the_list_level_figure_agree_with_the_dual() -> None:
    rows = [row for row in list_level.compute(count=2, ks=(1, 3)) if row["way"] == list_level.LP]
    assert len(rows) == 2 and all(row["off"] < 1e-9 for row in rows)


def test_the_best_factor_is_where_k_seq_becomes_valid() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    for k in (2, 3):
        problem = otd.Problem(p, q, k)
        factor = division_factor.best_factor(p, q, k)
        assert otd.evaluate(otd.rules.KSeq(factor=factor), problem).lossless
        assert not otd.evaluate(otd.rules.KSeq(factor=factor * 0.99), problem).lossless
        accepted = 1 - (1 - division_factor.acceptance_of_one(p, q, factor)) ** k
        assert accepted == pytest.approx(expected_acceptance(otd.rules.KSeq(), problem).taken, abs=1e-9)


def test_transport_plans_are_couplings_that_accept_what_their_rules_do() -> None:
    rows = transport_plans.compute()
    problem = otd.Problem(list(transport_plans.P), list(transport_plans.Q), transport_plans.K)
    for name, rule in transport_plans.RULES.items():
        plan = [row for row in rows if row["rule"] == name]
        for drafts in {row["drafts"] for row in plan}:
            tokens = np.array([transport_plans.TOKENS.index(token) for token in drafts])
            mass = sum(row["mass"] for row in plan if row["drafts"] == drafts)
            assert mass == problem.law.probability(problem.q, tokens)
        inside = sum(row["mass"] for row in plan if row["output"] in row["drafts"])
        assert inside == otd.evaluate(rule, problem).acceptance
        assert (inside == otd.optimal_acceptance(problem.p, problem.q, problem.k)) == ("ptim" in name)


def test_worst_cases_of_k_seq_hold_the_guarantee() -> None:
    for k in (2, 5):
        worst = k_seq_share.worst_of_two(k)
        assert otd.kseq_bound(k) < worst <= k_seq_share.worst_by_search(k, 1, 2) + 1e-6
    assert k_seq_share.worst_of_two(2) == pytest.approx(8 / 9, abs=1e-6)


def test_laws_that_are_the_same_have_the_same_optimum() -> None:
    optima = {(row["temperature"], row["law"]): row["mean"] for row in draft_laws.compute(limit=3, ks=(2,))}
    for group in ("1.0", "0.6"):
        assert optima[group, draft_laws.HUB] == pytest.approx(optima[group, "hybrid, j = 1, greedy"], abs=1e-12)
        assert optima[group, draft_laws.AUTO] <= max(value for (own, _), value in optima.items() if own == group)


def test_settings_are_the_same_contexts_as_the_pairs() -> None:
    """At temperatures that both files hold: the first position of every text, up to float32."""
    with np.load(hybrid.FILE) as first, np.load(temperature.FILE) as second:
        for group, value in enumerate(first["temperatures"].tolist()):
            row = int(np.flatnonzero((second["setting"] == "temperature") & (second["value"] == value))[0])
            assert np.allclose(second["full_optimum"][row], first["full_optimum"][group, ::2], atol=1e-4)
        drafts, full = second["drafts"].tolist(), second["full_optimum"]
    for kind in ("temperature", "top-k", "top-p"):
        pairs = temperature.settings_pairs(kind)
        rows = np.load(temperature.FILE)["setting"] == kind
        for column, k in enumerate(drafts):
            excess = otd.optimal_acceptance(pairs.p, pairs.q, k) - full[rows][..., column].ravel()
            assert excess.min() > -1e-6 and excess.max() < 0.012 and excess.mean() < 1e-3
