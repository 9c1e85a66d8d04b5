"""The audit of a server, against a real HTTP server: right and wrong samplers, and servers that hang, lie and break."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from click.testing import CliRunner, Result
from mutants.catalogue import TABLES
from slow import slow

from ot_draft.arrays import Array
from ot_draft.cli import main
from ot_draft.verify.server import client, server

from .chains import Pair, Tables, random_pair, right, run
from .completions_server import Generate, Handler, columns, completion, entries, evidence_of, serving

pytest.importorskip("httpx")
N = 32


def start(prompt: str | list[int], n: int) -> Array:
    """The state after a prompt: (1,)."""
    return np.array([crc32(str(prompt).encode()) % n**2])


def sampler(make: Callable[[Pair], Tables], seed: int = 0) -> Generate:
    """Requests are answered by a speculative sampler, one after the other."""
    pair, generator, lock = random_pair(seed, N), np.random.default_rng(seed), threading.Lock()
    tables = make(pair)

    def generate(fields: dict[str, Any]) -> tuple[Any, Any]:
        with lock:
            emitted = run(pair, tables, 1.0, 1, fields["max_tokens"], generator, start(fields["prompt"], N))
        return emitted.token[0], pair.p[emitted.last[0]]

    return generate


def audit(*words: str) -> Result:
    return CliRunner().invoke(main, ["audit", *words])


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OT_DRAFT_AUDIT_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "HttpSettings", partial(client.HttpSettings, backoff_s=0.001))


@pytest.mark.parametrize(("style", "owner"), [(columns, "vllm"), (entries, "llamacpp")], ids=["columns", "entries"])
def test_a_right_server_passes(style: Callable[..., Any], owner: str, tmp_path: Path) -> None:
    with serving(sampler(right), style, owner) as (url, server):
        done = audit(
            url,
            "--tokens",
            "1500",
            "--length",
            "64",
            "--json",
            str(tmp_path / "a.json"),
            "--html",
            str(tmp_path / "a.html"),
        )
    assert done.exit_code == 0, done.output
    found = evidence_of((tmp_path / "a.json").read_text())
    assert found["status"] == "passed" and found["tokens"] >= 1500 and found["skipped"] == 0
    assert 0 < found["bound"] < 0.25
    assert "<h1>Audit of http://127.0.0.1" in (tmp_path / "a.html").read_text()
    _, headers, fields = server.seen[1]
    assert fields["temperature"] == 1 and fields["logprobs"] == 20 and fields["model"] == "tiny"
    assert "authorization" not in {name.lower() for name in headers}


@pytest.mark.parametrize(
    ("timings", "said"),
    [
        ({"draft_n": 3}, "draft tokens by the server's own count: 3"),
        ({}, "draft tokens by the server's own count: 0"),
        (None, ""),
        ({"draft_n": "3"}, ""),
    ],
)
def test_whether_anything_was_drafted_is_said_where_the_server_counts_it(timings: Any, said: str) -> None:
    """llama.cpp drafts by n-grams where a text repeats itself alone: an audit without drafts must not look like one of them."""
    body = good_answer(lambda whole: whole.update(timings=timings))
    with serving(sampler(right), misbehave=lambda handler, fields: answer(handler, body)) as (url, _):
        done = audit(url, "--tokens", "16", "--length", "16", "--concurrency", "1")
    assert done.exit_code == 0, done.output
    assert said in done.output if said else "draft tokens by" not in done.output, done.output


def test_llama_cpp_with_drafts_is_not_judged_and_the_way_is_named() -> None:
    """Its server lists no tokens where a step had drafts, by lookup or of a model: no such token has a law."""

    def change(whole: dict[str, Any]) -> None:
        whole["timings"] = {"draft_n": 5}
        for row in whole["choices"][0]["logprobs"]["content"][3:8]:
            row.update(logprob=0.0, top_logprobs=[])

    def spoken(handler: Handler, fields: dict[str, Any]) -> bool:
        tokens, laws = handler.server.generate(fields)
        whole = completion(tokens, entries(tokens, laws, fields["logprobs"]), fields["max_tokens"])
        if len(handler.server.seen) % 2:
            change(whole)
        return answer(handler, json.dumps(whole).encode())

    with serving(sampler(right), owner="llamacpp", misbehave=spoken) as (url, _):
        done = audit(url, "--tokens", "400", "--length", "16", "--concurrency", "4")
    said = " ".join(done.output.split())
    assert done.exit_code == 2 and "cannot be decided" in said and "audit servers URL URL2" in said, done.output
    assert re.search(r"draft tokens by the server's own count: [1-9]", said), done.output


@pytest.mark.parametrize("name", [slow("greedy drafts"), slow("every draft taken"), "last token of the place before"])
def test_a_wrong_server_is_found(name: str) -> None:
    with serving(sampler(TABLES[name])) as (url, _):
        done = audit(url, "--tokens", "12000", "--length", "128", "--concurrency", "8")
    assert done.exit_code == 1, done.output
    assert "biased" in done.output and "strongest evidence" in done.output


def test_a_temperature_is_applied_to_raw_reports_only() -> None:
    """The server samples at 0.7 and reports at 1: correct as raw log-probabilities, biased as processed ones."""

    def generate(fields: dict[str, Any]) -> tuple[Any, Any]:
        logits = np.log(random_pair(0, N).p[:1].repeat(fields["max_tokens"], 0))
        laws = np.exp(logits / 0.7) / np.exp(logits / 0.7).sum(1, keepdims=True)
        token = (laws.cumsum(1) < np.random.default_rng().random(len(laws))[:, None]).sum(1)
        return np.minimum(token, N - 1), np.exp(logits)

    with serving(generate) as (url, server):
        right = audit(url, "--temperature", ".7", "--tokens", "1000", "--length", "64")
        assert right.exit_code == 0, right.output
        wrong = audit(url, "--temperature", ".7", "--logprobs", "processed", "--tokens", "3000", "--length", "64")
        assert wrong.exit_code == 1, wrong.output
        known = audit(url, "--temperature", ".7", "--top-k", "5", "--tokens", "200")
        assert known.exit_code == 1 and "probability below 1e-15" in known.output  # tokens beyond top-k
    assert server.seen[-1][2]["top_k"] == 5


@pytest.mark.parametrize(("option", "value"), [("--temperature", "-1"), ("--top-p", "0"), ("--top-k", "-2")])
def test_options_out_of_range_are_refused_before_the_server_is_asked(option: str, value: str) -> None:
    refused = audit("http://127.0.0.1:9", option, value)  # nobody answers there
    assert refused.exit_code == 2 and f"{option[2:]} {value}" in refused.output, refused.output
    assert "temperature and top-k must be at least 0" in refused.output


def answer(handler: Handler, body: bytes, status: int = 200, length: int | None = None, **headers: str) -> bool:
    handler.send_response(status)
    handler.send_header("content-length", str(len(body) if length is None else length))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)
    handler.close_connection = True
    return True


def good_answer(change: Callable[[dict[str, Any]], Any] = lambda whole: None) -> bytes:
    tokens, laws = sampler(right)({"prompt": "", "max_tokens": 16})
    whole = completion(tokens, columns(tokens, laws, 20))
    change(whole)
    return json.dumps(whole).encode()


def _logprobs(whole: dict[str, Any]) -> dict[str, Any]:
    return whole["choices"][0]["logprobs"]


BROKEN = {
    "half a JSON": lambda: good_answer()[:1000],
    "no JSON": lambda: b"<html>busy</html>",
    "NaN": lambda: good_answer(lambda whole: _logprobs(whole)["token_logprobs"].__setitem__(3, float("nan"))),
    "a probability above 1": lambda: good_answer(lambda whole: _logprobs(whole)["token_logprobs"].__setitem__(3, 0.5)),
    "a short column": lambda: good_answer(lambda whole: _logprobs(whole)["top_logprobs"].pop()),
    "a lie about the number": lambda: good_answer(lambda whole: whole["usage"].update(completion_tokens=3)),
    "an empty choice": lambda: good_answer(lambda whole: whole.update(choices=[])),
    "a list": lambda: b"[1, 2, 3]",
    "deep nesting": lambda: b"[" * 100_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_answers_that_cannot_be_read_are_refused(name: str) -> None:
    body = BROKEN[name]()
    with serving(sampler(right), misbehave=lambda handler, fields: answer(handler, body)) as (url, _):
        done = audit(url, "--tokens", "1000", "--concurrency", "1")
    assert done.exit_code == 2 and "Traceback" not in done.output, done.output
    assert "without a readable token" in done.output


@pytest.mark.parametrize("forget", [lambda choice: choice.update(logprobs=None), lambda choice: choice.pop("logprobs")])
def test_a_server_without_log_probabilities_hears_what_to_do(forget: Callable[[dict[str, Any]], Any]) -> None:
    body = good_answer(lambda whole: forget(whole["choices"][0]))
    with serving(sampler(right), misbehave=lambda handler, fields: answer(handler, body)) as (url, server):
        done = audit(url)
    assert done.exit_code == 2 and "--max-logprobs" in done.output and "write a log" in done.output, done.output
    assert len(server.seen) < 12  # one batch was enough


def test_few_broken_answers_are_left_out_and_counted() -> None:
    calls: list[int] = []

    def misbehave(handler: Handler, fields: dict[str, Any]) -> bool:
        calls.append(1)
        return len(calls) == 5 and answer(handler, b"{")

    with serving(sampler(right), misbehave=misbehave) as (url, _):
        done = audit(url, "--tokens", "1000", "--length", "16", "--concurrency", "8")
    # Eight are asked for at a time: the fifth that comes may be any of them.
    assert done.exit_code == 0 and re.search(r"left out: answer [0-7]: the response must be JSON", done.output), (
        done.output
    )


WITHOUT_LISTS = json.dumps(
    {"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": [-1.0], "top_logprobs": [None]}}]}
).encode()


@pytest.mark.parametrize(
    ("misbehave", "said"),
    [
        (
            lambda handler, fields: answer(handler, b"", 307, location="http://example.com/v1/completions"),
            "redirects",
        ),
        (lambda handler, fields: answer(handler, b'{"error": "no such field"}', 400), "no such field"),
        (
            lambda handler, fields: answer(handler, b'{"error": {"message": "it sleeps"}}'),
            "the response has an error",
        ),
        (lambda handler, fields: answer(handler, WITHOUT_LISTS), "top_logprobs[0] must be an object, got None"),
        (lambda handler, fields: answer(handler, b"short", length=10**6), "without a readable token"),
        (
            lambda handler, fields: answer(handler, gzip.compress(bytes(10**6)), content_encoding="gzip"),
            "without a readable token",
        ),
    ],
    ids=["redirect", "refusal", "refusal as an answer", "no lists", "lie about the length", "compressed"],
)
def test_a_server_that_sends_elsewhere_refuses_or_lies(misbehave: Callable[..., bool], said: str) -> None:
    with serving(sampler(right), misbehave=misbehave) as (url, _):
        done = audit(url, "--concurrency", "1", "--timeout", "5")
    assert done.exit_code == 2 and said in done.output, done.output


def test_a_server_that_hangs_or_drips_or_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RequestPlan", partial(server.RequestPlan, max_empty_batches=2))

    def hang(handler: Handler, fields: dict[str, Any]) -> bool:
        time.sleep(2)
        handler.close_connection = True
        return True

    def drip(handler: Handler, fields: dict[str, Any]) -> bool:
        answer(handler, b"{", length=100)
        with np.errstate(all="ignore"):
            for _ in range(40):
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(0.05)
        return True

    def flood(handler: Handler, fields: dict[str, Any]) -> bool:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(10_000):
            handler.wfile.write(bytes(2**20))
        return True

    late = "not complete after 0.4 seconds"
    for misbehave, limit, why in (
        (hang, ".4", late),
        (drip, ".4", late),
        (flood, "600", "longer than 8,388,608 bytes"),
    ):
        with serving(sampler(right), misbehave=misbehave) as (url, _):
            done = audit(url, "--concurrency", "1", "--timeout", limit)
        said = " ".join(done.output.split())
        assert done.exit_code == 2 and "2 batches" in said and why in said, done.output


def test_the_key_is_sent_to_this_server_and_written_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OT_DRAFT_AUDIT_KEY", "secret-key")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nothing listens there; it must not be asked
    page, file = tmp_path / "a.html", tmp_path / "a.json"
    with serving(sampler(right)) as (url, server):
        done = audit(url, "--tokens", "100", "--html", str(page), "--json", str(file))
    assert done.exit_code == 0, done.output
    assert server.seen[0][1]["authorization"] == "Bearer secret-key"
    assert all("secret-key" not in text for text in (done.output, page.read_text(), file.read_text()))

    def echo(handler: Handler, fields: dict[str, Any]) -> bool:
        return answer(handler, f"you sent {handler.headers['authorization']}".encode(), 401)

    with serving(sampler(right), misbehave=echo) as (url, _):
        done = audit(url)
    assert done.exit_code == 2 and "you sent Bearer ..." in done.output and "secret-key" not in done.output
    done = audit("http://audit.invalid:8000")
    assert done.exit_code == 2 and "unencrypted" in done.output


@pytest.mark.parametrize("url", ["http://", "http://user:word@localhost:1", "http://localhost:1?x=1"])
def test_addresses_that_are_none(url: str) -> None:
    done = audit(url)
    assert done.exit_code == 2 and "word" not in done.output


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = audit(f"http://127.0.0.1:{port}")
    assert done.exit_code == 2 and "cannot be reached: ConnectError" in done.output


def test_a_last_token_that_is_not_reported_is_refused() -> None:
    def change(whole: dict[str, Any]) -> None:
        whole["choices"][0]["finish_reason"] = "stop"
        whole["usage"]["completion_tokens"] += 1

    body = good_answer(change)
    with serving(sampler(right), misbehave=lambda handler, fields: answer(handler, body)) as (url, _):
        done = audit(url)
    assert done.exit_code == 2 and "--ignore-eos" in done.output


def test_prompts_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text('Once upon\n\n[1, 2, 3]\n"two\\nlines"\n')
    with serving(sampler(right)) as (url, server):
        done = audit(url, "--prompts", str(file), "--tokens", "90", "--concurrency", "6")
        assert done.exit_code == 0, done.output
    asked = [fields["prompt"] for path, _, fields in server.seen if path.endswith("completions")]
    assert asked[:6].count("Once upon") == asked[:6].count([1, 2, 3]) == asked[:6].count("two\nlines") == 2
    file.write_text("[1, 2")
    assert audit("http://localhost:1", "--prompts", str(file)).exit_code == 2
