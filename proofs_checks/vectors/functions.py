"""Functions for the readers: the right verifier, and one with an injected fault."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .chance import Generated, Recorded
from .faults import FAULTS
from .faults import right as right_program
from .rules import GUMBEL, Case, Outcome, checked

Function = Callable[[str, dict[str, Any], Any], list[int]]


def right(rule: str, case: dict[str, Any], numbers: Any) -> list[int]:
    """Return the tokens that the rule emits. Raises InvalidDistribution for a row that is not a distribution."""
    return list(_call(right_program(rule, _draws(case)), rule, checked(_case(case)), numbers))


def with_fault(fault: str) -> Function:
    """Return the function with a fault in the rules that the fault concerns."""

    def function(rule: str, case: dict[str, Any], numbers: Any) -> list[int]:
        each = FAULTS[fault]
        if rule not in each.programs or each.drafts != _draws(case):
            return right(rule, case, numbers)
        return list(_call(each.programs[rule], rule, _case(case), numbers))

    return function


def _draws(case: dict[str, Any]) -> bool:
    return not case["drafts"] and bool(case["parents"])


def _case(case: dict[str, Any]) -> Case:
    q = None if case["q"] is None else tuple(case["q"])
    return Case(tuple(case["p"]), q, tuple(case["drafts"]), tuple(case["parents"]))


def _call(program: Callable[[Case, Any], Outcome], rule: str, case: Case, numbers: Any) -> Outcome:
    if isinstance(numbers, int):
        return program(case, Generated(random.Random(numbers)))
    return program(case, Recorded(numbers["uniforms"], numbers["noise"], rule in GUMBEL))
