"""What a rule accepts on average, by a formula instead of n^k draft tuples.

Two notions, which the papers mix up:

* *accepted*: the output is one of the drafted tokens, whichever way it got there. This is what the optimum bounds.
* *taken*: the rule takes a draft, E[sum_i accept_i]. What the residual puts on drafted tokens does not count. K-SEQ's bound
  is about this one. The two are equal where the residual has no mass on refused tokens, as for most rules here.

The formulas stand with the rules (`SelectionRule.closed_form`). Every one is held against `evaluate` in
tests/compare/test_expected_acceptance.py, and against random drafts on real pairs.
"""

from __future__ import annotations

from ..arrays import Array
from ..problem import Problem
from ..selection import SelectionRule


def closed_form(rule: SelectionRule, problem: Problem, optimum: Array | None = None) -> tuple[Array, Array] | None:
    """(accepted, taken), (...) each, or None where no formula is known. Exact on Fractions. k = 0 included.

    optimum: (...) of the problem, where the caller knows it.
    """
    if problem.k == 0:
        nothing = 0 * problem.p.sum(-1)
        return nothing, nothing
    return rule.closed_form(problem, optimum)
