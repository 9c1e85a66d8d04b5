"""Properties that say whether a rule is lossless: its decisions on proper problems, in exact arithmetic.

A proper problem is a pair of laws, k >= 1 drafts that are all there, and masses that a float64 can normally hold; several
pairs may stand in a batch. A rule that gives floats for Fractions is compared up to rounding: beyond it, it is refuted;
within it, nothing is decided.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ..arrays import Array, broadcast, is_exact
from ..exact import evaluate
from ..optimum import cut_value, optimal_acceptance
from ..problem import TOLERANCE, Problem
from ..selection import Selection, SelectionRule
from .rule_property import IN_FLOATS, as_floats, kept_problem, possible_drafts, rule_property
from .source import Counterexample, drafts_shown, number, numbers
from .strategies import boundary_problems, extreme_problems

SLACK = 1e-9  # how far floats may be off
BESIDE_OPTIMUM = (
    'print("acceptance:", ot.evaluate(rule, problem).acceptance)\n'
    'print("optimum:", ot.optimal_acceptance(problem.p, problem.q, problem.k, problem.law))'
)


def slack_of(*values: Array) -> float:
    """How far values may be off: not at all where all of them are Fractions (or whole numbers), rounding where some are not."""
    exact = all(is_exact(x) and {type(each) for each in x.ravel().tolist()} <= {Fraction, int} for x in values)
    return 0 if exact else SLACK


def compare_law(rule: SelectionRule, problem: Problem) -> None:
    """Raise a Counterexample unless the output law is exactly p, or where floats came out and are p up to rounding."""
    result = evaluate(rule, problem)
    if np.array_equal(result.output, problem.p):
        return
    slack = slack_of(result.output)
    if slack and np.all(abs(result.output - problem.p).sum(-1) <= slack):
        raise Counterexample(
            problem, "gives floats for Fractions: the output law is right up to rounding", decides=False
        )
    raise Counterexample(problem, f"output law {numbers(result.output)} instead of {numbers(problem.p)}")


@rule_property(category="lossless")
def output_law(rule: SelectionRule, problem: Problem) -> None:
    """Averaged over the drafts, the output has exactly the target's law: all drafts enumerated, in Fractions."""
    compare_law(rule, problem)


@rule_property(cases=boundary_problems, category="lossless")
def boundary_cases(rule: SelectionRule, problem: Problem) -> None:
    """The output law is right on proper problems on the edge, too, in Fractions: see boundaries.py."""
    compare_law(rule, problem)


@rule_property(category="lossless")
def probabilities(rule: SelectionRule, problem: Problem) -> None:
    """accept is >= 0 with sum <= 1 and the residual is a law, given any drafts, in Fractions."""
    compare_probabilities(rule, problem, problem)


def compare_probabilities(rule: SelectionRule, problem: Problem, case: Problem) -> None:
    """Raise a Counterexample unless the rule gives probabilities for all drafts of the case: the problem, or its floats."""
    n, drafts = problem.n, possible_drafts(case)  # in floats rounding can make a tie, and so another top token
    selection = rule(case.p, case.q, drafts)
    if selection.accept.shape != drafts.shape or selection.residual.shape not in {(n,), (len(drafts), n)}:
        seen = f"shapes {selection.accept.shape}, {selection.residual.shape}; drafts {drafts.shape}, n = {n}"
        raise Counterexample(problem, f"accept and residual have {seen}", drafts_shown(drafts))
    slack = slack_of(selection.accept, selection.residual)
    wrong = np.flatnonzero(~_are_probabilities(selection, drafts, slack))
    if wrong.size:
        row = int(wrong[0])
        accept, residual = selection.accept[row], broadcast(selection.residual, (len(drafts), n))[row]
        seen = f"given drafts {drafts[row].tolist()}: accept {numbers(accept)}, residual {numbers(residual)}"
        raise Counterexample(problem, seen, _shown(drafts[row], in_floats=case is not problem))


def _are_probabilities(selection: Selection, drafts: Array, slack: float) -> Array:
    accept, residual = selection.accept, selection.residual
    fine = (accept >= -slack).all(-1) & (accept.sum(-1) <= 1 + slack) & ((accept == 0) | (drafts >= 0)).all(-1)
    return fine & (residual >= -slack).all(-1) & (abs(residual.sum(-1) - 1) <= slack)


def _shown(drafts: Array, in_floats: bool) -> str:
    masses = "problem.p.astype(np.float64), problem.q.astype(np.float64)" if in_floats else "problem.p, problem.q"
    return drafts_shown(drafts, f"selection = rule({masses}, drafts)\n")


@rule_property(category="lossless")
def at_most_the_optimum(rule: SelectionRule, problem: Problem) -> None:
    """The acceptance is at most 1 + p(H) - Q(all drafts in H), for the token set H that certifies the optimum."""
    acceptance = evaluate(rule, problem).acceptance
    _, token_set = optimal_acceptance(problem.p, problem.q, problem.k, problem.law, token_set=True)
    bound = cut_value(problem, token_set)
    slack = slack_of(np.asarray(acceptance))
    if not -slack <= acceptance <= bound + slack:
        seen = f"acceptance {number(acceptance)}, and no valid rule has more than {number(bound)}"
        raise Counterexample(problem, seen, BESIDE_OPTIMUM)


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
