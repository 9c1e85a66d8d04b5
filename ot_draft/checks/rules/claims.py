"""Properties that hold only for some valid rules: checked where the rule names them in `claims`.

`claims = ("maximal", "kseq_bound")` in the class of a rule, or a property of that name where the claim depends on a field.
An optimal rule is maximal and keeps K-SEQ's bound: "optimal" alone says it.
"""

from __future__ import annotations

import numpy as np

from ...bias import divergence
from ...errors import InvalidArgument
from ...exact import Evaluation, evaluate
from ...optimum import kseq_bound as guaranteed_share
from ...optimum import optimal_acceptance
from ...problem import Problem
from ...selection import SelectionRule
from ..strategies import Strategy, covered_problems, problems, scarce_problems
from .counterexample import Counterexample, drafts_shown
from .number_texts import number, numbers
from .rule_property import as_floats, kept_problem, possible_drafts, rule_property
from .validity import BESIDE_OPTIMUM, SLACK


def one_draft_of(rule: SelectionRule) -> Strategy:
    """Problems with k = 1."""
    return problems(rule.law, max_k=1)


def _needs_one_draft(rule: SelectionRule) -> str:
    return "" if rule.law.is_defined(1) else f"{rule.law.name} has no law of one draft"


def scarce_or_not(rule: SelectionRule) -> Strategy:
    """Problems under the rule's law, half of them such that every draft counts."""
    return problems(rule.law) | scarce_problems(rule.law)


def covered_of(rule: SelectionRule) -> Strategy:
    """Problems in which the drafts may hold every token of q, and p has no other tokens."""
    return covered_problems(rule.law)


@rule_property(cases=one_draft_of, reason_to_skip=_needs_one_draft, shows=BESIDE_OPTIMUM, category="claims")
def maximal(rule: SelectionRule, problem: Problem) -> None:
    """With one draft the acceptance is the optimum, sum min(p, q) where the draft follows q: a maximal coupling."""
    _compare(rule, evaluate(rule, problem), share=1)


@rule_property(shows=BESIDE_OPTIMUM, category="claims")
def optimal(rule: SelectionRule, problem: Problem) -> None:
    """The acceptance is the optimum under the rule's law, with ==."""
    _compare(rule, evaluate(rule, problem), share=1)


@rule_property(cases=scarce_or_not, shows=BESIDE_OPTIMUM, category="claims")
def kseq_bound(rule: SelectionRule, problem: Problem) -> None:
    """The acceptance is at least 1 - (1 - 1/k)^k of the optimum, what K-SEQ guarantees (SpecTr, Theorem 1)."""
    _compare(rule, evaluate(rule, problem), share=guaranteed_share(problem.k))


def _compare(rule: SelectionRule, result: Evaluation, share: object) -> None:
    problem = result.problem
    kept = kept_problem(rule, problem)
    optimum = optimal_acceptance(kept.p, kept.q, kept.k, kept.law)
    if share == 1 and result.acceptance != optimum:
        raise Counterexample(
            problem, f"acceptance {number(result.acceptance)}, and the optimum is {number(optimum)}", BESIDE_OPTIMUM
        )
    if result.acceptance < share * optimum:
        seen = f"acceptance {number(result.acceptance)}, less than {share} of the optimum {number(optimum)}"
        raise Counterexample(problem, seen, BESIDE_OPTIMUM)


@rule_property(cases=covered_of, category="claims")
def cover(rule: SelectionRule, problem: Problem) -> None:
    """Drafts that hold every token of q, p being among them, are taken for certain: nothing is left to the residual.

    Source: the cover property of Sequoia (Chen et al. 2024), there for k tokens and drafts without replacement.
    """
    drafts = possible_drafts(problem)
    tokens = np.flatnonzero(problem.q > 0)
    held = (drafts[:, :, None] == tokens).any(1).all(-1)
    if not held.any() or rule.budget:
        return  # another target may have mass elsewhere
    taken = rule(problem.p, problem.q, drafts[held]).accept.sum(-1)
    wrong = np.flatnonzero(taken != 1)
    if wrong.size:
        row = drafts[held][wrong[0]]
        told = f"drafts {row.tolist()} hold every token of q = {numbers(problem.q)}"
        seen = f"{told}; one is taken with probability {number(taken[wrong[0]])}"
        raise Counterexample(problem, seen, drafts_shown(row))


@rule_property(category="claims")
def own_target(rule: SelectionRule, problem: Problem) -> None:
    """A rule that is lossy on purpose gives exactly the law r that it keeps in the place of p, in Fractions."""
    output, kept = evaluate(rule, problem).output, kept_problem(rule, problem).p
    if not np.array_equal(output, kept):
        raise Counterexample(problem, f"output law {numbers(output)} instead of {numbers(kept)}")


@rule_property(category="claims")
def within_budget(rule: SelectionRule, problem: Problem) -> None:
    """A rule that is lossy on purpose stays within the divergence from p that it was given, in Fractions and in float64."""
    name, most = rule.budget or ("tv", 0)
    for case, slack in ((problem, 0.0), (as_floats(problem), SLACK)):
        output = evaluate(rule, case).output
        spent = divergence(name, output, case.p)
        rounding = slack if name == "tv" else SLACK  # logarithms are floats, on Fractions too
        if spent > most + rounding:
            raise Counterexample(problem, f"{name} {spent} from p, and the budget is {most}: output {numbers(output)}")


CLAIMS = (maximal, optimal, kseq_bound, cover, own_target, within_budget)


def check_claims(rule: SelectionRule) -> None:
    """Raise InvalidArgument where the rule claims what no property here can check."""
    if isinstance(rule.claims, str):
        raise InvalidArgument(f"{rule.name} has claims = {rule.claims!r}: give a tuple of names, ({rule.claims!r},)")
    known = [each.name for each in CLAIMS]
    unknown = [str(name) for name in rule.claims if name not in known]
    if unknown:
        raise InvalidArgument(f"{rule.name} claims {', '.join(unknown)}: choose among {', '.join(known)}")
