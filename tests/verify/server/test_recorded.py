"""Answers that another program asked for are judged as `audit URL` judges them; what did not come is paid for, and is no verdict."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from ot_draft.arrays import Array
from ot_draft.verify.outcome import Status
from ot_draft.verify.server import Audit, CannotAudit
from ot_draft.verify.server.answers import json_object
from ot_draft.verify.server.client import Client
from ot_draft.verify.server.recorded import RecordedAnswer, audit_recorded, plan_of, sentence
from ot_draft.verify.server.reported import Reported
from ot_draft.verify.server.server import RequestPlan, audit_server

from .chains import random_pair
from .completions_server import Generate, completion, entries, serving

N, LISTED, LENGTH = 24, 8, 16
PLAN = plan_of(200, 8, LENGTH)


def sampler(heat: float = 1.0) -> Generate:
    """Plain sampling of a Markov model, at a temperature that is not the one asked for; its laws are those at 1."""
    p, generator, lock = random_pair(3, N).p, np.random.default_rng(0), threading.Lock()
    drawn = p ** (1 / heat)
    drawn /= drawn.sum(-1, keepdims=True)

    def generate(fields: dict[str, Any]) -> tuple[Array, Array]:
        text = [len(str(fields["prompt"])) % N]
        with lock:
            for _ in range(fields["max_tokens"]):
                text.append(int(generator.choice(N, p=drawn[text[-1]])))
        return np.array(text[1:]), p[text[:-1]]

    return generate


def answers(plan: RequestPlan, heat: float = 1.0) -> list[RecordedAnswer]:
    """Of a server to the requests of a plan."""
    generate, ((together, length),), found = sampler(heat), plan.shapes, []
    for i in range(plan.requests):
        tokens, laws = generate({"prompt": plan.prompt(i, i // together), "max_tokens": length})
        found.append(RecordedAnswer(completion(tokens, entries(tokens, laws, LISTED), length)))
    return found


def judged(found: Sequence[RecordedAnswer], plan: RequestPlan = PLAN) -> tuple[Any, str]:
    report = audit_recorded(found, plan, LISTED, Audit())
    return report, sentence(report, plan)


class Keeping(Client):
    """A client that keeps what it is answered."""

    def complete(self, requests: Any, read: Any) -> Any:
        def kept(body: bytes, fields: dict[str, Any]) -> Any:
            asked.append(fields)
            bodies[fields["number"]] = json_object(body)
            return read(body, fields)

        asked = list[dict[str, Any]]()
        bodies = dict[int, dict[str, Any]]()
        numbered = [fields | {"number": i} for i, fields in enumerate(requests)]
        done = super().complete(numbered, kept)
        self.kept = [*getattr(self, "kept", []), *(RecordedAnswer(bodies[i]) for i in range(len(requests)))]
        return done


@pytest.mark.parametrize("heat", [1.0, 0.9])
def test_it_is_the_verdict_of_the_audit_over_http(heat: float) -> None:
    pytest.importorskip("httpx")
    plan, over_http = plan_of(120, 8, LENGTH), Audit()
    with serving(sampler(heat), entries) as (url, _), closing(Keeping(url)) as client:
        run = audit_server(client, plan, Reported(listed=LISTED), over_http)
    report, _ = judged(client.kept, plan)
    assert report.outcomes == run.report("url").outcomes
    assert len(client.kept) == 120 and report.evidence.tokens == 120 * LENGTH


def test_right_answers_are_not_biased_and_the_sentence_says_what_was_tried() -> None:
    report, said = judged(answers(PLAN))
    assert report.status == Status.PASSED and report.evidence.tokens == 200 * LENGTH
    assert said.startswith(
        "200 requests of up to 16 tokens, about 8 at a time, temperature 1: no bias found in 3,200 tokens"
    )
    assert (
        f"A bias of {report.evidence.distance:.2g}" in said
        and "other prompts, temperatures" in said
        and "lossless" not in said
    )


def test_wrong_answers_are_biased() -> None:
    report, said = judged(answers(PLAN, heat=0.8))
    assert report.status == Status.FAILED and "biased: e-value" in said and "missed once" not in said


def test_a_last_wave_may_be_short() -> None:
    plan = plan_of(21, 8, LENGTH)
    report, _ = judged(answers(plan), plan)
    assert report.evidence.tokens == 21 * LENGTH


def test_refusals_are_no_verdict() -> None:
    report, said = judged([RecordedAnswer("status 400")] * 200)
    assert report.status == Status.UNDECIDED and "status 400" in report.evidence.reason and "cannot be decided" in said
    with pytest.raises(CannotAudit, match="no log-probabilities"):
        judged([RecordedAnswer({"choices": [{"logprobs": None}]})] * 200)


@pytest.mark.parametrize("heat", [1.0, 0.8])
def test_some_missing_answers_are_paid_for_and_many_are_no_verdict(heat: float) -> None:
    found = answers(PLAN, heat)
    few, many = (
        [RecordedAnswer("lost") if i % every == 1 else each for i, each in enumerate(found)] for every in (50, 10)
    )
    report, _ = judged(few)
    assert report.status == (Status.FAILED if heat < 1 else Status.PASSED)
    assert report.status == Status.FAILED or report.evidence.unreadable == 4 * LENGTH
    report, _ = judged(many)
    assert report.status == Status.FAILED or "cannot be read" in report.evidence.reason


def test_what_was_drawn_and_lost_before_is_paid_for() -> None:
    found = answers(PLAN)
    report, said = judged([RecordedAnswer(each.found, LENGTH if i % 20 == 0 else 0) for i, each in enumerate(found)])
    assert report.evidence.charged == 10 * LENGTH and "Every bet is charged its largest loss for 160 tokens" in said
    assert report.evidence.distance > judged(found)[0].evidence.distance


@pytest.mark.parametrize("numbers", [(0, 8, 16), (1, 0, 16), (1, 8, 0)])
def test_a_plan_asks_for_something(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(CannotAudit, match="must be at least 1"):
        plan_of(*numbers)
