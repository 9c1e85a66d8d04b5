"""A coupling of draft sets and outputs: exactly feasible, in integers over one denominator."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InvalidArgument
from ..exact import all_drafts
from .program import Program, RawSolution

GRID = 1 << 256  # denominator of flows that come as floats; masses below 1e-77 are not worth coupling
MAX_ENTRIES = 200_000  # of a coupling over all draft tuples


@dataclass(frozen=True, eq=False)
class Coupling:
    """Mass that goes from the draft set S to the output y in S, for every pair of the program, and what is left.

    program: its token_sets S, (sets,), and of every pair rows, the index of S, and tokens, the output y: (pairs,) each.
    numerators: (pairs,) flow in units of 1 / denominator. It meets every constraint of the exact program, whatever
    solver it comes from, so that the rule read off it is valid: given S, output y in S with probability `accept`, and
    else draw from `residual`. The properties are in the numbers of the problem (Fractions, or float64).
    """

    program: Program
    numerators: tuple[int, ...]
    denominator: int

    @property
    def flow(self) -> np.ndarray:
        """(pairs,) mass on the pair (S, y)."""
        return self.program.numbers([Fraction(mass, self.denominator) for mass in self.numerators])

    @property
    def value(self) -> Fraction:
        """Total mass: the acceptance of the rule read off the coupling, exactly."""
        return Fraction(sum(self.numerators), self.denominator)

    @property
    def accept(self) -> np.ndarray:
        """(sets, n) probability that y is the output as a draft, given S: flow(S, y) / Q(S)."""
        return self.program.numbers(self.exact_accept)

    @property
    def residual(self) -> np.ndarray:
        """(n,) law of the output when no draft is taken: p - sum_S flow(S, .), normalised; p where nothing is left."""
        return self.program.numbers(self.exact_residual)

    @cached_property
    def exact_accept(self) -> np.ndarray:
        """(sets, n) `accept` in Fractions."""
        accept = np.full((len(self.program.token_sets), self.program.exact.n), Fraction(0), dtype=object)
        pairs = zip(self.program.rows.tolist(), self.program.tokens.tolist(), strict=True)
        for (row, token), mass in zip(pairs, self.numerators, strict=True):
            if mass:
                accept[row, token] = Fraction(mass, self.denominator) / self.program.set_mass[row]
        return accept

    @cached_property
    def exact_residual(self) -> np.ndarray:
        """(n,) `residual` in Fractions."""
        taken = totals(self.program.tokens, self.numerators, self.program.exact.n)
        left = np.array(self.program.token_mass) - np.array([Fraction(mass, self.denominator) for mass in taken])
        return left / left.sum() if left.any() else np.array(self.program.token_mass, dtype=object)

    def full(self) -> tuple[np.ndarray, np.ndarray]:
        """The coupling pi(x, y) of all draft tuples x and outputs y: drafts int (n^k, k), mass (n^k, n).

        Row sums are the draft law, column sums are p: what is left of every row is sent through the residual. Tuples
        with the same token set share the set's flow in proportion to their probability. InvalidArgument where there are
        too many.
        """
        exact = self.program.exact
        n, drawn = exact.n, exact.law.count(exact.n, exact.k)
        if n ** (drawn + 1) > MAX_ENTRIES:
            raise InvalidArgument(
                f"the coupling of all draft tuples has {n}^{drawn + 1} entries (limit {MAX_ENTRIES}): the reduced form,"
                " merged by token set, has far fewer"
            )
        drafts = np.concatenate(list(all_drafts(exact)))
        row_of = {tokens: row for row, tokens in enumerate(self.program.token_sets)}
        mass = np.full((len(drafts), exact.n), Fraction(0), dtype=object)
        for i, weight in enumerate(exact.law.probability(exact.q[None, :], drafts)):
            if weight:
                accept = self.exact_accept[row_of[tuple(sorted({int(token) for token in drafts[i] if token >= 0}))]]
                mass[i] = weight * (accept + (1 - accept.sum()) * self.exact_residual)
        return drafts, self.program.numbers(mass)


def feasible(program: Program, raw: RawSolution) -> Coupling:
    """The solver's flow, rounded down until every constraint holds exactly."""
    flow, unit = in_units(raw)
    sets, tokens = program.capacities(unit)
    flow = scaled_down([max(0, mass) for mass in flow], program.rows.tolist(), sets)
    return Coupling(program, tuple(scaled_down(flow, program.tokens.tolist(), tokens)), unit)


def in_units(raw: RawSolution) -> tuple[list[int], int]:
    """The solver's flow in integers, and the denominator they stand over; floats are rounded down."""
    if raw.denominator is not None:
        return list(raw.flow), raw.denominator
    ratios = (float(mass).as_integer_ratio() for mass in raw.flow)
    return [numerator * GRID // denominator for numerator, denominator in ratios], GRID


def totals(groups: np.ndarray, flow: Sequence[int], count: int) -> list[int]:
    """The flow of every group: (pairs,) numbers of groups, (pairs,) -> (count,)."""
    sums = [0] * count
    for group, mass in zip(groups.tolist(), flow, strict=True):
        sums[group] += mass
    return sums


def scaled_down(masses: Collection[int], groups: Sequence[Any], limits: Any) -> list[int]:
    """Scale down, rounding down, the masses of every group that exceeds its limit. groups: one a mass; limits: by group."""
    sums: dict[Any, int] = defaultdict(int)
    for group, mass in zip(groups, masses, strict=True):
        sums[group] += mass
    return [
        mass * limits[group] // sums[group] if sums[group] > limits[group] else mass
        for group, mass in zip(groups, masses, strict=True)
    ]
