"""Random rational problems, and the check of a statement on many of them.

Masses are small whole counts over their sum, so that zeros, ties in p/q and one-hot distributions come up often; p == q and p = q in
reverse too. The sizes keep n^k small enough to enumerate all drafts in Fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np

import ot_draft as otd

from .statement import Statement, StatementOutcome

SIZES = [(n, k) for n in range(2, 9) for k in range(1, 7) if n**k <= 256] + [(1, 1), (1, 6), (3, 6), (8, 3)]
WHOLES = (1, 2, 3, 7, 12, 30, 60, 210, 1000)
BLOCK = 20  # number of cases per task of a process


@dataclass(frozen=True)
class Case:
    """One problem; `seed` is for all other random choices of a statement."""

    p: tuple[Fraction, ...]
    q: tuple[Fraction, ...]
    k: int
    seed: int

    def __str__(self) -> str:
        p, q = (f"({', '.join(map(str, masses))})" for masses in (self.p, self.q))
        return f"p = {p}, q = {q}, k = {self.k}"

    @property
    def size(self) -> tuple[int, ...]:
        """Small ones are easy to read: few tokens, few drafts, small denominators."""
        denominators = [mass.denominator for mass in self.p + self.q]
        return len(self.p), self.k, max(denominators), sum(denominators)

    def problem(self, law: otd.DraftLaw | None = None) -> otd.Problem:
        """Return the case as a Problem of the library."""
        return otd.Problem(list(self.p), list(self.q), self.k, law)


def _case(p: str, q: str, k: int) -> Case:
    target, draft = (tuple(map(Fraction, masses.split())) for masses in (p, q))
    return Case(target, draft, k, 0)


HARD = (  # two local maxima of q(H)^k - p(H) over the prefixes, which are rare in random problems
    _case("1/2 1/2 0", "1/3 1/3 1/3", 2),
    _case("0 1/10 1/2 2/5", "1/10 7/10 1/10 1/10", 3),
)


def draw(seed: int) -> Case:
    """Return the case of this number: first the hard ones, then random ones."""
    if seed < len(HARD):
        return HARD[seed]
    generator = np.random.default_rng(seed)
    n, k = SIZES[seed % len(SIZES)]
    p, q = _masses(generator, n), _masses(generator, n)
    kind = int(generator.integers(8))
    return Case(p, {0: p, 1: p[::-1]}.get(kind, q), k, seed)


def check_on_random_cases(statement: Statement, cases: int, jobs: int = 1) -> StatementOutcome:
    """Check a statement on its own first cases and the cases 0, 1, ..., and each control on the first quarter of them, or on 100.

    An injected error is looked for until a block of cases detects it; a repair of a false claim must hold, hence it is tried on all.
    """
    from joblib import Parallel, delayed  # loads for .15 s, which no help should wait for

    start = perf_counter()
    drawn = cases if statement.limit is None else min(cases, statement.limit)
    own, fewer = len(statement.first), min(drawn, max(drawn // 4, 100))
    repairs = statement.expected == "refuted"
    claims, errors = ("", *(statement.planted if repairs else ())), () if repairs else statement.planted
    blocks = [(claim, block) for claim in claims for block in _blocks(own + drawn)]
    look, look_for = delayed(_false_in), delayed(_first_false)
    work = [look(statement, *block) for block in blocks] + [look_for(statement, error, own + fewer) for error in errors]
    parts = Parallel(n_jobs=jobs)(work)
    raised = next((case for part in parts for case in part if isinstance(case, Raised)), "")
    false: dict[str, tuple[Any, ...]] = dict.fromkeys(claims, ())
    for (claim, _), part in zip(blocks, parts, strict=False):
        false[claim] += part
    false |= dict(zip(errors, parts[len(blocks) :], strict=True))
    return StatementOutcome(statement, own + drawn, perf_counter() - start, false.pop(""), false, raised=raised)


class Raised(str):
    """Instead of a case: the check of it raised an error, which decides nothing about the claim and fails the row."""


def _blocks(number: int) -> list[range]:
    return [range(first, min(first + BLOCK, number)) for first in range(0, number, BLOCK)]


def _first_false(statement: Statement, error: str, number: int) -> tuple[Any, ...]:
    """Return the cases of the first block that detects the error, among `count` cases; none if no block does."""
    found = (_false_in(statement, error, block) for block in _blocks(number))
    return next(filter(None, found), ())


def _false_in(statement: Statement, error: str, block: range) -> tuple[Any, ...]:
    """Return the cases of the block in which the claim, with this error in it, is false."""
    assert statement.holds is not None, f"{statement.name}: give holds or prove"
    false = []
    for number in block:
        beyond = number - len(statement.first)
        case = (statement.draw or draw)(beyond) if beyond >= 0 else statement.first[number]
        try:
            if not statement.holds(case, error):
                false.append(case)
        except Exception as raised:
            false.append(Raised(f"{type(raised).__name__} in {case}: {raised}"))
    return tuple(false)


def _masses(generator: np.random.Generator, n: int) -> tuple[Fraction, ...]:
    whole = int(generator.choice(WHOLES))
    shares = generator.dirichlet(np.full(n, generator.choice([0.5, 1.0, 3.0])))
    return tuple(Fraction(int(count), whole) for count in generator.multinomial(whole, shares))
