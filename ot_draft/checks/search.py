"""Looking for a counterexample: Hypothesis draws problems, and shrinks one on which the property fails."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass

from ..problem import Problem
from ..selection import SelectionRule
from .counterexample import Counterexample
from .required import hypothesis
from .rule_property import RuleProperty


@dataclass
class Search:
    """What a search found: the number of problems tried, and the smallest counterexample, if there is one."""

    cases: int = 0
    counterexample: Counterexample | None = None


def search(claim: RuleProperty, rule: SelectionRule, max_examples: int, seed: int) -> Search:
    """Try the property on up to max_examples problems; the same seed gives the same problems. Raises nothing of the rule's."""
    found, cases = Search(), claim.cases(rule)
    if isinstance(cases, list):
        return _first_failure(claim, rule, cases)

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=min(max_examples, claim.most),
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
        found.cases += 1
        try:
            check_once(claim, rule, problem)
        except Counterexample as counterexample:
            found.counterexample = counterexample
            raise

    with suppress(Counterexample, hypothesis.errors.Flaky):  # flaky: the rule is no function; its last failure stands
        tried()
    return found


def _first_failure(claim: RuleProperty, rule: SelectionRule, problems: list[Problem]) -> Search:
    """Every problem of a list, small ones first, up to one on which the property fails."""
    for number, problem in enumerate(problems, 1):
        try:
            check_once(claim, rule, problem)
        except Counterexample as counterexample:
            return Search(number, counterexample)
    return Search(len(problems))


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
