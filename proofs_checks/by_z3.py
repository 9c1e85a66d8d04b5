"""Claims about all real numbers at once, decided by z3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import z3

from .statement import Proof

SECONDS = 20  # timeout per part; all present ones are decided within a second
Part = tuple[str, Sequence[Any], Any]  # name, assumptions, claim


def decide(summary: str, parts: Iterable[Part]) -> Proof:
    """Decide whether each claim follows from its assumptions, for all real numbers; stop at the first that does not."""
    count = 0
    for name, premises, claim in parts:
        solver = z3.Solver()
        solver.set("timeout", 1000 * SECONDS)
        solver.add(*premises, z3.Not(claim))
        answer = solver.check()
        if answer == z3.sat:
            return Proof(summary, count, f"{name}: {_shown(solver.model())}")
        if answer == z3.unknown:
            return Proof(summary, count, undecided=f"{name}: {solver.reason_unknown()}")
        count += 1
    return Proof(summary, count)


def reals(name: str, number: int) -> list[Any]:
    """Return `count` real variables."""
    return [z3.Real(f"{name}{i}") for i in range(number)]


def is_law(masses: Sequence[Any]) -> list[Any]:
    """Return the condition that the masses are probabilities with sum 1."""
    return [*(mass >= 0 for mass in masses), sum(masses) == 1]


def least(*terms: Any) -> Any:
    """Return the minimum of the terms."""
    smallest = terms[0]
    for term in terms[1:]:
        smallest = z3.If(term < smallest, term, smallest)
    return smallest


def greatest(*terms: Any) -> Any:
    """Return the maximum of the terms."""
    return -least(*(-term for term in terms))


def power(base: Any, exponent: int) -> Any:
    """Return base^exponent as a product: z3 decides polynomials."""
    product = z3.RealVal(1)
    for _ in range(exponent):
        product = product * base
    return product


def total(masses: Sequence[Any], tokens: Iterable[int]) -> Any:
    """Return the masses of these tokens together, 0 if there are none."""
    return sum((masses[y] for y in tokens), z3.RealVal(0))


def token_sets(n: int) -> list[tuple[int, ...]]:
    """Return every set of tokens, by size."""
    return [chosen for size in range(n + 1) for chosen in combinations(range(n), size)]


def _shown(model: Any) -> str:
    values = {str(variable): model[variable] for variable in model.decls() if variable.arity() == 0}
    return ", ".join(f"{name} = {values[name]}" for name in sorted(values))
