"""Audit of answers that another program got from a server for the requests of a plan, in its order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import CannotAudit
from ..outcome import Status
from .answers import BadAnswer
from .audit import Audit
from .client import T
from .report import ServerReport
from .reported import Reported
from .server import PROMPTS, Prompt, RequestPlan, audit_server


def plan_of(requests: int, together: int, length: int, prompts: Sequence[Prompt] = PROMPTS) -> RequestPlan:
    """Return a plan of `requests` requests for `length` tokens, in batches of `together` concurrent requests.

    All batches are equal, so that no batch depends on earlier responses.
    """
    if min(requests, together, length, len(prompts)) < 1:
        raise CannotAudit(
            "requests, concurrency, tokens per response and number of prompts must be at least 1. Increase the one that is not."
        )
    return RequestPlan(prompts, requests * length + 1, ((together, length),), engine="openai", requests=requests)


@dataclass(frozen=True)
class RecordedAnswer:
    """Answer to a request: the server's JSON object, or the reason why there is none.

    charged: largest number of tokens that were sampled for this request before and lost.
    """

    found: dict[str, Any] | str
    charged: int = 0


class GivenAnswers:
    """Recorded answers in their order, with the interface of a `Client`."""

    def __init__(self, answers: Sequence[RecordedAnswer]) -> None:
        self._answers, self._given, self._lost = answers, 0, 0
        self.again = Counter[str]()  # nothing is sent

    def complete(
        self, requests: Sequence[dict[str, Any]], read: Callable[[bytes, dict[str, Any]], T]
    ) -> list[T | BadAnswer]:
        """Return results of `read` on the next answers, or a BadAnswer for a missing or unreadable one."""
        answers = self._answers[self._given : self._given + len(requests)]
        self._given += len(requests)
        self._lost += sum(answer.charged for answer in answers)

        def kept(answer: RecordedAnswer, fields: dict[str, Any]) -> T | BadAnswer:
            try:
                if isinstance(answer.found, str):
                    return BadAnswer(answer.found)
                return read(json.dumps(answer.found).encode(), fields)
            except BadAnswer as error:
                return error

        return [kept(*each) for each in zip(answers, requests, strict=True)]

    def lost(self) -> int:
        """Return the number of tokens charged since the last call."""
        lost, self._lost = self._lost, 0
        return lost


def audit_recorded(answers: Sequence[RecordedAnswer], plan: RequestPlan, listed: int, audit: Audit) -> ServerReport:
    """Return the report on answers to the requests of `plan_of` at temperature 1 with `listed` tokens per list.

    Raises CannotAudit if none of them can be read.
    """
    return audit_server(GivenAnswers(answers), plan, Reported(listed=listed), audit).report("recorded answers")


def sentence(report: ServerReport, plan: RequestPlan) -> str:
    """Return the report as a sentence with its range: what was tried, and which bias would have been detected."""
    ((together, length),) = plan.shapes
    tried = f"{plan.requests:,} requests of up to {length} tokens, about {together} at a time, temperature 1"
    if report.status != Status.PASSED:
        return ". ".join([f"{tried}: {report}", *report.evidence.remarks])
    return (
        f"{tried}: {report}. A bias of {report.evidence.distance:.2g} in an event of probability 1/2 in every token is missed with "
        "probability 1e-6. The result does not hold for other prompts, temperatures, lengths and numbers of concurrent requests, and "
        "not which model is served"
    )
