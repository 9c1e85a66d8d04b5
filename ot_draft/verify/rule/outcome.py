"""What came out of a property: one dataclass from the search to the page, whose fields are its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from .recording import Range
from .rule_property import Category, RuleProperty

Record = dict[str, Any]  # an outcome as plain data, of JSON's types only


class Status(StrEnum):
    """Of a property, or of a check of a sampler."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class RecordVerdict(StrEnum):
    """A status beside what was announced: a failure that was is expected, a pass where one was is not."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    EXPECTED = "expected"
    UNEXPECTED = "unexpected"


ANNOUNCED = {Status.FAILED: RecordVerdict.EXPECTED, Status.PASSED: RecordVerdict.UNEXPECTED}


def _plain(fields: Iterable[tuple[str, Any]]) -> Record:
    """Fields with texts in the place of enums: what pytest-xdist can carry."""
    return {name: value.value if isinstance(value, StrEnum) else value for name, value in fields}


@dataclass
class Tried:
    """The problems tried with k drafts: their number, time spent on them, FAILED where the property failed on one."""

    k: int
    cases: int = 0
    seconds: float = 0.0
    status: Status = Status.PASSED


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One property, tried on a rule: `reason` says why it was skipped, or what the smallest counterexample showed.

    cases: number of problems tried, those on the way to the smallest counterexample included; by_k: the same by the number
    of drafts. counterexample: p, q, k and law of that problem as texts, exact; code: Python that can be pasted and run; empty
    without one. statement: what is claimed. category: the question that it helps to answer, as in `RuleProperty`. decides: False
    where it failed because the rule raised an error, or gave floats that are right up to rounding: then it is not refuted.
    crash: that error, if it was one. refused, refusal: number of problems that the rule does not take, in its words. ranges: what
    it was called with where it held, by the kind of array. interrupted: whether the rule was stopped in the middle of a call.
    rule: its name. expected_failure: why it must fail. property: the property's name.
    """

    status: Status = Status.PASSED
    reason: str = ""
    seconds: float = 0.0
    cases: int = 0
    counterexample: Record | None = None
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
    property: str

    @classmethod
    def about(cls, claim: RuleProperty, rule: str, **known: Any) -> Outcome:
        """The outcome of a property, for a rule of this name. known: the other fields."""
        return cls(property=claim.name, statement=claim.statement, category=claim.category, rule=rule, **known)

    @classmethod
    def of(cls, record: Record) -> Outcome:
        """The outcome that a record describes."""
        known = {name: value for name, value in record.items() if name != "verdict"}
        known["status"] = Status(record["status"])
        known["by_k"] = tuple(Tried(**{**each, "status": Status(each["status"])}) for each in record["by_k"])
        known["ranges"] = {kind: Range(**each) for kind, each in record["ranges"].items()}
        return cls(**known)

    @cached_property
    def record(self) -> Record:
        """The fields as plain data, and the verdict: for JSON, and for the way from a pytest worker to its controller."""
        return {**asdict(self, dict_factory=_plain), "verdict": self.verdict.value}

    @cached_property
    def refutes(self) -> bool:
        """Whether it shows that the rule is not lossless, not in floats, or writes into its arguments."""
        return self.category in {"lossless", "floats", "arguments"} and self.status == Status.FAILED and self.decides

    @cached_property
    def verdict(self) -> RecordVerdict:
        """The status, and whether it was announced."""
        plain = RecordVerdict(self.status)
        return plain if self.expected_failure is None else ANNOUNCED.get(self.status, plain)

    @cached_property
    def is_wrong(self) -> bool:
        """Whether the verdict is one that should not be."""
        return self.verdict in {RecordVerdict.FAILED, RecordVerdict.UNEXPECTED}

    @cached_property
    def heading(self) -> str:
        """Heading of its problem: what that shows."""
        shows = "problem on which the rule crashes," if self.crash else "counterexample to"
        return f"Smallest {shows} {self.property}"

    def __str__(self) -> str:
        return (
            f"{self.property:<22} {self.status:<8} {self.cases:>6} cases {self.seconds:7.2f} s  {self.reason}".rstrip()
        )
