"""What a statement is, and what came out when it was checked.

A module of this folder states and proves one result. It has STATEMENTS, one for every part that is checked by itself, and
check(statement, cases, jobs) -> Outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Statement:
    """One claim. holds(case, "") says whether it is true of a case; holds(case, error), with an error from `planted`, whether
    the claim with that error in it is: every error must come out false somewhere, so that the check is known to be able to fail.
    """

    name: str
    claim: str
    source: str
    method: str
    holds: Callable[[Any, str], bool]
    planted: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What came out: number of cases, those in which the claim is false, and those in which each planted error is."""

    statement: Statement
    cases: int
    seconds: float
    counterexamples: tuple[Any, ...] = ()
    caught: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """The claim holds in every case, and every planted error is found out."""
        return (
            self.cases > 0 and not self.counterexamples and all(self.caught[error] for error in self.statement.planted)
        )

    @property
    def verdict(self) -> str:
        """In words, with the first counterexample if there is one."""
        if self.counterexamples:
            return f"refuted in {len(self.counterexamples):,} of {self.cases:,} cases: {self.counterexamples[0]}"
        return f"verified on {self.cases:,} exact cases"

    @property
    def controls(self) -> str:
        """What became of every planted error, in words."""
        lines = []
        for error in self.statement.planted:
            false = len(self.caught[error])
            lines.append(f"{error}: " + (f"false in {false:,}" if false else "NOT FOUND OUT"))
        return "\n".join(lines)
