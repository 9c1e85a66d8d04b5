"""A statement, and the outcome of its check.

A module of this folder states and proves one result. It has STATEMENTS, one for every part that is checked by itself, and
check(statement, cases, jobs) -> StatementOutcome; `checking.check` serves all kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Proof:
    """Result of a prover or a search. said: description. count: number of decided parts.

    counterexample: a case in which the claim is false, confirmed in exact arithmetic. undecided: what the prover gave up on,
    which counts neither as a proof nor as a counterexample. raised: the error that the prover met.
    """

    said: str
    count: int
    counterexample: str = ""
    undecided: str = ""
    kind: Literal["proved", "verified"] = "proved"
    raised: str = ""


@dataclass(frozen=True)
class Statement:
    """One claim, with its check and the controls of the check.

    holds(case, "") says whether it is true of a case; holds(case, error), with an error from `planted`, whether the claim with
    that error in it is: every error must come out false somewhere, so that the check is known to be able to fail.
    prove(error), instead of `holds`, decides the claim for whole sizes at a time.

    expected "refuted": the claim is a plausible or published one, and false. The row passes when a counterexample is found,
    and each entry of `planted` is then not an error but a repair: a claim near by that must come out true on all cases, so
    that the check is known not to refute whatever it is given.

    first: cases to look at before the drawn ones. draw: makes the case of a number (None: random problems). limit: the most
    cases drawn, whatever the command asks for; 0 looks at `first` only. show: what to say about a counterexample.
    """

    name: str
    claim: str
    source: str
    method: str
    holds: Callable[[Any, str], bool] | None = None
    planted: tuple[str, ...] = ()
    prove: Callable[[str], Proof] | None = None
    expected: Literal["holds", "refuted"] = "holds"
    first: tuple[Any, ...] = ()
    draw: Callable[[int], Any] | None = None
    limit: int | None = None
    show: Callable[[Any], str] = str

    @property
    def text(self) -> str:
        """The claim as tables show it: a claim known to be false is called so."""
        return f"False: {self.claim}" if self.expected == "refuted" else self.claim


@dataclass(frozen=True)
class StatementOutcome:
    """Outcome: number of cases, those in which the claim is false, and those in which each injected error is detected.

    said: what a prover said instead of a number of cases. raised: an error that the check met; it decides nothing, and fails the row.
    """

    statement: Statement
    cases: int
    seconds: float
    counterexamples: tuple[Any, ...] = ()
    caught: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    said: str = ""
    how: Literal["proved", "verified", "proved (Coq)", "computed (Coq)", "not checked here"] = "verified"
    raised: str = ""

    @property
    def passed(self) -> bool:
        """Whether the claim and every control had the expected result in every case."""
        if self.raised or not self.cases or not self.statement.planted:
            return False
        false = [bool(self.caught[error]) for error in self.statement.planted]
        if self.statement.expected == "refuted":
            return bool(self.counterexamples) and not any(false)
        return not self.counterexamples and all(false)

    @property
    def kind(self) -> str:
        """proved, proved (Coq), computed (Coq), verified, refuted (as expected), not checked here, or failed."""
        if self.how == "not checked here":
            return self.how
        if not self.passed:
            return "failed"
        return "refuted" if self.statement.expected == "refuted" else self.how

    @property
    def verdict(self) -> str:
        """Description of the outcome, with the simplest counterexample if there is one."""
        if self.raised:
            return f"not decided: {self.raised}"
        if self.counterexamples:
            simplest = min(self.counterexamples, key=lambda case: getattr(case, "size", ()))
            shown = self.statement.show(simplest)
            if self.cases == 1 or isinstance(simplest, str):
                return f"refuted by {shown}"
            return f"refuted in {len(self.counterexamples):,} of {self.cases:,} cases: {shown}"
        found = self.said or f"verified on {self.cases:,} exact cases"
        return f"no counterexample: {found}" if self.statement.expected == "refuted" else found

    @property
    def controls(self) -> str:
        """Description of the results of all controls."""
        if self.how == "not checked here":
            return ""
        return "\n".join(f"{error}: {self.control(error)}" for error in self.statement.planted)

    def control(self, error: str) -> str:
        """Return the result of one control: an injected error must be detected, a repaired claim must hold."""
        if self.how == "not checked here":
            return self.how
        false = self.caught[error]
        if self.statement.expected == "refuted":
            return f"FALSE in {len(false):,}" if false else "holds"
        if not false:
            return "NOT FOUND OUT"
        return f"false: {false[0]}" if isinstance(false[0], str) else f"false in {len(false):,}"
