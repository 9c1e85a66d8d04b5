"""check_rule(rule): every property on many problems, and a report of what came out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

from ..selection import SelectionRule
from .counterexample import Counterexample
from .properties import choose
from .rule_property import RuleProperty
from .search import search

Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Outcome:
    """What came out of one property: `reason` says why it was skipped, or what the smallest counterexample showed.

    cases: number of problems tried, those on the way to the smallest counterexample included.
    counterexample_code: Python that can be pasted; empty without a counterexample.
    """

    name: str
    status: Status
    reason: str = ""
    seconds: float = 0.0
    cases: int = 0
    counterexample: Counterexample | None = None
    counterexample_code: str = ""

    def __str__(self) -> str:
        return f"{self.name:<22} {self.status:<8} {self.cases:>6} cases {self.seconds:7.2f} s  {self.reason}".rstrip()


@dataclass(frozen=True)
class Report:
    """Outcomes of all properties for one rule."""

    rule: SelectionRule
    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool:
        """Whether no property failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """Outcomes of the properties that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == "failed")

    def __getitem__(self, name: str) -> Outcome:
        """Outcome of the property of that name."""
        return {outcome.name: outcome for outcome in self.outcomes}[name]

    def raise_if_failed(self) -> None:
        """Raise AssertionError with the report as its text if a property failed."""
        if not self.passed:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        lines = [f"{self.rule.name}: {'passed' if self.passed else 'failed'}"]
        lines += [f"  {outcome}" for outcome in self.outcomes]
        for outcome in self.failures[:1]:
            lines += ["", f"Smallest counterexample to {outcome.name}:", "", outcome.counterexample_code.rstrip()]
        return "\n".join(lines)


def check_rule(
    rule: SelectionRule,
    max_examples: int = 100,
    properties: Iterable[str | RuleProperty] | None = None,
    *,
    seed: int = 0,
) -> Report:
    """Check every property of a selection rule under the law that it declares.

    max_examples: largest number of problems a property, before shrinking. properties: names, or None for all.
    The same seed tries the same problems. Raises nothing that the rule raises: `report.raise_if_failed()` does.
    """
    if not isinstance(rule, SelectionRule):
        raise TypeError(f"{rule!r} is no selection rule: give an instance of a subclass of ot.SelectionRule")
    return Report(rule, tuple(check_property(each, rule, max_examples, seed) for each in choose(properties)))


def check_property(claim: RuleProperty, rule: SelectionRule, max_examples: int = 100, seed: int = 0) -> Outcome:
    """Outcome of one property for one rule."""
    if reason := claim.reason_to_skip(rule):
        return Outcome(claim.name, "skipped", reason)
    start = perf_counter()
    found = search(claim, rule, max_examples, seed)
    seconds = perf_counter() - start
    if found.counterexample is None:
        return Outcome(claim.name, "passed", "", seconds, found.cases)
    shown = found.counterexample
    return Outcome(claim.name, "failed", shown.seen, seconds, found.cases, shown, shown.code(rule))
