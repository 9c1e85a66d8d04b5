"""A property of `ot-draft check`, for ot_draft/verify/rule/equal_laws.py."""

from ot_draft.exact import evaluate
from ot_draft.problem import Problem
from ot_draft.selection import SelectionRule
from ot_draft.verify.rule.rule_property import rule_property
from ot_draft.verify.source import Counterexample, number


@rule_property(category="robust")
def equal_laws(rule: SelectionRule, problem: Problem) -> None:
    """Where p is q, a draft is always taken."""
    acceptance = evaluate(rule, Problem(problem.q, problem.q, problem.k, problem.law)).acceptance
    if acceptance != 1:
        raise Counterexample(problem, f"acceptance {number(acceptance)} where p is q")
