"""Masses of a token set in one pass over the tokens."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..optimum import MANY
from ..problem import Problem
from .loops import REORDERED, installed, loop


def set_sums(problem: Problem, chosen: Array) -> tuple[Array, ...]:
    """p(H), q(H) and the mass of q, (..., 1) each, in float64."""
    if problem.n < MANY or not xp.on_host(problem.p) or not installed():
        return NotImplemented
    found = [_sums(*row) for row in zip(*xp.rows(problem.batch, problem.p, problem.q, chosen), strict=True)]
    sums = np.reshape(found, (-1, 3)).T.copy()
    return tuple(xp.from_view(np.reshape(x, (*problem.batch, 1)), problem.p) for x in sums)


@loop(REORDERED)
def _sums(p, q, chosen):
    """p(H), q(H) and the mass of q, in float64, for one row."""
    inside = drawn = mass = 0.0
    for y in range(len(p)):
        mass += q[y]
        if chosen[y]:
            inside += p[y]
            drawn += q[y]
    return inside, drawn, mass
