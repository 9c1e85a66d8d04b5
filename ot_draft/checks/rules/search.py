"""Looking for a counterexample: Hypothesis draws problems, and shrinks one on which the property fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from ...problem import Problem
from ...selection import SelectionRule
from ..required import hypothesis
from ..strategies import Strategy
from .counterexample import Counterexample
from .rule_property import RuleProperty


@dataclass
class Tried:
    """What was tried with k drafts: number of problems, time spent on them, whether the property failed on one."""

    k: int
    cases: int = 0
    seconds: float = 0.0
    failed: bool = False


@dataclass
class Search:
    """What a search found: what was tried, by the number of drafts, and the smallest counterexample, if there is one."""

    by_k: dict[int, Tried] = field(default_factory=dict)
    counterexample: Counterexample | None = None

    def attempt(self, claim: RuleProperty, rule: SelectionRule, problem: Problem) -> None:
        """Try one problem. Raises Counterexample."""
        tried = self.by_k.setdefault(problem.k, Tried(problem.k))
        tried.cases += 1
        start = perf_counter()
        try:
            check_once(claim, rule, problem)
        except Counterexample as counterexample:
            tried.failed, self.counterexample = True, counterexample
            raise
        finally:
            tried.seconds += perf_counter() - start


Drawn = dict[Any, list[Problem]]  # problems by the function that makes them: properties of one rule share them


def search(
    claim: RuleProperty, rule: SelectionRule, max_examples: int, seed: int, drawn: Drawn | None = None
) -> Search:
    """Try the property on up to max_examples problems; the same seed gives the same problems. Raises nothing of the rule's.

    drawn: problems that were drawn for other properties of the same rule with the same settings; added to.
    """
    cases, number = claim.cases(rule), min(max_examples, claim.most)
    if isinstance(cases, list):
        return _first_failure(claim, rule, cases)
    drawn = {} if drawn is None else drawn
    known = drawn.setdefault(claim.cases, [])
    if len(known) < number:
        known.clear()
        _run(cases, known.append, number, seed)
    found = _first_failure(claim, rule, known[:number])
    if found.counterexample is None:
        return found
    smaller = Search()
    with suppress(Counterexample, hypothesis.errors.Flaky):  # flaky: the rule is no function; its last failure stands
        _run(cases, lambda problem: smaller.attempt(claim, rule, problem), number, seed)
    return smaller if smaller.counterexample else found


def _first_failure(claim: RuleProperty, rule: SelectionRule, problems: list[Problem]) -> Search:
    """Every problem of a list, up to one on which the property fails."""
    found = Search()
    with suppress(Counterexample):
        for problem in problems:
            found.attempt(claim, rule, problem)
    return found


def _run(cases: Strategy, use: Callable[[Problem], None], number: int, seed: int) -> None:
    """Hand over so many problems; shrink one on which `use` raises, and raise what it raises on the smallest."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=number,
        database=None,
        derandomize=False,  # the seed decides; a CI profile would set it
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(cases)
    def tried(problem: Problem) -> None:
        use(problem)

    tried()


def check_once(claim: RuleProperty, rule: SelectionRule, problem: Problem) -> None:
    """The property on a copy of one problem; whatever the rule raises becomes a Counterexample."""
    copy = Problem(problem.p.copy(), problem.q.copy(), problem.k, problem.law)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the verdict must not depend on the caller's filters
            claim(rule, copy)
    except Counterexample as counterexample:
        counterexample.problem = problem
        counterexample.shows = counterexample.shows or claim.shows
        raise
    except Exception as error:
        raise Counterexample(problem, f"raised {type(error).__name__}: {error}", claim.shows) from error
