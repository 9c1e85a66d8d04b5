"""check_rule(rule): every property on many problems, and a report that answers first whether the rule is lossless."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import floor, log10
from sys import float_info
from typing import Any

from ...boundary import int_from
from ...errors import InvalidArgument
from ...selection import SelectionRule
from ..outcome import Outcome, Record, RuleEvidence, Status
from ..report import Report
from ..sampler.samplers import DraftSampler, check_draws
from ..source import RuleSource
from .answers import Answers, Lossless, RuleOutcome
from .child import Child
from .properties import properties_of
from .rule_property import RuleProperty
from .search import Search, SearchLimits


@dataclass(frozen=True)
class RuleReport(Report[RuleEvidence]):
    """Outcomes of all properties of one selection rule, and the verdict that follows from them.

    `str(report)` gives the verdict, the smallest counterexample as Python code, and one line per property that did not pass.

    Attributes
    ----------
    subject : str
        Name of the rule.
    outcomes : tuple of Outcome
        One outcome per property, in the order in which the properties were checked.
    tried : mapping
        `max_examples`, `seed` and `k` of the run, as plain data.
    false_alarm : float, default=0.0
        Bound on the probability that a correct rule fails. `check_rule` leaves it at 0.

    See Also
    --------
    check_rule : Makes the report.

    Examples
    --------
    >>> import ot_draft as otd
    >>> report = otd.check_rule(otd.rules.KSeq(), max_examples=5, properties=["output_distribution"])
    >>> report["output_distribution"].status.value
    'passed'
    >>> report.lossless.value  # the other properties that decide were not asked for
    'not decided'
    """

    @property
    def answers(self) -> Answers:
        """The answers: whether the rule is lossless, also in floats, whether it is robust, and whether its claims are true."""
        return Answers(self.outcomes)

    @property
    def lossless(self) -> Lossless:
        """The verdict, "yes", "no" or "not decided"; the docstring of answers.py defines it."""
        return self.answers.lossless

    @property
    def findings(self) -> tuple[RuleOutcome, ...]:
        """Outcomes that failed and do not refute that the rule is lossless."""
        return tuple(outcome for outcome in self.failures if not outcome.refutes)

    def lines(self) -> list[str]:
        """The answers, the smallest counterexample, the properties that did not pass, and the names of those that passed."""
        answers, failures = self.answers, sorted(self.failures, key=by_visibility)
        by_k = [(each, outcome.refutes) for outcome in self.outcomes for each in outcome.evidence.by_k]
        failed = {each.k for each, refutes in by_k if refutes and each.status == Status.FAILED}
        others = {each.k for each, _ in by_k if each.k and each.status == Status.PASSED} - failed
        lines = [self.subject, *(f"  {line}" for line in (*answers.lines(), answers.sentence))]
        for outcome in failures[:1]:
            code = (outcome.code or outcome.evidence.reason).rstrip().splitlines()
            lines += ["", f"{heading(outcome)}, which states: {outcome.claim}", "", *code]
        if failed and not any(outcome.evidence.only for outcome in self.outcomes):
            with_, without = (", ".join(map(str, sorted(ks))) for ks in (failed, others))
            none = f"; none was found with k = {without}, where the search is not complete" if others else ""
            lines.append(
                f"# Counterexamples have k = {with_}{none}. If the rule is for one number of drafts, pass --k."
            )
        if len(failures) > 1:
            names = ", ".join(each.check for each in failures[1:])
            lines.append(f"# Failed too: {names}. --property NAME shows one of them, --report html all.")
        passed = [outcome for outcome in self.outcomes if outcome.status == Status.PASSED]
        lines += ["", *(f"  {line(outcome)}" for outcome in self.outcomes if outcome.status != Status.PASSED)]
        if passed:
            cases, seconds = sum(each.evidence.cases for each in passed), sum(each.seconds for each in passed)
            names = ", ".join(each.check for each in passed)
            lines.append(f"  passed ({cases:,} cases, {seconds:.1f} s): {names}")
        if tried := answers.tried_lines():
            lines += ["", *(f"  {line}" for line in tried)]
        told = set[str]()
        return [_once(line, told) for line in lines]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def by_visibility(
    outcome: RuleOutcome, visible: float = 1e-3, negligible: float = 1e-6
) -> tuple[bool, bool, bool, bool, int]:
    """Key by which failures are shown: those that refute first, and of these overwritten arguments, then exact ones, then visible ones.

    An exact failure of a negligible total variation distance is shown after larger ones in floats. Of distances of one order of magnitude,
    the first property is shown.
    """
    known = (outcome.counterexample or {}).get("total_variation")
    distance = visible if known is None else min(float(known), visible)
    category = outcome.evidence.category
    overwrites = category == "arguments"  # the cause of what else fails
    magnitude = floor(log10(max(distance, float_info.min)))
    return not outcome.refutes, not overwrites, distance < negligible, category == "floats", -magnitude


def _once(line: str, told: set[str]) -> str:
    """The line, without its remedy if an earlier line has the same."""
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
    limits: SearchLimits | None = None,
) -> RuleReport:
    """Check every property of a selection rule under the draft law that it declares.

    The claims in `rule.claims` are properties, too. Small problems are checked in Fractions, with all draft tuples enumerated.
    Large problems are checked in float64 first; Fractions then confirm a wrong output distribution. Some properties sample drafts.

    Parameters
    ----------
    rule : SelectionRule
        Rule to check: an instance, not a class. `rule.law` is the draft law.
    max_examples : int, default=100
        Maximum number of drawn problems per property, before shrinking. Properties on large problems try up to four times as many.
    properties : iterable of str or RuleProperty, optional
        Properties to check. None checks all properties, and of the claims those that the rule makes.
    seed : int, default=0
        Seed of the problems. The same seed draws the same problems.
    draft_sampler : callable, optional
        Function `draft(q, k, generator) -> drafts` that draws the drafts. The outcome `declared_draft_law` then says whether
        the function follows `rule.law`. `check_draws` documents the arguments.
    on_outcome : callable, optional
        Function that is called with each outcome as soon as the outcome is known.
    name : str, optional
        Name of the rule in the report. Default: `rule.name`.
    source : RuleSource, optional
        Python code that makes the rule, for the counterexamples. Default: code derived from the attributes of the rule.
    k : int, optional
        The only number of drafts to try, for a rule that takes one number of drafts. None tries all numbers that the rule takes.
    limits : SearchLimits, optional
        Limits of time and work, for rules that are slow or compile.

    Returns
    -------
    report : RuleReport
        Outcomes of the properties. `report.lossless` is "yes", "no" or "not decided".

    Raises
    ------
    InvalidArgument
        If `rule` is not a SelectionRule with a hashable draft law, if a property or claim is unknown, if `properties` is a string or empty,
        if `draft_sampler` is not callable, or if `max_examples`, `seed` or `k` is not an integer in its range.

    See Also
    --------
    parametrize_with_rule_checks : The same properties as tests of pytest.
    ot_draft.verify.sampler.check_draws : Check a draft sampler alone.

    Notes
    -----
    Errors of the rule are outcomes and are not raised. `report.raise_if_failed()` raises AssertionError unless the report passed.

    On Linux the rule runs in a child process, which is ended if the rule does not return. On other systems, in a daemon process
    and after torch initialized CUDA, the rule runs in the calling process. A call that does not return is not ended there.

    Examples
    --------
    >>> import ot_draft as otd
    >>> report = otd.check_rule(otd.rules.KSeq(), max_examples=5, properties=["output_distribution", "exactness"])
    >>> report.passed
    True
    >>> [outcome.check for outcome in report.outcomes]
    ['output_distribution', 'exactness']
    """
    outcomes: list[RuleOutcome] = []
    if draft_sampler is not None:
        DraftSampler(draft_sampler, batched=False)  # raises before the first property
    if k is not None:
        int_from("k", k, 1)
    chosen, name = properties_of(rule, properties), name or rule.name
    if type(rule.law).__hash__ is None:
        raise InvalidArgument(
            f"law must be hashable, got {rule.law!r}. Declare its class with @dataclass(frozen=True)."
        )
    search = Search(rule, max_examples, seed, source, only=None if k is None else frozenset({k}))
    search.limits = limits or search.limits
    with Child(search, chosen) as child:
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
    """Why a property is skipped after these outcomes, empty if it is not: a wrong rule is refuted within seconds."""
    if endless := next((x for x in outcomes if x.evidence.crash and not x.code), None):
        return f"in {endless.check} the rule {endless.evidence.crash}"
    settled = next((x for x in outcomes if x.evidence.category == "lossless" and (x.refutes or x.evidence.crash)), None)
    if claim.large and settled and claim.category != "arguments":  # overwritten arguments may be the cause
        return f"{settled.check} {'crashes' if settled.evidence.crash else 'refutes'} the rule already"
    return ""


def check_property(claim: RuleProperty, rule: SelectionRule, max_examples: int = 100, seed: int = 0) -> RuleOutcome:
    """Outcome of one property for one rule."""
    search = Search(rule, max_examples, seed)
    search.prepare(claim)
    with Child(search, [claim]) as child:
        return child.outcome(claim)


def check_declared_law(rule: SelectionRule, draft_sampler: Callable[..., Any], seed: int = 0) -> RuleOutcome:
    """Outcome of `check_draws` under the rule's law: 5,000 draws for each of some 15 problems.

    Drafts of another distribution change the rule's output, so that they refute; an error of the sampler decides nothing.
    """
    report = check_draws(draft_sampler, rule.law, samples=5_000, seed=seed)
    cases = len({outcome.evidence.label for outcome in report.outcomes if outcome.check == "declared_draft_law"})
    evidence = RuleEvidence(category="lossless", cases=cases)
    claim = f"Draft tokens follow the draft law that the rule declares, {rule.law}."
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
        decides=failed.check in {"declared_draft_law", "independent_steps"},  # they show another draft law
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
            raise AssertionError(f"{outcome.evidence.reason}\n\nThe property states: {outcome.claim}\n\n{outcome.code}")


def parametrize_with_rule_checks(
    rules: Iterable[SelectionRule],
    expected_failures: Mapping[str, str] | None = None,
    *,
    properties: Iterable[str | RuleProperty] | None = None,
    max_examples: int = 100,
) -> Any:
    """Return a pytest decorator that runs every property of every rule as one test.

    The decorated test takes the arguments `rule` and `check`. Its body is `check(rule)`.

    Parameters
    ----------
    rules : iterable of SelectionRule
        Rules to check: instances, not classes.
    expected_failures : mapping of str to str, optional
        Reason by name of a property, or by test id. Such a test must fail, and pytest reports it as an expected failure.
    properties : iterable of str or RuleProperty, optional
        Properties to check. None checks all properties, and of the claims those that each rule makes.
    max_examples : int, default=100
        Maximum number of drawn problems per property, as in `check_rule`. The pytest option `--ot-max-examples` overrides it.

    Returns
    -------
    decorator : pytest.MarkDecorator
        `pytest.mark.parametrize` of `rule` and `check`. Test ids are `{rule}-{property}`, for example `KSeq-output_distribution`.

    Raises
    ------
    InvalidArgument
        If `rules` is empty or not an iterable of SelectionRule, if `properties` is a string, is empty or holds an unknown name,
        if `expected_failures` is not a mapping or names no test, or if `max_examples` is not a positive integer.

    See Also
    --------
    check_rule : The same properties in one report.

    Examples
    --------
    >>> import ot_draft as otd
    >>> @otd.parametrize_with_rule_checks([otd.rules.KSeq()], properties=["output_distribution", "exactness"])
    ... def test_rule(rule, check):
    ...     check(rule)
    >>> [test.id for test in test_rule.pytestmark[0].args[1]]
    ['KSeq-output_distribution', 'KSeq-exactness']
    """
    import pytest

    if isinstance(rules, str | SelectionRule) or not isinstance(rules, Iterable):
        raise InvalidArgument(
            f"rules must be a list of selection rules, got {rules!r}. Pass for example [otd.rules.KSeq()]."
        )
    if not (rules := list(rules)):  # pytest would skip the test, and nobody would know
        raise InvalidArgument("rules must hold at least one rule, got none. Pass for example [otd.rules.KSeq()].")
    if expected_failures is not None and not isinstance(expected_failures, Mapping):
        raise InvalidArgument(
            f"expected_failures must map properties or test ids to reasons, got {expected_failures!r}. Pass a dictionary."
        )
    int_from("max_examples", max_examples, 1)
    if properties is not None and not isinstance(properties, str):
        properties = list(properties)
    expected = dict(expected_failures or {})
    tests = [(rule, each, f"{rule.name}-{each.name}") for rule in rules for each in properties_of(rule, properties)]
    ids = {name for _, _, name in tests}
    if unknown := set(expected) - ids - {each.name for _, each, _ in tests}:
        known = ", ".join(sorted(ids))
        raise InvalidArgument(
            f"expected_failures must name properties or test ids, got {', '.join(sorted(unknown))}. Use any of {known}."
        )
    cases = []
    for rule, each, name in tests:
        reason = expected.get(name, expected.get(each.name))
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason is not None else []
        cases.append(pytest.param(rule, RuleCheck(each, max_examples), id=name, marks=marks))
    return pytest.mark.parametrize(("rule", "check"), cases)
