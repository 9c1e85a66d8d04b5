"""What is on the edge is no error and comes out exact, for every rule under its law."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from random_problems import fits
from slow import slow

import ot_draft as ot

RULES = pytest.mark.parametrize("rule", ot.rules.ALL, ids=lambda rule: rule.name)
OPTIMAL = {"FromCoupling", "Greedy", "Optimal", "SpecHub"}
TINY = F(5e-324)  # the smallest subnormal
LOW, HIGH = F(0.5) - F(2) ** -54, F(0.5) + F(2) ** -54  # one ulp around 1/2
CASES = {
    "p equals q": ([F(1, 2), F(1, 3), F(1, 6)], [F(1, 2), F(1, 3), F(1, 6)]),
    "p one-hot": ([F(0), F(1), F(0)], [F(1, 2), F(1, 4), F(1, 4)]),
    "q one-hot": ([F(1, 2), F(1, 4), F(1, 4)], [F(0), F(1), F(0)]),
    "both one-hot, same": ([F(0), F(1)], [F(0), F(1)]),
    "both one-hot, different": ([F(1), F(0), F(0)], [F(0), F(1), F(0)]),
    "disjoint supports": ([F(1, 2), F(1, 2), F(0), F(0)], [F(0), F(0), F(1, 3), F(2, 3)]),
    "zeros in p": ([F(0), F(2, 5), F(0), F(3, 5)], [F(1, 4)] * 4),
    "zeros in q": ([F(1, 4)] * 4, [F(0), F(2, 5), F(0), F(3, 5)]),
    "zeros in both": ([F(0), F(1, 3), F(2, 3), F(0)], [F(0), F(0), F(1, 3), F(2, 3)]),
    "one ulp apart": ([LOW, HIGH], [HIGH, LOW]),
    "one ulp apart in part": ([F(1, 2), LOW / 2, HIGH / 2], [F(1, 2), HIGH / 2, LOW / 2]),
    "subnormal": ([TINY, 1 - TINY], [1 - TINY, TINY]),
    "subnormal p": ([TINY, F(1, 2), F(1, 2) - TINY], [F(1, 3)] * 3),
    "subnormal q": ([F(1, 3)] * 3, [TINY, F(1, 2), F(1, 2) - TINY]),
    "ties in p/q": ([F(1, 2), F(1, 4), F(1, 8), F(1, 8)], [F(1, 4), F(1, 8), F(5, 16), F(5, 16)]),
    "one token": ([F(1)], [F(1)]),
}


@RULES
@pytest.mark.parametrize("case", CASES)
def test_the_output_is_the_target(case: str, rule: ot.SelectionRule, kind: Any) -> None:
    """k = 0, repeated drafts, and k > n among the sizes; with == on Fractions."""
    if kind.meta and rule.solves:
        pytest.skip("a program needs values")
    p, q = CASES[case]
    for k in (2,) if kind.meta else (0, 1, 2, 3, 4):
        if fits(rule.law, k) and len(p) ** k <= 100:
            problem = ot.Problem(kind.make(p), kind.make(q), k, rule.law)
            result = ot.evaluate(rule, problem)
            optimum = ot.optimal_acceptance(problem.p, problem.q, k, rule.law) if not kind.meta else result.acceptance
            assert kind.agrees(result.output, p)
            if not kind.meta:
                most = optimum if kind.exact else optimum + 10 * kind.tolerance
                assert result.lossless and 0 <= result.acceptance <= most
                assert rule.name not in OPTIMAL or abs(result.acceptance - optimum) <= kind.tolerance
            if case == "disjoint supports" and isinstance(rule.law, ot.IID):
                assert kind.agrees(result.acceptance, 0) and kind.agrees(optimum, 0)
            if case in {"p equals q", "both one-hot, same"} and k:
                assert kind.agrees(optimum, 1)


@RULES
def test_equal_laws_are_always_accepted_where_the_rule_tests_its_drafts(rule: ot.SelectionRule) -> None:
    """p == q: the first test passes at once. K-SEQ's factor is 1, rounded up in the last of its digits."""
    p = CASES["p equals q"][0]
    k = 3 if fits(rule.law, 3) else 2
    acceptance = ot.evaluate(rule, ot.Problem(p, p, k, rule.law)).acceptance
    if rule.name == "NaiveTarget":
        assert acceptance == sum(x * (1 - (1 - x) ** k) for x in p)
    else:
        assert 1 - (F(1, 1 << 36) if rule.name == "KSeq" else 0) <= acceptance <= 1


@RULES
def test_empty_batch(rule: ot.SelectionRule, kind: Any) -> None:
    if kind.meta and rule.solves:
        pytest.skip("a program needs values")
    nothing = kind.make(np.zeros((0, 3)))
    selection = rule(nothing, nothing, kind.tokens(np.zeros((0, 2))))
    assert tuple(selection.accept.shape) == (0, 2) and tuple(selection.residual.shape) == (0, 3)
    problem = ot.Problem(nothing, nothing, 2, rule.law)
    result = ot.evaluate(rule, problem)
    assert tuple(result.output.shape) == (0, 3) and tuple(result.acceptance.shape) == (0,)


@pytest.mark.parametrize("law", [ot.IID(), ot.WithoutReplacement(), ot.Hybrid(top=1), ot.Hub()], ids=repr)
def test_the_optimum_of_an_empty_batch(law: ot.DraftLaw, kind: Any) -> None:
    if kind.meta and law == ot.WithoutReplacement():
        pytest.skip("its quadrature runs in numpy, on the host")
    nothing = kind.make(np.zeros((0, 3)))
    alpha, token_set = ot.optimal_acceptance(nothing, nothing, 2, law, token_set=True)
    assert tuple(alpha.shape) == (0,) and tuple(token_set.shape) == (0, 3)


# FromCoupling is a linear program over the sets of drafts: small n only
LARGE = [rule for rule in ot.rules.ALL if not rule.solves]


@pytest.mark.parametrize("rule", LARGE, ids=lambda rule: rule.name)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_real_vocabulary(rule: ot.SelectionRule, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    n, k = 151_936, 8 if fits(rule.law, 8) else 2
    generator = torch.Generator().manual_seed(51)
    logits = 4 * torch.randn((2, n), generator=generator, dtype=getattr(torch, dtype))
    p, q = torch.softmax(logits, -1)
    drafts = ot.draw(rule.law, q, k, generator)
    selection = rule(p, q, drafts)
    accept, residual = selection.accept, selection.residual
    assert residual.isfinite().all() and (residual >= 0).all()
    assert (residual.sum(-1) - 1).abs().max() <= 1e-4
    assert accept.isfinite().all() and (accept >= 0).all() and accept.sum(-1).max() <= 1 + 1e-5
    token, position = ot.sample(rule, p, q, drafts, generator)
    assert ((token >= 0) & (token < n)).all() and ((position >= -1) & (position < k)).all()
    assert p[token] > 0


@pytest.mark.parametrize("n", [3_000, slow(151_936)])
def test_a_coupling_for_a_large_vocabulary_is_refused(n: int) -> None:
    p = np.full(n, 1 / n)
    with pytest.raises(ot.InvalidArgument, match=r"tokens: ot\.optimal_acceptance gives the optimum without it"):
        ot.rules.FromCoupling()(p, p, np.zeros(8, dtype=np.int64))
