"""What a property raises when a rule breaks it, and the Python that shows it again."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..arrays import Array
from ..problem import Problem

EVALUATE = 'result = ot.evaluate(rule, problem)\nprint("output:", *result.output)\nprint("target:", *problem.p)'


class Counterexample(AssertionError):
    """A problem on which a rule breaks a property.

    problem: the problem, in Fractions. seen: what came out. shows: Python lines that show it, given `rule` and `problem`;
    empty for the lines that stand with the property.
    """

    def __init__(self, problem: Problem, seen: str, shows: str = "") -> None:
        super().__init__(seen)
        self.problem = problem
        self.seen = seen
        self.shows = shows

    def code(self, rule: Any) -> str:
        """Python that can be pasted: builds the rule and the problem, and shows what is wrong."""
        imports, made = rule_source(rule)
        body = f"rule = {made}\nproblem = {problem_source(self.problem)}\n{self.shows or EVALUATE}\n"
        seen = "\n".join(f"# {line}" for line in self.seen.splitlines())
        needed = {"import ot_draft as ot", *imports}
        needed |= {f"import {name}" for name in ("torch",) if f"{name}." in body}
        needed |= {"import numpy as np"} if "np." in body else set()
        return (
            "from fractions import Fraction as F\n\n"
            + "\n".join(sorted(needed, key=lambda line: (line.startswith("from"), line)))
            + f"\n\n{body}{seen}\n"
        )


def drafts_shown(drafts: Array, lines: str = "") -> str:
    """Python lines that run the rule on given drafts and print what it decides."""
    start = f"drafts = np.array({np.asarray(drafts).tolist()})\n"
    run = "selection = rule(problem.p, problem.q, drafts)\n"
    return start + (lines or run) + 'print("accept:", selection.accept, "residual:", selection.residual)'


def numbers(values: Array) -> str:
    """Masses in a text: 1/2, 1/3."""
    return "(" + ", ".join(str(value) for value in np.asarray(values).ravel().tolist()) + ")"


def problem_source(problem: Problem) -> str:
    """The problem as an expression."""
    p, q = _masses_source(problem.p), _masses_source(problem.q)
    return f"ot.Problem({p}, {q}, k={problem.k}, law={value_source(problem.law, [])})"


def _masses_source(masses: Array) -> str:
    if masses.size == 0:
        return f"np.zeros({masses.shape})"
    if masses.ndim > 1:
        return "[" + ", ".join(_masses_source(row) for row in masses) + "]"
    return "[" + ", ".join(value_source(mass, []) for mass in masses.tolist()) + "]"


def rule_source(rule: Any) -> tuple[list[str], str]:
    """Imports and an expression that make the rule; a rule that is no dataclass is taken to be made without arguments."""
    imports: list[str] = []
    return imports, value_source(rule, imports)


def value_source(value: Any, imports: list[str]) -> str:
    """A value as an expression; the imports that it needs are added to the list."""
    if isinstance(value, Fraction):
        return f"F({value.numerator}, {value.denominator})" if value.denominator > 1 else f"F({value})"
    if isinstance(value, str | int | float | bool | None):
        return repr(value)
    if callable(value) and hasattr(value, "__qualname__"):
        return _named(value, imports)
    given = [f for f in fields(value) if f.init] if is_dataclass(value) else []
    arguments = ", ".join(f"{f.name}={value_source(getattr(value, f.name), imports)}" for f in given)
    return f"{_named(type(value), imports)}({arguments})"


def _named(value: Any, imports: list[str]) -> str:
    module, name = value.__module__, value.__qualname__
    if module.startswith("ot_draft.laws"):
        return f"ot.{name}"
    if module.startswith("ot_draft.rules") and isinstance(value, type):
        return f"ot.rules.{name}"
    imports.append(f"from {module} import {name.split('.')[0]}")
    return str(name)
