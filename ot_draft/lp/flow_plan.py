"""Transport plan from a solver's flow: exactly feasible integers over one denominator, verified in rational arithmetic."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import SolverFailed
from ..optimum import cut_value
from ..problem import Problem
from ..selection import first_time
from .plan import Certificate, Plan, read_from
from .program import Program, RawSolution


@dataclass(frozen=True, eq=False)
class FlowPlan(Plan):
    """Transport plan from a flow: mass from each draft set S to each output y in S.

    numerators: (pairs,) flow in units of 1 / denominator, by the pairs (S, y) of the program. The flow satisfies all constraints of the
    exact program for every solver, so that the rule of this plan is lossless. Values are Fractions or float64, as in the problem.
    """

    program: Program
    numerators: tuple[int, ...]
    denominator: int

    @property
    def inner(self) -> Problem:
        return self.program.exact

    @property
    def flow(self) -> np.ndarray:
        """(pairs,) mass on the pair (S, y)."""
        return self.program.numbers([Fraction(mass, self.denominator) for mass in self.numerators])

    @property
    def value(self) -> Fraction:
        return Fraction(sum(self.numerators), self.denominator)

    @cached_property
    def left(self) -> np.ndarray:
        taken = totals(self.program.tokens, self.numerators, self.program.exact.n)
        left = np.array(self.program.token_mass) - np.array([Fraction(mass, self.denominator) for mass in taken])
        return left / left.sum() if left.any() else np.array(self.program.token_mass, dtype=object)

    def rows(self, drafts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = first_time(drafts)
        mass = np.full(len(drafts), Fraction(0), dtype=object)
        accept = np.full(drafts.shape, Fraction(0), dtype=object)
        for i, (row, fresh) in enumerate(zip(drafts.tolist(), first.tolist(), strict=True)):
            known = self._accept.get(tuple(sorted(token for token, new in zip(row, fresh, strict=True) if new)))
            if known:  # the program has no set of probability 0
                mass[i], shares = known
                accept[i] = [shares[token] if new else Fraction(0) for token, new in zip(row, fresh, strict=True)]
        return mass, accept

    def sets(self) -> np.ndarray:
        k = self.inner.k
        padded = [(*tokens, *(-1,) * (k - len(tokens))) for tokens in self.program.token_sets]
        return np.array(padded, dtype=np.int64).reshape(len(padded), k)

    def numbers(self, values: Any) -> np.ndarray:
        return self.program.numbers(values)

    def certificate(self, token_set: np.ndarray) -> Certificate:
        return certify(self, token_set)

    @cached_property
    def _accept(self) -> dict[tuple[int, ...], tuple[Fraction, dict[int, Fraction]]]:
        """Map each draft set S to Q(S) and to the shares flow(S, y) / Q(S) of its tokens y."""
        shares: list[dict[int, Fraction]] = [{} for _ in self.program.token_sets]
        pairs = zip(self.program.rows.tolist(), self.program.tokens.tolist(), self.numerators, strict=True)
        for row, token, mass in pairs:
            shares[row][token] = Fraction(mass, self.denominator) / self.program.set_mass[row]
        return dict(zip(self.program.token_sets, zip(self.program.set_mass, shares, strict=True), strict=True))


def feasible(program: Program, raw: RawSolution) -> FlowPlan:
    """The plan from the solver's flow, rounded down so that all constraints hold exactly."""
    flow, unit = in_units(raw)
    sets, tokens = program.capacities(unit)
    flow = scaled_down([max(0, mass) for mass in flow], program.rows.tolist(), sets)
    return FlowPlan(program, tuple(scaled_down(flow, program.tokens.tolist(), tokens)), unit)


def in_units(raw: RawSolution) -> tuple[list[int], int]:
    """Numerators and denominator of the solver's flow; floats are rounded down."""
    if raw.denominator is not None:
        return list(raw.flow), raw.denominator
    unit = 1 << 256  # for flows in floats; masses below 1e-77 are rounded to 0
    ratios = (float(mass).as_integer_ratio() for mass in raw.flow)
    return [numerator * unit // denominator for numerator, denominator in ratios], unit


def totals(groups: np.ndarray, flow: Sequence[int], count: int) -> list[int]:
    """Sum of the flow by group: groups (pairs,) in 0 .. count - 1, flow (pairs,) -> (count,)."""
    sums = [0] * count
    for group, mass in zip(groups.tolist(), flow, strict=True):
        sums[group] += mass
    return sums


def scaled_down(masses: Collection[int], groups: Sequence[Any], limits: Any) -> list[int]:
    """Masses, scaled and rounded down in each group whose sum exceeds its limit. groups: of each mass; limits: by group."""
    sums: dict[Any, int] = defaultdict(int)
    for group, mass in zip(groups, masses, strict=True):
        sums[group] += mass
    return [
        mass * limits[group] // sums[group] if sums[group] > limits[group] else mass
        for group, mass in zip(groups, masses, strict=True)
    ]


def certify(plan: FlowPlan, token_set: np.ndarray) -> Certificate:
    """Verify a plan and a token set on the exact problem. Raises SolverFailed if one is wrong.

    The verification is independent of the solver: all constraints are summed again, and the cut is computed by the draft law and compared
    with the sum over draft sets.
    """
    program = plan.program
    upper = Fraction(cut_value(program.exact, token_set))
    masses = zip(program.token_sets, program.set_mass, strict=True)
    inside = sum((mass for tokens, mass in masses if token_set[list(tokens)].all()), Fraction(0))
    if upper != 1 + sum(program.exact.p[token_set], Fraction(0)) - inside:
        raise SolverFailed(
            f"{type(program.exact.law).__name__}: P(all drafts in H) differs between its prefix probabilities and its draft tuples."
            " Correct the draft law."
        )
    _check_feasible(plan)
    if plan.value > upper:
        raise SolverFailed(
            f"a plan of value {plan.value} exceeds the cut {upper}. This is a bug in ot_draft; please report it."
        )
    return Certificate(plan.value, upper, token_set, read_from(program.problem))


def _check_feasible(plan: FlowPlan) -> None:
    program = plan.program
    for row, token, mass in zip(program.rows.tolist(), program.tokens.tolist(), plan.numerators, strict=True):
        if mass < 0 or token not in program.token_sets[row]:
            raise SolverFailed(
                f"the flow from {program.token_sets[row]} to {token} is not allowed: {mass} / {plan.denominator}"
            )
    sides = (("draft set", program.rows, program.set_mass), ("token", program.tokens, program.token_mass))
    for name, groups, bounds in sides:
        used = totals(groups, plan.numerators, len(bounds))
        for i, (mass, bound) in enumerate(zip(used, bounds, strict=True)):
            if mass * bound.denominator > bound.numerator * plan.denominator:
                raise SolverFailed(
                    f"the flow of {name} {i} exceeds its mass {bound}. This is a bug in ot_draft; please report it."
                )
