"""A coupling of draft sets and outputs: exactly feasible, in integers over one denominator."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from .program import Program, RawSolution
from .textbook import tuples_of

GRID = 1 << 256  # denominator of flows that come as floats; masses below 1e-77 are not worth coupling


@dataclass(frozen=True, eq=False)
class Coupling:
    """Mass that goes from the draft set S to the output y in S, for every pair of the program, and what is left.

    numerators: (pairs,) flow in units of 1 / denominator. It meets every constraint of the exact program, whatever
    solver it comes from, so that the rule read off it is valid: given S, output y in S with probability `accept`, and
    else draw from `residual`. The properties are in the numbers of the problem (Fractions, or float64).
    """

    program: Program
    numerators: tuple[int, ...]
    denominator: int

    @property
    def token_sets(self) -> tuple[tuple[int, ...], ...]:
        """(sets,) the draft sets S of positive probability."""
        return self.program.token_sets

    @property
    def rows(self) -> np.ndarray:
        """(pairs,) index of S."""
        return self.program.rows

    @property
    def tokens(self) -> np.ndarray:
        """(pairs,) output y."""
        return self.program.tokens

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
        accept = np.full((len(self.token_sets), self.program.exact.n), Fraction(0), dtype=object)
        for row, token, mass in zip(self.rows.tolist(), self.tokens.tolist(), self.numerators, strict=True):
            if mass:
                accept[row, token] = Fraction(mass, self.denominator) / self.program.set_mass[row]
        return accept

    @cached_property
    def exact_residual(self) -> np.ndarray:
        """(n,) `residual` in Fractions."""
        taken = [0] * self.program.exact.n
        for token, mass in zip(self.tokens.tolist(), self.numerators, strict=True):
            taken[token] += mass
        left = np.array(
            [p - Fraction(mass, self.denominator) for p, mass in zip(self.program.token_mass, taken, strict=True)]
        )
        return left / left.sum() if left.any() else np.array(self.program.token_mass, dtype=object)

    def full(self) -> tuple[np.ndarray, np.ndarray]:
        """The coupling pi(x, y) of all draft tuples x and outputs y: drafts int (n^k, k), mass (n^k, n).

        Row sums are the draft law, column sums are p: what is left of every row is sent through the residual. Tuples
        with the same token set share the set's flow in proportion to their probability. InvalidArgument where there are
        too many.
        """
        exact = self.program.exact
        drafts = tuples_of(exact)
        row_of = {tokens: row for row, tokens in enumerate(self.token_sets)}
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
    flow = _trimmed([max(0, mass) for mass in flow], program.rows.tolist(), sets)
    return Coupling(program, tuple(_trimmed(flow, program.tokens.tolist(), tokens)), unit)


def in_units(raw: RawSolution) -> tuple[list[int], int]:
    """The solver's flow in integers, and the denominator they stand over; floats are rounded down."""
    if raw.denominator is not None:
        return list(raw.flow), raw.denominator
    ratios = (float(mass).as_integer_ratio() for mass in raw.flow)
    return [numerator * GRID // denominator for numerator, denominator in ratios], GRID


def _trimmed(flow: list[int], groups: list[int], capacities: list[int]) -> list[int]:
    """Scale down, rounding down, the flow of every group that exceeds its capacity."""
    totals = [0] * len(capacities)
    for group, mass in zip(groups, flow, strict=True):
        totals[group] += mass
    return [
        mass * capacities[group] // totals[group] if totals[group] > capacities[group] else mass
        for group, mass in zip(groups, flow, strict=True)
    ]
