"""check_rule(rule): every property on many problems, and a report that answers first whether the rule is lossless."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import InvalidArgument
from ...selection import SelectionRule
from ..boundary import check_number
from ..outcome import Outcome, Record, RuleEvidence, Status
from ..report import Report
from ..sampler.samplers import DraftSampler, check_draws
from ..source import RuleSource
from .answers import Answers, Lossless, RuleOutcome
from .child import Child
from .properties import properties_of
from .rule_property import RuleProperty
from .search import Search

WRONG_DRAFTS = (
    "declared_draft_law",
    "independent_steps",
)  # outcomes of check_draws that show another law of the drafts


@dataclass(frozen=True)
class RuleReport(Report[RuleEvidence]):
    """Outcomes of all properties of one selection rule, and what they say together."""

    @property
    def answers(self) -> Answers:
        """Is it lossless, also in floats, is it robust, is what it claims true?"""
        return Answers(self.outcomes)

    @property
    def lossless(self) -> Lossless:
        """The verdict, "yes", "no" or "not decided"; answers.py says when which."""
        return self.answers.lossless

    @property
    def findings(self) -> tuple[RuleOutcome, ...]:
        """Outcomes that failed and do not refute that the rule is lossless."""
        return tuple(outcome for outcome in self.failures if not outcome.refutes)

    def lines(self) -> list[str]:
        """The answers, the smallest counterexample, what did not pass, and the names of what did."""
        answers, failures = self.answers, self.failures
        failed = {
            each.k
            for outcome in failures
            if outcome.refutes
            for each in outcome.evidence.by_k
            if each.status == Status.FAILED
        }
        lines = [self.subject, *(f"  {line}" for line in (*answers.lines(), answers.sentence))]
        for outcome in failures[:1]:
            code = (outcome.code or outcome.evidence.reason).rstrip().splitlines()
            lines += ["", f"{heading(outcome)}: {outcome.claim}", "", *code]
        if failed and not any(outcome.evidence.only for outcome in self.outcomes):
            counts = ", ".join(map(str, sorted(failed)))
            lines.append(
                f"# All counterexamples have k = {counts}. If the rule is for another number of drafts, pass --k."
            )
        if len(failures) > 1:
            others = ", ".join(each.check for each in failures[1:])
            lines.append(f"# Failed too: {others}. --property NAME shows one of them, --report html all.")
        passed = [outcome for outcome in self.outcomes if outcome.status == Status.PASSED]
        lines += ["", *(f"  {line(outcome)}" for outcome in self.outcomes if outcome.status != Status.PASSED)]
        if passed:
            cases, seconds = sum(each.evidence.cases for each in passed), sum(each.seconds for each in passed)
            names = ", ".join(each.check for each in passed)
            lines.append(f"  passed ({cases:,} cases, {seconds:.1f} s): {names}")
        told = set[str]()
        return [_once(line, told) for line in lines]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _once(line: str, told: set[str]) -> str:
    """The line without its remedy if that was told before."""
    said, mark, remedy = line.partition(". Remedy: ")
    if not mark or remedy not in told:
        told.add(remedy)
        return line
    return said


def heading(outcome: RuleOutcome) -> str:
    """Heading of a counterexample: what it shows."""
    shows = "problem on which the rule crashes," if outcome.evidence.crash else "counterexample to"
    return f"Smallest {shows} {outcome.check}"


def line(outcome: RuleOutcome) -> str:
    """One line of the table of outcomes."""
    start = f"{outcome.check:<22} {outcome.status:<8} {outcome.evidence.cases:>6} cases {outcome.seconds:7.2f} s"
    return f"{start}  {outcome.evidence.reason}".rstrip()


def check_rule(
    rule: SelectionRule,
    max_examples: int = 100,
    properties: Iterable[str | RuleProperty] | None = None,
    *,
    seed: int = 0,
    draft_sampler: Callable[..., Any] | None = None,
    on_outcome: Callable[[RuleOutcome], None] = lambda outcome: None,
    name: str = "",
    source: RuleSource | None = None,
    k: int | None = None,
) -> RuleReport:
    """Check every property of a selection rule under the law that it declares, and the claims that it makes.

    max_examples: largest number of problems a property, before shrinking. properties: names, or None for all.
    draft_sampler: `draft(q, k, generator) -> drafts`, code that draws the drafts; the outcome `declared_draft_law` says whether it
    follows the rule's law. on_outcome: called after every property. name, source: what the report calls the rule, and the Python that
    makes it; what the rule says itself without them.
    k: the only number of drafts to try, for a rule of a fixed number. The same seed tries the same problems. Raises nothing that the
    rule raises: `report.raise_if_failed()` does. On Linux the rule runs in a child process, which is ended where it does not return.
    """
    outcomes: list[RuleOutcome] = []
    if draft_sampler is not None:
        DraftSampler(draft_sampler, batched=False)  # refused before the first property
    if k is not None:
        check_number("k", k, 1)
    chosen, name = properties_of(rule, properties), name or rule.name
    with Child(Search(rule, max_examples, seed, source, only=None if k is None else frozenset({k})), chosen) as child:
        for each in chosen:
            if reason := _settled(outcomes, each):
                outcomes.append(each.outcome(Status.SKIPPED, reason=reason))
            else:
                outcomes.append(child.outcome(each))
            on_outcome(outcomes[-1])
    if draft_sampler is not None:
        outcomes.append(check_declared_law(rule, draft_sampler, seed))
        on_outcome(outcomes[-1])
    return RuleReport(name, tuple(outcomes), {"max_examples": max_examples, "seed": seed, "k": k})


def _settled(outcomes: list[RuleOutcome], claim: RuleProperty) -> str:
    """Why a property need not be looked at, after these outcomes: a wrong rule is to be known as one within seconds."""
    if endless := next((x for x in outcomes if x.evidence.crash and not x.code), None):
        return f"in {endless.check} the rule {endless.evidence.crash}"
    settled = next((x for x in outcomes if x.evidence.category == "lossless" and (x.refutes or x.evidence.crash)), None)
    if claim.large and settled:
        return f"{settled.check} {'crashes' if settled.evidence.crash else 'refutes'} the rule already"
    return ""


def check_property(claim: RuleProperty, rule: SelectionRule, max_examples: int = 100, seed: int = 0) -> RuleOutcome:
    """Outcome of one property for one rule."""
    with Child(Search(rule, max_examples, seed), [claim]) as child:
        return child.outcome(claim)


def check_declared_law(rule: SelectionRule, draft_sampler: Callable[..., Any], seed: int = 0) -> RuleOutcome:
    """Outcome of `check_draws` under the rule's law: 5,000 draws for each of some 15 problems.

    Drafts of another law make the rule's output another one, so that it refutes; an error of the sampler decides nothing.
    """
    report = check_draws(draft_sampler, rule.law, samples=5_000, seed=seed)
    cases = len({outcome.evidence.label for outcome in report.outcomes if outcome.check == "declared_draft_law"})
    evidence = RuleEvidence(category="lossless", cases=cases)
    claim = f"The drafts are drawn by the law that the rule declares, {rule.law}."
    outcome = Outcome(check="declared_draft_law", claim=claim, evidence=evidence, seconds=report.tried["seconds"])
    if report.passed:
        return outcome
    if not report.failures:
        reason = f"not decided: {report['declared_draft_law'].evidence.reason}"
        return replace(outcome, status=Status.SKIPPED, evidence=replace(evidence, reason=reason))
    failed = report.failures[0]
    reason = f"{failed.check} of check_draws, {failed.evidence.label}: {failed.evidence.reason}"
    return replace(
        outcome, status=Status.FAILED, evidence=replace(evidence, reason=reason), counterexample={"code": report.tried["code"]},
        decides=failed.check in WRONG_DRAFTS,
    )  # fmt: skip


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
        self.ot_records.append({"subject": rule.name, "outcome": outcome.record})
        if outcome.status == Status.SKIPPED:
            pytest.skip(outcome.evidence.reason)
        if outcome.status == Status.FAILED:
            raise AssertionError(f"{outcome.evidence.reason}\n\n{outcome.claim}\n\n{outcome.code}")


def parametrize_with_rule_checks(
    rules: Iterable[SelectionRule],
    expected_failures: Mapping[str, str] | None = None,
    *,
    properties: Iterable[str | RuleProperty] | None = None,
    max_examples: int = 100,
) -> Any:
    """Decorator for a test with the arguments `rule` and `check`, whose body is `check(rule)`.

    Ids are like KSeq-output_distribution, to be selected with -k. Without `properties`, all of them, and of the claims those that
    the rule makes. max_examples: as in `check_rule`; pytest's option --ot-max-examples takes its place.
    expected_failures: {property or id: reason}; such a test must fail, and is reported as an expected failure.
    """
    import pytest

    if isinstance(rules, str | SelectionRule) or not isinstance(rules, Iterable):
        raise InvalidArgument(f"rules is {rules!r}: give a list of rules, as [otd.rules.KSeq()]")
    if not (rules := list(rules)):  # pytest would skip the test, and nobody would know
        raise InvalidArgument("rules is empty, so that nothing would be checked: give a list of rules")
    if expected_failures is not None and not isinstance(expected_failures, Mapping):
        raise InvalidArgument(
            f"expected_failures is {expected_failures!r}: give a dictionary, {{property or id: reason}}"
        )
    check_number("max_examples", max_examples, 1)
    if properties is not None and not isinstance(properties, str):
        properties = list(properties)
    expected = dict(expected_failures or {})
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
