"""check_rule(rule): every property on many problems, and a report of what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

from ...selection import SelectionRule
from ..rules.counterexample import Counterexample
from ..rules.properties import properties_of
from ..rules.rule_property import RuleProperty
from ..rules.search import Drawn, Tried, search
from ..samplers.draws import check_draws

Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Outcome:
    """What came out of one property: `reason` says why it was skipped, or what the smallest counterexample showed.

    cases: number of problems tried, those on the way to the smallest counterexample included; by_k: the same by the number
    of drafts. counterexample_code: Python that can be pasted and run; empty without a counterexample. statement: what is
    claimed.
    """

    name: str
    status: Status
    reason: str = ""
    seconds: float = 0.0
    cases: int = 0
    counterexample: Counterexample | None = None
    counterexample_code: str = ""
    by_k: tuple[Tried, ...] = ()
    statement: str = ""

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
    draft_sampler: Callable[..., Any] | None = None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> Report:
    """Check every property of a selection rule under the law that it declares, and the claims that it makes.

    max_examples: largest number of problems a property, before shrinking. properties: names, or None for all.
    draft_sampler: `draft(q, k, generator) -> drafts`, code that draws the drafts; the outcome `declared_law` says whether it
    follows the rule's law. on_outcome: called after every property. The same seed tries the same problems. Raises nothing
    that the rule raises: `report.raise_if_failed()` does.
    """
    outcomes: list[Outcome] = []
    drawn: Drawn = {}
    for each in properties_of(rule, properties):
        outcomes.append(check_property(each, rule, max_examples, seed, drawn))
        on_outcome(outcomes[-1])
    if draft_sampler is not None:
        outcomes.append(check_declared_law(rule, draft_sampler, seed))
        on_outcome(outcomes[-1])
    return Report(rule, tuple(outcomes))


def check_property(
    claim: RuleProperty, rule: SelectionRule, max_examples: int = 100, seed: int = 0, drawn: Drawn | None = None
) -> Outcome:
    """Outcome of one property for one rule. drawn: as in `search`."""
    if reason := claim.skipped(rule):
        return Outcome(claim.name, "skipped", reason, statement=claim.statement)
    start = perf_counter()
    found = search(claim, rule, max_examples, seed, drawn)
    seconds, tried = perf_counter() - start, tuple(found.by_k[k] for k in sorted(found.by_k))
    cases, shown = sum(each.cases for each in tried), found.counterexample
    if shown is None:
        return Outcome(claim.name, "passed", "", seconds, cases, by_k=tried, statement=claim.statement)
    code = shown.code(rule)
    return Outcome(claim.name, "failed", shown.seen, seconds, cases, shown, code, tried, claim.statement)


def check_declared_law(rule: SelectionRule, draft_sampler: Callable[..., Any], seed: int = 0) -> Outcome:
    """Outcome of `check_draws` under the rule's law: about 5 s at most, 10,000 draws for each of some 15 problems."""
    report = check_draws(draft_sampler, rule.law, samples=10_000, seconds=5.0, seed=seed)
    cases = sum(outcome.name == "declared_law" for outcome in report.outcomes)
    statement = f"The drafts are drawn by the law that the rule declares, {rule.law}."
    if report.passed:
        return Outcome("declared_law", "passed", "", report.seconds, cases, statement=statement)
    failed, code = report.failures[0], report.code
    reason = f"{failed.name} of check_draws, {failed.label}: {failed.reason}"
    return Outcome("declared_law", "failed", reason, report.seconds, cases, None, code, statement=statement)
