"""All properties, in the order in which they are checked: the verdict first."""

from __future__ import annotations

from collections.abc import Iterable

from ...selection import SelectionRule
from .claims import CLAIMS, check_claims
from .kinds import floats_agree, inputs_unchanged, no_host_sync, torch_agrees
from .rule_property import RuleProperty
from .sampled import sampled_frequencies
from .structure import absent_drafts, batch_equals_loop, relabelling_commutes, rows_do_not_leak
from .validity import (
    at_most_the_optimum,
    boundary_cases,
    exactness,
    output_law,
    probabilities,
    within_budget,
)

ALL: tuple[RuleProperty, ...] = (
    output_law,
    probabilities,
    at_most_the_optimum,
    within_budget,
    *CLAIMS,
    boundary_cases,
    exactness,
    floats_agree,
    torch_agrees,
    no_host_sync,
    inputs_unchanged,
    batch_equals_loop,
    rows_do_not_leak,
    relabelling_commutes,
    absent_drafts,
    sampled_frequencies,
)


def choose(properties: Iterable[str | RuleProperty] | None) -> list[RuleProperty]:
    """Properties by name or as they are; all of them for None."""
    if properties is None:
        return list(ALL)
    known = {each.name: each for each in ALL}
    chosen = list(properties)
    unknown = [str(each) for each in chosen if not isinstance(each, RuleProperty) and each not in known]
    if unknown:
        raise ValueError(f"no property is called {', '.join(unknown)}: choose among {', '.join(known)}")
    return [each if isinstance(each, RuleProperty) else known[each] for each in chosen]


def properties_of(rule: SelectionRule, properties: Iterable[str | RuleProperty] | None) -> list[RuleProperty]:
    """Properties to check for a rule: those that are named, else all, without the claims that the rule does not make."""
    if not isinstance(rule, SelectionRule):
        raise TypeError(f"{rule!r} is no selection rule: give an instance of a subclass of ot.SelectionRule")
    check_claims(rule)
    chosen = choose(properties)
    return (
        chosen if properties is not None else [each for each in chosen if not each.is_claim or each.name in rule.claims]
    )
