"""What is on the edge, beyond the properties that every rule is checked for (tests/verify/rule/test_rule_report.py)."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from random_problems import fits, random_masses
from slow import slow

import ot_draft as otd

RULES = pytest.mark.parametrize("rule", otd.rules.ALL, ids=lambda rule: rule.name)
EQUAL = [F(1, 2), F(1, 3), F(1, 6)]


@RULES
def test_equal_laws_are_always_accepted_where_the_rule_tests_its_drafts(rule: otd.SelectionRule) -> None:
    """p == q: the first test passes at once. K-SEQ's factor is 1, rounded up in the last of its digits."""
    k = 3 if fits(rule.law, 3) else 2
    for p in (EQUAL, [F(1)]):
        acceptance = otd.evaluate(rule, otd.Problem(p, p, k, rule.law)).acceptance
        if rule.name == "NaiveTarget":
            assert acceptance == sum(x * (1 - (1 - x) ** k) for x in p)
        else:
            assert 1 - (F(1, 1 << 36) if rule.name == "KSeq" else 0) <= acceptance <= 1


@pytest.mark.parametrize("law", sorted({rule.law for rule in otd.rules.ALL}, key=repr), ids=repr)
def test_the_optimum_without_a_common_token_is_0_and_of_equal_laws_1(law: otd.DraftLaw) -> None:
    apart = [F(1, 2), F(1, 2), F(0), F(0)], [F(0), F(0), F(1, 3), F(2, 3)]
    for k in (1, 2, 3):
        if law == otd.IID():
            assert otd.optimal_acceptance(*apart, k, law) == 0
        if fits(law, k):
            assert otd.optimal_acceptance(EQUAL, EQUAL, k, law) == 1


@pytest.mark.parametrize("law", [otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=1), otd.SpecHubLaw()], ids=repr)
def test_the_optimum_of_an_empty_batch(law: otd.DraftLaw, kind: Any) -> None:
    if kind.meta and law == otd.WithoutReplacement():
        pytest.skip("its quadrature runs in numpy, on the host")
    nothing = kind.make(np.zeros((0, 3)))
    alpha, token_set = otd.optimal_cut(nothing, nothing, 2, law)
    assert tuple(alpha.shape) == (0,) and tuple(token_set.shape) == (0, 3)


# FromCoupling is a linear program over the sets of drafts: small n only
LARGE = [rule for rule in otd.rules.ALL if not rule.cost.solves_program]


@pytest.mark.parametrize("rule", LARGE, ids=lambda rule: rule.name)
@pytest.mark.parametrize("dtype", ["float64", slow("float32")])
def test_a_real_vocabulary(rule: otd.SelectionRule, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    n, k = 151_936, 8 if fits(rule.law, 8) else 2
    generator = torch.Generator().manual_seed(51)
    logits = 4 * torch.randn((2, n), generator=generator, dtype=getattr(torch, dtype))
    p, q = torch.softmax(logits, -1)
    drafts = otd.draw(rule.law, q, k, generator)
    selection = rule(p, q, drafts)
    accept, residual = selection.accept, selection.residual
    assert residual.isfinite().all() and (residual >= 0).all()
    assert (residual.sum(-1) - 1).abs().max() <= 1e-4
    assert accept.isfinite().all() and (accept >= 0).all() and accept.sum(-1).max() <= 1 + 1e-5
    token, position = otd.sample(rule, p, q, drafts, generator)
    assert ((token >= 0) & (token < n)).all() and ((position >= -1) & (position < k)).all()
    assert p[token] > 0


@pytest.mark.parametrize("n", [3_000, slow(151_936)])
def test_a_coupling_for_a_large_vocabulary_is_refused(n: int) -> None:
    p = np.full(n, 1 / n)
    with pytest.raises(otd.InvalidArgument, match=r"tokens: otd\.optimal_acceptance gives the optimum without it"):
        otd.rules.FromCoupling()(p, p, np.zeros(8, dtype=np.int64))


@pytest.mark.parametrize("name", ["Greedy", "SpecHub"])
def test_greedy_rules_draw_from_the_target_when_the_drawn_token_is_absent(name: str) -> None:
    """The top tokens alone say nothing: what is output is p, and what falls on them counts as drafted."""
    rule = getattr(otd.rules, name)()
    p, q = random_masses(np.random.default_rng(44), 4, 60), np.array(random_masses(np.random.default_rng(45), 4, 7))
    top = int(np.argmax(q == q.max()))
    drafts = np.array([top, -1])
    selection = rule(p, q, drafts)
    assert (selection.output(drafts) == p).all() and selection.accept.tolist() == [p[top], 0]
