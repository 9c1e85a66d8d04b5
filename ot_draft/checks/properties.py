"""Properties that hold only for some valid rules: checked where the rule names them in `claims`.

`claims = ("maximal", "kseq_bound")` in the class of a rule, or a property of that name where the claim depends on a field.
An optimal rule is maximal and keeps K-SEQ's bound: "optimal" alone says it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..bias import divergence
from ..errors import InvalidArgument
from ..exact import Evaluation, evaluate
from ..optimum import kseq_bound as guaranteed_share
from ..optimum import optimal_acceptance
from ..problem import Problem
from ..selection import SelectionRule
from .engine_sizes import engine_sizes, law_in_floats, law_in_torch, output_law_in_batches, repeated_calls
from .kinds import floats_agree, inputs_unchanged, no_host_sync, torch_agrees
from .rule_property import RuleProperty, as_floats, kept_problem, possible_drafts, rule_property
from .source import Counterexample, drafts_shown, number, numbers
from .strategies import Strategy, covered_problems, problems, scarce_problems
from .structure import absent_drafts, batch_equals_loop, relabelling_commutes, rows_do_not_leak, sampled_frequencies
from .validity import (
    BESIDE_OPTIMUM,
    SLACK,
    at_most_the_optimum,
    boundary_cases,
    boundary_cases_in_floats,
    exactness,
    extreme_cases,
    output_law,
    probabilities,
    probabilities_in_floats,
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


LOSSLESS: tuple[RuleProperty, ...] = (
    output_law,
    probabilities,
    at_most_the_optimum,
    boundary_cases,
    output_law_in_batches,
    engine_sizes,
    repeated_calls,
)
FLOATS: tuple[RuleProperty, ...] = (law_in_floats, probabilities_in_floats, boundary_cases_in_floats, law_in_torch)
ROBUST: tuple[RuleProperty, ...] = (
    extreme_cases,
    exactness,
    floats_agree,
    torch_agrees,
    no_host_sync,
    batch_equals_loop,
    rows_do_not_leak,
    relabelling_commutes,
    absent_drafts,
    sampled_frequencies,
)
ALL: tuple[RuleProperty, ...] = (*LOSSLESS, *FLOATS, inputs_unchanged, *ROBUST, *CLAIMS)


def choose(properties: Iterable[str | RuleProperty] | None) -> list[RuleProperty]:
    """Properties by name or as they are; all of them for None."""
    if properties is None:
        return list(ALL)
    known = {each.name: each for each in ALL}
    chosen = list(properties)
    unknown = [str(each) for each in chosen if not isinstance(each, RuleProperty) and each not in known]
    if unknown:
        raise InvalidArgument(f"no property is called {', '.join(unknown)}: choose among {', '.join(known)}")
    return [each if isinstance(each, RuleProperty) else known[each] for each in chosen]


def properties_of(rule: SelectionRule, properties: Iterable[str | RuleProperty] | None) -> list[RuleProperty]:
    """Properties to check for a rule: those that are named, else all, without the claims that the rule does not make."""
    if not isinstance(rule, SelectionRule):  # anything may have been given, a class for one
        raise InvalidArgument(f"{rule!r} is no selection rule: give an instance of a subclass of ot.SelectionRule")
    check_claims(rule)
    chosen = choose(properties)
    return (
        chosen if properties is not None else [each for each in chosen if not each.is_claim or each.name in rule.claims]
    )
