"""Audit of a running server: short and long completions, one or several at a time, and bets on every token."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any, Protocol

from ...arrays import Array
from ...errors import CannotAudit
from ..outcome import ServerEvidence
from .answers import Answer, BadAnswer, NoLogprobs, draft_count, json_object, read_answer
from .audit import Audit
from .client import DIALECTS, Client, Dialect, RefusedRequest, T, engine_of
from .consistency import Contexts, Ends
from .lookup import LookupLaws
from .records import UNNAMED_TOKEN, ListedMasses, Token
from .reference import DraftLaws, Reference
from .report import ServerReport
from .reported import Lists, ListState, Reported

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
# the remedy if lists name tokens by their texts
NAME_BY_IDS = "let the server name tokens by ids (return_tokens_as_token_ids, which --engine vllm sends)"

Prompt = str | list[int]


class Answering(Protocol):
    """A source of responses: a `Client`, or `recorded.GivenAnswers`, the responses to another program."""

    def complete(
        self, requests: Sequence[dict[str, Any]], read: Callable[[bytes, dict[str, Any]], T]
    ) -> list[T | BadAnswer]:
        """Return the results of `read` on the responses, BadAnswer if there is none."""

    @property
    def again(self) -> Counter[str]:
        """Repeated requests, by reason."""

    def lost(self) -> int:
        """Return the largest number of tokens since the last call that were sampled and are not in the responses."""


@dataclass(frozen=True)
class RequestPlan:
    """The requests to send.

    Attributes
    ----------
    prompts : sequence of str or list of int
        Texts, or lists of token ids.
    tokens : int
        Number of tokens to read.
    shapes : tuple of (int, int)
        Concurrent requests and max_tokens of one batch after the other, in turn.
    ignore_eos : bool
        Whether the server continues after the end-of-sequence token.
    model, engine : str
        Name of the model, "" for the first one, and of the engine, "auto" to detect it.
    requests : int
        Largest number of requests, 0 for no limit.
    copies : int
        Requests of each prompt in a row: requests under one distribution show most of what they share.
    max_empty_batches : int
        Batches in a row without a readable response, after which the audit ends.
    """

    prompts: Sequence[Prompt] = PROMPTS
    tokens: int = 20_000
    shapes: tuple[tuple[int, int], ...] = ((8, 16), (32, 16), (1, 256), (8, 16), (4, 256))
    ignore_eos: bool = False
    model: str = ""
    engine: str = "auto"
    requests: int = 0
    copies: int = 2
    max_empty_batches: int = 4

    def prompt(self, number: int, batch: int) -> Prompt:
        """Return the prompt of a request: `copies` of each in a row, and one prompt for all requests of every second batch."""
        return self.prompts[(batch // 2 if batch % 2 else number // self.copies) % len(self.prompts)]


def shapes_of(
    concurrency: Sequence[int] = (),
    lengths: Sequence[int] = (),
    default: Sequence[tuple[int, int]] = RequestPlan.shapes,
) -> tuple[tuple[int, int], ...]:
    """Return shapes of batches from these numbers of concurrent requests and max_tokens, in turn; those of `default` if empty."""
    together, tokens = zip(*default, strict=True)
    together, tokens = tuple(concurrency) or together, tuple(lengths) or tokens
    count = math.lcm(len(together), len(tokens))
    return tuple((together[i % len(together)], tokens[i % len(tokens)]) for i in range(count))


def audit_server(
    client: Answering, plan: RequestPlan, reported: Reported, audit: Audit, on_batch: Callable[[int], None] = lambda tokens: None,
    on_answer: Callable[[Prompt, Answer], None] = lambda prompt, answer: None, draft: DraftLaws | LookupLaws | None = None
) -> AuditRun:  # fmt: skip
    """Ask until enough tokens are read, a bias is found, or it is clear that the test cannot decide.

    Parameters
    ----------
    client : Answering
        The server, or recorded responses.
    plan : RequestPlan
        The plan from `introduce`.
    reported : Reported
        Conversion of reported log-probabilities to a distribution.
    audit : Audit
        The test.
    on_batch : callable, optional
        Called with the number of tokens so far.
    on_answer : callable, optional
        Called with every prompt and its response.
    draft : DraftLaws or LookupLaws, optional
        Draft distributions for the bets.

    Returns
    -------
    run : AuditRun
        The finished audit; its `report` has the result.

    Raises
    ------
    CannotAudit
        If nothing can be read.
    """
    if not plan.prompts or plan.tokens < 1 or not plan.shapes or min(min(shape) for shape in plan.shapes) < 1:
        raise CannotAudit("prompts, tokens, concurrency and lengths must be at least 1. Increase the one that is not.")
    run = AuditRun(client, plan, reported, audit, draft)
    while not run.ended():
        for prompt, answer in run.next_batch():
            on_answer(prompt, answer)
        on_batch(audit.tokens)
    return run


class AuditRun:
    """A running audit.

    Attributes
    ----------
    answers, unreadable : int
        Responses, and the unreadable ones among them.
    doubtful, hidden : int
        Tokens in lists keyed by text whose distribution may depend on them, and whose distribution is hidden (`Lists`).
    left_out : dict
        Shapes of batches that the server does not answer, with the reason.
    contexts : Contexts
        Comparison of the reports for equal contexts.
    drafted : int or None
        Draft tokens by the server's own count; None if it counts none.
    """

    def __init__(
        self,
        client: Answering,
        plan: RequestPlan,
        reported: Reported,
        audit: Audit,
        draft: DraftLaws | LookupLaws | None = None,
    ) -> None:
        self.answers = self.unreadable = self.doubtful = self.hidden = 0
        self.left_out: dict[tuple[int, int], str] = {}
        self.drafted: int | None = None
        self._client, self._plan, self._reported, self._audit, self._draft = client, plan, reported, audit, draft
        self.contexts, self._ends, self._lists = Contexts(audit.level), Ends(), Lists(reported)
        audit.temperature = reported.remaining_temperature
        engine = DIALECTS[plan.engine]
        self._fields = engine.request(plan.model, reported.temperature, reported.top_p, reported.top_k)
        self._fields |= {"logprobs": reported.listed}
        self._fields |= engine.processed or {} if reported.mode == "processed" else {}
        self._fields |= {"ignore_eos": True} if plan.ignore_eos else {}
        self._batches, self._asked, self._empty_batches = 0, 0, 0
        self._answered: set[tuple[int, int]] = set()  # shapes of batches

    def report(self, subject: str, reference: Reference | None = None) -> ServerReport:
        """Return the report on the responses so far, with the outcome of the comparison with a reference if there is one."""
        found = self._audit.report(subject)
        evidence = replace(found.evidence, remarks=tuple(self._remarks(found.evidence)))
        outcomes = [replace(found.outcomes[0], evidence=evidence)]
        if reference is not None and not self._audit.undecided:
            outcomes.append(reference.outcome())
        return replace(found, outcomes=tuple(outcomes), tried={**found.tried, **self._tried()})

    def _tried(self) -> dict[str, Any]:
        """Facts about the requests and the responses."""
        plan, left_out = self._plan, self.left_out
        asked = [shape for shape in dict.fromkeys(plan.shapes) if shape not in left_out]
        tried: dict[str, Any] = {
            "model": plan.model,
            "engine": plan.engine,
            "log-probabilities": self._reported.mode,
            "answers": self.answers,
            "concurrent requests x tokens per response": ", ".join(f"{c} x {n}" for c, n in asked),
            "distributions of equal contexts": str(self.contexts),
        }
        if self.drafted is not None:
            tried["draft tokens by the server's own count"] = self.drafted
        if left_out:
            tried["requests left out"] = [
                f"{c} requests of {n} tokens: {reason}" for (c, n), reason in left_out.items()
            ]
        if again := self._client.again:
            tried["asked again"] = [f"{reason} ({times} times)" for reason, times in again.most_common(5)]
        if self._draft is not None:
            shared = f"on the listed tokens, it shares {self._draft.overlap:.3f} of the reported probability"
            tried["draft distribution"] = f"of {self._draft}: {shared}"
        return tried

    def _remarks(self, evidence: ServerEvidence) -> Iterator[str]:
        """Other explanations of the result, and remedies."""
        if self._plan.engine == "llamacpp" and self.drafted and self.unreadable:
            yield (
                "llama.cpp does not report probabilities for tokens of speculative steps; compare its output with that of a second server "
                "without drafts: ot-draft audit servers URL URL2"
            )
        if self.doubtful:
            yield (
                f"{self.doubtful:,} tokens are charged: they are at the end of a list keyed by text, where they may have replaced others "
                f"with the same text: {NAME_BY_IDS}"
            )
        if self._audit.biased:
            yield (
                "the server may have defaults of its own (a penalty, a top-k) that change the distribution after it is reported"
            )
        if any(bet.family == "requests" and bet.log_e_value >= -log(self._audit.level) for bet in evidence.bets):
            yield (
                "the responses are not independent: requests share random numbers, or several get the same response from a cache"
            )
        if self._audit.biased and self._lists.by_text:
            yield f"several tokens may have the same text, of which the server lists only one: {NAME_BY_IDS}"

    def next_batch(self) -> list[tuple[Prompt, Answer]]:
        """Ask the next batch and bet on its tokens. Return the readable responses with their prompts."""
        left = [shape for shape in self._plan.shapes if shape not in self.left_out]
        shape = left[self._batches % len(left)]
        end = self._asked + shape[0]
        numbers = range(self._asked, min(end, self._plan.requests or end))
        prompts = [self._plan.prompt(i, self._batches) for i in numbers]
        requests = [self._fields | {"prompt": prompt, "max_tokens": shape[1]} for prompt in prompts]
        answers = self._client.complete(requests, self._read)
        self._batches, self._asked = self._batches + 1, self._asked + len(numbers)
        failed: list[tuple[int, BadAnswer]] = []
        good: list[tuple[int, Prompt, Answer]] = []
        for i, prompt, answer in zip(numbers, prompts, answers, strict=True):
            if isinstance(answer, BadAnswer):
                failed.append((i, answer))
            else:
                good.append((i, prompt, answer))
        bad = [answer for _, answer in failed]
        if self._leave_out(shape, bad):
            return []
        self.answers += len(answers)
        self.unreadable += len(bad)
        self._audit.charge(self._client.lost())
        for i, each in failed:
            self._audit.leave_out(str(each), f"answer {i}", shape[1])
        self._lists.learn(answer for _, _, answer in good)
        for request, prompt, answer in good:
            self._ends.add_requested(prompt, answer, shape[1])
            self.contexts.add(prompt, answer, self._lists.compared)
            self._bet(answer, request, self._draft.rows(prompt, answer, shape[1]) if self._draft else ())
            if answer.missing:
                where = f"an answer of {len(answer.tokens)} tokens"
                self._audit.leave_out("counted, and not reported", where, answer.missing)
        self._raise_if_hopeless(len(good) and sum(len(answer.tokens) for _, _, answer in good), bad)
        return [(prompt, answer) for _, prompt, answer in good]

    def _read(self, body: bytes, asked: dict[str, Any]) -> Answer:
        found = json_object(body)
        # Also of a response without log-probabilities: draft tokens may be the reason that it has none.
        if (count := draft_count(found)) is not None:
            self.drafted = (self.drafted or 0) + count
        return read_answer(found, int(asked["max_tokens"]))

    def _leave_out(self, shape: tuple[int, int], bad: Sequence[BadAnswer]) -> bool:
        """Whether the first batch of a shape failed, although others were answered: the server cannot serve it, and is not asked again.

        The whole batch is left out: which of its responses can be read may depend on their tokens.
        """
        failed = 2 * len(bad) > shape[0]
        if not failed:
            self._answered.add(shape)
        if not failed or shape in self._answered or not self._answered:
            return False
        self.left_out[shape] = str(bad[0])
        return True

    def _bet(self, answer: Answer, request: int, rows: Array | tuple[()]) -> None:
        for position, emitted in enumerate(answer.tokens):
            if self._lists.state(emitted) == ListState.DOUBTFUL:
                self._audit.charge(1)
                self.doubtful += 1
                continue
            self.hidden += self._lists.state(emitted) == ListState.SHORT
            law = self._lists.distribution(emitted)
            if law is None or self._lists.outside(emitted):
                self._audit.skip()
                continue
            ids, mass, error = law
            own = 0.0 if self._reported.whole else math.exp(emitted.log)
            token = emitted.token if emitted.token >= 0 else UNNAMED_TOKEN
            row = ListedMasses.of_top(ids, mass, whole=self._reported.whole, error=error)
            draft = self._draft.on(rows[position], ids, mass) if self._draft and position < len(rows) else None
            self._audit.add(Token(token, row, own, request, position, batch=self._batches, step_offset=-1, draft=draft))

    def _raise_if_hopeless(self, read: int, bad: Sequence[BadAnswer]) -> None:
        """Raise CannotAudit if further requests are useless. read: tokens of this batch; bad: its unreadable responses."""
        self._empty_batches = 0 if read else self._empty_batches + 1
        hopeless = bad and not self._audit.tokens and self._audit.skipped == 0
        for kind in (NoLogprobs, RefusedRequest):
            if hopeless and not read and all(isinstance(each, kind) for each in bad):
                raise CannotAudit(str(bad[0]))
        if self._empty_batches >= self._plan.max_empty_batches and not self._audit.tokens:
            seen = f"{self._empty_batches} batches of requests in a row without a readable token"
            raise CannotAudit(f"{seen}: {self._audit.left_out}")

    def ended(self, min_shared_texts: int = 3) -> bool:
        """Whether there is nothing more to ask. min_shared_texts: tokens that show that lists are of texts; fewer may be an error."""
        if not self._batches:
            return False
        audit = self._audit
        audit.undecided = self._ends.refusal() or self.contexts.refusal(self._reported.leaves_to_chance)
        if (seen := self._lists.of_texts + self.contexts.own_alone) >= min_shared_texts and not audit.undecided:
            audit.undecided = (
                "the lists are of texts, and one entry stands for several tokens, for one or another of them or for their sum "
                f"({seen:,} tokens show it): the emitted token cannot be compared with them: {NAME_BY_IDS}"
            )
        if (audit.undecided and self.contexts.seen_enough) or self._ends.refusal():
            return True
        broken = self._empty_batches >= self._plan.max_empty_batches or self.unreadable > max(20, 0.5 * self.answers)
        found = audit.biased and self.contexts.seen_enough
        unknown = audit.skipped + self.doubtful
        asked = 0 < self._plan.requests <= self._asked or audit.tokens + unknown >= self._plan.tokens
        if not (found or broken or asked):
            return False
        hidden = self.hidden + self.doubtful
        if hidden > audit.tokens and not audit.biased:
            audit.undecided = (
                f"the distributions of {hidden:,} of {audit.tokens + unknown:,} tokens are unknown: the lists name tokens by their texts, "
                f"several tokens may have one, and then lists are shorter than asked: {NAME_BY_IDS}, or ask for as many as it lists "
                "(--top-logprobs)"
            )
        elif not audit.tokens and not self.unreadable:
            audit.undecided = (
                f"the distributions of all {unknown:,} tokens are unknown: list more tokens, or ask without top-p"
            )
        return True


def introduce(client: Client, plan: RequestPlan) -> tuple[RequestPlan, Dialect]:
    """Return the plan with the names of model and engine, from the server unless given, and the engine's request fields."""
    model, engine = plan.model, plan.engine
    if not model.isprintable():
        raise CannotAudit(f"--model must be printable, got {model!a}. Pass the name that the server lists.")
    if not model or engine == "auto":
        models = client.models()
        if not models:
            raise CannotAudit(
                f"{client.url}/models must list a model, got none. Pass the model with --model and the engine with --engine."
            )
        model = model or models[0][0]
        owner = dict(models).get(model, models[0][1])
        engine = engine_of(owner) if engine == "auto" else engine
    return replace(plan, model=model, engine=engine), DIALECTS[engine]
