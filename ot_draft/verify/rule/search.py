"""Search for the smallest problem on which a property fails, within limits of time. Hypothesis draws and shrinks the problems."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from importlib import import_module
from operator import ge
from time import perf_counter, process_time
from typing import Any

import hypothesis
import numpy as np

from ... import laws
from ...boundary import int_from
from ...laws import DraftLaw, is_defined
from ...problem import Problem
from ...selection import SelectionRule
from ..outcome import Outcome, RuleEvidence, Status, Tried
from ..ranges import Range
from ..source import Counterexample, RuleSource
from .recording import Crash, RecordingRule, Refusal, check_once, only_overwrites
from .rule_property import RuleProperty, possible_drafts, without_torch
from .strategies import MOST_DRAFTS, ONLY, Strategy
from .time_limit import WALL_PER_CPU, NoLimit


@dataclass(frozen=True)
class SearchLimits:
    """Limits of a check of a rule.

    Parameters
    ----------
    large_property_seconds : float, default=5
        CPU time for a property of problems of an engine's sizes.
    property_seconds : float, default=20
        CPU time for any other property.
    slow_problem_seconds : float, default=0.25
        CPU time of a problem after which no larger one is tried.
    first_problem_seconds : float, default=12
        CPU time for a first problem, which may import or compile. Wall-clock time may be ten times as long.
    large_property_problems : int, default=4
        Factor of the number of problems of a property of an engine's sizes.
    program_cells : int, default=100
        Maximum number of draft tuples times tokens of such a problem if the rule solves a program.
    visible_distance : float, default=0.001
        Total variation distance of a counterexample above which no larger one is sought.

    Examples
    --------
    >>> import ot_draft as otd
    >>> from ot_draft.verify.rule import SearchLimits
    >>> limits = SearchLimits(first_problem_seconds=60)  # for a rule that compiles
    >>> otd.check_rule(otd.rules.KSeq(), 5, ["output_distribution"], limits=limits).passed
    True
    """

    large_property_seconds: float = 5.0
    property_seconds: float = 20.0
    slow_problem_seconds: float = 0.25
    first_problem_seconds: float = 12.0
    large_property_problems: int = 4
    program_cells: int = 100
    visible_distance: float = 1e-3


@dataclass
class Attempts:
    """The problems tried for one property, by the number of drafts, and the counterexample to show, if there is one.

    visible: total variation distance from which a counterexample is shown; a smaller one is shown if no other is found.
    largest: the largest total variation distance of all counterexamples. ranges: arguments of the rule where the
    property held, by the kind of array. refused, refusal: number of problems that the rule declines, and its message. slow: sizes (n, k,
    rows, tokens of q) that took long. spent: CPU seconds, without those of the first problem. now: n, k and time limit in seconds of the
    current problem.
    """

    claim: RuleProperty
    rule: SelectionRule
    limit: NoLimit
    limits: SearchLimits
    only: frozenset[int] | None = None
    slow: list[tuple[int, int, int, int]] = field(default_factory=list)
    by_k: dict[int, Tried] = field(default_factory=dict)
    counterexample: Counterexample | None = None
    ranges: dict[str, Range] = field(default_factory=dict)
    refused: int = 0
    refusal: str = ""
    spent: float = 0.0
    begun: bool = False
    now: tuple[int, int, float] = (0, 0, 0.0)
    visible: Fraction | float = 0.0
    largest: Fraction | float | None = None

    def attempt(self, problem: Problem) -> Counterexample | None:
        """Try one problem, and count it. Problems are not tried if the time is used up, or if their size or k is excluded."""
        if self.only is not None and problem.k not in self.only:
            return None
        limits = self.limits
        most = limits.large_property_seconds if self.claim.large else limits.property_seconds
        size = problem.n, problem.k, int(np.prod(problem.batch)), int((problem.q > 0).sum())
        slow = any(all(map(ge, size, each)) for each in self.slow)  # it is larger than one that took long
        if self.spent > most or (self.claim.large and slow):
            return None
        start, cpu = perf_counter(), process_time()
        ranges: dict[str, Range] = {}
        counterexample, refusal = None, ""
        seconds = limits.first_problem_seconds
        if self.claim.large and self.begun:
            seconds = max(most - self.spent, limits.slow_problem_seconds)
        self.now = problem.n, problem.k, seconds
        with self.limit.at_most(seconds):
            try:
                counterexample = check_once(self.claim, self.rule, problem, ranges)
            except Refusal as refused:
                refusal, ranges = str(refused), {}
        clock = perf_counter() - start
        tried = self.by_k.setdefault(problem.k, Tried(problem.k))
        tried.cases, tried.seconds = tried.cases + 1, tried.seconds + clock
        tried.refused += bool(refusal)
        self.refused, self.refusal = self.refused + bool(refusal), self.refusal or refusal
        took = max(process_time() - cpu, clock / WALL_PER_CPU) if self.begun else 0.0  # the first one may import torch
        self.begun = True
        self.spent += took
        self.slow += [size] if took > limits.slow_problem_seconds else []
        tried.status = Status.FAILED if counterexample is not None else tried.status
        for kind, range_ in ranges.items() if counterexample is None else ():
            self.ranges.setdefault(kind, Range()).add(range_)
        if counterexample is not None and counterexample.distance is not None:
            self.largest = max(self.largest or 0, counterexample.distance)
        return counterexample

    def first_failure(self, problems: list[Problem]) -> None:
        """Try problems up to a visible counterexample that decides. Without one, keep the one of the largest distance.

        A counterexample that does not decide is kept only if no other is found.
        """
        self.visible = self.limits.visible_distance
        for problem in problems:
            found, kept = self.attempt(problem), self.counterexample
            if found is None:
                continue
            if kept is None or (found.decides, found.distance or 0) > (kept.decides, kept.distance or 0):
                self.counterexample = found
            if found.decides and self._is_visible(found):
                break

    def _is_visible(self, found: Counterexample) -> bool:
        return found.distance is None or bool(found.distance >= self.visible)

    def shrink(self, cases: Strategy, number: int, seed: int, failed: Counterexample) -> None:
        """Search the smallest problem of a strategy that fails like a known one, with half of its distance or a visible distance."""
        self.visible = min(self.limits.visible_distance, (failed.distance or 0) / 2)

        def smaller(problem: Problem) -> None:
            found = self.attempt(problem)
            if found is not None and found.decides == failed.decides and self._is_visible(found):
                self.counterexample = found
                raise found

        with suppress(
            Counterexample, hypothesis.errors.Flaky
        ):  # flaky: the rule is not a function; keep its last failure
            _run(cases, smaller, number, seed)

    def outcome(self, source: RuleSource | None, seconds: float, interrupted: bool = False) -> Outcome[RuleEvidence]:
        """The outcome so far. source: of the rule. interrupted: whether the search was stopped during a call of the rule."""
        by_k = tuple(self.by_k[k] for k in sorted(self.by_k))
        cases, shown = sum(each.cases for each in by_k), self.counterexample
        seen: dict[str, Any] = {"cases": cases, "by_k": by_k, "ranges": self.ranges, "interrupted": interrupted}
        seen |= {"refused": self.refused, "refusal": self.refusal, "only": tuple(sorted(self.only or ()))}
        outcome = partial(self.claim.outcome, seconds=seconds)
        if shown is not None:
            seen |= {"reason": shown.seen, "crash": shown.seen if shown.crash else ""}
            largest = None if self.largest is None else float(self.largest)
            record = shown.record | {"largest_total_variation": largest, "code": shown.code(self.rule, source)}
            return outcome(Status.FAILED, decides=shown.decides, counterexample=record, **seen)
        if interrupted and self.now[2] == self.limits.first_problem_seconds:
            within = f"{self.now[2]:.0f} s of the CPU or {WALL_PER_CPU * self.now[2]:.0f} s in all"
            endless = f"gave no answer within {within} for n = {self.now[0]}, k = {self.now[1]}"
            return outcome(Status.FAILED, decides=False, **seen | {"reason": endless, "crash": endless})
        if interrupted and not cases:
            return outcome(Status.SKIPPED, **seen | {"reason": "every problem took too long", "by_k": ()})
        if cases and self.refused == cases:
            return outcome(Status.SKIPPED, **seen | {"reason": f"the rule refuses every problem: {self.refusal}"})
        if not cases and self.only is not None:
            return outcome(
                Status.SKIPPED, **seen | {"reason": f"no problem has k = {', '.join(map(str, seen['only']))}"}
            )
        return outcome(**seen)


Drawn = dict[Any, list[Problem]]  # problems by the function that makes them: properties of one rule share them
Sizes = tuple[tuple[str, int], ...]  # names and values of arguments that bound the problems


@dataclass
class Search:
    """Search for counterexamples of one rule. Properties with the same strategy share the drawn problems.

    source: Python code that makes the rule; by default derived from the rule. only: numbers of drafts to try, None for all. If the rule
    declines some of them, a property is then tried with the others alone. refusal: the message of the rule in that case.
    """

    rule: SelectionRule
    max_examples: int
    seed: int
    source: RuleSource | None = None
    limit: NoLimit = field(default_factory=NoLimit)
    limits: SearchLimits = field(default_factory=lambda: SearchLimits())  # noqa: PLW0108 tests replace the name
    drawn: Drawn = field(default_factory=dict)
    only: frozenset[int] | None = None
    taken: frozenset[int] | None = None  # found by the search; empty: all
    refusal: str = ""
    tries: list[Attempts] = field(default_factory=list)  # of the property at work
    begun: float = 0.0

    def __post_init__(self) -> None:
        int_from("max_examples", self.max_examples, 1)
        int_from("seed", self.seed, 0)

    def outcome(self, claim: RuleProperty) -> Outcome[RuleEvidence]:
        """Try a property on up to max_examples problems; the same seed gives the same problems. Errors of the rule are not raised.

        A counterexample that decides goes before one that does not.
        """
        if reason := claim.skipped(self.rule):
            return claim.outcome(Status.SKIPPED, reason=reason)
        found = self._searched(claim, self.only)
        if self.only is not None or found.status == Status.FAILED:
            return found
        tried = found.evidence.by_k
        if self.taken is None and any(each.refused == each.cases for each in tried):
            self.taken, self.refusal = self._taken(), found.evidence.refusal
        # Every property is tried with all k first: a rule may refuse a k in some problems only, and be wrong in the others.
        if not self.taken or any(each.refused < each.cases for each in tried if each.k not in self.taken):
            return found
        found = self._searched(claim, self.taken)
        return replace(found, evidence=replace(found.evidence, refusal=found.evidence.refusal or self.refusal))

    def _taken(self) -> frozenset[int]:
        """The numbers of drafts that the rule takes; empty if it refuses none of them, or all."""
        allowed = [k for k in range(1, MOST_DRAFTS + 1) if is_defined(self.rule.law, k)]
        taken = frozenset(k for k in allowed if any(self._takes(k, n) for n in (2, 3)))
        return taken if len(taken) < len(allowed) else frozenset()

    def _takes(self, k: int, n: int) -> bool:
        """Whether the rule takes k drafts of a uniform distribution over n tokens. A crash counts as taken."""
        uniform = np.array([Fraction(1, n)] * n)
        problem = Problem(uniform, uniform, k, self.rule.law)
        seconds = self.limits.first_problem_seconds
        self.tries[-1].now = n, k, seconds
        with self.limit.at_most(seconds), suppress(Crash):
            try:
                RecordingRule(self.rule, {})(problem.p, problem.q, possible_drafts(problem)[:1])
            except Refusal:
                return False
        return True

    def _searched(self, claim: RuleProperty, only: frozenset[int] | None) -> Outcome[RuleEvidence]:
        token = ONLY.set(only)
        try:
            return self._search(claim, only)
        finally:
            ONLY.reset(token)

    def _search(self, claim: RuleProperty, only: frozenset[int] | None) -> Outcome[RuleEvidence]:
        first = Attempts(claim, self.rule, self.limit, self.limits, only)
        self.tries, self.begun = [first], perf_counter()
        few, number = self._sizes(claim)
        cases = claim.cases(self.rule.law, **dict(few))
        if isinstance(cases, list):
            first.first_failure(cases)
        else:
            first.first_failure(self._problems(claim, few, number))
            if first.counterexample is not None:
                self.tries.append(
                    Attempts(claim, self.rule, self.limit, self.limits, only, first.slow, largest=first.largest)
                )
                self.tries[-1].shrink(cases, number, self.seed, first.counterexample)
        self._find_cause(claim)
        return self._shown().outcome(self.source, perf_counter() - self.begun)

    def _sizes(self, claim: RuleProperty) -> tuple[Sizes, int]:
        """Limits of the problems, smaller for a rule that solves a program for every problem, and their number."""
        few: Sizes = (("cells", self.limits.program_cells),) if claim.large and self.rule.cost.solves_program else ()
        return few, min(self.max_examples * (self.limits.large_property_problems if claim.large else 1), claim.most)

    def prepare(self, claim: RuleProperty) -> None:
        """Load torch and draw the problems of a property in this process, once for all child processes that are forked later.

        Problems of a draft law of the user are drawn in the child, since its code may not return.
        """
        if claim.category in ("floats", "arguments", "robust") and not without_torch(self.rule):
            import_module("torch")
        few, number = self._sizes(claim)
        of_library = type(self.rule.law) in {type(law) for law in laws.ALL}
        if (
            of_library
            and not claim.skipped(self.rule)
            and not isinstance(claim.cases(self.rule.law, **dict(few)), list)
        ):
            self._problems(claim, few, number)

    def _find_cause(self, claim: RuleProperty) -> None:
        """Note in the counterexample whether it exists only because the rule writes into its arguments."""
        found, seconds = self._shown().counterexample, self.limits.first_problem_seconds
        if found is not None and found.decides and claim.category in ("lossless", "floats"):
            with self.limit.at_most(seconds):
                found.overwrites = only_overwrites(claim, self.rule, found.problem)

    def interrupted(self) -> Outcome[RuleEvidence]:
        """The outcome of the current property if it is stopped during a call of the rule."""
        return self._shown().outcome(self.source, perf_counter() - self.begun, interrupted=True)

    def _shown(self) -> Attempts:
        return self.tries[-1] if self.tries[-1].counterexample else self.tries[0]

    def _problems(self, claim: RuleProperty, few: Sizes, number: int) -> list[Problem]:
        known = self.drawn.setdefault((claim.cases, ONLY.get()), [])
        if len(known) < number:
            known[:] = drawn_problems(claim.cases, self.rule.law, few, number, self.seed, ONLY.get())
        asked = [*known[:number], *([] if self.rule.cost.solves_program else claim.together(self.rule.law))]
        if claim.large:  # small ones first: a rule may enumerate the drafts itself
            asked = sorted(asked, key=lambda problem: (problem.n**problem.k, int(np.prod(problem.batch))))
        return asked


@lru_cache(maxsize=64)  # rules of the same law are tried on the same problems
def drawn_problems(
    cases: Callable[..., Strategy], law: DraftLaw, few: Sizes, number: int, seed: int, only: frozenset[int] | None
) -> tuple[Problem, ...]:
    """Draw `number` problems of a strategy for a draft law. only: the numbers of drafts to try, as in `ONLY`, which holds them."""
    found: list[Problem] = []
    _run(cases(law, **dict(few)), found.append, number, seed)
    return tuple(found)


def _run(cases: Strategy, use: Callable[[Problem], None], number: int, seed: int) -> None:
    """Call `use` on `number` problems. If it raises, shrink the problem, and raise its error on the smallest."""

    # Not derandomized: the seed decides; a CI profile would set it.
    settings = hypothesis.settings(
        max_examples=number, database=None, derandomize=False, deadline=None, print_blob=False, report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck), verbosity=hypothesis.Verbosity.quiet,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    )  # fmt: skip

    @hypothesis.seed(seed)
    @settings
    @hypothesis.given(cases)
    def tried(problem: Problem) -> None:
        use(problem)

    tried()
