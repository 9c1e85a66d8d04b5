"""Properties of a rule's decisions in exact arithmetic: the verdict."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ...arrays import Array, broadcast, is_exact
from ...bias import divergence
from ...exact import evaluate
from ...optimum import cut_value, optimal_acceptance
from ...problem import TOLERANCE, Problem
from ...selection import Selection, SelectionRule
from .boundaries import boundary_problems
from .counterexample import Counterexample, drafts_shown, numbers
from .rule_property import as_floats, kept_problem, possible_drafts, rule_property

SLACK = 1e-9  # how far floats may be outside [0, 1]
IN_FLOATS = (
    "p, q = problem.p.astype(np.float64), problem.q.astype(np.float64)\n"
    "result = ot.evaluate(rule, ot.Problem(p, q, problem.k, problem.law))\n"
    'print("output:", result.output.tolist())\nprint("target:", *p)'
)


@rule_property()
def output_law(rule: SelectionRule, problem: Problem) -> None:
    """Averaged over the drafts, the output has exactly the law that the rule keeps (p): all drafts enumerated, in Fractions."""
    result, kept = evaluate(rule, problem), kept_problem(rule, problem).p
    if not np.array_equal(result.output, kept):
        raise Counterexample(problem, f"output law {numbers(result.output)} instead of {numbers(kept)}")


@rule_property()
def probabilities(rule: SelectionRule, problem: Problem) -> None:
    """accept is >= 0 with sum <= 1 and the residual is a law, given any drafts, in Fractions and in float64."""
    n = problem.n
    for case, slack in ((problem, 0), (as_floats(problem), SLACK)):
        drafts = possible_drafts(case)  # rounding can make a tie, and so another top token
        selection = rule(case.p, case.q, drafts)
        if selection.accept.shape != drafts.shape or selection.residual.shape not in {(n,), (len(drafts), n)}:
            seen = f"shapes {selection.accept.shape}, {selection.residual.shape}; drafts {drafts.shape}, n = {n}"
            raise Counterexample(problem, f"accept and residual have {seen}", drafts_shown(drafts))
        wrong = np.flatnonzero(~_are_probabilities(selection, drafts, slack))
        if wrong.size:
            row = int(wrong[0])
            accept, residual = selection.accept[row], broadcast(selection.residual, (len(drafts), n))[row]
            seen = f"given drafts {drafts[row].tolist()}: accept {numbers(accept)}, residual {numbers(residual)}"
            raise Counterexample(problem, seen, _shown(drafts[row], slack))


def _are_probabilities(selection: Selection, drafts: Array, slack: float) -> Array:
    accept, residual = selection.accept, selection.residual
    fine = (accept >= -slack).all(-1) & (accept.sum(-1) <= 1 + slack) & ((accept == 0) | (drafts >= 0)).all(-1)
    return fine & (residual >= -slack).all(-1) & (abs(residual.sum(-1) - 1) <= slack)


def _shown(drafts: Array, slack: float) -> str:
    masses = "problem.p.astype(np.float64), problem.q.astype(np.float64)" if slack else "problem.p, problem.q"
    return drafts_shown(drafts, f"selection = rule({masses}, drafts)\n")


@rule_property()
def at_most_the_optimum(rule: SelectionRule, problem: Problem) -> None:
    """The acceptance is at most 1 + p(H) - Q(all drafts in H), for the token set H that certifies the optimum."""
    acceptance = evaluate(rule, problem).acceptance
    kept = kept_problem(rule, problem)
    _, token_set = optimal_acceptance(kept.p, kept.q, kept.k, kept.law, token_set=True)
    bound = cut_value(kept, token_set)
    if not 0 <= acceptance <= bound:
        seen = f"acceptance {acceptance}, and no valid rule has more than {bound}"
        shows = (
            'print("acceptance:", ot.evaluate(rule, problem).acceptance)\n'
            'print("optimum:", ot.optimal_acceptance(problem.p, problem.q, problem.k, problem.law))'
        )
        raise Counterexample(problem, seen, shows)


def _needs_a_budget(rule: SelectionRule) -> str:
    return "" if rule.budget else "the rule keeps p: no bias is allowed"


@rule_property(reason_to_skip=_needs_a_budget)
def within_budget(rule: SelectionRule, problem: Problem) -> None:
    """A rule that is lossy on purpose stays within the divergence from p that it was given, in Fractions and in float64."""
    name, budget = rule.budget or ("tv", 0)
    for case, slack in ((problem, 0.0), (as_floats(problem), SLACK)):
        output = evaluate(rule, case).output
        spent = divergence(name, output, case.p)
        rounding = slack if name == "tv" else SLACK  # logarithms are floats, on Fractions too
        if spent > budget + rounding:
            raise Counterexample(
                problem, f"{name} {spent} from p, and the budget is {budget}: output {numbers(output)}"
            )


@rule_property(most=25)
def exactness(rule: SelectionRule, problem: Problem) -> None:
    """Fractions in, Fractions out: no float literal or float function on the way."""
    drafts = possible_drafts(problem)
    selection = rule(problem.p, problem.q, drafts)
    for name, values in (("accept", selection.accept), ("residual", selection.residual)):
        kinds = {type(value) for value in values.ravel()} if is_exact(values) else {values.dtype.type}
        if not kinds <= {Fraction, int} or not is_exact(values):
            seen = f"{name} holds {', '.join(sorted(kind.__name__ for kind in kinds))}"
            raise Counterexample(problem, seen, drafts_shown(drafts[0]))


@rule_property(cases=boundary_problems, shows=IN_FLOATS)
def boundary_cases(rule: SelectionRule, problem: Problem) -> None:
    """What is on the edge is no error and comes out right, in Fractions and in float64: see boundaries.py."""
    for case in (problem, as_floats(problem)):
        result = evaluate(rule, case)
        kept = kept_problem(rule, case).p
        if not _is_target(result.output, kept):
            shows = "" if case is problem else IN_FLOATS
            raise Counterexample(problem, f"output law {numbers(result.output)} instead of {numbers(kept)}", shows)


def _is_target(output: Array, target: Any) -> bool:
    if is_exact(target):
        return np.array_equal(output, target)
    return output.shape == target.shape and bool((abs(output - target).sum(-1) <= TOLERANCE["float64"]).all())
