"""Properties that hold only for some valid rules, checked if `claims` of the rule names them; and the list of all properties.

Write `claims = ("maximal", "kseq_bound")` in the class of a rule, or define `claims` as a Python property if it depends on a field.
An optimal rule is maximal and satisfies the bound of K-SEQ, so that "optimal" is enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...bias import divergence
from ...errors import InvalidArgument
from ...exact import Evaluation, evaluate
from ...laws import DraftLaw, is_defined
from ...optimum import kseq_bound as guaranteed_share
from ...optimum import optimal_acceptance
from ...problem import Problem
from ...selection import SelectionRule
from ..source import EVALUATE, Counterexample, number, numbers
from . import drawn, lossless, structure
from .lossless import SLACK
from .rule_property import Category, RuleProperty, as_floats, kept_problem, possible_drafts, rule_property
from .strategies import covered_problems, one_draft, scarce_or_not


def _needs_one_draft(rule: SelectionRule) -> str:
    return "" if is_defined(rule.law, 1) else f"{type(rule.law).__name__} is not defined for one draft token"


@rule_property(cases=one_draft, reason_to_skip=_needs_one_draft, category="claims")
def maximal(rule: SelectionRule, problem: Problem) -> None:
    """With one draft token the acceptance is the optimum, which is sum min(p, q) if the draft token follows q: a maximal coupling."""
    _compare(rule, evaluate(rule, problem), share=1)


@rule_property(category="claims")
def optimal(rule: SelectionRule, problem: Problem) -> None:
    """The acceptance is exactly the optimum under the rule's draft law."""
    _compare(rule, evaluate(rule, problem), share=1)


@rule_property(cases=scarce_or_not, category="claims")
def kseq_bound(rule: SelectionRule, problem: Problem) -> None:
    """The acceptance is at least 1 - (1 - 1/k)^k times the optimum, the guarantee of K-SEQ (SpecTr, Theorem 1)."""
    _compare(rule, evaluate(rule, problem), share=guaranteed_share(problem.k))


def _compare(rule: SelectionRule, result: Evaluation, share: object) -> None:
    problem = result.problem
    kept = kept_problem(rule, problem)
    optimum = optimal_acceptance(kept.p, kept.q, kept.k, kept.law)
    wrong, bound = result.acceptance < share * optimum, f"less than {share} of the optimum"
    if share == 1:
        wrong, bound = result.acceptance != optimum, "and the optimum is"
    if wrong:
        raise Counterexample(problem, f"acceptance {number(result.acceptance)}, {bound} {number(optimum)}")


@rule_property(cases=covered_problems, category="claims")
def cover(rule: SelectionRule, problem: Problem) -> None:
    """If the drafts contain every token of q, and p has no other token, one of them is accepted with probability 1.

    Source: the cover property of Sequoia (Chen et al. 2024), there for k tokens and drafts without replacement.
    """
    drafts = possible_drafts(problem)
    tokens = np.flatnonzero(problem.q > 0)
    held = (drafts[:, :, None] == tokens).any(1).all(-1)
    if not held.any() or "within_budget" in rule.claims:
        return  # another target may have mass elsewhere
    taken = rule(problem.p, problem.q, drafts[held]).accept.sum(-1)
    wrong = np.flatnonzero(taken != 1)
    if wrong.size:
        row = drafts[held][wrong[0]]
        told = f"drafts {row.tolist()} hold every token of q = {numbers(problem.q)}"
        seen = f"{told}; one is accepted with probability {number(taken[wrong[0]])}"
        raise Counterexample(problem, seen)


@rule_property(shows=EVALUATE, category="claims")
def own_target(rule: SelectionRule, problem: Problem) -> None:
    """The output distribution of a rule that is lossy by design is exactly the target r that the rule keeps, in Fractions."""
    output, kept = evaluate(rule, problem).output, kept_problem(rule, problem).p
    if not np.array_equal(output, kept):
        raise Counterexample(problem, f"output distribution {numbers(output)} instead of {numbers(kept)}")


@rule_property(category="claims")
def within_budget(rule: SelectionRule, problem: Problem) -> None:
    """The output distribution of a rule that is lossy by design is within its divergence budget from p, in Fractions and float64."""
    budget = getattr(rule, "budget", None) if "within_budget" in rule.claims else None
    name, most = budget or ("tv", 0)
    for case, slack in ((problem, 0.0), (as_floats(problem), SLACK)):
        output = evaluate(rule, case).output
        spent = divergence(name, output, case.p)
        rounding = slack if name == "tv" else SLACK  # logarithms are floats, on Fractions too
        if spent > most + rounding:
            raise Counterexample(problem, f"{name} {spent} from p, and the budget is {most}: output {numbers(output)}")


CLAIMS = (maximal, optimal, kseq_bound, cover, own_target, within_budget)


ALL: tuple[RuleProperty, ...] = (
    lossless.output_distribution,
    lossless.probabilities,
    lossless.at_most_the_optimum,
    lossless.boundary_cases,
    drawn.drawn_drafts,
    lossless.padded_drafts,
    lossless.output_distribution_in_batches,
    lossless.engine_sizes,
    drawn.drawn_tokens,
    lossless.repeated_calls,
    lossless.float_distribution,
    lossless.probabilities_in_floats,
    lossless.boundary_cases_in_floats,
    lossless.padded_drafts_in_floats,
    lossless.distribution_in_torch,
    lossless.repeated_calls_in_torch,
    structure.torch_agrees,
    structure.inputs_unchanged,
    lossless.extreme_cases,
    lossless.exactness,
    structure.floats_agree,
    structure.no_host_sync,
    structure.batch_equals_loop,
    structure.rows_do_not_leak,
    structure.relabelling_commutes,
    structure.absent_drafts,
    structure.sampled_frequencies,
    *CLAIMS,
)


def of_category(category: Category) -> tuple[RuleProperty, ...]:
    """The properties that help to answer one question, in the order in which they are checked."""
    return tuple(each for each in ALL if each.category == category)


def choose(properties: Iterable[str | RuleProperty] | None) -> list[RuleProperty]:
    """Properties, given by name or as objects; all of them for None."""
    if isinstance(properties, str):
        raise InvalidArgument(f"properties must be a list of names, got {properties!r}. Pass [{properties!r}].")
    known = {each.name: each for each in ALL}
    chosen: list[Any] = [known.get(str(each), each) for each in (ALL if properties is None else properties)]
    if unknown := [str(each) for each in chosen if not isinstance(each, RuleProperty)]:  # whatever the caller gave
        raise InvalidArgument(
            f"properties must be names of properties, got {', '.join(unknown)}. Use any of {', '.join(known)}."
        )
    if not chosen:
        raise InvalidArgument("properties must hold at least one name, got none. Pass None for all properties.")
    return chosen


def properties_of(rule: SelectionRule, properties: Iterable[str | RuleProperty] | None) -> list[RuleProperty]:
    """Properties to check for a rule: the given ones, or by default all without the claims that the rule does not make."""
    if not isinstance(rule, SelectionRule):  # anything may have been given, a class for one
        raise InvalidArgument(
            f"rule must be an instance of a subclass of otd.SelectionRule, got {rule!r}. Pass a selection rule."
        )
    if not isinstance(getattr(rule, "law", None), DraftLaw):  # a user's class may have none, or anything for one
        raise InvalidArgument(f"{type(rule).__name__}.law must be a draft law. Write  law = otd.IID()  in the class.")
    if isinstance(rule.claims, str):
        raise InvalidArgument(
            f"{type(rule).__name__}.claims must be a tuple of names, got {rule.claims!r}. Write  claims = ({rule.claims!r},)."
        )
    known = [each.name for each in CLAIMS]
    if unknown := [str(name) for name in rule.claims if name not in known]:  # what no property here can check
        raise InvalidArgument(
            f"{type(rule).__name__}.claims must be among {', '.join(known)}, got {', '.join(unknown)}. Correct the names."
        )
    not_made = [each for each in CLAIMS if properties is None and each.name not in rule.claims]
    return [each for each in choose(properties) if each not in not_made]
