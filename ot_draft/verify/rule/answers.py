"""The answers that the outcomes of a rule give: is it lossless, also in floats, is it robust, are its claims true?

lossless: "yes" if every property of that category was tried and held; "no" if one of them has a counterexample, a proper problem
on which the output distribution is not the target; "not decided" otherwise: the rule raised an error or returned floats for
Fractions, or a property was skipped or not asked for. A "yes" states the arguments with which these properties held, and the problems
that the rule declines. in_floats: the same for the properties of that category, and "no" for a rule that is not lossless.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import reduce
from typing import NamedTuple

from ..outcome import Outcome, Record, RuleEvidence, Status
from ..ranges import Range
from .properties import ALL, of_category
from .recording import NO_DRAFTS, WRITES

RuleOutcome = Outcome[RuleEvidence]


class Lossless(StrEnum):
    """Whether a rule is lossless."""

    YES = "yes"
    NO = "no"
    NOT_DECIDED = "not decided"


class Conclusion(NamedTuple):
    """One verdict. because: why it is not "yes", or what a "yes" omits. tried, restricted: ranges and limits of a "yes"."""

    verdict: Lossless
    because: str = ""
    tried: tuple[str, ...] = ()
    restricted: str = ""

    def __str__(self) -> str:
        """A short line; `tried` is a list below it."""
        tried = ", on all problems tried" if self.tried else ""
        restricted, because = self.restricted and f"; {self.restricted}", self.because and f" ({self.because})"
        return f"{self.verdict}{tried}{restricted}{because}"

    @property
    def record(self) -> str:
        """Ranges that were tried and restrictions, as one string."""
        return "; ".join([*self.tried, *([self.restricted] if self.restricted else [])])


class Answers:
    """The answers that the outcomes of one rule's properties give, in whatever order they come.

    law: whether it is lossless. floats: None where no property of floats was asked for. findings: what failed, and does not
    refute that the rule is lossless. claims: what the rule says of itself, and whether it held; None where that was skipped.
    crash: the error that the rule raised on a proper problem. overwritten: whether it writes into its arguments.
    largest_bias: the largest total variation distance between output and target, None if no property that refutes compared them.
    exact_bias: whether it was found in Fractions.
    """

    def __init__(self, outcomes: Iterable[RuleOutcome]) -> None:
        order = {each.name: place for place, each in enumerate(ALL)}
        outcomes = sorted(outcomes, key=lambda each: order.get(each.check, len(order)))
        lossless, floats, arguments, self.robust, claims = (
            [each for each in outcomes if each.evidence.category == category]
            for category in ("lossless", "floats", "arguments", "robust", "claims")
        )
        failed = [each for each in (*floats, *arguments, *self.robust) if each.status == Status.FAILED]
        self.law = _law(lossless)
        self.floats = _in_floats(floats, self.law) if floats else None
        self.findings = tuple(each.check for each in failed if not each.refutes)
        self.claims = {
            each.check: None if each.status == Status.SKIPPED else each.status == Status.PASSED for each in claims
        }
        self.crash = next((each.evidence.crash for each in (*lossless, *floats) if each.evidence.crash), "")
        self.overwritten = any(each.refutes for each in arguments) or any(
            (each.counterexample or {}).get("overwrites") for each in outcomes
        )
        wrong = [each.counterexample for each in lossless if each.refutes and each.counterexample]
        distances = [
            each["largest_total_variation"] for each in wrong if each.get("largest_total_variation") is not None
        ]
        self.largest_bias: float | None = max(distances, default=None)
        self.exact_bias = all(each.get("total_variation_exact") for each in wrong)

    @property
    def lossless(self) -> Lossless:
        """Whether the rule is lossless."""
        return self.law.verdict

    @property
    def in_floats(self) -> Lossless | None:
        """The verdict in floats."""
        return self.floats and self.floats.verdict

    def lines(self) -> tuple[str, ...]:
        """Overwritten arguments and a crash, if any; then one line per question."""
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

    def tried_lines(self) -> tuple[str, ...]:
        """Lines with the ranges of the verdicts: a heading, and one line per kind of array or batch; empty without a yes."""
        found: list[str] = []
        for question, conclusion in {"lossless": self.law, "in floats": self.floats}.items():
            if conclusion is not None and conclusion.tried:
                found += [f"tried for {question}:", *(f"  {each}" for each in conclusion.tried)]
        return tuple(found)

    @property
    def record(self) -> Record:
        """The answers as plain data."""
        floats = self.floats or Conclusion(Lossless.NOT_DECIDED)
        return {
            "lossless": self.lossless,
            "because": self.law.because,
            "tried": self.law.record,
            "largest_bias": self.largest_bias,
            "in_floats": self.in_floats,
            "tried_in_floats": floats.record,
            "crash": self.crash,
            "overwritten": self.overwritten,
            "findings": list(self.findings),
            "claims": self.claims,
        }

    @property
    def refuted(self) -> bool:
        """Whether one of the first lines says that the rule may not be used as it is."""
        return Lossless.NO in (self.lossless, self.in_floats) or self.overwritten

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.overwritten:
            return "The rule writes into its arguments, so that everything computed from them afterwards is wrong. Correct this first."
        if self.lossless == Lossless.NO:
            wrong = "There is a problem on which the output distribution is not the target"
            if self.largest_bias is None:
                return f"{wrong}."
            largest = f"The largest total variation distance among the problems tried is {self.largest_bias:.3g}"
            return f"{wrong}. {largest}{', in exact arithmetic: a bias, not rounding' * self.exact_bias}."
        if self.in_floats == Lossless.NO:
            exact = "is the target" if self.lossless == Lossless.YES else "was not decided"
            return f"In Fractions the output distribution {exact}; in floats it is not the target, beyond rounding."
        if self.lossless == Lossless.YES:
            return "On every proper problem that was tried, the output distribution is exactly the target."
        if self.crash:
            return "The rule raised an error on a proper problem, or did not end. Correct this first."
        return "No counterexample was found, but not every deciding property was tested."

    def _robust(self) -> str:
        if self.findings:
            return f"{len(self.findings)} finding{'s' * (len(self.findings) > 1)} ({', '.join(self.findings)})"
        if not self.robust:
            return "not asked"
        skipped = ", ".join(each.check for each in self.robust if each.status == Status.SKIPPED)
        refusals = [each.evidence.refusal for each in self.robust]
        no_drafts = next((each for each in refusals if each.startswith(NO_DRAFTS)), "")
        limits = "; ".join(filter(None, (skipped and f"skipped: {skipped}", no_drafts)))
        said = "yes" if any(each.status == Status.PASSED for each in self.robust) else "not decided"
        return f"{said} ({limits})" if limits else said


def _law(outcomes: Sequence[RuleOutcome]) -> Conclusion:
    if refuted := [each for each in outcomes if each.refutes]:
        names = ", ".join(each.check for each in refuted)
        overwrites = all((each.counterexample or {}).get("overwrites") for each in refuted)
        return Conclusion(Lossless.NO, f"it overwrites its arguments: {names}" if overwrites else names)
    tried = {each.check for each in outcomes}
    open_questions = {
        "no result": [each.check for each in outcomes if each.status == Status.FAILED],
        # A rule that declines absent drafts is restricted to draft tuples without them.
        "skipped": [
            each.check
            for each in outcomes
            if each.status == Status.SKIPPED and not (each.check == "padded_drafts" and each.evidence.refused)
        ],
        "not asked": [each.name for each in of_category("lossless") if each.name not in tried],
    }
    if outcomes and all(each.status == Status.SKIPPED and each.evidence.refused for each in outcomes):
        return Conclusion(Lossless.NOT_DECIDED, outcomes[0].evidence.reason)
    because = "; ".join(f"{why}: {', '.join(names)}" for why, names in open_questions.items() if names)
    return Conclusion(Lossless.NOT_DECIDED, because) if because else Conclusion(Lossless.YES, "", *_tried(outcomes))


def _in_floats(outcomes: Sequence[RuleOutcome], law: Conclusion) -> Conclusion:
    """The answer for floats. A "yes" omits and names the properties that did not pass, such as those of one kind of array."""
    if law.verdict == Lossless.NO:
        return Conclusion(Lossless.NO, "not lossless")
    if refuted := [each.check for each in outcomes if each.refutes]:
        return Conclusion(Lossless.NO, ", ".join(refuted))
    left = ", ".join(each.check for each in outcomes if each.status != Status.PASSED)
    because = left and f"without {left}"
    if any(each.status == Status.PASSED and each.check == "float_distribution" for each in outcomes):
        return Conclusion(Lossless.YES, because, *_tried(outcomes))
    return Conclusion(Lossless.NOT_DECIDED, because)


def _tried(outcomes: Sequence[RuleOutcome]) -> tuple[tuple[str, ...], str]:
    """The arguments with which the properties held, a line per kind of array or batch, and the restrictions.

    Fractions are first, then floats that replace them in large problems, with drafts enumerated or sampled. Without Fractions, the lines
    have what all kinds of arrays share.
    """
    kinds: dict[str, Range] = {}
    sampled = {each.name for each in ALL if each.sampled}
    for each in outcomes:
        drawn = ", drafts drawn" * (each.check in sampled)
        for kind, here in each.evidence.ranges.items() if each.status == Status.PASSED else ():
            kinds.setdefault(kind + drawn, Range()).add(here)
    if "Fractions" in kinds:
        exact = {"Fractions": kinds.pop("Fractions")} | kinds
        tried = [f"{kind}: {part}" for kind, range_ in exact.items() for part in range_.parts()]
    else:
        common = reduce(Range.and_in, kinds.values()) if kinds else Range()
        tried = [f"{', '.join(kinds)} alike: {part}" for part in common.parts()] if kinds else []
    refused, of = sum(each.evidence.refused for each in outcomes), sum(each.evidence.cases for each in outcomes)
    refusal = next((each.evidence.refusal for each in outcomes if each.evidence.refusal), "")
    restricted = []
    if only := next((each.evidence.only for each in outcomes if each.evidence.only), ()):
        why = (
            f"other numbers of drafts were refused: {refusal}" if refusal else "no other number of drafts was asked for"
        )
        restricted.append(f"restricted to k = {', '.join(map(str, only))} ({why})")
    if refused:
        restricted.append(f"restricted: it refuses {refused} of {of} problems ({refusal})")
    return tuple(tried), "; ".join(restricted)
