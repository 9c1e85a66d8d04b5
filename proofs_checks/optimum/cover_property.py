"""The cover property: if q lives on k tokens, and p only on such tokens, then with k drafts nothing is rejected.

Sequoia asks for it. It is a property of the draft law as much as of the rule: drafts that are i.i.d. repeat, so that with
some probability a token of p is not drafted at all; drafts without replacement, greedy drafts and hub pairs cover all k tokens.
Sequoia's example: p on one token, q uniform on two, k = 2; K-SEQ accepts 3/4.

CHECK. Every rule of otd.rules.ALL under its own draft law: the acceptance is 1 in every case, or less than 1 in the example.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

import ot_draft as otd
from ot_draft.laws import is_defined

from ..checking import check
from ..random_cases import Case
from ..statement import Proof, Statement

__all__ = ["STATEMENTS", "check", "covered_cases"]

EXAMPLE = Case((Fraction(1), Fraction(0)), (Fraction(1, 2), Fraction(1, 2)), 2, 0)
ALL_RULES, OPTIMAL_RULES = "every lossless rule has it", "rules that are optimal have it"
WIDER = "q on k + 1 tokens"
CASES = 24


def covered_cases(wider: bool = False) -> Iterator[Case]:
    """Yield the example, then random p inside the k tokens (k + 1, if wider) of a random q."""
    yield EXAMPLE if not wider else Case((*EXAMPLE.p, Fraction(0)), (Fraction(1, 3),) * 3, 2, 0)
    generator = np.random.default_rng(70)
    for number in range(CASES - 1):
        k = 2 + number % 2
        n, size = k + 1 + number % 2, k + wider
        tokens = generator.permutation(n)[:size].tolist()
        q, p = (dict(zip(tokens, _shares(generator, size, least), strict=True)) for least in (1, 0))
        zero = Fraction(0)
        yield Case(tuple(p.get(y, zero) for y in range(n)), tuple(q.get(y, zero) for y in range(n)), k, number)


def accepted(rule: otd.SelectionRule, case: Case) -> Fraction:
    """Return the acceptance of the rule under its own draft law; if it is not lossless, that is an error of the library."""
    evaluation = otd.evaluate(rule, case.problem(rule.law))
    if not evaluation.lossless:
        raise AssertionError(f"{rule.name} does not output p: {case}")
    return evaluation.acceptance


def table(error: str) -> Proof:
    """Return the statements: a rule has the cover property exactly if its drafts are not i.i.d."""
    has: list[str] = []
    lacks: list[str] = []
    count = 0
    for rule in otd.rules.ALL:
        cases = [case for case in covered_cases(error == WIDER) if is_defined(rule.law, case.k)]
        kept = [(accepted(rule, case), case) for case in cases]
        refused = [(acceptance, case) for acceptance, case in kept if acceptance != 1]
        count += len(cases)
        expected = (
            not isinstance(rule.law, otd.IID) or error == ALL_RULES or (error == OPTIMAL_RULES and is_optimal(rule))
        )
        if expected == bool(refused):
            return Proof(
                "", count, f"{rule.name}: " + (f"{refused[0][0]} in {refused[0][1]}" if refused else "always 1")
            )
        (lacks if refused else has).append(rule.name if not refused else f"{rule.name} {kept[0][0]}")
    outcome = f"verified on {count} exact cases. Have it: {', '.join(has)}. Lack it (acceptance in the example): {', '.join(lacks)}"
    return Proof(outcome, count, kind="verified")


def is_optimal(rule: otd.SelectionRule) -> bool:
    """Return whether the rule attains the optimum of its draft law in every case."""
    return all(
        accepted(rule, case) == otd.optimal_acceptance(list(case.p), list(case.q), case.k, rule.law)
        for case in covered_cases()
        if is_defined(rule.law, case.k)
    )


def _shares(generator: np.random.Generator, size: int, least: int) -> list[Fraction]:
    counts = generator.integers(least, 6, size)
    counts[int(generator.integers(size))] += 1
    return [Fraction(int(count), int(counts.sum())) for count in counts]


STATEMENTS = (
    Statement(
        "cover property: who has it",
        "q supported on k tokens, p on some of them, k drafts: exactly the rules whose drafts are not i.i.d. have acceptance 1.",
        "Chen et al. 2024 (Sequoia)",
        "Fractions, all drafts enumerated, every rule of the library",
        planted=(ALL_RULES, OPTIMAL_RULES, WIDER),
        prove=table,
    ),
)
