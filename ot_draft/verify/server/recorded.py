"""The audit of answers that another program has asked a server for: to the requests of a plan, in its order, and judged as if asked now."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ...errors import CannotAudit
from .answers import BadAnswer
from .audit import Audit
from .reported import Reported
from .server import OWN_DEFAULTS, PROMPTS, Prompt, RequestPlan, audit_server
from .verdict import EVEN, Verdict

T = TypeVar("T")


def plan_of(requests: int, together: int, length: int, prompts: Sequence[Prompt] = PROMPTS) -> RequestPlan:
    """So many requests of so many tokens, in waves of `together`. All waves are alike: else which one comes might hang on the answers."""
    if min(requests, together, length, len(prompts)) < 1:
        raise CannotAudit(
            "requests, concurrency, tokens per response and number of prompts must be at least 1. Increase the one that is not."
        )
    return RequestPlan(prompts, requests * length + 1, ((together, length),), engine="openai", requests=requests)


@dataclass(frozen=True)
class RecordedAnswer:
    """What came to a request: the server's object of JSON, or in its place why there is none.

    charged: tokens, at most, that may have been drawn for it before, and were lost.
    """

    found: dict[str, Any] | str
    charged: int = 0


class GivenAnswers:
    """Answers that are recorded, given in turn. In the place of a `Client`."""

    def __init__(self, answers: Sequence[RecordedAnswer]) -> None:
        self._answers, self._given, self._lost = answers, 0, 0

    def complete(
        self, requests: Sequence[dict[str, Any]], read: Callable[[bytes, dict[str, Any]], T]
    ) -> list[T | BadAnswer]:
        """Results of `read` on the next answers; BadAnswer where there is none, or it raised one."""
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
        """Tokens charged since the last call."""
        lost, self._lost = self._lost, 0
        return lost


def audit_recorded(answers: Sequence[RecordedAnswer], plan: RequestPlan, listed: int, audit: Audit) -> Verdict:
    """The verdict on answers to the requests of `plan_of`, asked for at temperature 1 with `listed` tokens a list.

    CannotAudit where nothing in them can be read.
    """
    audit_server(GivenAnswers(answers), plan, Reported(listed=listed), audit)
    return audit.verdict()


def sentence(verdict: Verdict, plan: RequestPlan) -> str:
    """The verdict with its range: what was tried, and what bias would have been seen."""
    ((together, length),) = plan.shapes
    tried = f"{plan.requests:,} requests of up to {length} tokens, about {together} at a time, temperature 1"
    if verdict.undecided or verdict.biased:
        return f"{tried}: {verdict}{f'. Or {OWN_DEFAULTS}' if verdict.biased else ''}"
    return (
        f"{tried}: {verdict}. A bias of {verdict.visible:.2g} in {EVEN} in every token would be missed once in a million times. Nothing is "
        "said of other prompts, temperatures, lengths and numbers of requests at a time, nor of whether this is the right model"
    )
