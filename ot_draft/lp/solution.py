"""solve(problem, solver): the optimum by linear programming; a coupling and a token set whose values agree certify it in rationals."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from .. import arrays as xp
from ..errors import InvalidArgument, SolverFailed
from ..optimum import cut_value
from ..problem import Problem
from . import float_solvers
from .coupling import Coupling, feasible, in_units, totals
from .maximum_flow import flow
from .program import Program, RawSolution, build


def _in_floats(solver: str, program: Program) -> RawSolution:
    return RawSolution(*float_solvers.SOLVERS[solver](program))


SOLVERS: dict[str, Callable[[Program], RawSolution]] = {
    "flow": flow,
    **{name: partial(_in_floats, name) for name in float_solvers.SOLVERS},
}
TOLERANCE = {"flow": 0.0, "highs": 1e-9}  # largest gap that is let through; 1e-6 for the others


@dataclass(frozen=True)
class Residuals:
    """How far the solver's own answer is from optimal.

    primal: largest violation of a reduced constraint by its flow, before that was made feasible, in probability.
    dual: largest violation of price(S) + price(y) >= 1 or price >= 0, in acceptance per unit of mass.
    gap: cut minus value of the feasible coupling, in acceptance: the optimum is at most this much above the value.
    """

    primal: float
    dual: float
    gap: float


@dataclass(frozen=True, eq=False)
class Certificate:
    """lower <= alpha* <= upper, both proved in rationals.

    lower: value of a coupling that meets every constraint, so that some valid rule attains it. upper: 1 + p(H) - Q(all
    drafts in H) of the token set H, bool (n,), which no valid rule exceeds (weak duality). read_from: what the
    rationals are.
    """

    lower: Fraction
    upper: Fraction
    token_set: np.ndarray
    read_from: str

    @property
    def exact(self) -> bool:
        """Whether the two values agree: the optimum is proved, to the last digit."""
        return self.lower == self.upper

    @property
    def width(self) -> Fraction:
        """upper - lower, in probability."""
        return self.upper - self.lower

    def __str__(self) -> str:
        if self.exact:
            found = f"is exactly {self.lower}"
            found = found if len(found) < 60 else f"is exactly a rational number near {float(self.lower):.15g}"
        else:
            lower, upper, width = float(self.lower), float(self.upper), float(self.width)
            found = f"lies between {lower:.15g} and {upper:.15g}, an interval of width {width:.1e}"
        return (
            f"The largest acceptance of any rule that keeps the target's law {found}, for the problem {self.read_from}."
        )


@dataclass(frozen=True, eq=False)
class Solution:
    """The optimum of one problem and what confirms it.

    acceptance: of the coupling, in the problem's numbers; at most the optimum, by at most residuals.gap.
    coupling: the reduced flow; `coupling.full()` is pi(x, y) over draft tuples. token_set: bool (n,), the 0/1 dual
    solution H, with optimum = 1 + p(H) - Q(all drafts in H).
    """

    acceptance: Any
    coupling: Coupling
    token_set: np.ndarray
    residuals: Residuals
    solver: str
    status: str
    problem: Problem

    def certificate(self) -> Certificate:
        """What coupling and token set prove, re-verified in rationals."""
        return certify(self.coupling, self.token_set)


def solve(problem: Problem, solver: str = "highs") -> Solution:
    """Largest acceptance of any rule that keeps the target's law, by linear programming (SpecTr; Sun et al. 2023).

    solver: "flow" (pure Python, exact: gap 0), "highs" (scipy), "cvxpy" (Clarabel), "cvxpy-highs", "pulp" (CBC).
    Fractions stay exact with "flow"; other solvers get them rounded, and their answer is still checked against the exact
    problem. Raises SolverFailed where acceptance and cut differ by more than 0 (flow), 1e-9 (highs), 1e-6 (others),
    InvalidArgument for a solver that is none.
    """
    if solver not in SOLVERS:
        raise InvalidArgument(f"there is no solver {solver!r}: take one of {', '.join(SOLVERS)}")
    program = build(problem)
    if len(program.rows):
        raw = SOLVERS[solver](program)
    else:  # k = 0: a program without variables, which some solvers refuse
        raw = RawSolution(np.zeros(0), np.repeat([1.0, 0.0], (len(program.token_sets), problem.n)), "optimal")
    _check_answer(program, raw, solver)
    coupling = feasible(program, raw)
    token_set, cut = program.lowest_cut(raw.prices[-problem.n :], coupling.denominator)
    gap = Fraction(cut, coupling.denominator) - coupling.value
    tolerance = TOLERANCE.get(solver, 1e-6)
    if gap > tolerance:
        raise SolverFailed(
            f'{solver} ended "{raw.status}" with a coupling of value {float(coupling.value):.12g},'
            f" {float(gap):.1e} below the cut of its dual (tolerance {tolerance:.0e}): the optimum is between;"
            ' take solver="flow", which is exact'
        )
    acceptance = coupling.value if xp.is_exact(problem.p) else float(coupling.value)
    units, unit = in_units(raw)
    sets, tokens = program.capacities(unit)
    used = totals(program.rows, units, len(sets)) + totals(program.tokens, units, len(tokens))
    over = max(mass - capacity for mass, capacity in zip(used, sets + tokens, strict=True))
    primal = float(Fraction(max(0, over, -min(units, default=0)), unit))
    reduced = raw.prices[program.rows] + raw.prices[len(program.token_sets) + program.tokens] - 1
    dual = max(0.0, *(-float(part.min()) for part in (reduced, raw.prices) if part.size))
    residuals = Residuals(primal, dual, float(gap))
    return Solution(acceptance, coupling, token_set, residuals, solver, raw.status, problem)


def _check_answer(program: Program, raw: RawSolution, solver: str) -> None:
    sizes = (len(raw.flow), len(raw.prices)) == (len(program.rows), len(program.bounds))
    finite = sizes and np.isfinite(raw.prices).all() and (raw.denominator is not None or np.isfinite(raw.flow).all())
    if not finite:
        raise SolverFailed(f'{solver} ended "{raw.status}" with numbers missing or not finite: take solver="flow"')


def certify(coupling: Coupling, token_set: np.ndarray) -> Certificate:
    """Check a coupling and a token set against the exact problem; SolverFailed where one of them is wrong.

    Nothing of the solver is trusted: the constraints are summed again, and the cut is computed by the law, by another
    way than the program's own draft sets, which must agree with it.
    """
    program = coupling.program
    upper = Fraction(cut_value(program.exact, token_set))
    masses = zip(program.token_sets, program.set_mass, strict=True)
    inside = sum((mass for tokens, mass in masses if token_set[list(tokens)].all()), Fraction(0))
    if upper != 1 + sum(program.exact.p[token_set], Fraction(0)) - inside:
        raise SolverFailed(
            f"{program.exact.law.name}: the draft tuples and the law's own P(all drafts in H) disagree: report a bug"
        )
    _check_feasible(coupling)
    if coupling.value > upper:
        raise SolverFailed(f"a coupling of value {coupling.value} exceeds the cut {upper}: report a bug")
    read_from = (
        "as given"
        if xp.is_exact(program.problem.p)
        else "whose masses are the floats, read as binary rationals, divided by their exact sum"
    )
    return Certificate(coupling.value, upper, token_set, read_from)


def _check_feasible(coupling: Coupling) -> None:
    program = coupling.program
    for row, token, mass in zip(program.rows.tolist(), program.tokens.tolist(), coupling.numerators, strict=True):
        if mass < 0 or token not in program.token_sets[row]:
            raise SolverFailed(
                f"the flow from {program.token_sets[row]} to {token} is not allowed: {mass} / {coupling.denominator}"
            )
    sides = (("draft set", program.rows, program.set_mass), ("token", program.tokens, program.token_mass))
    for name, groups, bounds in sides:
        used = totals(groups, coupling.numerators, len(bounds))
        for i, (mass, bound) in enumerate(zip(used, bounds, strict=True)):
            if mass * bound.denominator > bound.numerator * coupling.denominator:
                raise SolverFailed(f"the flow of {name} {i} exceeds its mass {bound}: report a bug")
