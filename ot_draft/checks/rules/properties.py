"""All properties, in the order in which they are checked: first whether the rule is lossless, then whether it is robust."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import InvalidArgument
from ...selection import SelectionRule
from .claims import CLAIMS, check_claims
from .engine_sizes import engine_sizes, law_in_floats, law_in_torch, output_law_in_batches, repeated_calls
from .kinds import floats_agree, inputs_unchanged, no_host_sync, torch_agrees
from .robust import boundary_cases_in_floats, exactness, extreme_cases, probabilities_in_floats
from .rule_property import RuleProperty
from .sampled import sampled_frequencies
from .structure import absent_drafts, batch_equals_loop, relabelling_commutes, rows_do_not_leak
from .validity import at_most_the_optimum, boundary_cases, output_law, probabilities

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
