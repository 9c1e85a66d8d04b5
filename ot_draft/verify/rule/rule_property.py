"""What a property is: a function (rule, problem) that raises a Counterexample, and the problems that it is tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from ...arrays import Array
from ...exact import all_drafts
from ...problem import Problem
from ...selection import SelectionRule, target_kept
from ..outcome import Outcome, Record, RuleEvidence, Status
from ..source import value_source
from .strategies import Strategy, problems

Check = Callable[[Any, Problem], None]
# The question that a property helps to answer.
Category = Literal["lossless", "floats", "arguments", "robust", "claims"]


@dataclass(frozen=True)
class RuleProperty:
    """One property of a rule.

    check: raises a Counterexample; another error decides nothing. cases: given the rule's law, the strategy of the problems, or
    a list of problems, small ones first, all of which are tried. most: the number of cases after which more add nothing.
    together: given the law, problems that are always tried beside those of a strategy: what a verdict names together.
    reason_to_skip: why the property says nothing about the rule; empty where it does. shows: Python lines that show a
    counterexample, given `rule` and `problem`; without them the property itself is called. category: the question that it
    helps to answer. large: whether the problems grow to an engine's sizes: four times as many are tried, the smallest first,
    and none that is larger than one that took long. sampled: whether drafts are drawn, not enumerated.

    Questions: "lossless", is the output distribution the target on every proper problem? "floats", does it in floats, up to
    rounding? "arguments", does it leave p, q and drafts alone? "robust", is it right on what is no proper problem, and as a
    function? "claims", is what it says of itself true? (Asked only of the rules that name the property in their `claims`.)
    """

    check: Check
    cases: Callable[..., Strategy | list[Problem]] = problems
    most: int = 1_000_000
    reason_to_skip: Callable[[SelectionRule], str] = lambda rule: ""
    together: Callable[..., list[Problem]] = lambda law: []
    shows: str = ""
    category: Category = "robust"
    large: bool = False
    sampled: bool = False

    @property
    def name(self) -> str:
        """The function's name, as it stands in reports and ids."""
        return self.check.__name__

    @property
    def statement(self) -> str:
        """The claim: the first line of the function's docstring."""
        return (self.check.__doc__ or "").split("\n")[0]

    @property
    def code(self) -> str:
        """Python lines that show a counterexample, given `rule` and `problem`."""
        imports: list[str] = []
        call = f"{value_source(self.check, imports)}(rule, problem)  # raises what was seen"
        return self.shows or "\n".join([*imports, call])

    def skipped(self, rule: SelectionRule) -> str:
        """Why the property is not checked for the rule; empty where it is."""
        unclaimed = self.category == "claims" and self.name not in rule.claims
        return "not claimed" if unclaimed else self.reason_to_skip(rule)

    def __call__(self, rule: SelectionRule, problem: Problem) -> None:
        self.check(rule, problem)

    def outcome(
        self, status: Status = Status.PASSED, *, decides: bool = True, counterexample: Record | None = None, seconds: float = 0.0,
        **evidence: Any,
    ) -> Outcome[RuleEvidence]:  # fmt: skip
        """The outcome of the property for a rule. evidence: fields of `RuleEvidence`."""
        refutes = self.category in {"lossless", "floats", "arguments"}  # a rule that fails may not be used as it is
        return Outcome(
            check=self.name, status=status, claim=self.statement, evidence=RuleEvidence(category=self.category, **evidence),
            decides=decides and refutes, counterexample=counterexample, seconds=seconds,
        )  # fmt: skip


def without_torch(rule: SelectionRule) -> str:
    """Why a property about torch is skipped."""
    return "" if find_spec("torch") else "torch is not installed"


def rule_property(**about: Any) -> Callable[[Check], RuleProperty]:
    """Decorator that makes a property of a function (rule, problem). about: fields of `RuleProperty`."""
    return lambda check: RuleProperty(check, **about)


def possible_drafts(problem: Problem) -> Array:
    """The draft tuples that the law may draw for a single pair (p, q): int (m, k)."""
    drafts = np.concatenate(list(all_drafts(problem)))
    return drafts[problem.law.probability(problem.q, drafts) > 0]


def kept_problem(rule: SelectionRule, problem: Problem) -> Problem:
    """The problem with the law that the rule keeps in the place of p: the same, but for a rule that is lossy on purpose."""
    kept = target_kept(rule, problem.p, problem.q, problem.k)
    return problem if kept is problem.p else Problem(kept, problem.q, problem.k, problem.law)


def a_few(rows: Array, most: int) -> Array:
    """At most so many rows, evenly spread, the first and the last among them."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def as_floats(problem: Problem, dtype: Any = np.float64) -> Problem:
    """The problem in floats."""
    return Problem(problem.p.astype(dtype), problem.q.astype(dtype), problem.k, problem.law)
