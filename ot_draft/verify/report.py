"""The report of a verifier: outcomes of all checks of one subject, and what they say together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from .outcome import E_co, Outcome, Record, Status


@dataclass(frozen=True)
class Report(Generic[E_co]):
    """Outcomes of all checks of one subject.

    Attributes
    ----------
    subject : str
        Name of the rule, sampler, engine, server or file that was checked.
    outcomes : tuple of Outcome
        In the order in which they were made.
    tried : mapping
        What the subject was tried with, as plain data.
    false_alarm : float, default=0.0
        Bound on the probability that a correct subject fails; 0 for exact checks.
    """

    subject: str
    outcomes: tuple[Outcome[E_co], ...]
    tried: Mapping[str, Any] = field(default_factory=dict)
    false_alarm: float = 0.0

    @property
    def failures(self) -> tuple[Outcome[E_co], ...]:
        """Outcomes that failed, those first that refute the subject."""
        failed = [outcome for outcome in self.outcomes if outcome.status == Status.FAILED]
        return tuple(sorted(failed, key=lambda outcome: not outcome.refutes))

    @property
    def unsettled(self) -> tuple[Outcome[E_co], ...]:
        """Outcomes that failed, crashed or are undecided."""
        return tuple(each for each in self.outcomes if each.status not in (Status.PASSED, Status.SKIPPED))

    @property
    def status(self) -> Status:
        """The first of failed, crashed and not decided that an outcome has; skipped if all were; else passed."""
        found = {outcome.status for outcome in self.outcomes}
        for status in (Status.FAILED, Status.CRASHED, Status.UNDECIDED, Status.PASSED):
            if status in found:
                return status
        return Status.SKIPPED

    @property
    def passed(self) -> bool:
        """Whether nothing failed, crashed or was left undecided."""
        return self.status in (Status.PASSED, Status.SKIPPED)

    def __getitem__(self, check: str) -> Outcome[E_co]:
        """Return the outcome of the check of this name."""
        return {outcome.check: outcome for outcome in self.outcomes}[check]

    def raise_if_failed(self) -> None:
        """Raise AssertionError with the report as its text unless it passed."""
        if not self.passed:
            raise AssertionError(str(self))

    @property
    def detectable_bias(self) -> dict[str, float]:
        """For every check of a distribution that passed, a total variation distance that it missed with probability 1e-6 at most.

        1.0 where even the greatest might have been missed. The distance is between the events that the check counts. For the tokens
        of a server it is the bias of an event of probability 1/2, 0.5 at most.
        """
        seen: dict[str, float] = {}
        for each in self.outcomes:
            distance = getattr(each.evidence, "distance", None)  # of samplers, engines and servers
            if distance is not None and each.status == Status.PASSED:
                seen[each.check] = max(distance, seen.get(each.check, 0.0))
        return seen

    @property
    def record(self) -> Record:
        """The report as plain data."""
        return {
            "subject": self.subject,
            "status": self.status.value,
            "false_alarm": self.false_alarm,
            "tried": dict(self.tried),
            "detectable_bias": self.detectable_bias,
            "outcomes": [outcome.record for outcome in self.outcomes],
        }

    def json(self) -> str:
        """Return the record as JSON."""
        return json.dumps(self.record, indent=1, ensure_ascii=False) + "\n"
