"""Toward, and the rules of engines: exact output laws, kinds of arrays, budgets, errors."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from random_problems import random_pair
from slow import slow

import ot_draft as otd
from ot_draft import lossy, rules
from ot_draft.bias import bias_of, divergence
from ot_draft.dispatch import formulas_only
from ot_draft.lossy.base import Target
from proofs_checks.lossy import engine_rules, published_targets

torch = pytest.importorskip("torch")

TARGETS = [
    lossy.TotalVariation(F(1, 9)),
    lossy.Ratio(factor=F(4, 3)),
    lossy.KL(0.03),
    lossy.ReverseKL(0.03),
    published_targets.Lenience(F(1, 2)),
    published_targets.Ensemble(F(2, 3)),
    *(published_targets.Cascade(name, F(1, 5)) for name in ("chow", "diff", "opt", "token-v1", "token-v2", "token-v3")),
]
RULES = [rules.Optimal(), rules.KSeq(), rules.Optimal(otd.Hybrid(1)), rules.RecursiveRejectionWithoutReplacement()]


def problems(number: int, seed: int = 0) -> list[tuple[Any, Any, int]]:
    generator = np.random.default_rng(seed)
    return [
        (*random_pair(generator, int(generator.integers(2, 5))), int(generator.integers(1, 4))) for _ in range(number)
    ]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_output_law_is_the_targets(target: Target) -> None:
    for p, q, k in problems(8):
        for rule in RULES:
            toward = lossy.Toward(target, rule)
            result = otd.evaluate(toward, otd.Problem(p, q, k, toward.law))
            kept = toward.target_kept(p, q, k)
            assert (result.output == kept).all()
            if rule == rules.Optimal():
                assert result.acceptance == otd.optimal_acceptance(kept, q, k)
            assert result.lossless == bool((kept == p).all())


@pytest.mark.parametrize("target", TARGETS[:4], ids=lambda target: target.name)
def test_by_classes_the_budget_holds(target: lossy.Nearest) -> None:
    name, budget = target.guarantee
    for p, q, k in problems(12, seed=1):
        result = otd.evaluate(lossy.Toward(target, rules.Optimal(classes=6)), otd.Problem(p, q, k))
        assert result.output.sum() == 1
        assert divergence(name, result.output, p) <= float(budget) + 1e-12
    generator = np.random.default_rng(2)
    p, q = generator.dirichlet(np.full(3000, 0.2), (2, 3))
    drafts = otd.draw(otd.IID(), q, 4, generator)
    exact, grouped = (lossy.Toward(target, rules.Optimal(classes=c))(p, q, drafts) for c in (None, 4096))
    assert abs(exact.output(drafts) - grouped.output(drafts)).sum(-1).max() < 0.05
    drafts[1, 2:] = -1  # fewer drafts in one row
    assert np.allclose(lossy.Toward(target, rules.Optimal(classes=64))(p, q, drafts).output(drafts).sum(-1), 1)


@pytest.mark.parametrize("target", [lossy.Ratio(0.3), lossy.TotalVariation(0.4)], ids=lambda target: target.name)
def test_what_is_never_written_is_what_was_written(target: lossy.Nearest) -> None:
    """In one pass, and by r and the law of the selected token as arrays: two ways to one selection."""
    generator = np.random.default_rng(8)
    p, q = generator.dirichlet(np.full(900, 0.3), (2, 3))
    p[0, :40], q[0, :200], q[1, 5] = 0, 0, 0  # tokens that are never drafted, and drafts that the target never gives
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    rule = lossy.Toward(target, rules.Optimal(classes=64))
    several = otd.draw(otd.IID(), np.broadcast_to(q[:, None], (3, 5, 900)), 3, generator)
    for wide, given in (((slice(None),), several[:, 0]), ((slice(None), None), several)):
        pair, nothing = [x[wide] for x in (p, q)], given * 0 - 1
        for drafts in (given, nothing):
            found = rule(*pair, drafts)
            tensors = rule(*(torch.tensor(x) for x in pair), torch.tensor(drafts))
            with formulas_only():
                slow = rule(*pair, drafts)
            assert np.allclose(found.accept, slow.accept, atol=1e-12)
            assert np.allclose(found.residual, slow.residual, atol=1e-12)
            assert np.allclose(tensors.accept, slow.accept, atol=1e-12)
            assert np.allclose(tensors.residual, slow.residual, atol=1e-12)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_tensors_give_what_numpy_gives(target: Target) -> None:
    generator = np.random.default_rng(3)
    p, q = generator.dirichlet(np.full(60, 0.3), (2, 4))
    for law in (otd.IID(), otd.Hybrid(2)):
        found = target(torch.tensor(p), torch.tensor(q), 3, law)
        assert abs(found.numpy() - target(p, q, 3, law)).max() < 1e-12
        shapes = target(torch.tensor(p, device="meta"), torch.tensor(q, device="meta"), 3, law)  # no host sync
        assert shapes.shape == p.shape and shapes.is_meta


def test_groups_on_a_device_keep_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way that is taken on a GPU, here with values."""
    generator = np.random.default_rng(4)
    p, q = (torch.tensor(x) for x in generator.dirichlet(np.full(700, 0.3), (2, 3)))
    near = {target: target(p, q, 4) for target in TARGETS[:4]}
    monkeypatch.setattr("ot_draft.arrays.on_host", lambda x: not isinstance(x, torch.Tensor))
    for target, best in near.items():
        name, budget = target.guarantee
        r = target(p, q, 4)
        assert (divergence(name, r, p) <= float(budget) + 1e-9).all() and torch.allclose(
            r.sum(-1), torch.ones(3).double()
        )
        assert (otd.optimal_acceptance(best, q, 4) - otd.optimal_acceptance(r, q, 4)).max() < 1e-3


@pytest.mark.parametrize("rule", engine_rules.ALL, ids=lambda rule: rule.name)
def test_an_engines_rule_lies_under_the_frontier(rule: otd.SelectionRule) -> None:
    biased = 0
    for p, q, k in problems(15, seed=5):
        for law in (otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=k)):
            result = otd.evaluate(rule, otd.Problem(p, q, k, law))
            assert result.output.sum() == 1
            assert result.acceptance <= otd.optimal_acceptance(result.output, q, k, law)
            distance = result.bias.total_variation
            assert result.acceptance <= otd.optimal_acceptance(p, q, k, law) + distance
            biased += distance > 0
    assert biased > 5


def test_output_laws_in_closed_form() -> None:
    p, q = np.array([F(1, 2), F(1, 4), F(1, 4)]), np.array([F(1, 4), F(1, 4), F(1, 2)])
    one = otd.Problem(p, q, 1)
    assert (
        otd.evaluate(engine_rules.LenientSampling(F(2, 3)), one).output == published_targets.Lenience(F(2, 3))(p, q)
    ).all()
    bar = otd.evaluate(engine_rules.TypicalAcceptance(0.3, 10.0), one).output  # only token 0 passes
    assert list(bar) == [F(1, 4) + F(3, 4) * F(1, 2), F(3, 16), F(3, 16)]
    drafts = np.array([2, 1])
    taken = engine_rules.TwoThresholds(1, F(1, 2))(p, q, drafts)
    assert list(taken.accept) == [F(1, 2), F(1, 2)]
    assert list(engine_rules.TwoThresholds(F(1, 4), 1)(p, q, drafts).accept) == [1, 0]
    naive = engine_rules.TwoThresholds(1, 1)(p, q, drafts)
    assert (naive.output(drafts) == rules.NaiveTarget()(p, q, drafts).output(drafts)).all()
    relaxed = otd.evaluate(engine_rules.RelaxedAcceptance(2, F(1, 5)), one).output
    assert list(relaxed) == [1, 0, 0]


def test_the_ensemble_is_what_transformers_computes() -> None:
    utils = pytest.importorskip("transformers.generation.utils")
    if "assistant_ensemble_weight" not in utils._speculative_sampling.__code__.co_varnames:
        pytest.skip("this version of transformers has no ensemble mode")
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])
    kept = lossy.Toward(published_targets.Ensemble(0.7), rules.SpeculativeSampling())
    torch.manual_seed(0)
    generator, counts, calls = np.random.default_rng(0), np.zeros(3), 4000
    logits = [torch.tensor(np.log(x))[None, None] for x in (q, p)]
    for token in generator.choice(3, calls, p=q):
        ids = torch.tensor([[int(token)]])
        valid, _ = utils._speculative_sampling(ids, logits[0], 1, torch.cat((logits[1], logits[1]), 1), 0.7)
        counts[int(valid[0, 0])] += 1
    assert abs(counts / calls - kept.target_kept(p, q, 1)).max() < 0.04


@pytest.mark.parametrize(
    "make",
    [
        lambda: lossy.Toward(rules.KSeq(), rules.KSeq()),
        lambda: lossy.Toward(lossy.KL(0.1), lossy.KL(0.1)),
        lambda: published_targets.Cascade("best", 0.1),
        lambda: published_targets.Lenience(0),
        lambda: engine_rules.LenientSampling(2),
        lambda: engine_rules.TwoThresholds(1, 0),
        lambda: engine_rules.TypicalAcceptance(fallback="draft"),
        lambda: engine_rules.RelaxedAcceptance(0),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any) -> None:
    with pytest.raises(otd.InvalidArgument):
        make()


def test_bias_is_exact_and_infinite_where_it_is() -> None:
    r, p = np.array([F(1, 2), F(1, 2), F(0)]), np.array([F(1, 4), F(1, 2), F(1, 4)])
    bias = bias_of(r, p)
    assert (bias.total_variation, bias.ratio) == (F(1, 4), 2)
    assert bias.kl == pytest.approx(np.log(2) / 2) and bias.reverse_kl == np.inf
    floats = bias_of(torch.tensor([0.5, 0.5, 0.0]).double(), torch.tensor([0.25, 0.5, 0.25]).double())
    assert float(floats.kl) == pytest.approx(bias.kl) and float(floats.reverse_kl) == np.inf


@pytest.mark.parametrize(
    "rule", [slow(lossy.Toward(lossy.Ratio(factor=F(3, 2)), rules.Optimal())), engine_rules.LenientSampling()]
)
def test_check_rule_never_calls_a_lossy_rule_lossless(rule: otd.SelectionRule) -> None:
    pytest.importorskip("hypothesis")
    report = otd.check_rule(rule, max_examples=15 if isinstance(rule, lossy.Toward) else 5)
    assert report.lossless == "no", str(report)
    held = {each.check: each.status for each in report.outcomes if each.evidence.category == "claims"}
    if isinstance(rule, lossy.Toward):
        assert held == dict.fromkeys(("own_target", "within_budget", "optimal"), "passed"), str(report)
        assert report.findings == (), str(report)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: lossy.Ratio(factor=float("inf")),
            r"Ratio\(factor\) must be a number from 1 to 1.40359e\+217, got a number of size over 1e\+300",
        ),
        (lambda: lossy.Ratio(factor=1e250), r"Ratio\(factor\) must be a number from 1 to 1.40359e\+217, got 1e\+250"),
        (lambda: lossy.Ratio(factor=10**400), r"Ratio\(factor\) must be .*, got a number of size over 1e\+300"),
        (
            lambda: lossy.KL(float("inf")),
            r"KL\(eps\) must be a number from 0 to 1e\+300, got a number of size over 1e\+300",
        ),
        (lambda: lossy.ChiSquared(F(10**400)), r"ChiSquared\(eps\) must be .*, got a number of size over 1e\+300"),
        (lambda: lossy.KL(float("nan")), r"KL\(eps\) must be a number from 0 to 1e\+300, got nan"),
    ],
)
def test_budgets_that_no_float_holds_are_refused(make: Any, said: str) -> None:
    with pytest.raises(otd.InvalidArgument, match=said):
        make()


@pytest.mark.parametrize(("k", "law"), [(-1, None), (1.5, None), (True, None), (2, "iid"), (3, otd.SpecHubLaw())])
def test_a_target_for_no_drafts_of_a_law_is_refused(k: Any, law: Any) -> None:
    p = np.array([0.5, 0.5])
    with pytest.raises(otd.InvalidDrafts):
        lossy.KL(0.1)(p, p, k, law)
