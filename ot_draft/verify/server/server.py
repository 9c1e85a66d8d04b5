"""The audit of a running server: completions are asked for, short and long, alone and several at a time; every token is bet on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any, Protocol, TypeVar

from ...arrays import Array
from ...errors import CannotAudit
from ..outcome import ServerEvidence
from .answers import Answer, BadAnswer, NoLaw, drafted, parsed, read_answer
from .audit import Audit
from .client import DIALECTS, OWNERS, Client, Dialect, RefusedRequest
from .consistency import Contexts, Ends
from .lookup import LookupLaws
from .records import UNNAMED_TOKEN, ListedMasses, Token
from .reference import DraftLaws, Reference
from .report import ServerReport
from .reported import DOUBTFUL, SHORT, Lists, Reported

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
COPIES = 2  # of each prompt one after the other: requests whose laws must agree; in every second wave all requests have one prompt
# requests at a time and tokens an answer, wave by wave, over and over
MIX = ((8, 16), (32, 16), (1, 256), (8, 16), (4, 256))
BY_IDS = "let the server name tokens by ids (return_tokens_as_token_ids, which --engine vllm sends)"
TEXTS = (
    "the lists name tokens by their texts, several tokens may have one, and then lists are shorter than asked: "
    f"{BY_IDS}, or ask for as many as it lists (--top-logprobs)"
)
ONE_OF_SEVERAL = (
    "the lists are of texts, and one entry stands for several tokens, now for one, now for another, or for their sum ({seen:,} tokens show "
    f"it): what is emitted cannot be set beside them: {BY_IDS}"
)
OWN_DEFAULTS = (
    "the server may have defaults of its own (a penalty, a top-k) that change the distribution after it is reported"
)
SAME_TEXTS = f"several tokens may have the same text, of which the server lists only one: {BY_IDS}"
SHARED = (
    "the responses are not independent: requests share random numbers, or several get the same response from a cache"
)
NO_LAW_OF_DRAFTS = (
    "llama.cpp does not report probabilities for tokens of speculative steps; compare its output with that of a second server without "
    "drafts: ot-draft audit servers URL URL2"
)
SHOWN = 3  # tokens that show it; fewer may be an error of the server's
FAILURES = 4  # waves in a row without any readable answer, after which the audit gives up

T = TypeVar("T")
Prompt = str | list[int]


class Answering(Protocol):
    """Whoever answers requests: a `Client` now, or `recorded.GivenAnswers` what another program was answered."""

    def complete(
        self, requests: Sequence[dict[str, Any]], read: Callable[[bytes, dict[str, Any]], T]
    ) -> list[T | BadAnswer]:
        """Results of `read` on the answers, BadAnswer where there is none."""

    @property
    def again(self) -> Counter[str]:
        """Requests that were sent again, by reason."""

    def lost(self) -> int:
        """Tokens, at most, that were drawn since the last call and are not in the answers."""


@dataclass(frozen=True)
class RequestPlan:
    """The requests to send: prompts (texts, or lists of token ids), tokens in all, and of whom.

    shapes: requests at a time and tokens an answer, of one wave after the other. requests: at most so many, 0 for as many as it takes.
    """

    prompts: Sequence[Prompt] = PROMPTS
    tokens: int = 20_000
    shapes: tuple[tuple[int, int], ...] = MIX
    ignore_eos: bool = False
    model: str = ""
    engine: str = "auto"
    requests: int = 0

    def prompt(self, number: int, wave: int) -> Prompt:
        """COPIES of each prompt, or one prompt for the whole wave: requests under one law tell most of what they share."""
        return self.prompts[(wave // 2 if wave % 2 else number // COPIES) % len(self.prompts)]


def mixed(concurrency: Sequence[int] = (), lengths: Sequence[int] = ()) -> tuple[tuple[int, int], ...]:
    """Shapes of waves from the numbers that are given, in turn; those that are not are MIX's."""
    together, tokens = list(concurrency) or [c for c, _ in MIX], list(lengths) or [n for _, n in MIX]
    count = math.lcm(len(together), len(tokens))
    return tuple((together[i % len(together)], tokens[i % len(tokens)]) for i in range(count))


def audit_server(
    client: Answering, plan: RequestPlan, reported: Reported, audit: Audit, on_wave: Callable[[int], None] = lambda tokens: None,
    on_answer: Callable[[Prompt, Answer], None] = lambda prompt, answer: None, draft: DraftLaws | LookupLaws | None = None
) -> AuditRun:  # fmt: skip
    """Ask until the tokens of a plan from `introduce` are read, or the audit is biased, or `undecided` says why it cannot decide.

    on_wave: called with the tokens so far; on_answer: with every prompt and its answer. draft: whose laws are bet with.
    CannotAudit if nothing can be read.
    """
    if not plan.prompts or plan.tokens < 1 or not plan.shapes or min(min(shape) for shape in plan.shapes) < 1:
        raise CannotAudit("give at least one prompt, token, token an answer and request at a time")
    run = AuditRun(client, plan, reported, audit, draft)
    while not run.ended():
        for prompt, answer in run.wave():
            on_answer(prompt, answer)
        on_wave(audit.tokens)
    return run


class AuditRun:
    """An audit on its way, and what happened beside the tokens.

    answers, and how many of them were unreadable. doubtful: tokens that a list keyed by texts leaves in doubt; hidden: whose law it
    hides (`Lists`).
    left_out: shapes of waves that the server would not answer, with its reason.
    contexts: its reports for equal contexts. drafted: tokens that were, by its own count; None where it says nothing of it.
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
        engine = DIALECTS[plan.engine]
        self._fields = engine.asked(plan.model, reported.temperature, reported.top_p, reported.top_k)
        self._fields |= {"logprobs": reported.listed}
        self._fields |= engine.processed or {} if reported.mode == "processed" else {}
        self._fields |= {"ignore_eos": True} if plan.ignore_eos else {}
        self._waves, self._asked, self._empty = 0, 0, 0
        self._answered: set[tuple[int, int]] = set()  # shapes of waves

    def report(self, subject: str, reference: Reference | None = None) -> ServerReport:
        """Return the report on the answers so far, with an outcome of the comparison with a reference if there is one."""
        found = self._audit.report(subject)
        evidence = replace(found.evidence, remarks=tuple(self._remarks(found.evidence)))
        outcomes = [replace(found.outcomes[0], evidence=evidence)]
        if reference is not None and not self._audit.undecided:
            outcomes.append(reference.outcome())
        return replace(found, outcomes=tuple(outcomes), tried={**found.tried, **self._tried()})

    def _tried(self) -> dict[str, Any]:
        """Facts about the requests and the answers."""
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
        """Other explanations of the result, and what follows from it."""
        if self._plan.engine == "llamacpp" and self.drafted and self.unreadable:
            yield NO_LAW_OF_DRAFTS
        if self.doubtful:
            yield (
                f"{self.doubtful:,} tokens are charged: they are at the end of a list keyed by text, where they may have replaced others "
                f"with the same text: {BY_IDS}"
            )
        if self._audit.biased:
            yield OWN_DEFAULTS
        if any(bet.family == "requests" and bet.log_e_value >= -log(self._audit.level) for bet in evidence.bets):
            yield SHARED
        if self._audit.biased and self._lists.by_text:
            yield SAME_TEXTS

    def wave(self) -> list[tuple[Prompt, Answer]]:
        """Ask the next wave, and bet on its tokens: the answers that could be read, with their prompts."""
        left = [shape for shape in self._plan.shapes if shape not in self.left_out]
        shape = left[self._waves % len(left)]
        end = self._asked + shape[0]
        numbers = range(self._asked, min(end, self._plan.requests or end))
        prompts = [self._plan.prompt(i, self._waves) for i in numbers]
        requests = [self._fields | {"prompt": prompt, "max_tokens": shape[1]} for prompt in prompts]
        answers = self._client.complete(requests, self._read)
        self._waves, self._asked = self._waves + 1, self._asked + len(numbers)
        failed = [(i, answer) for i, answer in zip(numbers, answers, strict=True) if isinstance(answer, BadAnswer)]
        bad = [answer for _, answer in failed]
        if self._leave_out(shape, bad):
            return []
        self.answers += len(answers)
        self.unreadable += len(bad)
        self._audit.charge(self._client.lost())
        for i, each in failed:
            self._audit.leave_out(str(each), f"answer {i}", shape[1])
        good = [(i, prompt, answer) for i, prompt, answer in zip(numbers, prompts, answers, strict=True)
                if not isinstance(answer, BadAnswer)]  # fmt: skip
        self._lists.learn(answer for _, _, answer in good)
        for request, prompt, answer in good:
            self._ends.add(prompt, answer, shape[1])
            self.contexts.add(prompt, answer, self._lists.compared)
            self._bet(answer, request, self._draft.rows(prompt, answer, shape[1]) if self._draft else ())
            if answer.missing:
                where = f"an answer of {len(answer.tokens)} tokens"
                self._audit.leave_out("counted, and not reported", where, answer.missing)
        self._give_up(len(good) and sum(len(answer.tokens) for _, _, answer in good), bad)
        return [(prompt, answer) for _, prompt, answer in good]

    def _read(self, body: bytes, asked: dict[str, Any]) -> Answer:
        found = parsed(body)
        if (count := drafted(found)) is not None:  # of an answer without laws, too: drafts may be what it has none for
            self.drafted = (self.drafted or 0) + count
        return read_answer(found, int(asked["max_tokens"]))

    def _leave_out(self, shape: tuple[int, int], bad: Sequence[BadAnswer]) -> bool:
        """Whether the first wave of a shape failed, where others were answered: the server has not room for it, it is not asked for again.

        The whole wave is left out: which of its answers could be read may hang on their tokens.
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
            if self._lists.state(emitted) == DOUBTFUL:
                self._audit.charge(1)
                self.doubtful += 1
                continue
            self.hidden += self._lists.state(emitted) == SHORT
            law = self._lists.distribution(emitted)
            if law is None or self._lists.outside(emitted):
                self._audit.skip()
                continue
            ids, mass, error = law
            own = 0.0 if self._reported.whole else math.exp(emitted.log)
            token = emitted.token if emitted.token >= 0 else UNNAMED_TOKEN
            row = ListedMasses.of_top(ids, mass, whole=self._reported.whole, error=error)
            draft = self._draft.on(rows[position], ids, mass) if self._draft and position < len(rows) else None
            self._audit.add(Token(token, row, own, request, position, batch=self._waves, step_offset=-1, draft=draft))

    def _give_up(self, read: int, bad: Sequence[BadAnswer]) -> None:
        """CannotAudit where it is clear that no more will come of it."""
        self._empty = 0 if read else self._empty + 1
        hopeless = bad and not self._audit.tokens and self._audit.skipped == 0
        for kind in (NoLaw, RefusedRequest):
            if hopeless and not read and all(isinstance(each, kind) for each in bad):
                raise CannotAudit(str(bad[0]))
        if self._empty >= FAILURES and not self._audit.tokens:
            seen = f"{self._empty} waves of requests in a row without a readable token"
            raise CannotAudit(f"{seen}: {self._audit.left_out}")

    def ended(self) -> bool:
        """Whether there is nothing more to ask."""
        if not self._waves:
            return False
        audit = self._audit
        audit.undecided = self._ends.refusal() or self.contexts.refusal(self._reported.leaves_to_chance)
        if (seen := self._lists.of_texts + self.contexts.own_alone) >= SHOWN and not audit.undecided:
            audit.undecided = ONE_OF_SEVERAL.format(seen=seen)
        if (audit.undecided and self.contexts.seen_enough) or self._ends.refusal():
            return True
        broken = self._empty >= FAILURES or self.unreadable > max(20, 0.5 * self.answers)
        found = audit.biased and self.contexts.seen_enough
        unknown = audit.skipped + self.doubtful
        asked = 0 < self._plan.requests <= self._asked or audit.tokens + unknown >= self._plan.tokens
        if not (found or broken or asked):
            return False
        hidden = self.hidden + self.doubtful
        if hidden > audit.tokens and not audit.biased:
            audit.undecided = f"{hidden:,} tokens of {audit.tokens + unknown:,} have laws that cannot be known: {TEXTS}"
        elif not audit.tokens and not self.unreadable:
            audit.undecided = (
                f"no token of {unknown:,} has a law that can be known: list more tokens, or ask without top-p"
            )
        return True


def introduce(client: Client, plan: RequestPlan) -> tuple[RequestPlan, Dialect]:
    """The plan with model and engine named, as far as the server has to be asked for them, and what the engine understands."""
    model, engine = plan.model, plan.engine
    if not model.isprintable():
        raise CannotAudit(f"{model!a} is no name of a model: give it as the server has it")
    if not model or engine == "auto":
        models = client.models()
        if not models:
            raise CannotAudit(f"{client.url}/models lists no model: name one with --model and the engine with --engine")
        model = model or models[0][0]
        owner = dict(models).get(model, models[0][1])
        engine = OWNERS.get(owner, "openai") if engine == "auto" else engine
    return replace(plan, model=model, engine=engine), DIALECTS[engine]
