"""A property: a function (rule, problem) that raises a Counterexample, and the problems on which it is checked."""

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

    check: function that raises a Counterexample; another error decides nothing. cases: function from the draft law to the strategy of
    the problems, or to a list of problems, small ones first, that are all tried. most: number of cases above which more add nothing.
    together: function from the draft law to problems that are always tried in addition to a strategy: they combine the largest sizes.
    reason_to_skip: function that returns why the property does not apply to a rule, empty if it does. shows: Python code that shows a
    counterexample, given `rule` and `problem`; by default a call of the property. category: the question that the property helps to
    answer. large: whether the problems have an engine's sizes: four times as many are tried, the smallest first, and none that is at
    least as large as one that took long. sampled: whether drafts are sampled instead of enumerated.

    Questions: "lossless": is the output distribution the target on every proper problem? "floats": is it the target in floats, up to
    rounding? "arguments": are p, q and drafts unchanged? "robust": is the rule correct on problems that are not proper, and for all
    array types, batches and token ids? "claims": are the claims of the rule true? A claim is checked only if `claims` names it.
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
        """Name of the function, for reports and test ids."""
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
        """Why the property is not checked for the rule; empty if it is checked."""
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
    """The draft tuples of positive probability for a single pair (p, q): int (m, k)."""
    drafts = np.concatenate(list(all_drafts(problem)))
    return drafts[problem.law.probability(problem.q, drafts) > 0]


def kept_problem(rule: SelectionRule, problem: Problem) -> Problem:
    """The problem with the target that the rule keeps: p, or another distribution for a rule that is lossy by design."""
    kept = target_kept(rule, problem.p, problem.q, problem.k)
    return problem if kept is problem.p else Problem(kept, problem.q, problem.k, problem.law)


def a_few(rows: Array, most: int) -> Array:
    """At most `most` rows, evenly spaced, including the first and the last."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def as_floats(problem: Problem, dtype: Any = np.float64) -> Problem:
    """The problem in floats."""
    return Problem(problem.p.astype(dtype), problem.q.astype(dtype), problem.k, problem.law)
