"""check_rule(rule): every property on many problems, and a report that answers first whether the rule is lossless."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any

from ..errors import InvalidArgument
from ..selection import SelectionRule
from .answers import Answers, Lossless, Record, Result, Status, answers, refutes
from .properties import properties_of
from .rule_property import Category, RuleProperty
from .samplers import check_draws
from .search import Drawn, Range, Tried, check_once, search
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
    interrupted: whether the rule was stopped in the middle of a call; endless: whether it came to no end.
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
    interrupted: bool = False
    endless: bool = False

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
    unused = _copy_of(rule)
    for each in properties_of(rule, properties):
        if reason := _settled(outcomes, each):
            about: dict[str, Any] = {"statement": each.statement, "category": each.category}
            outcomes.append(PropertyOutcome(each.name, "skipped", reason, **about))
        else:
            outcome = check_property(each, rule, max_examples, seed, drawn)
            stopped = any(x.interrupted for x in (*outcomes, outcome))
            outcomes.append(_judged_anew(outcome, each, unused) if stopped and outcome.counterexample else outcome)
        on_outcome(outcomes[-1])
    if draft_sampler is not None:
        outcomes.append(check_declared_law(rule, draft_sampler, seed))
        on_outcome(outcomes[-1])
    return Report(rule, tuple(outcomes))


def _settled(outcomes: list[PropertyOutcome], claim: RuleProperty) -> str:
    """Why a property need not be looked at, after these outcomes: a wrong rule is to be known as one within seconds."""
    if endless := next((x for x in outcomes if x.endless), None):
        return f"in {endless.name} the rule {endless.crash}"
    settled = next((x for x in outcomes if x.category == "lossless" and (x.refutes or x.crash)), None)
    if claim.large and settled:
        return f"{settled.name} {'crashes' if settled.crash else 'refutes'} the rule already"
    return ""


def _copy_of(rule: SelectionRule) -> SelectionRule | None:
    """The rule as it was made, with all that it keeps; None where it cannot be copied."""
    try:
        return copy.deepcopy(rule)
    except Exception:  # whatever a user's rule holds
        return None


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
    about["interrupted"] = searched.interrupted
    if searched.endless:
        about |= {"decides": False, "crash": searched.endless, "endless": True}
        return PropertyOutcome(claim.name, "failed", searched.endless, seconds, cases, by_k=tried, **about)
    if shown is None and searched.interrupted and not cases:
        return PropertyOutcome(claim.name, "skipped", "every problem took too long", seconds, **about)
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


def as_record(rule: str, outcome: PropertyOutcome) -> Record:
    """One property of the rule of that name, with one entry for each number of drafts; masses as text, exact."""
    by_k = [
        {"k": each.k, "cases": each.cases, "seconds": each.seconds, "status": "failed" if each.failed else "passed"}
        for each in outcome.by_k
    ]
    return {
        "rule": rule,
        "property": outcome.name,
        "category": outcome.category,
        "statement": outcome.statement,
        "status": outcome.status,
        "decides": outcome.decides,
        "reason": outcome.reason,
        "seconds": outcome.seconds,
        "cases": outcome.cases,
        "by_k": by_k,
        "counterexample": _problem(outcome),
        "code": outcome.counterexample_code,
        "crash": outcome.crash,
        "refused": outcome.refused,
        "refusal": outcome.refusal,
        "ranges": {kind: asdict(each) for kind, each in outcome.ranges.items()},
    }


def _problem(outcome: PropertyOutcome) -> Record | None:
    if outcome.counterexample is None:
        return None
    problem = outcome.counterexample.problem
    return {"p": _texts(problem.p.tolist()), "q": _texts(problem.q.tolist()), "k": problem.k, "law": repr(problem.law)}


def _texts(masses: Any) -> Any:
    return [_texts(mass) for mass in masses] if isinstance(masses, list) else str(masses)


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
