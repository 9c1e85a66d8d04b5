"""The published numbers and statements of the papers, as exact tests."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from random_problems import all_token_sets, random_pair

import ot_draft as otd

BERNOULLI = [  # draft Ber(a), target Ber(b), k = 2: optimum, K-SEQ to four digits, recursive rejection
    (F(1, 4), F(1, 2), F(15, 16), 0.8476, F(13, 16)),
    (F(1, 10), F(1, 2), F(69, 100), 0.6584, F(64, 100)),
    (F(1), F(1, 2), F(1, 2), 0.5, F(1, 2)),
]


def bernoulli(draft: F, target: F) -> tuple[list[F], list[F]]:
    return [1 - target, target], [1 - draft, draft]


@pytest.mark.parametrize(("draft", "target", "optimum", "k_seq", "recursive"), BERNOULLI)
def test_bernoulli_check_values(draft: F, target: F, optimum: F, k_seq: float, recursive: F) -> None:
    p, q = bernoulli(draft, target)
    problem = otd.Problem(p, q, 2)
    assert otd.optimal_acceptance(p, q, 2) == optimum
    assert otd.evaluate(otd.rules.RecursiveRejection(), problem).acceptance == recursive
    assert round(float(otd.evaluate(otd.rules.KSeq(), problem).acceptance), 4) == k_seq


@pytest.mark.parametrize("rule", [r for r in otd.rules.ALL if isinstance(r.law, otd.IID)], ids=lambda rule: rule.name)
def test_a_draft_that_never_varies_accepts_half_for_every_rule_and_every_k(rule: otd.SelectionRule) -> None:
    for k in (1, 2, 3, 5):
        assert otd.evaluate(rule, otd.Problem(*bernoulli(F(1), F(1, 2)), k)).acceptance == F(1, 2)


def test_one_draft_is_accepted_with_one_minus_the_total_variation() -> None:
    generator = np.random.default_rng(4)
    for n in (2, 3, 5, 8):
        for _ in range(10):
            p, q = random_pair(generator, n)
            distance = abs(p - q).sum() / 2
            assert otd.optimal_acceptance(p, q, 1) == np.minimum(p, q).sum() == 1 - distance
            assert otd.evaluate(otd.rules.SpeculativeSampling(), otd.Problem(p, q, 1)).acceptance == 1 - distance


def test_two_drafts_are_always_accepted_iff_no_token_set_is_drafted_too_often() -> None:
    """Khisti et al. 2024: acceptance 1 at k = 2 iff p(H) >= q(H)^2 for every H, also with p != q."""
    generator, seen = np.random.default_rng(5), set()
    for n in (2, 3, 4, 5):
        sets = all_token_sets(n)
        for _ in range(60):
            p, q = random_pair(generator, n)
            holds = all(p[s].sum() >= q[s].sum() ** 2 for s in sets)
            assert (otd.optimal_acceptance(p, q, 2) == 1) == holds
            seen.add((holds, bool((p == q).all())))
    assert seen == {(True, True), (True, False), (False, False)}


def test_more_drafts_never_hurt_and_in_the_end_accept_all() -> None:
    generator = np.random.default_rng(6)
    for n in (2, 3, 5):
        for law in (otd.IID(), otd.WithoutReplacement()):
            p, q = random_pair(generator, n)
            q = (q + F(1, n)) / 2  # full support
            values = [otd.optimal_acceptance(p, q, k, law) for k in range(9)]
            assert values == sorted(values) and values[0] == 0
        assert 1 - otd.optimal_acceptance(p, q, 1000) < F(1, 10**9)
        assert otd.optimal_acceptance(p, q, n, otd.WithoutReplacement()) == 1


def test_the_bound_of_spectr() -> None:
    """alpha_k <= sum over O of min(p, 1 - (1 - q)^k) + sum over tuples of min(Q, p of their tokens outside O)."""
    generator = np.random.default_rng(7)
    for n, k in ((2, 2), (3, 2), (3, 3), (4, 2)):
        p, q = random_pair(generator, n)
        alpha = otd.optimal_acceptance(p, q, k)
        tuples = np.stack(np.meshgrid(*[range(n)] * k), -1).reshape(-1, k)
        for chosen in all_token_sets(n):
            alone = np.minimum(p, 1 - (1 - q) ** k)[chosen].sum()
            rest = sum(min(q[x].prod(), sum(p[y] for y in set(x.tolist()) if not chosen[y])) for x in tuples)
            assert alpha <= alone + rest


def test_greedy_and_hub_optima_in_closed_form() -> None:
    generator = np.random.default_rng(8)
    for n in (2, 3, 5, 8):
        for k in range(1, n):
            p, q = random_pair(generator, n)
            top = np.argsort(-q, kind="stable")[: k - 1]
            rest = np.setdiff1d(np.arange(n), top)
            left = q[rest].sum()
            law = q[rest] / left if left else np.full(len(rest), F(1, len(rest)))
            value = p[top].sum() + np.minimum(p[rest], law).sum()
            assert otd.optimal_acceptance(p, q, k, otd.Hybrid(top=-1)) == value
            if k == 2:
                assert otd.optimal_acceptance(p, q, 2, otd.SpecHubLaw()) == value


def test_cover_property() -> None:
    """Sequoia: target on one token, draft uniform on two. Without replacement all is accepted, K-SEQ accepts 3/4."""
    p, q = [F(1), F(0)], [F(1, 2), F(1, 2)]
    without = otd.Problem(p, q, 2, otd.WithoutReplacement())
    assert otd.evaluate(otd.rules.RecursiveRejectionWithoutReplacement(), without).acceptance == 1
    assert otd.optimal_acceptance(p, q, 2, otd.WithoutReplacement()) == 1
    k_seq = otd.evaluate(otd.rules.KSeq(), otd.Problem(p, q, 2)).acceptance
    assert k_seq == F(3, 4)


@pytest.mark.parametrize("k", [1, 2, 3, 8, 1000])
def test_k_seq_bound(k: int) -> None:
    assert otd.kseq_bound(k) == 1 - F(k - 1, k) ** k
    assert float(otd.kseq_bound(k)) > 1 - np.exp(-1)
