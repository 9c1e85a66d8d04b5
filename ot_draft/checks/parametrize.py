"""parametrize_with_rule_checks: a pytest decorator, one test for each rule and property."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidArgument
from ..selection import SelectionRule
from .properties import properties_of
from .report import check_property
from .report_files import Record, as_record
from .rule_property import RuleProperty


@dataclass
class RuleCheck:
    """One property, as a function of the rule that raises AssertionError with the smallest counterexample.

    ot_records: what came out, for the plugin of pytest, which may also set max_examples.
    """

    property: RuleProperty
    max_examples: int
    ot_records: list[Record] = field(default_factory=list)

    def __call__(self, rule: SelectionRule) -> None:
        import pytest

        outcome = check_property(self.property, rule, self.max_examples)
        self.ot_records.append(as_record(rule.name, outcome))
        if outcome.status == "skipped":
            pytest.skip(outcome.reason)
        if outcome.status == "failed":
            raise AssertionError(f"{outcome.reason}\n\n{self.property.statement}\n\n{outcome.counterexample_code}")


def parametrize_with_rule_checks(
    rules: Iterable[SelectionRule],
    expected_failures: Mapping[str, str] | None = None,
    *,
    properties: Iterable[str | RuleProperty] | None = None,
    max_examples: int = 100,
) -> Any:
    """Decorator for a test with the arguments `rule` and `check`, whose body is `check(rule)`.

    Ids are like KSeq-output_law, to be selected with -k. Without `properties`, all of them, and of the claims those that
    the rule makes. max_examples: as in `check_rule`; pytest's option --ot-max-examples takes its place.
    expected_failures: {property or id: reason}; such a test must fail, and is reported as an expected failure.
    """
    import pytest

    expected, properties = dict(expected_failures or {}), None if properties is None else list(properties)
    tests = [(rule, each, f"{rule.name}-{each.name}") for rule in rules for each in properties_of(rule, properties)]
    ids = {name for _, _, name in tests}
    unknown = set(expected) - ids - {each.name for _, each, _ in tests}
    if unknown:
        raise InvalidArgument(
            f"expected_failures names no test: {', '.join(sorted(unknown))}; ids are {', '.join(sorted(ids))}"
        )
    cases = []
    for rule, each, name in tests:
        reason = expected.get(name, expected.get(each.name))
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason is not None else []
        cases.append(pytest.param(rule, RuleCheck(each, max_examples), id=name, marks=marks))
    return pytest.mark.parametrize(("rule", "check"), cases)
