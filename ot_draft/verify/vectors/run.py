"""Run of a verifier on test vectors, and the report on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..outcome import Outcome, Record, Status, VectorEvidence
from ..report import Report
from .files import CORPUS, read
from .readers.read import ALARM, LEVELS, failures

VectorOutcome = Outcome[VectorEvidence]


@dataclass(frozen=True)
class VectorReport(Report[VectorEvidence]):
    """Outcomes of all vectors of one verifier. tried: folder, rules and levels of the vectors."""

    @cached_property
    def wrong(self) -> tuple[VectorOutcome, ...]:
        """Vectors that failed and are not known to fail."""
        return tuple(outcome for outcome in self.outcomes if outcome.refutes)

    @cached_property
    def repaired(self) -> tuple[VectorOutcome, ...]:
        """Vectors that are known to fail and passed."""
        return tuple(each for each in self.outcomes if each.evidence.known and each.status == Status.PASSED)

    @cached_property
    def suspected_bugs(self) -> list[str]:
        """Bugs all of whose vectors failed, in at least one rule. A rule without a passed vector indicates no bug."""
        shown, failed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        passed = {each.evidence.rule for each in self.outcomes if each.status == Status.PASSED}
        for each in self.outcomes:
            for bug in each.evidence.bugs:
                shown[each.evidence.rule, bug] += 1
                failed[each.evidence.rule, bug] += each.status == Status.FAILED
        return sorted({bug for (rule, bug), number in shown.items() if rule in passed and failed[rule, bug] == number})

    @property
    def exit_status(self) -> int:
        """1 if a vector is wrong or repaired, else 0."""
        return int(bool(self.wrong or self.repaired))

    @property
    def record(self) -> Record:
        """The report as plain data, with the suspected bugs."""
        return super().record | {"suspected_bugs": self.suspected_bugs}


def selected(
    folder: Path = CORPUS, rules: Collection[str] = (), levels: Collection[str] = LEVELS
) -> dict[str, VectorEvidence]:
    """Return what is known of the vectors of these rules and levels, by id, before they are run."""
    return {
        vector["id"]: VectorEvidence(rule=rule, level=vector["level"], bugs=tuple(vector["detects"]))
        for rule, vectors in read(folder).items()
        for vector in vectors
        if (not rules or rule in rules) and vector["level"] in levels
    }


def run(
    function: Callable[..., Any], subject: str, folder: Path = CORPUS, rules: Collection[str] = (), levels: Collection[str] = LEVELS,
    known: Collection[str] = (), on_outcome: Callable[[VectorOutcome], None] = lambda outcome: None,
) -> VectorReport:  # fmt: skip
    """Run a verifier on the vectors of these rules and levels.

    Parameters
    ----------
    function : callable
        `function(rule, case, numbers)`, which returns the emitted tokens: see `readers/read.py`.
    subject : str
        Name of the verifier in the report.
    folder : Path
        Folder of the vectors.
    rules, levels : collection of str
        Rules and levels of the vectors; all rules if none is named.
    known : collection of str
        Ids of vectors that are expected to fail.
    on_outcome : callable, optional
        Called with each outcome.

    Returns
    -------
    report : VectorReport
        One outcome per vector.
    """
    claims = {
        "replay": "The emitted tokens are as expected.",
        "distribution": "The frequency of every outcome is within Chernoff's bound of its probability.",
        "joint": "The frequency of every outcome, with the draft tokens, is within Chernoff's bound of its probability.",
    }
    about, outcomes = selected(folder, rules, levels), list[VectorOutcome]()
    for name, wrong in failures(function, folder, list(rules), list(levels)):
        of, is_known = about[name], name in known
        evidence = VectorEvidence(reason=wrong or "", rule=of.rule, level=of.level, bugs=of.bugs, known=is_known)
        status = Status.FAILED if wrong else Status.PASSED
        outcomes.append(
            Outcome(check=name, status=status, claim=claims[of.level], evidence=evidence, decides=not is_known)
        )
        on_outcome(outcomes[-1])
    tried = {"folder": str(folder), "rules": list(rules), "levels": list(levels), "known": sorted(known)}
    statistical = sum(each.evidence.level != "replay" for each in outcomes)
    return VectorReport(subject, tuple(outcomes), tried, ALARM * statistical)
