"""The bridge between the formal proofs and the library: what `ot.evaluate` gives in Fractions, written as a file for Coq.

`python -m proofs_checks.formal.bridge` writes bridge_cases.v anew; bridge.v computes the same rules over Coq's rationals
and proves that all numbers are equal. The tests compare the committed file with what the library gives now.
"""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import ot_draft as ot

FILE = Path(__file__).with_name("bridge_cases.v")
CASES = 210
HEAD = """(* Written by `python -m proofs_checks.formal.bridge`: small problems, and what ot.evaluate gives for them in Fractions.

   A case is (p, q, k, factor of K-SEQ, [(output law, acceptance) for each rule, in the order of bridge.v]). *)

From Coq Require Import QArith List.
Import ListNotations.
Local Open Scope Q_scope.

"""


def rules(factor: Fraction) -> tuple[ot.SelectionRule, ...]:
    """The rules that are formalised, in the order of bridge.v; each is judged under the law that it is made for."""
    return (
        ot.rules.NaiveTarget(),
        ot.rules.SpeculativeSampling(),
        ot.rules.RecursiveRejection(),
        ot.rules.RecursiveRejectionWithoutReplacement(),
        ot.rules.KSeq(factor=factor),
        ot.rules.Optimal(),
    )


def problem(number: int) -> tuple[list[Fraction], list[Fraction], int, Fraction]:
    """p, q, k and a factor in [1, k] for K-SEQ, the same for a number in every run; zeros and ties among them.

    The factor is at least gamma*: below it the library and rules.v fill up a law that cannot be filled up, each in its own way.
    """
    draw = random.Random(number)
    n = draw.choice((1, 2, 2, 3, 3, 3, 4))
    k = draw.randint(1, min(n, 3))
    p, q = _law(draw, n), _law(draw, n)
    factor = 1 + (k - 1) * Fraction(draw.randint(0, 12), 12)
    beta = sum((min(q_y, p_y / factor) for p_y, q_y in zip(p, q, strict=True)), Fraction(0))
    valid = 1 - (1 - beta) ** k <= factor * beta
    return p, q, k, factor if valid else Fraction(k)


def _law(draw: random.Random, n: int) -> list[Fraction]:
    masses = [draw.choice((0, 1, 1, 2, 3, 5, 8)) for _ in range(n)]
    whole = sum(masses)
    return [Fraction(mass, whole) for mass in masses] if whole else [Fraction(1, n)] * n


def case(number: int) -> str:
    """One case in Coq's notation."""
    p, q, k, factor = problem(number)
    given = []
    for rule in rules(factor):
        found = ot.evaluate(rule, ot.Problem(p, q, k, law=rule.law))
        given.append(f"({_list(list(found.output))}, {_number(found.acceptance)})")
    return f"({_list(p)}, {_list(q)}, {k}%nat, {_number(factor)},\n   [{'; '.join(given)}])"


def text(cases: int = CASES) -> str:
    """The whole file."""
    body = ";\n  ".join(case(number) for number in range(cases))
    return f"{HEAD}Definition cases : list (list Q * list Q * nat * Q * list (list Q * Q)) := [\n  {body}].\n"


def _list(numbers: list[Fraction]) -> str:
    return f"[{'; '.join(map(_number, numbers))}]"


def _number(x: Fraction) -> str:
    return f"{Fraction(x).numerator}#{Fraction(x).denominator}"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
