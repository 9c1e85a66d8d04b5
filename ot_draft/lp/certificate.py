"""A certificate of the optimum: a coupling and a token set whose two values agree, checked in rationals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .. import arrays as xp
from ..errors import SolverFailed
from ..optimum import cut_value
from .coupling import Coupling


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


def certify(coupling: Coupling, token_set: np.ndarray) -> Certificate:
    """Check a coupling and a token set against the exact problem; SolverFailed where one of them is wrong.

    Nothing of the solver is trusted: the constraints are summed again, and the cut is computed by the law, by another
    way than the program's own draft sets, which must agree with it.
    """
    program = coupling.program
    upper = Fraction(cut_value(program.exact, token_set))
    inside = sum(
        (q for s, q in zip(program.token_sets, program.set_mass, strict=True) if token_set[list(s)].all()), Fraction(0)
    )
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
    rows, columns = [0] * len(program.set_mass), [0] * len(program.token_mass)
    for row, token, mass in zip(program.rows.tolist(), program.tokens.tolist(), coupling.numerators, strict=True):
        if mass < 0 or token not in program.token_sets[row]:
            raise SolverFailed(
                f"the flow from {program.token_sets[row]} to {token} is not allowed: {mass} / {coupling.denominator}"
            )
        rows[row] += mass
        columns[token] += mass
    for name, used, bounds in (("draft set", rows, program.set_mass), ("token", columns, program.token_mass)):
        for i, (mass, bound) in enumerate(zip(used, bounds, strict=True)):
            if mass * bound.denominator > bound.numerator * coupling.denominator:
                raise SolverFailed(f"the flow of {name} {i} exceeds its mass {bound}: report a bug")
