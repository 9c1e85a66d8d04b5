"""What a property is: a function (rule, problem) that raises a Counterexample, and the problems that it is tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from ..arrays import Array
from ..exact import all_drafts
from ..problem import Problem
from ..selection import SelectionRule
from .source import EVALUATE
from .strategies import Strategy, problems

Check = Callable[[Any, Problem], None]
IN_FLOATS = (
    "p, q = problem.p.astype(np.float64), problem.q.astype(np.float64)\n"
    "result = ot.evaluate(rule, ot.Problem(p, q, problem.k, problem.law))\n"
    'print("output:", result.output.tolist())\nprint("target:", *p)'
)
Category = Literal[
    "lossless", "floats", "arguments", "robust", "claims"
]  # the question that a property helps to answer


@dataclass(frozen=True)
class RuleProperty:
    """One property of a rule.

    check: raises a Counterexample; another error decides nothing. cases: given the rule, the strategy of the problems, or a
    list of problems, small ones first, all of which are tried. most: the number of cases after which more add nothing.
    reason_to_skip: why the property says nothing about the rule; empty where it does. shows: Python lines that show the
    rule at work where it raised an error. category: the question that it helps to answer. large: whether the problems grow to
    an engine's sizes: four times as many are tried, the smallest first, and none that is larger than one that took long.

    Questions: "lossless", does the rule keep the target's law on every proper problem? "floats", does it in floats, up to
    rounding? "arguments", does it leave p, q and drafts alone? "robust", is it right on what is no proper problem, and as a
    function? "claims", is what it says of itself true? (Asked only of the rules that name the property in their `claims`.)
    """

    check: Check
    cases: Callable[[SelectionRule], Strategy | list[Problem]]
    most: int
    reason_to_skip: Callable[[SelectionRule], str]
    shows: str
    category: Category = "robust"
    large: bool = False

    @property
    def is_claim(self) -> bool:
        """Whether it is asked only of the rules that claim it."""
        return self.category == "claims"

    @property
    def name(self) -> str:
        """The function's name, as it stands in reports and ids."""
        return self.check.__name__

    @property
    def statement(self) -> str:
        """What is claimed: the first line of the function's docstring."""
        return (self.check.__doc__ or "").split("\n")[0]

    def skipped(self, rule: SelectionRule) -> str:
        """Why the property is not checked for the rule; empty where it is."""
        return "not claimed" if self.is_claim and self.name not in rule.claims else self.reason_to_skip(rule)

    def __call__(self, rule: SelectionRule, problem: Problem) -> None:
        self.check(rule, problem)


def problems_of(rule: SelectionRule) -> Strategy:
    """Problems under the law that the rule declares."""
    return problems(rule.law)


def small_problems_of(rule: SelectionRule) -> Strategy:
    """The same with fewer draft tuples, for properties that run the rule several times."""
    return problems(rule.law, max_n=4, max_k=3, max_drafts=27)


def never(rule: SelectionRule) -> str:
    """No reason to skip."""
    return ""


def without_torch(rule: SelectionRule) -> str:
    """Why a property about torch is skipped."""
    return "" if find_spec("torch") else "torch is not installed"


def rule_property(
    cases: Callable[[SelectionRule], Strategy | list[Problem]] = problems_of,
    most: int = 1_000_000,
    reason_to_skip: Callable[[SelectionRule], str] = never,
    shows: str = EVALUATE,
    category: Category = "robust",
    large: bool = False,
) -> Callable[[Check], RuleProperty]:
    """Decorator that makes a property of a function (rule, problem)."""
    return lambda check: RuleProperty(check, cases, most, reason_to_skip, shows, category, large)


def possible_drafts(problem: Problem) -> Array:
    """The draft tuples that the law may draw for a single pair (p, q): int (m, k)."""
    drafts = np.concatenate(list(all_drafts(problem)))
    return drafts[problem.law.probability(problem.q, drafts) > 0]


def kept_problem(rule: SelectionRule, problem: Problem) -> Problem:
    """The problem with the law that the rule keeps in the place of p: the same, but for a rule that is lossy on purpose."""
    kept = rule.kept_law(problem.p, problem.q, problem.k)
    return problem if kept is problem.p else Problem(kept, problem.q, problem.k, problem.law)


def a_few(rows: Array, most: int) -> Array:
    """At most so many rows, evenly spread, the first and the last among them."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def as_floats(problem: Problem, dtype: Any = np.float64) -> Problem:
    """The problem in floats."""
    return Problem(problem.p.astype(dtype), problem.q.astype(dtype), problem.k, problem.law)
