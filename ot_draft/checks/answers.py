"""What came out of a property, and what the outcomes of a rule answer: is it lossless, also in floats, robust, true to its claims?

lossless: "yes" where every property of that category was tried and held; "no" where one of them has a counterexample,
a proper problem on which the rule gave an output that does not have the target's law; "not decided" else: where the rule
raised an error or gave floats for Fractions, where a property was skipped, or was not asked for. Beside "yes" stands with what
the rule was called while these properties held, and what it refuses in words. in_floats: the same of the properties of that
category, and "no" for a rule that is not lossless at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import reduce
from typing import Any, Literal, NamedTuple

from .properties import ALL, LOSSLESS
from .rule_property import Category
from .search import WRITES, Range, Tried
from .source import Counterexample

Status = Literal["passed", "failed", "skipped"]
Lossless = Literal["yes", "no", "not decided"]
Record = dict[str, Any]  # an outcome as plain data, of JSON's types only


@dataclass(frozen=True)
class PropertyOutcome:
    """One property, tried on a rule: `reason` says why it was skipped, or what the smallest counterexample showed.

    cases: number of problems tried, those on the way to the smallest counterexample included; by_k: the same by the number
    of drafts. counterexample: None also where the outcome comes from another process; problem: its p, q, k and law as texts,
    exact; code: Python that can be pasted and run; empty without one. statement: what is claimed. category: the question
    that it helps to answer, as in `RuleProperty`. decides: False where it failed because the rule raised an error, or gave
    floats that are right up to rounding: then it is not refuted. crash: that error, if it was one. refused, refusal: number
    of problems that the rule does not take, in its words. ranges: what it was called with, by the kind of array.
    interrupted: whether the rule was stopped in the middle of a call. rule: its name. expected_failure: why it must fail.
    """

    name: str
    status: Status
    reason: str = ""
    seconds: float = 0.0
    cases: int = 0
    counterexample: Counterexample | None = None
    problem: Record | None = None
    code: str = ""
    by_k: tuple[Tried, ...] = ()
    statement: str = ""
    category: Category = "robust"
    decides: bool = True
    crash: str = ""
    refused: int = 0
    refusal: str = ""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    interrupted: bool = False
    rule: str = ""
    expected_failure: str | None = None

    @classmethod
    def of(cls, record: Record) -> PropertyOutcome:
        """The outcome that a record describes."""
        known = {each.name: record[each.name] for each in fields(cls) if each.name in record}
        known |= {"name": record["property"], "problem": record["counterexample"], "counterexample": None}
        known["by_k"] = tuple(Tried(**each) for each in record["by_k"])
        known["ranges"] = {kind: Range(**each) for kind, each in record["ranges"].items()}
        return cls(**known)

    @property
    def record(self) -> Record:
        """All of it as plain data, for JSON and for the way from a pytest worker to its controller."""
        plain = asdict(replace(self, counterexample=None))
        plain |= {"property": plain.pop("name"), "counterexample": plain.pop("problem"), "verdict": self.verdict}
        return plain

    @property
    def refutes(self) -> bool:
        """Whether it shows that the rule is not lossless, not in floats, or writes into its arguments."""
        return self.category in {"lossless", "floats", "arguments"} and self.status == "failed" and self.decides

    @property
    def verdict(self) -> str:
        """The status; "expected" for a failure that was announced, "unexpected" for a pass where one was."""
        if self.expected_failure is None:
            return self.status
        return {"failed": "expected", "passed": "unexpected"}.get(self.status, self.status)

    @property
    def is_wrong(self) -> bool:
        """Whether the verdict is one that should not be."""
        return self.verdict in {"failed", "unexpected"}

    @property
    def heading(self) -> str:
        """What its problem shows."""
        shows = "problem on which the rule crashes," if self.crash else "counterexample to"
        return f"Smallest {shows} {self.name}"

    def __str__(self) -> str:
        return f"{self.name:<22} {self.status:<8} {self.cases:>6} cases {self.seconds:7.2f} s  {self.reason}".rstrip()


class Answer(NamedTuple):
    """One verdict. because: why it is no yes, or what a yes leaves out. tried: where a yes holds, as far as was tried."""

    verdict: Lossless
    because: str = ""
    tried: str = ""

    def __str__(self) -> str:
        tried, because = self.tried and f", {self.tried}", self.because and f" ({self.because})"
        return f"{self.verdict}{tried}{because}"


class Answers:
    """What the outcomes of one rule's properties say, in whatever order they come.

    law: whether it is lossless. floats: None where no property of floats was asked for. findings: what failed, and does not
    refute that the rule is lossless. claims: what the rule says of itself, and whether it held; None where that was skipped.
    crash: the error that the rule raised on a proper problem. overwritten: whether it writes into its arguments.
    """

    def __init__(self, outcomes: Iterable[PropertyOutcome]) -> None:
        order = {each.name: place for place, each in enumerate(ALL)}
        outcomes = sorted(outcomes, key=lambda each: order.get(each.name, len(order)))
        lossless, floats, arguments, self.robust, claims = (
            [each for each in outcomes if each.category == category]
            for category in ("lossless", "floats", "arguments", "robust", "claims")
        )
        failed = [each for each in (*floats, *arguments, *self.robust) if each.status == "failed"]
        self.law = _law(lossless)
        self.floats = _in_floats(floats, self.law) if floats else None
        self.findings = tuple(each.name for each in failed if not each.refutes)
        self.claims = {each.name: None if each.status == "skipped" else each.status == "passed" for each in claims}
        self.crash = next((each.crash for each in (*lossless, *floats) if each.crash), "")
        self.overwritten = any(each.refutes for each in arguments)

    @property
    def lossless(self) -> Lossless:
        """The verdict on the law."""
        return self.law.verdict

    @property
    def in_floats(self) -> Lossless | None:
        """The verdict in floats."""
        return self.floats and self.floats.verdict

    def lines(self) -> tuple[str, ...]:
        """Arguments that are overwritten, and a crash, where there are such; then one line a question."""
        words = {None: "was skipped", True: "holds", False: "does not hold"}
        lines = {
            "arguments": self.overwritten and f"overwritten (inputs_unchanged): {WRITES}",
            "crash": self.crash and f"the rule {self.crash}",
            "lossless": self.law,
            "in floats": self.floats,
            "robust": self._robust(),
            "claims": ", ".join(f"{name} {words[held]}" for name, held in self.claims.items()) or "none checked",
        }
        return tuple(f"{question}: {answer}" for question, answer in lines.items() if answer)

    @property
    def record(self) -> Record:
        """The answers as plain data."""
        floats = self.floats or Answer("not decided")
        return {
            "lossless": self.lossless,
            "because": self.law.because,
            "tried": self.law.tried,
            "in_floats": self.in_floats,
            "tried_in_floats": floats.tried,
            "crash": self.crash,
            "overwritten": self.overwritten,
            "findings": list(self.findings),
            "claims": self.claims,
        }

    @property
    def refuted(self) -> bool:
        """Whether one of the first lines says that the rule may not be used as it is."""
        return "no" in (self.lossless, self.in_floats) or self.overwritten

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.lossless == "no":
            return "There is a problem on which the output does not have the target's law."
        if self.overwritten:
            return "The rule writes into its arguments, so that what is computed from them afterwards is wrong."
        if self.in_floats == "no":
            return "In Fractions the output has the target's law; in floats it does not, beyond rounding."
        if self.lossless == "yes":
            return "On every proper problem that was tried, the output has exactly the target's law."
        if self.crash:
            return "The rule raised an error on a proper problem, or came to no end: that is no verdict."
        return "No problem was found on which it is wrong, but not everything that decides was looked at."

    def _robust(self) -> str:
        if self.findings:
            return f"{len(self.findings)} finding{'s' * (len(self.findings) > 1)} ({', '.join(self.findings)})"
        skipped = ", ".join(each.name for each in self.robust if each.status == "skipped")
        return ("yes" + (f" (skipped: {skipped})" if skipped else "")) if self.robust else "not asked"


def _law(outcomes: Sequence[PropertyOutcome]) -> Answer:
    if refuted := [each.name for each in outcomes if each.refutes]:
        return Answer("no", ", ".join(refuted))
    tried = {each.name for each in outcomes}
    open_questions = {
        "could not be looked at": [each.name for each in outcomes if each.status == "failed"],
        "skipped": [each.name for each in outcomes if each.status == "skipped"],
        "not asked": [each.name for each in LOSSLESS if each.name not in tried],
    }
    because = "; ".join(f"{why}: {', '.join(names)}" for why, names in open_questions.items() if names)
    return Answer("not decided", because) if because else Answer("yes", tried=_tried(outcomes, exact=True))


def _in_floats(outcomes: Sequence[PropertyOutcome], law: Answer) -> Answer:
    """What raised an error on one kind of array only is left out of a yes, and named."""
    if law.verdict == "no":
        return Answer("no", "not lossless")
    if refuted := [each.name for each in outcomes if each.refutes]:
        return Answer("no", ", ".join(refuted))
    left = ", ".join(each.name for each in outcomes if each.status != "passed")
    because = left and f"without {left}"
    if any(each.status == "passed" and each.name == "law_in_floats" for each in outcomes):
        return Answer("yes", because, _tried(outcomes, exact=False))
    return Answer("not decided", because)


def _tried(outcomes: Sequence[PropertyOutcome], exact: bool) -> str:
    """With what the rule was called while the properties held, kind by kind, and what it refused; empty where nothing is known."""
    kinds: dict[str, Range] = {}
    for each in outcomes:
        for kind, here in each.ranges.items() if each.status == "passed" else ():
            if (kind == "Fractions") == exact:
                kinds.setdefault(kind, Range()).add(here)
    common = reduce(Range.and_in, kinds.values()) if kinds else ""
    refused, of = sum(each.refused for each in outcomes), sum(each.cases for each in outcomes)
    refusal = next((each.refusal for each in outcomes if each.refusal), "")
    said = f"for {common}" + ("" if exact else f", in {', '.join(kinds)} alike") if kinds else ""
    return said + (f"; restricted: it refuses {refused} of {of} problems ({refusal})" if refused else "")
