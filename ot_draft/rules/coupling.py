"""Maximal coupling of the selected draft token with the output token: the last step of every rule that first selects one draft."""

from .. import arrays as xp
from ..arrays import Array
from ..optimum import optimal_acceptance
from ..problem import Problem
from ..selection import Selection


def couple(p: Array, selected: Array, choice: Array, drafts: Array, fixed: Array | None = None) -> Selection:
    """Accept the selected draft with probability min(1, p/m), else sample from norm((p - m)+): the maximal coupling of m and p.

    selected: (..., n) law m of the selected token, 0 where nothing is selected; its memory is used up, for the residual.
    choice: (..., k) probability that position i is the selected one, given the drafts. fixed: (..., k) drafts that are
    the same whatever was drawn (the top tokens T of hybrid drafting), -1 elsewhere; m is 0 there, and what the residual
    puts on T counts as accepted: it was drafted too.
    """
    take = xp.minimum(xp.divide(xp.gather(p, drafts), xp.gather(selected, drafts), 0), 1)
    accept = choice * take
    left = xp.residual(p, selected, out=selected)
    if fixed is None:
        return Selection(accept, left)
    on_fixed = xp.where(fixed >= 0, xp.gather(left, fixed), 0) * (1 - accept.sum(-1, keepdims=True))
    return Selection(accept + on_fixed, xp.normalise(xp.with_zeros_at(left, fixed), p))


def attained_optimum(problem: Problem, optimum: Array | None) -> tuple[Array, Array]:
    """`closed_form` of a rule that attains the optimum under the draft law by drafts that it takes."""
    best = optimal_acceptance(problem.p, problem.q, problem.k, problem.law) if optimum is None else optimum
    return best, best
