"""What a property raises when a rule breaks it, and the Python that shows it again."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import Array
from ...problem import Problem
from .rule_source import RuleSource, masses_source, rule_source, value_source

EVALUATE = 'result = ot.evaluate(rule, problem)\nprint("output:", *result.output)\nprint("target:", *problem.p)'


class Counterexample(AssertionError):
    """A problem on which a rule breaks a property.

    problem: the problem, in Fractions. seen: what came out. shows: Python lines that show it, given `rule` and `problem`;
    empty for the lines that stand with the property. decides: whether it refutes the property; False where the rule
    raised an error, or gave floats that are right up to rounding, so that the property could not be looked at. crash: whether
    it shows an error that the rule raised.
    """

    def __init__(self, problem: Problem, seen: str, shows: str = "", decides: bool = True, crash: bool = False) -> None:
        super().__init__(seen)
        self.problem = problem
        self.seen = seen
        self.shows = shows
        self.decides = decides
        self.crash = crash

    def code(self, rule: Any, source: RuleSource | None = None) -> str:
        """Python that can be pasted and run: makes the rule and the problem, and shows what is wrong.

        source: what makes the rule; without it, it is read off the rule.
        """
        source = source or rule_source(rule)
        imports: list[str] = []
        problem = problem_source(self.problem, imports)
        body = f"rule = {source.expression}\nproblem = {problem}\n{self.shows or EVALUATE}\n"
        seen = "".join(f"# {line}\n" for line in self.seen.splitlines())
        before = [*source.imports, *imports]
        plain = {line for line in before if line.startswith("import ")} | {"from fractions import Fraction as F"}
        others = {f"import {name}" for name in ("torch",) if f"{name}." in body} | {"import ot_draft as ot"}
        others |= {"import numpy as np"} if "np." in body else set()
        own = [line for line in dict.fromkeys(before) if line not in plain]
        blocks = (sorted(plain, key=lambda line: line.startswith("from")), sorted(others), own, [body + seen])
        return "\n\n".join("\n".join(block) for block in blocks if block)


def drafts_shown(drafts: Array, lines: str = "") -> str:
    """Python lines that run the rule on given drafts and print what it decides."""
    start = f"drafts = np.array({np.asarray(drafts).tolist()})\n"
    run = "selection = rule(problem.p, problem.q, drafts)\n"
    return start + (lines or run) + 'print("accept:", selection.accept, "residual:", selection.residual)'


def problem_source(problem: Problem, imports: list[str]) -> str:
    """The problem as an expression; the lines that its law needs are added to imports."""
    p, q = masses_source(problem.p), masses_source(problem.q)
    return f"ot.Problem({p}, {q}, k={problem.k}, law={value_source(problem.law, imports)})"
