"""Servers made by combining kinds: right ones of many habits, ones whose report lies, and ones that break the transport or the format."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from ot_draft.arrays import Array

from .chains import random_pair, softmax
from .completions_server import Generate, Handler, columns, completion, entries

N = 48
END = 7  # the token that ends a text, where one does
Report = Callable[
    [Array, Array, np.random.Generator], Array
]  # tokens (T,), their laws (T, n) -> the laws reported (T, n)


def as_it_is(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    return laws


@dataclass
class Source:
    """A Markov chain whose first state is the prompt's: tokens with the laws that they were drawn from, as `report` tells them.

    noise: spread of what every batch adds to the logits of sampler and report alike. ends: mass of END, which ends a text then;
    hides_end: and is not shown. raw: whether the report is before temperature, top-k and top-p, or after. late, crowded: from this
    position on, or with more requests at a time, six of ten tokens are the likeliest ones, whatever the law. grid: of which all logits are
    multiples, as those of 16 bits are.
    """

    report: Report = as_it_is
    noise: float = 0.0
    ends: float = 0.0
    hides_end: bool = False
    raw: bool = False
    seed: int = 0
    late: int = 10**6
    crowded: int = 10**6
    grid: float = 0.0
    at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.p = random_pair(self.seed, N).p
        if self.grid:
            self.p = softmax(np.round(np.log(self.p) / self.grid) * self.grid)
        if self.ends:
            self.p[:, END] = 0
            self.p *= (1 - self.ends) / self.p.sum(1, keepdims=True)
            self.p[:, END] = self.ends
        self.generator = np.random.default_rng(self.seed)

    def __call__(self, fields: dict[str, Any]) -> tuple[Array, Array]:
        self.at_once += 1
        time.sleep(0.15 * (self.crowded < 10**6))
        late = 0 if self.at_once > self.crowded else self.late
        try:
            return self.answer(fields, late)
        finally:
            self.at_once -= 1

    def answer(self, fields: dict[str, Any], late: int) -> tuple[Array, Array]:
        with self.lock:
            noisy = softmax(np.log(self.p + 1e-30) + self.noise * self.generator.normal(size=self.p.shape))
            drawn = shaped(noisy, fields)
            state, tokens, states = crc32(str(fields["prompt"]).encode()) % N, [], []
            sums = drawn.cumsum(1)
            for position, uniform in enumerate(self.generator.random(fields["max_tokens"])):
                states.append(state)
                drawn_token = min(int(np.searchsorted(sums[state], uniform * sums[state, -1], side="right")), N - 1)
                wrongly = position >= late and self.generator.random() < 0.6
                state = int(drawn[state].argmax()) if wrongly else drawn_token
                tokens.append(state)
                if self.ends and state == END and not fields.get("ignore_eos"):
                    break
            laws, ids = (noisy if self.raw else drawn)[states], np.array(tokens)
            if self.hides_end and tokens[-1] == END and not fields.get("ignore_eos"):
                laws, ids = laws[:-1], ids[:-1]
            return ids, self.report(ids, laws, self.generator)


def shaped(laws: Array, fields: dict[str, Any]) -> Array:
    """After temperature, top-k and top-p, as vLLM applies them."""
    temperature = fields["temperature"]
    laws = np.eye(N)[laws.argmax(1)] if temperature == 0 else softmax(np.log(laws + 1e-300) / temperature)
    order = np.argsort(-laws, axis=1, kind="stable")
    mass = np.take_along_axis(laws, order, axis=1)
    if fields.get("top_k", -1) > 0:
        mass[:, fields["top_k"] :] = 0
    mass /= mass.sum(1, keepdims=True)
    mass[mass.cumsum(1) - mass >= fields["top_p"]] = 0
    kept = np.zeros(laws.shape)
    np.put_along_axis(kept, order, mass, axis=1)
    return kept / kept.sum(1, keepdims=True)


# What a report may say instead of the law.


def own_alone(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    return np.eye(N)[tokens]


def own_alone_at_drafts(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    """llama.cpp under speculation: a probability of 1 for accepted drafts, the law elsewhere."""
    drafts = generator.random(len(tokens)) < 0.5
    drafts[:1] = False
    return np.where(drafts[:, None], np.eye(N)[tokens], laws)


def own_on_top(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    laws, rows = laws.copy(), np.arange(len(tokens))
    top = laws.argmax(1)
    laws[rows, tokens], laws[rows, top] = laws[rows, top], laws[rows, tokens].copy()
    return laws


def own_with_stolen_mass(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    return 0.8 * laws + 0.2 * np.eye(N)[tokens]


def own_in_the_logits(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    return softmax(np.log(laws) + np.eye(N)[tokens])


def almost_own_alone(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    return 1e-3 * laws + (1 - 1e-3) * np.eye(N)[tokens]


def another_row(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    return laws[generator.permutation(len(laws))]


def the_place_before(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    return np.roll(laws, 1, axis=0)


def of_the_emitted_token(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    """The law of the state after the token, with the token's own mass: as much as it had."""
    after = random_pair(0, N).p[tokens].copy()
    rows = np.arange(len(tokens))
    own = laws[rows, tokens]
    after[rows, tokens] = 0
    after *= ((1 - own) / after.sum(1))[:, None]
    after[rows, tokens] = own
    return after


def another_law_every_time(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    return softmax(np.log(laws) + 2 * generator.normal(size=N))


def own_alone_late(tokens: Array, laws: Array, generator: np.random.Generator) -> Array:
    late = np.arange(len(tokens)) >= 2
    return np.where(late[:, None], np.eye(N)[tokens], laws)


LIES: dict[str, Report] = {
    each.__name__: each
    for each in (own_alone, own_alone_at_drafts, own_on_top, own_with_stolen_mass, own_in_the_logits, almost_own_alone, another_row,
                 the_place_before, of_the_emitted_token, another_law_every_time, own_alone_late)
}  # fmt: skip


# How a server writes its lists.


def ties_by_high_id(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
    """Of tokens of one mass those of high ids are listed, and the emitted one."""
    made = columns(tokens, laws, listed)
    for name, row, law in zip(made["tokens"], made["top_logprobs"], laws, strict=True):
        top = len(law) - 1 - np.argsort(-law[::-1], kind="stable")[:listed]
        own = row[name]
        row.clear()
        row.update({name: own} | {f"token_id:{x}": float(np.log(law[x])) for x in top.tolist()})
    return made


def only_own(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
    """The emitted token and its true probability, and no other."""
    logs = np.log(laws[np.arange(len(tokens)), tokens]).tolist()
    names = [f"token_id:{token}" for token in tokens.tolist()]
    return {"tokens": names, "token_logprobs": logs, "top_logprobs": [{n: x} for n, x in zip(names, logs, strict=True)]}


def own_for_the_last(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
    """The emitted token in the place of the last, where it is not listed."""
    made = columns(tokens, laws, listed)
    for name, row in zip(made["tokens"], made["top_logprobs"], strict=True):
        if len(row) > listed:
            del row[min((n for n in row if n != name), key=row.__getitem__)]
    return made


def fewer(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
    """Five, whatever was asked for, and the emitted token."""
    return columns(tokens, laws, 5)


def by_text(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
    """Named by texts; some tokens share one."""

    def name(token: str) -> str:
        number = int(token[9:])
        return "\ufffd" if number % 16 == 3 else f" t{number}"  # as many parts of characters are named

    made = columns(tokens, laws, listed)
    lists = [{name(token): log for token, log in row.items()} for row in made["top_logprobs"]]
    return made | {"tokens": [name(token) for token in made["tokens"]], "top_logprobs": lists}


def chat_by_text(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
    """Objects as chat completions have them, without ids; some tokens share a text, and both are listed."""
    made = entries(tokens, laws, listed)
    for each in [*made["content"], *(other for row in made["content"] for other in row["top_logprobs"])]:
        number = each.pop("id")
        each |= {"token": "\ufffd" if number % 16 == 3 else f" t{number}", "bytes": [32, 116]}
    return made


def as_probabilities(digits: int) -> Callable[..., dict[str, Any]]:
    """llama.cpp with post_sampling_probs, so many digits printed."""

    def style(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
        made = entries(tokens, laws, listed)
        for each in made["content"]:
            each["prob"] = round(float(np.exp(each.pop("logprob"))), digits)
            for other in each["top_logprobs"]:
                other["prob"] = round(float(np.exp(other.pop("logprob"))), digits)
            each["top_probs"] = each.pop("top_logprobs")
        return made

    return style


def rounded_logs(digits: int) -> Callable[..., dict[str, Any]]:
    def style(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
        made = columns(tokens, laws, listed)
        made["token_logprobs"] = [round(log, digits) for log in made["token_logprobs"]]
        made["top_logprobs"] = [{name: round(log, digits) for name, log in row.items()} for row in made["top_logprobs"]]
        return made

    return style


def in_bfloat16(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
    """Log-probabilities in bfloat16."""
    logs = np.log(np.maximum(laws, 1e-30)).astype(np.float32)
    short = ((logs.view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)
    return columns(tokens, np.exp(short.astype(np.float64)), listed)


def in_half_precision(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
    """Log-probabilities in float16."""
    logs = np.log(np.maximum(laws, 1e-300)).astype(np.float16).astype(np.float64)
    return columns(tokens, np.exp(logs), listed)


# What breaks in between.


def send(handler: Handler, *parts: bytes, pause: float = 0.0, times: int = 1) -> bool:
    """Raw bytes; the last part `times` times with a pause before each. The connection ends then."""
    for part in (*parts[:-1], *(parts[-1] for _ in range(times))):
        time.sleep(pause)
        handler.wfile.write(part)
        handler.wfile.flush()
    handler.close_connection = True
    return True


def body(
    fields: dict[str, Any],
    change: Callable[[dict[str, Any]], Any] = lambda whole: None,
    generate: Generate | None = None,
) -> bytes:
    """A good answer, changed."""
    tokens, laws = (generate or Source())(fields)
    whole = completion(tokens, columns(tokens, laws, fields["logprobs"]))
    change(whole)
    return json.dumps(whole).encode()


def plain(content: bytes, status: bytes = b"200 OK", head: bytes = b"") -> bytes:
    return b"HTTP/1.1 " + status + b"\r\n" + head + b"content-length: %d\r\n\r\n" % len(content) + content
