"""What the hosts' own kernels compute, as their published source says it, by exact enumeration.

Each function is a transcription of a few lines of that source into Fractions, with the uniforms integrated out. The kernels
themselves do not run here.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction as F
from itertools import pairwise, permutations, product

import pytest

Law = tuple[F, ...]


def normalised(mass: list[F]) -> Law:
    return tuple(x / sum(mass) for x in mass)


def excess(p: Law, q: Law, weight: F = F(1)) -> list[F]:
    return [max(weight * x - y, F(0)) for x, y in zip(p, q, strict=True)]


def sglang_node(p: Law, siblings: tuple[int, ...], single: F, accumulated: F, draft: Law | None = None) -> list[F]:
    """The token that SGLang 0.5.23 emits after a node: TreeSpeculativeSamplingTargetOnly in speculative/sampling.cuh.

    One coin a node, compared with the siblings' masses added up; a refused sibling is taken out by way of draft_probs.
    """
    law, subtracted = [F(0)] * len(p), list(draft or [F(0)] * len(p))
    below, sum_so_far = F(0), F(0)  # coins below this have accepted a sibling
    for token in siblings:
        sum_so_far += p[token]
        if p[token] > 0:
            upto = F(1) if p[token] >= single else min(F(1), sum_so_far / accumulated)
            law[token] += max(upto - below, F(0))
            below = max(upto, below)
        subtracted[token] = p[token]
    left = excess(p, tuple(subtracted))
    if below < 1:
        law = [x + (1 - below) * y for x, y in zip(law, normalised(left), strict=True)]
    return law


TARGETS = [tuple(F(x, 12) for x in masses) for masses in ((6, 3, 2, 1), (0, 5, 5, 2), (12, 0, 0, 0))]
ORDERS = [order for k in range(4) for order in permutations(range(4), k)]


@pytest.mark.parametrize("p", TARGETS)
def test_sglang_keeps_the_target_on_distinct_siblings_with_thresholds_of_one(p: Law) -> None:
    for siblings in ORDERS:
        assert sglang_node(p, siblings, F(1), F(1)) == list(p)


def test_sglang_does_not_with_a_threshold_or_equal_siblings_or_draft_probs() -> None:
    p = TARGETS[0]
    assert sglang_node(p, (2, 3), F(1), F(1, 2))[2:] == [F(1, 3), F(1, 6)]  # twice the target's 1/6 and 1/12
    assert sglang_node(p, (1, 0), F(1, 4), F(1))[1] == 1  # mass 1/4, taken for certain
    assert sglang_node(p, (1, 1), F(1), F(1))[1] == F(1, 2)  # its mass 1/4 counts twice
    assert sglang_node(p, (2,), F(1), F(1), (F(1, 2), F(0), F(0), F(0))) != list(p)


def vllm_v1_step(p: Law, q: Law | None, token: int, uniform: F) -> tuple[bool, Law]:
    """Accepted or not, and the law of the recovered token: rejection_random_sample_kernel, sample_recovered_tokens_kernel.

    vllm/v1/sample/rejection_sampler.py of 0.33.0; q is None where draft_probs is.
    """
    recovered = normalised([x * (y != token) for y, x in enumerate(p)] if q is None else excess(p, q))
    if token < 0:
        return False, recovered
    drafted = 1 if q is None else q[token]
    return drafted > 0 and p[token] / drafted >= uniform, recovered


def test_vllm_v1_accepts_a_token_without_target_mass_at_a_uniform_of_zero() -> None:
    p, q = (F(0), F(1)), (F(1, 2), F(1, 2))
    assert vllm_v1_step(p, q, 0, F(0))[0]
    assert not vllm_v1_step(p, q, 0, F(1, 2**53))[0]


def with_a_grammar(p: Law, q: Law, hidden: Law) -> Law:
    """Law of the token after a root with one draft drawn from q; one that the grammar refuses (p is 0 there) is hidden behind -1.

    hidden: by which the host draws after the -1. All other drafts: accepted with probability min(1, p/q), else norm((p - q)+).
    """
    accepted = [min(x, y) for x, y in zip(p, q, strict=True)]
    refused = sum(y for x, y in zip(p, q, strict=True) if x == 0)
    left = 1 - sum(accepted) - refused
    residual = normalised(excess(p, q))
    return tuple(a + left * r + refused * h for a, r, h in zip(accepted, residual, hidden, strict=True))


def test_vllm_v2_does_not_follow_the_target_when_a_grammar_refuses_a_drawn_draft() -> None:
    """V1 draws from norm((p - q)+) after -1 where draft_probs is given, V2 (`not is_valid_rejected_draft`) from p."""
    p, q = (F(3, 4), F(1, 4), F(0)), (F(1, 4), F(1, 4), F(1, 2))
    assert with_a_grammar(p, q, hidden=vllm_v1_step(p, q, -1, F(1, 2))[1]) == p
    assert with_a_grammar(p, q, hidden=p) == (F(5, 8), F(3, 8), F(0))


def test_vllm_v1_does_not_when_there_was_no_draft_at_all() -> None:
    """Nothing was drawn, so that p is due; whether vLLM ever gives draft_probs for such a place was not established."""
    p, q = (F(1, 2), F(1, 2)), (F(1, 4), F(3, 4))
    assert vllm_v1_step(p, None, -1, F(1, 2)) == (False, p)
    assert vllm_v1_step(p, q, -1, F(1, 2)) == (False, (F(1), F(0)))


P, Q = (F(3, 4), F(1, 8), F(1, 8)), (F(1, 4), F(1, 4), F(1, 2))  # at every node
DRAFTS = list(product(range(3), repeat=2))


def block(x: tuple[int, int]) -> tuple[list[F], list[F]]:
    """Weights w_0 .. w_2 and tests h_1, h_2 of a chain of two drafts."""
    weights = [F(1)]
    for token in x:
        weights.append(min(F(1), weights[-1] * P[token] / Q[token]))
    rest = sum(excess(P, Q, weights[1]))
    return weights, [rest / (rest + 1 - weights[1]) if rest + 1 - weights[1] else F(1), weights[2]]


def intervals(ends: list[F]) -> Iterator[tuple[F, F]]:
    """Stretches of [0, 1] between the ends: a point inside, and the length."""
    for low, high in pairwise(sorted({F(0), F(1), *ends})):
        yield (low + high) / 2, high - low


def first_two_tokens(reused: bool) -> dict[tuple[int, int], F]:
    """Law of the first two tokens from block verification of two drafts an iteration, as in vLLM's V2 runner.

    reused: as in 0.32.0, where `u = tl_rand32(seed, pos)`: the uniform of an iteration's second position is that of the first
    position of the next one, after nothing was accepted. Drafts and recovered tokens are drawn afresh here.
    """
    law = dict.fromkeys(DRAFTS, F(0))
    looked_at = [block(x)[1][0] for x in DRAFTS]
    for x in DRAFTS:
        weights, tests = block(x)
        start = Q[x[0]] * Q[x[1]]
        for (u0, a), (u1, b) in product(intervals(tests[:1]), intervals([tests[1], *looked_at])):
            accepted = 2 if u1 <= tests[1] else 1 if u0 <= tests[0] else 0
            chance = start * a * b
            if accepted == 2:
                law[x] += chance
            elif accepted == 1:
                for token, mass in enumerate(normalised(excess(P, Q, weights[1]))):
                    law[x[0], token] += chance * mass
            else:
                for token, mass in enumerate(normalised(excess(P, Q))):
                    for second, share in second_token(u1 if reused else None).items():
                        law[token, second] += chance * mass * share
    return law


def second_token(uniform: F | None) -> dict[int, F]:
    """Law of the first token of an iteration, whose first position has this uniform, or one of its own."""
    law = dict.fromkeys(range(3), F(0))
    for x in DRAFTS:
        _, tests = block(x)
        firsts = intervals(tests[:1]) if uniform is None else [(uniform, F(1))]
        for (u0, a), (u1, b) in product(firsts, intervals(tests[1:])):
            chance = Q[x[0]] * Q[x[1]] * a * b
            if u1 <= tests[1] or u0 <= tests[0]:
                law[x[0]] += chance
            else:
                for token, mass in enumerate(normalised(excess(P, Q))):
                    law[token] += chance * mass
    return law


def test_vllm_block_verification_of_0_32_0_does_not_follow_the_target() -> None:
    target = {x: P[x[0]] * P[x[1]] for x in DRAFTS}
    assert first_two_tokens(reused=False) == target
    reused = first_two_tokens(reused=True)
    assert sum(reused.values()) == 1
    assert reused[0, 0] - target[0, 0] == target[0, 1] - reused[0, 1] == F(39, 5120)
