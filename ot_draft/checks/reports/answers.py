"""The answers to what was asked, before any table: is the rule lossless, is it robust, is what it claims true?

lossless: "yes" where every property of that category was tried and held; "no" where one of them has a counterexample,
a proper problem on which the rule gave an output that does not have the target's law; "not decided" else: where the rule
raised an error or gave floats for Fractions, where a property was skipped, or was not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..rules.properties import ALL, LOSSLESS
from ..rules.rule_property import Category

Status = Literal["passed", "failed", "skipped"]
Lossless = Literal["yes", "no", "not decided"]


class Result(NamedTuple):
    """Of one property: decides is False where a failure does not refute it, see `Counterexample`."""

    name: str
    category: Category
    status: Status
    decides: bool


@dataclass(frozen=True)
class Answers:
    """For one rule. because: why it is not lossless, or not decided. findings: properties of robustness that failed.

    robust_skipped, robust_asked: names of those that were skipped, number of those that were tried or skipped.
    claims: what the rule says of itself, and whether it held; None where that was skipped.
    """

    lossless: Lossless
    because: str
    findings: tuple[str, ...]
    robust_skipped: tuple[str, ...]
    robust_asked: int
    claims: tuple[tuple[str, bool | None], ...]

    def lines(self) -> tuple[str, str, str]:
        """One line a question."""
        return (
            f"lossless: {self.lossless}" + (f" ({self.because})" if self.because else ""),
            f"robust: {self._robust()}",
            "claims: " + (", ".join(_claim(*each) for each in self.claims) or "none checked"),
        )

    def _robust(self) -> str:
        if self.findings:
            return f"{len(self.findings)} finding{'s' * (len(self.findings) > 1)} ({', '.join(self.findings)})"
        if not self.robust_asked:
            return "not asked"
        return "yes" + (f" (skipped: {', '.join(self.robust_skipped)})" if self.robust_skipped else "")


def _claim(name: str, held: bool | None) -> str:
    return f"{name} {'was skipped' if held is None else 'holds' if held else 'does not hold'}"


def answers(results: Iterable[Result]) -> Answers:
    """What the results of one rule's properties say, in whatever order they come."""
    order = {each.name: place for place, each in enumerate(ALL)}
    results = sorted(results, key=lambda each: order.get(each.name, len(order)))
    lossless, robust, claims = (
        [each for each in results if each.category == category] for category in ("lossless", "robust", "claims")
    )
    verdict, because = _verdict(lossless)
    return Answers(
        verdict,
        because,
        findings=tuple(each.name for each in robust if each.status == "failed"),
        robust_skipped=tuple(each.name for each in robust if each.status == "skipped"),
        robust_asked=len(robust),
        claims=tuple((each.name, None if each.status == "skipped" else each.status == "passed") for each in claims),
    )


def _verdict(results: list[Result]) -> tuple[Lossless, str]:
    refuted = [each.name for each in results if each.status == "failed" and each.decides]
    if refuted:
        return "no", ", ".join(refuted)
    tried = {each.name for each in results}
    open_questions = {
        "could not be looked at": [each.name for each in results if each.status == "failed"],
        "skipped": [each.name for each in results if each.status == "skipped"],
        "not asked": [each.name for each in LOSSLESS if each.name not in tried],
    }
    because = "; ".join(f"{why}: {', '.join(names)}" for why, names in open_questions.items() if names)
    return ("not decided", because) if because else ("yes", "")
