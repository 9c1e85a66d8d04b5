"""The answers to what was asked, before any table: is the rule lossless, also in floats, is it robust, is what it claims true?

lossless: "yes" where every property of that category was tried and held; "no" where one of them has a counterexample,
a proper problem on which the rule gave an output that does not have the target's law; "not decided" else: where the rule
raised an error or gave floats for Fractions, where a property was skipped, or was not asked for. Beside "yes" stands with what
the rule was called while these properties held, and what it refuses in words. in_floats: the same of the properties of that
category, and "no" for a rule that is not lossless at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from .properties import ALL, LOSSLESS
from .rule_property import Category
from .search import Range

Status = Literal["passed", "failed", "skipped"]
Lossless = Literal["yes", "no", "not decided"]
Record = dict[str, Any]  # an outcome as plain data, of JSON's types only


class Result(NamedTuple):
    """Of one property: decides is False where a failure does not refute it, see `Counterexample`.

    crash: the error that the rule raised. refused, refusal: problems that it does not take, of how many, in its words.
    ranges: what it was called with, by the kind of array.
    """

    name: str
    category: Category
    status: Status
    decides: bool
    crash: str = ""
    refused: tuple[int, int] = (0, 0)
    refusal: str = ""
    ranges: Mapping[str, Range] = {}


@dataclass(frozen=True)
class Answers:
    """For one rule. because: why it is not lossless, or not decided. findings: properties of robustness that failed.

    tried: where it is lossless, as far as was tried, in a text. in_floats: None where no property of floats was asked for.
    crash: the error that the rule raised on a proper problem. overwritten: whether it writes into its arguments.

    robust_skipped, robust_asked: names of those that were skipped, number of those that were tried or skipped.
    claims: what the rule says of itself, and whether it held; None where that was skipped.
    """

    lossless: Lossless
    because: str
    findings: tuple[str, ...]
    robust_skipped: tuple[str, ...]
    robust_asked: int
    claims: tuple[tuple[str, bool | None], ...]
    tried: str = ""
    in_floats: Lossless | None = None
    because_in_floats: str = ""
    tried_in_floats: str = ""
    crash: str = ""
    overwritten: bool = False

    def lines(self) -> tuple[str, ...]:
        """A crash, and arguments that are overwritten, where there are such; then one line a question."""
        asked = self.in_floats is not None
        return (
            *([f"crash: the rule {self.crash}"] if self.crash else []),
            *(["arguments: overwritten (inputs_unchanged)"] if self.overwritten else []),
            f"lossless: {_said(self.lossless, self.tried, self.because)}",
            *(
                [f"in floats: {_said(str(self.in_floats), self.tried_in_floats, self.because_in_floats)}"]
                if asked
                else []
            ),
            f"robust: {self._robust()}",
            "claims: " + (", ".join(_claim(*each) for each in self.claims) or "none checked"),
        )

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
        if not self.robust_asked:
            return "not asked"
        return "yes" + (f" (skipped: {', '.join(self.robust_skipped)})" if self.robust_skipped else "")


def _said(verdict: str, tried: str, because: str) -> str:
    return verdict + (f", {tried}" if tried else "") + (f" ({because})" if because else "")


def _claim(name: str, held: bool | None) -> str:
    return f"{name} {'was skipped' if held is None else 'holds' if held else 'does not hold'}"


def answers(results: Iterable[Result]) -> Answers:
    """What the results of one rule's properties say, in whatever order they come."""
    order = {each.name: place for place, each in enumerate(ALL)}
    results = sorted(results, key=lambda each: order.get(each.name, len(order)))
    lossless, floats, arguments, robust, claims = (
        [each for each in results if each.category == category]
        for category in ("lossless", "floats", "arguments", "robust", "claims")
    )
    verdict, because = _verdict(lossless)
    in_floats, because_in_floats = _verdict_in_floats(floats, verdict)
    return Answers(
        verdict,
        because,
        findings=tuple(
            each.name for each in (*floats, *arguments, *robust) if each.status == "failed" and not refutes(each)
        ),
        robust_skipped=tuple(each.name for each in robust if each.status == "skipped"),
        robust_asked=len(robust),
        claims=tuple((each.name, None if each.status == "skipped" else each.status == "passed") for each in claims),
        tried=_tried(lossless, exact=True) if verdict == "yes" else "",
        in_floats=in_floats,
        because_in_floats=because_in_floats,
        tried_in_floats=_tried(floats, exact=False) if in_floats == "yes" else "",
        crash=next((each.crash for each in (*lossless, *floats) if each.crash), ""),
        overwritten=any(map(refutes, arguments)),
    )


def refutes(result: Result) -> bool:
    """Whether a property of the first lines has a counterexample."""
    return result.category in {"lossless", "floats", "arguments"} and result.status == "failed" and result.decides


def _tried(results: list[Result], exact: bool) -> str:
    """With what the rule was called while the properties held, kind by kind, and what it refused; empty where nothing is known."""
    ranges: dict[str, Range] = {}
    for each in results:
        for kind, here in each.ranges.items() if each.status == "passed" else ():
            if (kind == "Fractions") == exact:
                ranges.setdefault(kind, Range()).add(here)
    merged = Range()
    for here in ranges.values():
        merged.add(here)
    refused, of = (sum(each.refused[i] for each in results) for i in (0, 1))
    refusal = next((each.refusal for each in results if each.refusal), "")
    said = f"for {merged}" + ("" if exact else f": {', '.join(ranges)}") if ranges else ""
    return said + (f"; restricted: it refuses {refused} of {of} problems ({refusal})" if refused else "")


def _verdict_in_floats(results: list[Result], lossless: Lossless) -> tuple[Lossless | None, str]:
    """None where nothing was asked. What raised an error on one kind of array only is left out of a yes, and named."""
    if not results:
        return None, ""
    if lossless == "no":
        return "no", "not lossless"
    if refuted := [each.name for each in results if refutes(each)]:
        return "no", ", ".join(refuted)
    held = any(each.status == "passed" and each.name == "law_in_floats" for each in results)
    left = ", ".join(each.name for each in results if each.status != "passed")
    return "yes" if held else "not decided", f"without {left}" if left else ""


def _verdict(results: list[Result]) -> tuple[Lossless, str]:
    if refuted := [each.name for each in results if refutes(each)]:
        return "no", ", ".join(refuted)
    tried = {each.name for each in results}
    open_questions = {
        "could not be looked at": [each.name for each in results if each.status == "failed"],
        "skipped": [each.name for each in results if each.status == "skipped"],
        "not asked": [each.name for each in LOSSLESS if each.name not in tried],
    }
    because = "; ".join(f"{why}: {', '.join(names)}" for why, names in open_questions.items() if names)
    return ("not decided", because) if because else ("yes", "")
