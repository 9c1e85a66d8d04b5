"""Properties of a rule on what is no proper problem, and in floats: no drafts, no rows, subnormal masses, rounding."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ...arrays import Array, is_exact
from ...exact import evaluate
from ...problem import TOLERANCE, Problem
from ...selection import SelectionRule
from .boundaries import boundary_problems, extreme_problems
from .counterexample import Counterexample, drafts_shown
from .number_texts import numbers
from .rule_property import IN_FLOATS, as_floats, kept_problem, possible_drafts, rule_property
from .validity import compare_probabilities


@rule_property(cases=extreme_problems, shows=IN_FLOATS)
def extreme_cases(rule: SelectionRule, problem: Problem) -> None:
    """No drafts (k = 0), a batch of no rows and masses of 5e-324 are no error and come out right, in Fractions and in float64."""
    for case in (problem, as_floats(problem)):
        _compare(rule, problem, case)


@rule_property(cases=boundary_problems, shows=IN_FLOATS, category="floats")
def boundary_cases_in_floats(rule: SelectionRule, problem: Problem) -> None:
    """The boundary cases come out right in float64, up to rounding."""
    _compare(rule, problem, as_floats(problem))


def _compare(rule: SelectionRule, problem: Problem, case: Problem) -> None:
    output, kept = evaluate(rule, case).output, kept_problem(rule, case).p
    if not _is_target(output, kept):
        shows = "" if case is problem else IN_FLOATS
        raise Counterexample(problem, f"output law {numbers(output)} instead of {numbers(kept)}", shows)


def _is_target(output: Array, target: Any) -> bool:
    if is_exact(target):
        return np.array_equal(output, target)
    return output.shape == target.shape and bool((abs(output - target).sum(-1) <= TOLERANCE["float64"]).all())


@rule_property(most=25)
def exactness(rule: SelectionRule, problem: Problem) -> None:
    """Fractions in, Fractions out: no float literal or float function on the way."""
    drafts = possible_drafts(problem)
    selection = rule(problem.p, problem.q, drafts)
    for name, values in (("accept", selection.accept), ("residual", selection.residual)):
        types = {type(value) for value in values.ravel()} if is_exact(values) else {values.dtype.type}
        if not types <= {Fraction, int} or not is_exact(values):
            seen = f"{name} holds {', '.join(sorted(each.__name__ for each in types))}"
            raise Counterexample(problem, seen, drafts_shown(drafts[0]))


@rule_property(category="floats")
def probabilities_in_floats(rule: SelectionRule, problem: Problem) -> None:
    """accept is >= 0 with sum <= 1 and the residual is a law in float64, too, up to 1e-9."""
    compare_probabilities(rule, problem, as_floats(problem))
