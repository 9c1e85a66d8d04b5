"""Optimum >= K-SEQ >= recursive rejection with replacement, for all p, q and k.

OPTIMUM >= K-SEQ, since K-SEQ is valid and the optimum is the most that any valid rule accepts.

THEOREM. K-SEQ at gamma* accepts at least what recursive rejection accepts.

PROOF. If p = q, both accept always. Let p differ from q.
1. *Recursive rejection is a walk along one curve.* Let M(s) = sum (p - s q)+: convex, falling with slope -1 at most, M(0) = 1. By
   induction p_i = (p - s_i q)+ / m_i with m_i = M(s_i), s_1 = 0, s_{i+1} = s_i + m_i; draft i is rejected with probability
   r_i = sum (p_i - q)+ = m_{i+1} / m_i. (All m_i > 0: M could reach 0 within s_{i+1} - s_i = m_i only with slope -1, hence with
   slope -1 from 0 on, as M is convex, hence p = q.) Tokens in the residual have p > s_{k+1} q and were never rejected. So the
   acceptance is 1 - r_1 ... r_k = 1 - m_{k+1} = B(s_{k+1}), where B(s) = 1 - M(s) = sum min(p, s q) = s beta(s).
2. *K-SEQ on the same curve.* Its acceptance is B(gamma*), and B grows. For s >= 1, gamma* >= s if 1 - (1 - beta(s))^k >= s beta(s)
   (../k_seq/k_seq_valid.py). s = s_{k+1} = m_1 + ... + m_k >= m_1 = 1. So m_{k+1} >= (1 - beta(s))^k at this s is enough. As
   beta(s) = (1 - m_{k+1}) / s, and with G = m_{k+1}^{1/k}, this is
   (*)  G (m_1 + ... + m_k) >= m_2 + ... + m_{k+1}.
3. *The r_i grow*: 1 - r_i = (m_i - m_{i+1}) / (s_{i+1} - s_i) is how steeply M falls between s_i and s_{i+1}, and M is convex. So
   log m_i is convex in i and lies below its chord from m_1 = 1 to m_{k+1} = G^k: m_{i+1} <= G^i.
4. (*) says m_{k+1} - G m_1 + (1 - G) (m_2 + ... + m_k) <= 0. By 3 the left side is at most
   G^k - G + (1 - G) (G + ... + G^{k-1}) = 0. QED.

Coq has read this proof: ../formal/one_token/order_of_rules.v.

CHECK. Every step on random problems in Fractions; (*) by z3 for k = 2, 3 and 4 with unknown r_i. That recursive rejection, which
looks at what was rejected, should accept as much as K-SEQ, which does not, is refuted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import ot_draft as otd

from ..by_z3 import Part, decide, power, reals
from ..checking import check
from ..k_seq.formulas import covered, geometric
from ..random_cases import Case
from ..statement import Proof, Statement

__all__ = ["STATEMENTS", "check"]

OWN = "this project"
TOO_SMALL, FEWER = "K-SEQ with gamma = 1", "the optimum of k - 1 drafts"
FULL_STEPS, FURTHER, FALLING = "s_{i+1} = s_i + 1", "s_{k+1} + 1/50 <= gamma*", "the r_i fall"
UNORDERED, ONE = "r_i in any order", "k = 1"


def walk(case: Case, full: bool = False) -> tuple[list[Fraction], list[Fraction]]:
    """Return s_1 .. s_{k+1} and m_1 .. m_{k+1}."""
    s, m = [Fraction(0)], [Fraction(1)]
    for _ in range(case.k):
        s.append(s[-1] + (1 if full else m[-1]))
        m.append(sum((max(a - s[-1] * b, Fraction(0)) for a, b in zip(case.p, case.q, strict=True)), Fraction(0)))
    return s, m


def below_the_optimum(case: Case, error: str) -> bool:
    """Return whether K-SEQ as the library has it keeps p, and accepts no more than the optimum."""
    k = case.k - (error == FEWER and case.k > 1)
    best = otd.optimal_acceptance(list(case.p), list(case.q), k)
    evaluation = otd.evaluate(otd.rules.KSeq(1 if error == TOO_SMALL else None), case.problem())
    return bool(evaluation.acceptance <= best and (evaluation.lossless or error == TOO_SMALL))


def one_curve(case: Case, error: str) -> bool:
    """Return whether recursive rejection takes draft i with m_i - m_{i+1}, and accepts sum min(p, s_{k+1} q)."""
    s, m = walk(case, error == FULL_STEPS)
    evaluation = otd.evaluate(otd.rules.RecursiveRejection(), case.problem())
    taken = [a - b for a, b in pairwise(m)]
    accepted = sum((min(a, s[-1] * b) for a, b in zip(case.p, case.q, strict=True)), Fraction(0))
    return evaluation.accept.tolist() == taken and evaluation.acceptance == accepted == 1 - m[-1]


def below_k_seq(case: Case, error: str) -> bool:
    """Return whether s_{k+1} <= gamma*, and steps 3 and 4 of the proof hold."""
    s, m = walk(case)
    if case.p == case.q:
        return bool(m[-1] == 0)
    end = s[-1] + (Fraction(1, 50) if error == FURTHER else 0)
    r = [b / a for a, b in pairwise(m)]
    grow = all((a >= b) if error == FALLING else (a <= b) for a, b in pairwise(r))
    chord = all(mass**case.k <= m[-1] ** i for i, mass in enumerate(m))
    sums = m[-1] * sum(m[:-1]) ** case.k >= sum(m[1:]) ** case.k
    beta = covered(case.p, case.q, end)
    return bool(1 <= end <= case.k + 1 and grow and chord and sums and (geometric(beta, case.k) >= end or not beta))


def lemma(error: str) -> Proof:
    """Decide whether (*) to the power k holds for all 0 <= r_1 <= ... <= r_k <= 1."""

    def parts() -> Iterator[Part]:
        for k in (2, 3, 4):
            r = reals("r", k)
            ordered: list[Any] = [] if error else [a <= b for a, b in pairwise(r)]
            m = [1, *accumulate(r, lambda a, b: a * b)]
            claim = m[-1] * power(sum(m[:-1]), k) >= power(sum(m[1:]), k)
            yield f"k = {k}", [*(x >= 0 for x in r), *(x <= 1 for x in r), *ordered], claim

    return decide("proved for k = 2, 3, 4 and any r_i", parts())


def reaches_k_seq(case: Case, error: str) -> bool:
    """Return whether recursive rejection accepts at least as much as the library's K-SEQ, up to 1e-9, which is false."""
    problem = (replace(case, k=1) if error else case).problem()
    rules = otd.rules.RecursiveRejection(), otd.rules.KSeq()
    other, k_seq = (otd.evaluate(rule, problem).acceptance for rule in rules)
    return bool(other >= k_seq - Fraction(1, 10**9))


def shown(case: Case) -> str:
    """Return the problem, and both acceptances."""
    s, m = walk(case)
    k_seq = float(otd.evaluate(otd.rules.KSeq(), case.problem()).acceptance)
    return f"{case}: recursive rejection {1 - m[-1]} = {float(1 - m[-1]):.4f} (s = {s[-1]}), K-SEQ {k_seq:.4f}"


HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)

STATEMENTS = (
    Statement(
        "optimum >= K-SEQ",
        "K-SEQ keeps p and accepts at most alpha_k.",
        "Sun et al. 2023 (SpecTr)",
        "Fractions, all drafts enumerated",
        below_the_optimum,
        (TOO_SMALL, FEWER),
    ),
    Statement(
        "recursive rejection is a walk along one curve",
        "Draft i is accepted with probability m_i - m_{i+1}; the acceptance is sum min(p, s_{k+1} q).",
        f"{OWN}; proof 1",
        "Fractions, all drafts enumerated",
        one_curve,
        (FULL_STEPS,),
    ),
    Statement(
        "K-SEQ >= recursive rejection",
        "s_{k+1} <= gamma*, hence sum min(p, s_{k+1} q) <= sum min(p, gamma* q).",
        f"{OWN}; proof 2 to 4",
        "Fractions, no rounding of gamma*",
        below_k_seq,
        (FURTHER, FALLING),
    ),
    Statement(
        "K-SEQ >= recursive rejection, the lemma",
        "m_{k+1} (m_1 + ... + m_k)^k >= (m_2 + ... + m_{k+1})^k for m_{i+1} = r_1 ... r_i with nondecreasing r_i in [0, 1].",
        f"{OWN}; proof 4 for any k",
        "z3, polynomials",
        planted=(UNORDERED,),
        prove=lemma,
    ),
    Statement(
        "recursive rejection accepts as much as K-SEQ",
        "Its acceptance is at least K-SEQ's: it tests against the remaining target, K-SEQ against the target itself.",
        "a plausible guess",
        "Fractions, all drafts enumerated",
        reaches_k_seq,
        (ONE,),
        expected="refuted",
        first=(Case((HALF, HALF), (QUARTER, 1 - QUARTER), 2, 0),),
        limit=100,
        show=shown,
    ),
)
