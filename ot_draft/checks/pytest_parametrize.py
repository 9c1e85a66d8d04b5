"""parametrize_with_rule_checks: a pytest decorator, one test for each rule and property."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..selection import SelectionRule
from .properties import choose
from .report import check_property
from .rule_property import RuleProperty


@dataclass(frozen=True)
class RuleCheck:
    """One property, as a function of the rule that raises AssertionError with the smallest counterexample."""

    property: RuleProperty
    max_examples: int

    def __call__(self, rule: SelectionRule) -> None:
        import pytest

        outcome = check_property(self.property, rule, self.max_examples)
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

    Ids are like KSeq-output_law, to be selected with -k. expected_failures: {property or id: reason}; such a test must
    fail, and is reported as an expected failure with its reason.
    """
    import pytest

    expected, chosen, rules = dict(expected_failures or {}), choose(properties), list(rules)
    ids = {f"{rule.name}-{each.name}" for rule in rules for each in chosen}
    unknown = set(expected) - ids - {each.name for each in chosen}
    if unknown:
        raise ValueError(
            f"expected_failures names no test: {', '.join(sorted(unknown))}; ids are {', '.join(sorted(ids))}"
        )
    cases = []
    for rule in rules:
        for each in chosen:
            name = f"{rule.name}-{each.name}"
            reason = expected.get(name, expected.get(each.name))
            marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason is not None else []
            cases.append(pytest.param(rule, RuleCheck(each, max_examples), id=name, marks=marks))
    return pytest.mark.parametrize(("rule", "check"), cases)
