"""Many kinds of servers, right, lying and broken: each ends with the status and the words that must come, in its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from slow import slow, slow_except

from ot_draft.cli import main
from ot_draft.verify.server import client
from ot_draft.verify.server.server import RequestPlan

from . import kinds_of_servers as kinds
from .completions_server import Handler, Server, columns, completion, entries, serving
from .kinds_of_servers import LIES, Source, as_probabilities, body, plain, rounded_logs, send

pytest.importorskip("httpx")
Misbehave = Callable[[Handler, dict[str, Any]], bool]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OT_DRAFT_AUDIT_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(client, "HttpSettings", partial(client.HttpSettings, backoff_s=0.001))


def asked(source: Any, *words: str, style: Any = columns, owner: str = "vllm", misbehave: Misbehave | None = None,
          tokens: int = 2500) -> tuple[Result, Server]:  # fmt: skip
    with serving(source, style, owner, misbehave) as (url, server):
        return CliRunner().invoke(main, ["audit", url, "--tokens", str(tokens), *words]), server


def said(done: Result) -> str:
    return " ".join(done.output.split())


# Servers whose report is no law.

NO_FUNCTION = "cannot be decided: the reported distribution is not a function of the context"
LYING = [
    *((name, {"report": lie, "noise": noise}, columns) for name, lie in LIES.items() for noise in (0.0, 0.05)),
    ("only its own token", {}, kinds.only_own),
    ("only its own token, in batches", {"noise": 0.05}, kinds.only_own),
    *((f"{name}, as objects", {"report": LIES[name]}, entries) for name in ("own_alone", "own_with_stolen_mass", "another_row")),
    *((f"{name}, rounded", {"report": LIES[name]}, as_probabilities(3)) for name in ("own_alone", "own_on_top", "the_place_before")),
    *((f"{name}, by text", {"report": LIES[name]}, kinds.by_text) for name in ("own_alone", "own_in_the_logits")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "style"),
    slow_except(LYING, "own_alone, as objects", "only its own token", "own_in_the_logits, by text", name=itemgetter(0)),
)
def test_a_report_that_is_no_function_of_the_context(name: str, given: dict[str, Any], style: Any) -> None:
    done, _ = asked(Source(**given), style=style, tokens=8000)
    assert done.exit_code == 2, done.output
    assert NO_FUNCTION in said(done)


@pytest.mark.slow
def test_a_report_that_is_sure_of_answers_that_never_change() -> None:
    """Its own token alone, and the same answer to the same prompt: nothing that could be compared differs."""

    def fixed(fields: dict[str, Any]) -> Any:
        return Source(kinds.own_alone)(fields)

    done, _ = asked(fixed)
    assert done.exit_code == 2 and "equal prompts got equal answers" in said(done)
    done, _ = asked(lambda fields: Source()(fields | {"temperature": 0}), "--temperature", "0")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("mass", [0.05, slow(0.004)])
@pytest.mark.parametrize("style", [slow(columns), slow(entries), kinds.by_text], ids=["columns", "entries", "by text"])
def test_a_last_token_that_nobody_counts(mass: float, style: Any) -> None:
    done, _ = asked(Source(ends=mass, hides_end=True), style=style, tokens=3000)
    assert done.exit_code == 2 and "not reported" in said(done) and "--ignore-eos" in said(done), done.output
    done, _ = asked(Source(ends=mass, hides_end=True), "--ignore-eos", style=style)
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_contexts_that_are_full_are_no_ends() -> None:
    """Answers cut for their length, at the same place for one prompt."""

    def full(handler: Handler, fields: dict[str, Any]) -> bool:
        room = 5 + len(fields["prompt"]) % 7
        content = body(fields | {"max_tokens": min(room, fields["max_tokens"])}, generate=handler.server.generate)
        return send(handler, plain(content))

    done, _ = asked(Source(), misbehave=full, tokens=1500)
    assert done.exit_code == 0, done.output


# Right servers of many habits.

RIGHT: dict[str, tuple[dict[str, Any], Any, str, tuple[str, ...]]] = {
    **{f"{style.__name__}, noise {noise}": ({"noise": noise}, style, owner, ())
       for style, owner in ((columns, "vllm"), (entries, "llamacpp"), (kinds.by_text, "openai"), (kinds.chat_by_text, "openai"),
                            (kinds.fewer, "sglang"), (kinds.own_for_the_last, "me"), (kinds.in_half_precision, "vllm"))
       for noise in (0.0, 0.05, 0.12)},
    **{f"{digits} digits, {name}": ({}, style(digits), "llamacpp", ()) for digits in (2, 3, 4)
       for name, style in (("probabilities", as_probabilities), ("logarithms", rounded_logs))},
    **{f"ends {ends}, {style.__name__}": ({"ends": ends}, style, "vllm", ())
       for ends in (0.01, 0.1) for style in (columns, entries, kinds.by_text)},
    **{f"{' '.join(words)}, {'raw' if raw else 'processed'}":
       ({"raw": raw}, style, "vllm", words if raw else (*words, "--logprobs", "processed"))
       for words in (("--temperature", "0"), ("--temperature", ".7", "--top-k", "5"), ("--top-k", "20"), ("--top-p", ".9"),
                     ("--top-p", ".8", "--top-k", "8"))
       for raw, style in ((True, columns), (False, entries))},
    **{f"ties in steps of {grid}, {words}": ({"grid": grid}, kinds.ties_by_high_id, "vllm", words)
       for grid in (0.25, 1.0, 4.0) for words in ((), ("--top-k", "20"), ("--top-logprobs", "5"), ("--top-logprobs", "2"))},
    "logarithms in bfloat16": ({}, kinds.in_bfloat16, "vllm", ()),
    "1 digit, logarithms": ({}, rounded_logs(1), "vllm", ()),
    "top-p by 2 digits": ({"raw": True}, rounded_logs(2), "vllm", ("--top-p", ".8")),
    "processed at .3": ({}, columns, "vllm", ("--temperature", ".3", "--logprobs", "processed")),
    "one at a time": ({"noise": 0.05}, columns, "vllm", ("--concurrency", "1")),
    "two listed": ({"noise": 0.05}, columns, "vllm", ("--top-logprobs", "2")),
    "one listed": ({"noise": 0.05}, entries, "vllm", ("--top-logprobs", "1")),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", slow_except(RIGHT, "4 digits, logarithms", "ties in steps of 0.25, ('--top-logprobs', '2')")
)
def test_no_false_alarm(name: str) -> None:
    given, style, owner, words = RIGHT[name]
    done, _ = asked(Source(**given), *words, style=style, owner=owner, tokens=2500)
    assert done.exit_code == 0, done.output
    assert "no bias found" in done.output


@pytest.mark.parametrize("heat", [0.7, slow(0.5)])
def test_raw_distributions_at_another_temperature(heat: float) -> None:
    """A server that samples at the requested temperature, and one that samples at 1, both with the model's log-probabilities."""
    words = ("--temperature", str(heat))
    done, _ = asked(Source(raw=True), *words, tokens=2000)
    assert done.exit_code == 0 and "by unlisted tokens at another temperature" in said(done), done.output
    done, _ = asked(
        lambda fields: Source(raw=True, seed=fields["max_tokens"])(fields | {"temperature": 1}), *words, tokens=2000
    )
    assert done.exit_code == 1, done.output


def test_a_usage_that_is_not_shown_is_not_missed() -> None:
    def without(handler: Handler, fields: dict[str, Any]) -> bool:
        return send(handler, plain(body(fields, lambda whole: whole.pop("usage"), handler.server.generate)))

    done, _ = asked(Source(), misbehave=without, tokens=600)
    assert done.exit_code == 0, done.output


# Servers that break what carries the answers. Each: what it sends instead, and what must be said.


def changed(change: Callable[[dict[str, Any]], Any]) -> Misbehave:
    return lambda handler, fields: send(handler, plain(body(fields, change, handler.server.generate)))


def logprobs(**columns: Callable[[Any], Any]) -> Misbehave:
    def change(whole: dict[str, Any]) -> None:
        found = whole["choices"][0]["logprobs"]
        for name, new in columns.items():
            found[name] = new(found[name])

    return changed(change)


def named(name: Any) -> Misbehave:
    """The third token has this name, in a list of objects."""

    def change(whole: dict[str, Any]) -> None:
        entry = {"id": 1, "logprob": -0.1, "top_logprobs": [{"id": 1, "logprob": -0.1}, {"id": 2, "logprob": -3}]}
        other = {"id": name, "logprob": -0.2, "top_logprobs": [{"id": name, "logprob": -0.2}, {"id": 2, "logprob": -3}]}
        whole["choices"][0]["logprobs"] = {"content": [entry, entry, other]}
        whole.pop("usage")

    return changed(change)


def raw(content: bytes) -> Misbehave:
    return lambda handler, fields: send(handler, plain(content))


def status(line: bytes, head: bytes = b"", content: bytes = b"{}") -> Misbehave:
    return lambda handler, fields: send(handler, plain(content, line, head))


def bytes_of(*parts: bytes, pause: float = 0.0, times: int = 1) -> Misbehave:
    return lambda handler, fields: send(handler, *parts, pause=pause, times=times)


UNREADABLE = "cannot be read"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
DRIPPING: dict[str, Misbehave] = {
    "headers drip": bytes_of(OK, b"x-a: b\r\n", pause=0.05, times=600),
    "one byte of a header at a time": bytes_of(b"HTTP/1.1 200 OK\r\nx-", b"a", pause=0.05, times=600),
    "continue for ever": bytes_of(b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.02, times=1500),
    "continue without a pause": bytes_of(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, times=3000),
    "chunks drip": bytes_of(CHUNKED, b"1\r\n \r\n", pause=0.05, times=600),
    "trailers drip": bytes_of(CHUNKED + b"2\r\n{}\r\n0\r\n", b"x-a: b\r\n", pause=0.05, times=600),
    "a size of a chunk that never ends": bytes_of(CHUNKED, b"0", pause=0.05, times=600),
    "silence": bytes_of(b"", pause=5.0),
    "silence after the headers": bytes_of(OK + b"content-length: 10\r\n\r\n", b"", pause=5.0),
}
BROKEN: dict[str, tuple[Misbehave, str]] = {
    # framing
    "no http": (bytes_of(b"SSH-2.0-OpenSSH_9.6\r\n"), UNREADABLE),
    "nothing at all": (bytes_of(b""), UNREADABLE),
    "two lengths": (bytes_of(OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}"), UNREADABLE),
    "a negative length": (bytes_of(OK + b"content-length: -2\r\n\r\n{}"), UNREADABLE),
    "half a body": (bytes_of(OK + b"content-length: 2000\r\n\r\n{}"), UNREADABLE),
    "a chunk of no size": (bytes_of(CHUNKED + b"zz\r\n"), UNREADABLE),
    "endless headers": (bytes_of(OK, b"x-a: " + b"b" * 1000 + b"\r\n", times=2000), UNREADABLE),
    "endless trailers": (bytes_of(CHUNKED + b"0\r\n", b"x-a: " + b"b" * 1000 + b"\r\n", times=2000), UNREADABLE),
    "other protocols": (status(b"101 Switching Protocols", b"upgrade: h2c\r\n"), UNREADABLE),
    "no content": (bytes_of(b"HTTP/1.1 204 No Content\r\n\r\n"), UNREADABLE),
    "compressed": (bytes_of(OK + b"content-encoding: br\r\ncontent-length: 2\r\n\r\n{}"), UNREADABLE),
    "a redirect": (status(b"307 Temporary Redirect", b"location: http://127.0.0.1:9/\r\n"), "redirects"),
    "a redirect to nowhere": (status(b"302 Found", b"location: http://[\r\n"), "redirects"),
    # states
    "always busy": (status(b"429 Too Many Requests"), UNREADABLE),
    "always down": (status(b"503 Service Unavailable", b"retry-after: soon\r\n"), UNREADABLE),
    "unauthorised": (status(b"401 Unauthorized", content=b"who are you? \x1b[31m \xff"), "refuses with status 401"),
    "chat alone": (status(b"404 Not Found", content=b'{"detail": "Not Found"}'), "refuses with status 404"),
    "a status of its own": (status(b"799 What"), UNREADABLE),
    # encodings
    "latin": (raw(b'{"choices": "\xe9"}'), UNREADABLE),
    "nothing but zeros": (raw(bytes(100)), UNREADABLE),
    "half a surrogate for a message": (raw(b'{"choices": [{"logprobs": {"\\ud800": 1}}]}'), UNREADABLE),
    # shapes
    "a number": (raw(b"5"), UNREADABLE),
    "null": (raw(b"null"), UNREADABLE),
    "choices that are an object": (raw(b'{"choices": {}}'), UNREADABLE),
    "a choice that is a text": (raw(b'{"choices": ["a"]}'), UNREADABLE),
    "log-probabilities that are a text": (raw(b'{"choices": [{"logprobs": "content"}]}'), UNREADABLE),
    "log-probabilities that are a number": (raw(b'{"choices": [{"logprobs": 5}]}'), UNREADABLE),
    "deep": (raw(b'{"a":' * 50_000), UNREADABLE),
    "a number of a million digits": (raw(b'{"choices": ' + b"9" * 10**6 + b"}"), UNREADABLE),
    "no log-probabilities": (changed(lambda whole: whole["choices"][0].pop("logprobs")), "--max-logprobs"),
    "lists that are lists": (logprobs(top_logprobs=lambda rows: [list(row) for row in rows]), UNREADABLE),
    "empty lists": (logprobs(top_logprobs=lambda rows: [{} for _ in rows]), "no other tokens are listed"),
    "lists that are null": (logprobs(top_logprobs=lambda rows: None), UNREADABLE),
    "more tokens than asked": (changed(lambda whole: None), ""),  # replaced below
    "a usage that is a list": (changed(lambda whole: whole.update(usage=[1])), UNREADABLE),
    "a usage beyond all": (changed(lambda whole: whole["usage"].update(completion_tokens=10**4000)), UNREADABLE),
    # ids
    "an id of 10^30": (named(10**30), UNREADABLE),
    "a negative id": (named(-1), UNREADABLE),
    "half an id": (named(1.5), UNREADABLE),
    "a true id": (named(True), UNREADABLE),
    "an id that is null": (named(None), UNREADABLE),
    "an id that is a list": (named([1]), UNREADABLE),
    "ids that stand twice": (named(2), UNREADABLE),
    "columns of numbers": (logprobs(tokens=lambda names: [1e300 for _ in names]), UNREADABLE),
    # log-probabilities
    "infinite": (logprobs(token_logprobs=lambda logs: [-1e999 for _ in logs]), UNREADABLE),
    "beyond floats": (logprobs(token_logprobs=lambda logs: [-(10**400) for _ in logs]), UNREADABLE),
    "as texts": (logprobs(token_logprobs=lambda logs: [str(log) for log in logs]), UNREADABLE),
    "as truths": (logprobs(token_logprobs=lambda logs: [False for _ in logs]), UNREADABLE),
    "positive": (logprobs(token_logprobs=lambda logs: [0.5 for _ in logs]), UNREADABLE),
    "null for the first": (logprobs(token_logprobs=lambda logs: [None, *logs[1:]]), UNREADABLE),
    "all of them sure": (logprobs(top_logprobs=lambda rows: [dict.fromkeys(row, 0.0) for row in rows]), UNREADABLE),
    "own and listed apart": (logprobs(token_logprobs=lambda logs: [-0.0001 for _ in logs]), UNREADABLE),
}  # fmt: skip
BROKEN["more tokens than asked"] = (
    lambda handler, fields: send(handler, plain(body(fields | {"max_tokens": 300}, generate=handler.server.generate))),
    "were asked for",
)


@pytest.mark.parametrize("name", slow_except(DRIPPING, "continue for ever"))
def test_the_deadline_is_that_of_the_whole_exchange(name: str) -> None:
    done, server = asked(Source(), "--timeout", ".3", "--concurrency", "2", misbehave=DRIPPING[name])
    assert done.exit_code == 2 and "not complete after 0.3 seconds" in said(done), done.output
    assert len(server.seen) <= 1 + 4 * 2


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_is_no_verdict(name: str) -> None:
    misbehave, words = BROKEN[name]
    done, _ = asked(Source(), "--timeout", "5", "--concurrency", "2", "--length", "4", misbehave=misbehave)
    assert done.exit_code == 2 and "internal error" not in done.output, done.output
    assert words in said(done) or (words == UNREADABLE and "without a readable token" in said(done)), done.output


@pytest.mark.parametrize(
    "name", slow_except([name for name in BROKEN if name != "no log-probabilities"], "own and listed apart")
)
def test_few_of_it_are_left_out_and_counted_and_many_are_too_many(name: str) -> None:
    """Of 60 answers two, or a quarter: the verdict on the rest is given, or refused, with what was left out."""
    misbehave, _ = BROKEN[name]
    retried = name in RETRIED
    for share, exit_code in ((30, 0), (3, 0 if retried else 2)):
        count: list[int] = []

        def sometimes(handler: Handler, fields: dict[str, Any], count: list[int] = count, share: int = share) -> bool:
            count.append(1)
            return len(count) % share == 0 and misbehave(handler, fields)

        done, _ = asked(
            Source(), "--concurrency", "2", "--length", "20", "--timeout", "5", misbehave=sometimes, tokens=1200
        )
        assert done.exit_code == exit_code, done.output
        assert retried or exit_code == 2 or "left out: " in done.output, done.output


RETRIED = {name for name, _ in BROKEN.items() if name in (
    "no http", "nothing at all", "two lengths", "a negative length", "half a body", "a chunk of no size", "endless headers",
    "endless trailers", "always busy", "always down", "a status of its own", "other protocols",
)}  # fmt: skip


# Busy servers.


def test_retry_after_is_honoured() -> None:
    refused: list[float] = []
    answered: list[float] = []

    def busy(handler: Handler, fields: dict[str, Any]) -> bool:
        if refused:
            answered.append(time.monotonic())
            return False
        refused.append(time.monotonic())
        return send(handler, plain(b"{}", b"429 Too Many Requests", b"retry-after: 1\r\n"))

    done, _server = asked(Source(), "--concurrency", "1", "--length", "50", misbehave=busy, tokens=100)
    assert done.exit_code == 0 and "left out: " not in done.output, done.output
    assert answered[0] - refused[0] > 0.9


def test_waiting_has_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour is not waited for: up to max_wait_s at a time, and max_total_wait_s in all."""
    monkeypatch.setattr(client, "HttpSettings", partial(client.HttpSettings, max_wait_s=0.1, max_total_wait_s=0.5))
    busy = status(b"429 Too Many Requests", b"retry-after: 3600\r\n")
    done, server = asked(Source(), "--concurrency", "1", misbehave=busy)
    assert done.exit_code == 2 and "status 429" in said(done)
    assert len(server.seen) > 1 + RequestPlan.max_empty_batches  # it is asked again within the hour


@pytest.mark.parametrize("line", [b"400 Bad Request", b"429 Too Many Requests", b"500 Internal Server Error"])
def test_one_refusal_does_not_end_an_audit(line: bytes) -> None:
    count: list[int] = []

    def once(handler: Handler, fields: dict[str, Any]) -> bool:
        count.append(1)
        return len(count) == 40 and send(handler, plain(b'{"error": "not now"}', line))

    done, _ = asked(Source(), misbehave=once, tokens=1500)
    assert done.exit_code == 0, done.output
    assert ("left out: " in done.output) == (line[:3] == b"400")


# Answers that are lost by a token that is in them: the others lean, and it is not the sampler's fault.

LOST = {
    "bytes that are no text": lambda handler: send(handler, plain(b'{"choices": "\xe9"}')),
    "an error of the server's": lambda handler: send(handler, plain(b"{}", b"500 Internal Server Error")),
    "a connection that breaks off": lambda handler: send(handler, OK + b"content-length: 2000\r\n\r\n{}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOST)
def test_what_a_token_breaks_is_not_held_against_the_sampler(name: str) -> None:
    source = Source()
    rare = int(source.p.mean(0).argmin())

    def lost(handler: Handler, fields: dict[str, Any]) -> bool:
        tokens, laws = source(fields)
        if rare in tokens.tolist():
            return LOST[name](handler)
        handler.give(completion(tokens, columns(tokens, laws, fields["logprobs"]), fields["max_tokens"]))
        return True

    done, _ = asked(source, "--length", "16", misbehave=lost, tokens=16_000)
    assert done.exit_code in (0, 2), done.output
    assert ("cannot be read" if name == "bytes that are no text" else "asked again") in said(done)


def test_what_no_list_shows_is_said() -> None:
    """Tokens beyond the first two are drawn as the server likes."""
    source = Source()

    def wrong(fields: dict[str, Any]) -> Any:
        tokens, laws = source(fields)
        order = np.argsort(-laws, axis=1)
        beyond = (order[:, :2] != tokens[:, None]).all(1)
        return np.where(beyond, order[:, 2], tokens), laws

    done, _ = asked(wrong, style=lambda tokens, laws, listed: columns(tokens, laws, 2), tokens=2000)
    assert done.exit_code == 2 or "are not distinguished" in said(done), done.output


@pytest.mark.parametrize(
    ("words", "exit_code", "must_say"),
    [
        (("--temperature", "inf", "--top-k", "3"), 2, "temperature inf"),
        (("--model", "\ud800"), 2, "--model must be printable"),
        slow(("--lengths", "16,512"), 0, "8 x 512"),
    ],
)
def test_odd_options(words: tuple[str, ...], exit_code: int, must_say: str) -> None:
    done, _ = asked(Source(), *words, tokens=3000)
    assert done.exit_code == exit_code and must_say in said(done), done.output


# What the batches are like.


def test_a_server_without_room_is_asked_for_less() -> None:
    """Long answers are refused, and more than eight at a time time out: the others are judged, and it is said."""

    def small(handler: Handler, fields: dict[str, Any]) -> bool:
        return fields["max_tokens"] > 64 and send(
            handler, plain(b'{"error": "max_tokens is too large"}', b"400 Bad Request")
        )

    done, server = asked(Source(), misbehave=small, tokens=2000)
    assert done.exit_code == 0, done.output
    assert "left out: 1 requests of 256 tokens" in said(done) and "max_tokens is too large" in said(done)
    long = [fields for _, _, fields in server.seen if fields.get("max_tokens") == 256]
    assert len(long) == 1 + 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("position", "together"), [(200, 10**6), (10**6, 8)], ids=["from position 200 on", "above 8 at a time"]
)
def test_the_waves_of_the_default_reach_what_is_wrong_there_alone(position: int, together: int) -> None:
    source = Source(late=position, crowded=together)
    done, _ = asked(source, tokens=20_000)
    assert done.exit_code == 1, done.output
    done, _ = asked(source, "--concurrency", "8", "--length", "16", tokens=2000)
    assert done.exit_code == 0, done.output


def test_tokens_that_are_counted_and_not_shown_are_left_out_and_counted() -> None:
    """llama.cpp keeps the tokens of half a character back when an answer ends: the others are judged."""

    def half(handler: Handler, fields: dict[str, Any]) -> bool:
        def change(whole: dict[str, Any]) -> None:
            found = whole["choices"][0]["logprobs"]
            for name in ("tokens", "token_logprobs", "top_logprobs"):
                found[name] = found[name][: -1 - len(fields["prompt"]) % 2]

        return len(fields["prompt"]) % 3 == 0 and send(handler, plain(body(fields, change, handler.server.generate)))

    done, _ = asked(Source(), "--length", "64", misbehave=half, tokens=1500)
    assert done.exit_code == 0 and "counted, and not reported" in said(done), done.output
    done, _ = asked(Source(late=0), "--length", "64", misbehave=half, tokens=1500)
    assert done.exit_code == 1, done.output
