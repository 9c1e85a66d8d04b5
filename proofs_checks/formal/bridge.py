"""The bridge between the formal proofs and the library: what `ot.evaluate` gives in Fractions, written as a file for Coq.

`python -m proofs_checks.formal.bridge` writes bridge_cases.v and bridge_path_cases.v anew; bridge.v and bridge_paths.v compute the
same rules over Coq's rationals and prove that all numbers are equal. The tests compare the committed files with what the
library gives now.
"""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

import ot_draft as ot
from ot_draft import paths

FILE = Path(__file__).parent / "computed" / "bridge_cases.v"
CASES = 210
PATH_FILE = Path(__file__).parent / "computed" / "bridge_path_cases.v"
PATH_CASES = 12
PATH_SIZES = ((2, 1, 1), (2, 1, 2), (2, 2, 1), (2, 2, 2), (3, 1, 1), (2, 3, 1))  # tokens, paths K, length L
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


PATH_HEAD = """(* Written by `python -m proofs_checks.formal.bridge`: small Markov models, and what ot.paths.evaluate gives for them.

   A case is (target, draft, K, L, [(law of the L + 1 tokens, expected accepted tokens) for each rule, as in bridge_paths.v]).
   A model is its first law, then those after token 0, 1, ..; a law of tokens is listed in lexicographic order. *)

From Coq Require Import QArith List.
Import ListNotations.
Local Open Scope Q_scope.

"""


def path_rules(K: int) -> tuple[paths.PathRule, ...]:
    """The path rules that are formalised, in the order of bridge_paths.v."""
    several = (
        paths.TokenWise(ot.rules.RecursiveRejection()),
        paths.TokenWise(ot.rules.Optimal()),
        paths.Traversal(),
        paths.Joint(),
    )
    return (*several, paths.BlockVerification()) if K == 1 else several


def path_problem(number: int) -> tuple[list[list[Fraction]], list[list[Fraction]], int, int]:
    """Target and draft of a Markov model of order 1, K and L; the same for a number in every run."""
    draw = random.Random(1000 + number)
    n, K, L = PATH_SIZES[number % len(PATH_SIZES)]
    return [_law(draw, n) for _ in range(n + 1)], [_law(draw, n) for _ in range(n + 1)], K, L


def path_case(number: int) -> str:
    """One case of paths in Coq's notation."""
    target, draft, K, L = path_problem(number)
    n = len(target) - 1
    contexts: list[tuple[int, ...]] = [(), *((token,) for token in range(n))]
    targets, drafts = (dict(zip(contexts, map(np.array, laws), strict=True)) for laws in (target, draft))
    model = paths.MarkovModel(targets, drafts, order=1)
    given = []
    for rule in path_rules(K):
        found = paths.evaluate(rule, model, (K, L))
        law = [found.law.get(tokens, Fraction(0)) for tokens in product(range(n), repeat=L + 1)]
        given.append(f"({_list(law)}, {_number(found.expected_length)})")
    return f"({_lists(target)}, {_lists(draft)}, {K}%nat, {L}%nat,\n   [{'; '.join(given)}])"


def path_text() -> str:
    """The whole file of the path cases."""
    body = ";\n  ".join(path_case(number) for number in range(PATH_CASES))
    kind = "list (list (list Q) * list (list Q) * nat * nat * list (list Q * Q))"
    return f"{PATH_HEAD}Definition path_cases : {kind} := [\n  {body}].\n"


def _lists(laws: list[list[Fraction]]) -> str:
    return f"[{'; '.join(map(_list, laws))}]"


def _list(numbers: list[Fraction]) -> str:
    return f"[{'; '.join(map(_number, numbers))}]"


def _number(x: Fraction) -> str:
    return f"{Fraction(x).numerator}#{Fraction(x).denominator}"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    PATH_FILE.write_text(path_text(), encoding="utf-8")
