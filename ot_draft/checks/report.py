"""check_rule(rule): every property on many problems, and a report that answers first whether the rule is lossless."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from ..selection import SelectionRule
from .answers import Answers, Lossless, Result, Status, answers, refutes
from .properties import properties_of
from .rule_property import Category, RuleProperty
from .samplers import check_draws
from .search import Drawn, Range, Tried, search
from .source import Counterexample

WRONG_DRAFTS = ("declared_law", "independent_steps")  # outcomes of check_draws that show another law of the drafts


@dataclass(frozen=True)
class PropertyOutcome:
    """One property, tried on a rule: `reason` says why it was skipped, or what the smallest counterexample showed.

    cases: number of problems tried, those on the way to the smallest counterexample included; by_k: the same by the number
    of drafts. counterexample_code: Python that can be pasted and run; empty without a counterexample. statement: what is
    claimed. category: the question that it helps to answer, as in `RuleProperty`. decides: False where it failed because the
    rule raised an error, or gave floats that are right up to rounding: then it is not refuted. crash: that error, if it was one.
    refused, refusal: number of problems that the rule does not take, in its words. ranges: what it was called with.
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
    category: Category = "robust"
    decides: bool = True
    crash: str = ""
    refused: int = 0
    refusal: str = ""
    ranges: Mapping[str, Range] = field(default_factory=dict)

    @property
    def result(self) -> Result:
        """What the answers need of it."""
        refused = (self.refused, self.cases)
        return Result(
            self.name, self.category, self.status, self.decides, self.crash, refused, self.refusal, self.ranges
        )

    @property
    def refutes(self) -> bool:
        """Whether it shows that the rule is not lossless, not in floats, or writes into its arguments."""
        return refutes(self.result)

    @property
    def heading(self) -> str:
        """What its problem shows."""
        return (
            f"Smallest problem on which the rule crashes, {self.name}"
            if self.crash
            else f"Smallest counterexample to {self.name}"
        )

    def __str__(self) -> str:
        return f"{self.name:<22} {self.status:<8} {self.cases:>6} cases {self.seconds:7.2f} s  {self.reason}".rstrip()


@dataclass(frozen=True)
class Report:
    """Outcomes of all properties for one rule, and what they say together."""

    rule: SelectionRule
    outcomes: tuple[PropertyOutcome, ...]

    @property
    def answers(self) -> Answers:
        """Is it lossless, also in floats, is it robust, is what it claims true?"""
        return answers(each.result for each in self.outcomes)

    @property
    def lossless(self) -> Lossless:
        """The verdict, "yes", "no" or "not decided"; answers.py says when which."""
        return self.answers.lossless

    @property
    def findings(self) -> tuple[PropertyOutcome, ...]:
        """What failed, and does not refute that the rule is lossless."""
        return tuple(outcome for outcome in self.failures if not outcome.refutes)

    @property
    def passed(self) -> bool:
        """Whether no property failed: no finding either."""
        return not self.failures

    @property
    def failures(self) -> tuple[PropertyOutcome, ...]:
        """Outcomes of the properties that failed, those first that refute that the rule is lossless."""
        failed = [outcome for outcome in self.outcomes if outcome.status == "failed"]
        return tuple(sorted(failed, key=lambda outcome: not outcome.refutes))

    def __getitem__(self, name: str) -> PropertyOutcome:
        """Outcome of the property of that name."""
        return {outcome.name: outcome for outcome in self.outcomes}[name]

    def raise_if_failed(self) -> None:
        """Raise AssertionError with the report as its text if a property failed, whichever."""
        if not self.passed:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        lines = [self.rule.name, *(f"  {line}" for line in self.answers.lines()), ""]
        lines += [f"  {outcome}" for outcome in self.outcomes]
        for outcome in self.failures[:1]:
            lines += ["", f"{outcome.heading}:", "", outcome.counterexample_code.rstrip()]
        return "\n".join(lines)


def check_rule(
    rule: SelectionRule,
    max_examples: int = 100,
    properties: Iterable[str | RuleProperty] | None = None,
    *,
    seed: int = 0,
    draft_sampler: Callable[..., Any] | None = None,
    on_outcome: Callable[[PropertyOutcome], None] = lambda outcome: None,
) -> Report:
    """Check every property of a selection rule under the law that it declares, and the claims that it makes.

    max_examples: largest number of problems a property, before shrinking. properties: names, or None for all.
    draft_sampler: `draft(q, k, generator) -> drafts`, code that draws the drafts; the outcome `declared_law` says whether it
    follows the rule's law. on_outcome: called after every property. The same seed tries the same problems. Raises nothing
    that the rule raises: `report.raise_if_failed()` does.
    """
    outcomes: list[PropertyOutcome] = []
    drawn: Drawn = {}
    for each in properties_of(rule, properties):
        settled = next((x for x in outcomes if x.category == "lossless" and (x.refutes or x.crash)), None)
        if each.large and settled:  # a wrong rule is to be known as one within seconds
            about: dict[str, Any] = {"statement": each.statement, "category": each.category}
            reason = f"{settled.name} {'crashes' if settled.crash else 'refutes'} the rule already"
            outcomes.append(PropertyOutcome(each.name, "skipped", reason, **about))
        else:
            outcomes.append(check_property(each, rule, max_examples, seed, drawn))
        on_outcome(outcomes[-1])
    if draft_sampler is not None:
        outcomes.append(check_declared_law(rule, draft_sampler, seed))
        on_outcome(outcomes[-1])
    return Report(rule, tuple(outcomes))


def check_property(
    claim: RuleProperty, rule: SelectionRule, max_examples: int = 100, seed: int = 0, drawn: Drawn | None = None
) -> PropertyOutcome:
    """Outcome of one property for one rule. drawn: as in `search`."""
    about: dict[str, Any] = {"statement": claim.statement, "category": claim.category}
    if reason := claim.skipped(rule):
        return PropertyOutcome(claim.name, "skipped", reason, **about)
    start = perf_counter()
    searched = search(claim, rule, max_examples, seed, drawn)
    seconds, tried = perf_counter() - start, tuple(searched.by_k[k] for k in sorted(searched.by_k))
    cases, shown = sum(each.cases for each in tried), searched.counterexample
    about |= {"refused": searched.refused, "refusal": searched.refusal, "ranges": searched.ranges}
    if shown is None and cases and searched.refused == cases:
        reason = f"the rule refuses every problem: {searched.refusal}"
        return PropertyOutcome(claim.name, "skipped", reason, seconds, cases, by_k=tried, **about)
    if shown is None:
        return PropertyOutcome(claim.name, "passed", "", seconds, cases, by_k=tried, **about)
    code = shown.code(rule)
    return PropertyOutcome(
        claim.name,
        "failed",
        shown.seen,
        seconds,
        cases,
        shown,
        code,
        tried,
        decides=shown.decides,
        **about,
        crash=shown.seen if shown.crash else "",
    )


def check_declared_law(rule: SelectionRule, draft_sampler: Callable[..., Any], seed: int = 0) -> PropertyOutcome:
    """Outcome of `check_draws` under the rule's law: about 5 s at most, 10,000 draws for each of some 15 problems.

    Drafts of another law make the rule's output another one, so that it refutes; an error of the sampler decides nothing.
    """
    report = check_draws(draft_sampler, rule.law, samples=10_000, seconds=5.0, seed=seed)
    cases = sum(outcome.name == "declared_law" for outcome in report.outcomes)
    about: dict[str, Any] = {
        "statement": f"The drafts are drawn by the law that the rule declares, {rule.law}.",
        "category": "lossless",
    }
    if report.passed:
        return PropertyOutcome("declared_law", "passed", "", report.seconds, cases, **about)
    failed = report.failures[0]
    reason = f"{failed.name} of check_draws, {failed.label}: {failed.reason}"
    return PropertyOutcome(
        "declared_law",
        "failed",
        reason,
        report.seconds,
        cases,
        None,
        report.code,
        decides=failed.name in WRONG_DRAFTS,
        **about,
    )
