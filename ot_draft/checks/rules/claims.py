"""Properties that hold only for some valid rules: checked where the rule names them in `claims`.

`claims = ("maximal", "kseq_bound")` in the class of a rule, or a property of that name where the claim depends on a field.
An optimal rule is maximal and keeps K-SEQ's bound: "optimal" alone says it.
"""

from __future__ import annotations

import numpy as np

from ...exact import Evaluation, evaluate
from ...optimum import kseq_bound as guaranteed_share
from ...optimum import optimal_acceptance
from ...problem import Problem
from ...selection import SelectionRule
from ..strategies import Strategy, covered_problems, problems, scarce_problems
from .counterexample import Counterexample, drafts_shown, numbers
from .rule_property import kept_problem, possible_drafts, rule_property

BESIDE_OPTIMUM = (
    'print("acceptance:", ot.evaluate(rule, problem).acceptance)\n'
    'print("optimum:", ot.optimal_acceptance(problem.p, problem.q, problem.k, problem.law))'
)


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


@rule_property(cases=one_draft_of, reason_to_skip=_needs_one_draft, shows=BESIDE_OPTIMUM, is_claim=True)
def maximal(rule: SelectionRule, problem: Problem) -> None:
    """With one draft the acceptance is the optimum, sum min(p, q) where the draft follows q: a maximal coupling."""
    _compare(rule, evaluate(rule, problem), share=1)


@rule_property(shows=BESIDE_OPTIMUM, is_claim=True)
def optimal(rule: SelectionRule, problem: Problem) -> None:
    """The acceptance is the optimum under the rule's law, with ==."""
    _compare(rule, evaluate(rule, problem), share=1)


@rule_property(cases=scarce_or_not, shows=BESIDE_OPTIMUM, is_claim=True)
def kseq_bound(rule: SelectionRule, problem: Problem) -> None:
    """The acceptance is at least 1 - (1 - 1/k)^k of the optimum, what K-SEQ guarantees (SpecTr, Theorem 1)."""
    _compare(rule, evaluate(rule, problem), share=guaranteed_share(problem.k))


def _compare(rule: SelectionRule, result: Evaluation, share: object) -> None:
    problem = result.problem
    kept = kept_problem(rule, problem)
    optimum = optimal_acceptance(kept.p, kept.q, kept.k, kept.law)
    if share == 1 and result.acceptance != optimum:
        raise Counterexample(problem, f"acceptance {result.acceptance}, and the optimum is {optimum}", BESIDE_OPTIMUM)
    if result.acceptance < share * optimum:
        seen = f"acceptance {result.acceptance}, less than {share} of the optimum {optimum}"
        raise Counterexample(problem, seen, BESIDE_OPTIMUM)


@rule_property(cases=covered_of, is_claim=True)
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
        here = drafts[held][wrong[0]]
        seen = f"drafts {here.tolist()} hold every token of q = {numbers(problem.q)}; one is taken with probability {taken[wrong[0]]}"
        raise Counterexample(problem, seen, drafts_shown(here))


CLAIMS = (maximal, optimal, kseq_bound, cover)


def check_claims(rule: SelectionRule) -> None:
    """Raise ValueError where the rule claims what no property here can check."""
    if isinstance(rule.claims, str):
        raise ValueError(f"{rule.name} has claims = {rule.claims!r}: give a tuple of names, ({rule.claims!r},)")
    known = [each.name for each in CLAIMS]
    unknown = [str(name) for name in rule.claims if name not in known]
    if unknown:
        raise ValueError(f"{rule.name} claims {', '.join(unknown)}: choose among {', '.join(known)}")
