"""The audit of a running server: short completions are asked for, several at a time, and every token is bet on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from ..errors import CannotAudit
from .answers import Answer, BadAnswer
from .audit import Audit
from .client import DIALECTS, OWNERS, Client, Dialect
from .reported import Reported

PROMPTS = (
    "The old lighthouse keeper climbed the stairs and",
    "Once upon a time, in a village by the sea,",
    "The three most important things about bread are",
    "def read_numbers(path):\n    ",
    "Dear Sir or Madam,\n\nI am writing to",
    "In 1905, a young clerk in the patent office",
    "Q: Why is the sky blue?\nA:",
    "Ingredients: flour, water, salt,",
    "The committee decided on Tuesday that",
    "My favourite animals are cats,",
    "1, 1, 2, 3, 5, 8,",
    "She opened the letter, read it twice, and",
    "According to the report, the number of people who",
    "To install the program, first",
    "The train was late again, so",
    "import numpy as np\n\n",
)
COPIES = 2  # of each prompt in a wave: requests of one batch that may share random numbers
FAILURES = 8  # waves in a row without any readable answer, after which the audit gives up
UNREADABLE = 0.05  # share of answers that may be unreadable


@dataclass(frozen=True)
class Plan:
    """What to ask: prompts (texts, or lists of token ids), tokens in all, tokens an answer, requests at a time, and of whom."""

    prompts: Sequence[str | list[int]] = PROMPTS
    tokens: int = 20_000
    length: int = 16
    concurrency: int = 8
    ignore_eos: bool = False
    model: str = ""
    engine: str = "auto"


@dataclass
class Outcome:
    """What happened beside the tokens: answers, and the unreadable ones by reason."""

    answers: int = 0
    unreadable: Counter[str] = field(default_factory=Counter)


def audit_server(
    client: Client, plan: Plan, reported: Reported, audit: Audit, on_wave: Callable[[int], None] = lambda tokens: None,
    on_answer: Callable[[str | list[int], Answer], None] = lambda prompt, answer: None
) -> Outcome:  # fmt: skip
    """Ask until the tokens of a plan from `introduce` are read, or the audit calls them biased.

    on_wave: called with the tokens so far; on_answer: with every prompt and its answer. CannotAudit if the server refuses, or too
    much of what it answers cannot be read.
    """
    if not plan.prompts or plan.tokens < 1 or plan.length < 1 or plan.concurrency < 1:
        raise CannotAudit("give at least one prompt, token, token an answer and request at a time")
    outcome, fields = Outcome(), _fields(plan, reported)
    with ThreadPoolExecutor(plan.concurrency) as pool:
        empty = 0
        for wave in count():
            first = wave * plan.concurrency
            prompts = [plan.prompts[(i // COPIES) % len(plan.prompts)] for i in range(first, first + plan.concurrency)]
            answers = list(pool.map(lambda prompt: _answer(client, fields | {"prompt": prompt}), prompts))
            read = 0
            for i, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
                outcome.answers += 1
                if isinstance(answer, BadAnswer):
                    outcome.unreadable[str(answer)] += 1
                    continue
                _add(audit, answer, reported, first + i, wave)
                on_answer(prompt, answer)
                read += len(answer.tokens)
            empty = 0 if read else empty + 1
            _give_up(outcome, empty, audit)
            on_wave(audit.tokens)
            if audit.tokens + audit.skipped >= plan.tokens or audit.biased:
                break
    _enough(outcome, audit)
    return outcome


def _answer(client: Client, fields: dict[str, Any]) -> Answer | BadAnswer:
    try:
        return client.complete(fields)
    except BadAnswer as error:
        return error


def introduce(client: Client, plan: Plan) -> tuple[Plan, Dialect]:
    """The plan with model and engine named, as far as the server has to be asked for them, and what the engine understands."""
    model, engine = plan.model, plan.engine
    if not model or engine == "auto":
        models = client.models()
        if not models:
            raise CannotAudit(f"{client.url}/models lists no model: name one with --model and the engine with --engine")
        model = model or models[0][0]
        owner = dict(models).get(model, models[0][1])
        engine = OWNERS.get(owner, "openai") if engine == "auto" else engine
    return replace(plan, model=model, engine=engine), DIALECTS[engine]


def _fields(plan: Plan, law: Reported) -> dict[str, Any]:
    dialect = DIALECTS[plan.engine]
    fields = {"model": plan.model, "max_tokens": plan.length, "temperature": law.temperature, "top_p": law.top_p,
              "logprobs": law.listed, **dialect.fields}  # fmt: skip
    if law.mode == "processed":
        fields |= dialect.processed or {}
    if law.top_k or dialect.all_tokens is not None:
        fields["top_k"] = law.top_k or dialect.all_tokens
    if plan.ignore_eos:
        fields["ignore_eos"] = True
    return fields


def _add(audit: Audit, answer: Answer, reported: Reported, request: int, batch: int) -> None:
    for position, emitted in enumerate(answer.tokens):
        mass = reported.law(emitted.logs)
        if mass is None:
            audit.skip()
            continue
        own = 0.0 if reported.whole else float(np.exp(emitted.log))
        audit.add_top(
            emitted.token, emitted.ids, mass, own, request=request, position=position, batch=batch, whole=reported.whole
        )


def _give_up(outcome: Outcome, empty: int, audit: Audit) -> None:
    if empty >= FAILURES:
        raise CannotAudit(f"{empty} waves of requests in a row without a readable token: {_reasons(outcome)}")
    unreadable = outcome.unreadable.total()
    if unreadable > max(20, 0.5 * outcome.answers):
        raise CannotAudit(f"{unreadable} of {outcome.answers} answers cannot be read: {_reasons(outcome)}")


def _enough(outcome: Outcome, audit: Audit) -> None:
    """Answers that are left out must be few: their tokens may have been of one kind."""
    unreadable = outcome.unreadable.total()
    if unreadable > UNREADABLE * outcome.answers and not audit.biased:
        raise CannotAudit(
            f"{unreadable} of {outcome.answers} answers cannot be read, too many to leave out: {_reasons(outcome)}"
        )
    if not audit.tokens:
        raise CannotAudit(
            f"no token of {audit.skipped} has a law that can be known: list more tokens, or ask without top-p"
        )


def _reasons(outcome: Outcome) -> str:
    return "; ".join(f"{reason} ({times} times)" for reason, times in outcome.unreadable.most_common(3))
