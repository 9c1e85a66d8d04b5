"""check_rule(rule): every property on many problems, and a report that answers first whether the rule is lossless."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from ..errors import InvalidArgument
from ..selection import SelectionRule
from .answers import Answers, Lossless, PropertyOutcome, Record
from .properties import properties_of
from .rule_property import RuleProperty
from .samplers import check_draws
from .search import Drawn, check_once, search

WRONG_DRAFTS = ("declared_law", "independent_steps")  # outcomes of check_draws that show another law of the drafts


@dataclass(frozen=True)
class Report:
    """Outcomes of all properties for one rule, and what they say together."""

    rule: SelectionRule
    outcomes: tuple[PropertyOutcome, ...]

    @property
    def answers(self) -> Answers:
        """Is it lossless, also in floats, is it robust, is what it claims true?"""
        return Answers(self.outcomes)

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

    def lines(self, name: str = "") -> list[str]:
        """The answers, the smallest counterexample, what did not pass, and the names of what did. name: in the place of the rule's."""
        answers, failures = self.answers, self.failures
        lines = [name or self.rule.name, *(f"  {line}" for line in (*answers.lines(), answers.sentence))]
        for outcome in failures[:1]:
            code = (outcome.code or outcome.reason).rstrip().splitlines()
            lines += ["", f"{outcome.heading}: {outcome.statement}", "", *code]
        if len(failures) > 1:
            others = ", ".join(each.name for each in failures[1:])
            lines.append(f"# Failed too: {others}. --property NAME shows one of them, --report html all.")
        passed = [outcome for outcome in self.outcomes if outcome.status == "passed"]
        lines += ["", *(f"  {outcome}" for outcome in self.outcomes if outcome.status != "passed")]
        if passed:
            cases, seconds = sum(each.cases for each in passed), sum(each.seconds for each in passed)
            names = ", ".join(each.name for each in passed)
            lines.append(f"  passed ({cases:,} cases, {seconds:.1f} s): {names}")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())


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
    unused = None  # the rule as it was made, with all that it keeps
    with suppress(Exception):  # whatever a user's rule holds, some cannot be copied
        unused = copy.deepcopy(rule)
    for each in properties_of(rule, properties):
        if reason := _settled(outcomes, each):
            outcome = replace(_passed(each, rule), status="skipped", reason=reason)
        else:
            outcome = check_property(each, rule, max_examples, seed, drawn)
            if outcome.counterexample and any(x.interrupted for x in (*outcomes, outcome)):
                outcome = _judged_anew(outcome, each, unused)
        outcomes.append(outcome)
        on_outcome(outcome)
    if draft_sampler is not None:
        outcomes.append(check_declared_law(rule, draft_sampler, seed))
        on_outcome(outcomes[-1])
    return Report(rule, tuple(outcomes))


def _settled(outcomes: list[PropertyOutcome], claim: RuleProperty) -> str:
    """Why a property need not be looked at, after these outcomes: a wrong rule is to be known as one within seconds."""
    if endless := next((x for x in outcomes if x.crash and not x.code), None):
        return f"in {endless.name} the rule {endless.crash}"
    settled = next((x for x in outcomes if x.category == "lossless" and (x.refutes or x.crash)), None)
    if claim.large and settled:
        return f"{settled.name} {'crashes' if settled.crash else 'refutes'} the rule already"
    return ""


def _judged_anew(outcome: PropertyOutcome, claim: RuleProperty, unused: SelectionRule | None) -> PropertyOutcome:
    """An outcome after the rule was stopped in the middle of a call, which may have left half of what it keeps: it decides
    only if a copy of the rule that was never stopped fails on the same problem, too."""
    assert outcome.counterexample is not None
    try:
        again = unused and check_once(claim, copy.deepcopy(unused), outcome.counterexample.problem)
    except Exception:  # a refusal, or what does not copy
        again = None
    if again and again.decides == outcome.decides:
        return outcome
    return replace(outcome, decides=False, reason=f"{outcome.reason}; seen only after the rule was stopped half-way")


def _passed(claim: RuleProperty, rule: SelectionRule) -> PropertyOutcome:
    return PropertyOutcome(claim.name, "passed", statement=claim.statement, category=claim.category, rule=rule.name)


def check_property(
    claim: RuleProperty, rule: SelectionRule, max_examples: int = 100, seed: int = 0, drawn: Drawn | None = None
) -> PropertyOutcome:
    """Outcome of one property for one rule. drawn: as in `search`."""
    outcome = _passed(claim, rule)
    if reason := claim.skipped(rule):
        return replace(outcome, status="skipped", reason=reason)
    start = perf_counter()
    found = search(claim, rule, max_examples, seed, drawn)
    by_k = tuple(found.by_k[k] for k in sorted(found.by_k))
    cases, shown = sum(each.cases for each in by_k), found.counterexample
    about: dict[str, Any] = {name: getattr(found, name) for name in ("refused", "refusal", "ranges", "interrupted")}
    outcome = replace(outcome, seconds=perf_counter() - start, cases=cases, by_k=by_k, **about)
    if found.endless:
        return replace(outcome, status="failed", reason=found.endless, decides=False, crash=found.endless)
    if shown is not None:
        about = {"counterexample": shown, "problem": shown.record, "code": shown.code(rule), "decides": shown.decides}
        return replace(outcome, status="failed", reason=shown.seen, crash=shown.seen if shown.crash else "", **about)
    if found.interrupted and not cases:
        return replace(outcome, status="skipped", reason="every problem took too long", by_k=())
    if cases and found.refused == cases:
        return replace(outcome, status="skipped", reason=f"the rule refuses every problem: {found.refusal}")
    return outcome


def check_declared_law(rule: SelectionRule, draft_sampler: Callable[..., Any], seed: int = 0) -> PropertyOutcome:
    """Outcome of `check_draws` under the rule's law: about 5 s at most, 10,000 draws for each of some 15 problems.

    Drafts of another law make the rule's output another one, so that it refutes; an error of the sampler decides nothing.
    """
    report = check_draws(draft_sampler, rule.law, samples=10_000, seconds=5.0, seed=seed)
    outcome = PropertyOutcome(
        "declared_law",
        "passed",
        seconds=report.seconds,
        cases=sum(outcome.name == "declared_law" for outcome in report.outcomes),
        statement=f"The drafts are drawn by the law that the rule declares, {rule.law}.",
        category="lossless",
        rule=rule.name,
    )
    if report.passed:
        return outcome
    failed = report.failures[0]
    reason = f"{failed.name} of check_draws, {failed.label}: {failed.reason}"
    return replace(outcome, status="failed", reason=reason, code=report.code, decides=failed.name in WRONG_DRAFTS)


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
        self.ot_records.append(outcome.record)
        if outcome.status == "skipped":
            pytest.skip(outcome.reason)
        if outcome.status == "failed":
            raise AssertionError(f"{outcome.reason}\n\n{self.property.statement}\n\n{outcome.code}")


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
    if unknown := set(expected) - ids - {each.name for _, each, _ in tests}:
        known = f"ids are {', '.join(sorted(ids))}"
        raise InvalidArgument(f"expected_failures names no test: {', '.join(sorted(unknown))}; {known}")
    cases = []
    for rule, each, name in tests:
        reason = expected.get(name, expected.get(each.name))
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason is not None else []
        cases.append(pytest.param(rule, RuleCheck(each, max_examples), id=name, marks=marks))
    return pytest.mark.parametrize(("rule", "check"), cases)
