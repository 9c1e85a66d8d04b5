"""Recursive rejection keeps the target's distribution, with and without replacement, each under its own draft law; k independent tests
do not.

THE RULES. p_1 = p. Draft i, drawn from q_i, is accepted with probability min(1, p_i/q_i); else p_{i+1} = norm((p_i - q_i)+). After k
rejections the output is drawn from p_{k+1}. With replacement every q_i is q. Without, q_{i+1} is q_i without the rejected token,
normalised.

VALID, for any n and k. Claim: whatever the rejected tokens are, draft i and what follows it emit exactly p_i. By induction from
the end: p_{k+1} is what is drawn last. Draft i is accepted as token y with probability q_i(y) min(1, p_i(y)/q_i(y)) = min(p_i, q_i)(y).
The rejected mass is r = 1 - sum min(p_i, q_i) = sum (p_i - q_i)+, and each rejection, whichever token it was, is followed by the
distribution p_{i+1} = (p_i - q_i)+ / r. So the output is min(p_i, q_i) + (p_i - q_i)+ = p_i. The step needs that draft i is drawn from the
q_i that it is tested with, given the rejected tokens. This is why the two rules cannot be exchanged: under drafts without replacement draft
2 does not come from q, and under i.i.d. drafts it does not come from q_2.

INDEPENDENT TESTS. Testing every draft with min(1, p/q) and drawing from norm((p - q)+) after k rejections is not valid for k >= 2: a
rejected draft says nothing against the next one, and the tests give a token with p < q mass p h, h = 1 + r + ... + r^{k-1} > 1.

CHECK. The library's rules on random problems in Fractions; the algorithm written out (rejection_written_out.py) with unknown
masses, as rational functions, for every way in which its comparisons can come out.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as otd

from ..checking import check
from ..random_cases import Case
from ..rational_functions import keeps_the_target
from ..statement import Proof, Statement
from .rejection_written_out import STALE, TARGET, WrittenOut

__all__ = ["STATEMENTS", "check"]

UNDER_WITHOUT, UNDER_IID = "under drafts without replacement", "under i.i.d. drafts"
ONE, UPDATED, SCALED = "k = 1", "recursive rejection", "tests divided by gamma*: K-SEQ"
SOURCES = "Miao et al. 2024 (SpecInfer); Yang et al. 2024"


IID, WITHOUT = otd.IID(), otd.WithoutReplacement()
RULES = {False: otd.rules.RecursiveRejection(), True: otd.rules.RecursiveRejectionWithoutReplacement()}


def _keeps(case: Case, rule_without: bool, law_without: bool) -> bool:
    """Return whether the library's rule emits p under this draft law and, for q > 0, equals the algorithm written out."""
    problem = case.problem(WITHOUT if law_without else IID)
    evaluation = otd.evaluate(RULES[rule_without], problem)
    if min(case.q) > 0:
        own = WrittenOut(rule_without, law_without)(case.p, case.q, case.k)
        assert own == evaluation.output.tolist(), f"the library's rule is not the algorithm: {case}"
    return bool(evaluation.lossless)


def with_replacement(case: Case, error: str) -> bool:
    """Return whether RecursiveRejection is valid under i.i.d. drafts."""
    return _keeps(case, False, error == UNDER_WITHOUT)


def without_replacement(case: Case, error: str) -> bool:
    """Return whether RecursiveRejectionWithoutReplacement is valid without replacement, including q = 0 and k > n."""
    return _keeps(case, True, error != UNDER_IID)


def with_replacement_proved(error: str) -> Proof:
    """Decide whether the algorithm with unknown masses is valid for i.i.d. drafts."""
    output = WrittenOut(False, error == UNDER_WITHOUT, error)
    return keeps_the_target(
        output, ((2, 2), (3, 2), (4, 2), (2, 3), (3, 3)), "proved for n = 2, 3 with k = 2, 3 and n = 4, k = 2"
    )


def without_replacement_proved(error: str) -> Proof:
    """Decide whether the algorithm with unknown masses is valid for drafts without replacement."""
    output = WrittenOut(True, error != UNDER_IID, error)
    return keeps_the_target(output, ((2, 2), (3, 2), (3, 3)), "proved for n = 2, 3, k = 2 and n = k = 3")


class IndependentTests(otd.SelectionRule):
    """Every draft tested with min(1, p/q), as if it were the only one."""

    law = IID

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        single = otd.rules.SpeculativeSampling()
        tests = [single(p, q, drafts[..., i : i + 1]) for i in range(drafts.shape[-1])]
        refused, accept = 1, []
        for test in tests:
            accept.append(refused * test.accept)
            refused = refused * (1 - test.accept)
        return otd.Selection(np.concatenate(accept, -1), tests[0].residual)


def independent(case: Case, error: str) -> bool:
    """Return whether k independent tests keep p (false), or one of the repairs (true)."""
    k = 1 if error == ONE else case.k
    rules = {UPDATED: otd.rules.RecursiveRejection(), SCALED: otd.rules.KSeq()}
    return otd.evaluate(rules.get(error, IndependentTests()), otd.Problem(list(case.p), list(case.q), k)).lossless


def shown(case: Case) -> str:
    """Return the problem and the output distribution, as text."""
    output = otd.evaluate(IndependentTests(), case.problem()).output
    return f"{case}: output ({', '.join(map(str, output))})"


HALF = Fraction(1, 2)
BERNOULLI = Case((HALF, HALF), (Fraction(0), Fraction(1)), 2, 0)

STATEMENTS = (
    Statement(
        "recursive rejection, with replacement",
        "The output is exactly p for i.i.d. drafts.",
        SOURCES,
        "Fractions, all drafts enumerated",
        with_replacement,
        (UNDER_WITHOUT,),
    ),
    Statement(
        "recursive rejection, with replacement, unknown masses",
        "The output is p as a rational function of p and q, for every outcome of the comparisons.",
        SOURCES,
        "sympy, rational functions, every min split",
        planted=(STALE, TARGET, UNDER_WITHOUT),
        prove=with_replacement_proved,
    ),
    Statement(
        "recursive rejection, without replacement",
        "The output is exactly p for drafts without replacement.",
        "Yang et al. 2024; Chen et al. 2024 (Sequoia)",
        "Fractions, all drafts enumerated",
        without_replacement,
        (UNDER_IID,),
    ),
    Statement(
        "recursive rejection, without replacement, unknown masses",
        "The output is p as a rational function of p and q, for every outcome of the comparisons.",
        "Yang et al. 2024; Chen et al. 2024 (Sequoia)",
        "sympy, rational functions, every min split",
        planted=(STALE, TARGET, UNDER_IID),
        prove=without_replacement_proved,
    ),
    Statement(
        "k independent tests",
        "Testing each of k drafts with min(1, p/q), then sampling from norm((p - q)+), outputs p.",
        "the naive extension of Leviathan et al. 2023; Sun et al. 2023 (SpecTr)",
        "Fractions, all drafts enumerated; draft Ber(1), target Ber(1/2) first",
        independent,
        (ONE, UPDATED, SCALED),
        expected="refuted",
        first=(BERNOULLI,),
        limit=100,
        show=shown,
    ),
)
