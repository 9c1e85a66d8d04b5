"""Two servers, one law? Wrong samplers beside right ones, right ones beside right ones, and servers that answer oddly."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sizes import first

from ot_draft.arrays import Array
from ot_draft.audit.against import SETTINGS, Agreement, Match, Setting
from ot_draft.audit.two_sided import TwoSided
from ot_draft.cli import main

from .chains import random_pair, residual, softmax
from .completions_server import completion, serving

PROMPTS = [[i] for i in range(16)]


class Chain:
    """A side that writes by laws (n, n) of the next token given the last; a prompt is a token, a setting is not looked at."""

    def __init__(self, laws: Array, seed: int, shared: int = 1) -> None:
        self.steps, self.generator, self.shared = (
            laws.cumsum(1) / laws.sum(1, keepdims=True),
            np.random.default_rng(seed),
            shared,
        )

    def ask(self, requests: Sequence[tuple[str, Any]], tokens: int) -> list[Any]:
        state = np.array([prompt[0] for _, prompt in requests])
        made = np.empty((len(requests), tokens), np.int64)
        for t in range(tokens):
            uniforms = np.repeat(self.generator.random(-(-len(state) // self.shared)), self.shared)[: len(state)]
            state = made[:, t] = (self.steps[state] < uniforms[:, None]).sum(1)
        return list(made)


def greedy(p: Array, q: Array) -> Array:
    return np.eye(len(p))[p.argmax(1)]


def residual_is_p(p: Array, q: Array) -> Array:
    accepted = np.minimum(p, q)
    return accepted + (1 - accepted.sum(1, keepdims=True)) * p


def lenient(p: Array, q: Array) -> Array:
    accepted = np.minimum(1.3 * p, q)
    return accepted + (1 - accepted.sum(1, keepdims=True)) * residual(p, q)


def top_k(p: Array, q: Array) -> Array:
    return np.where(p >= np.sort(p, axis=1)[:, -8:-7], p, 0)


def drafts_law_is_hotter(p: Array, q: Array) -> Array:
    hot = softmax(np.log(q) * 0.8)
    accepted = hot * np.minimum(1, p / q)
    return accepted + (1 - accepted.sum(1, keepdims=True)) * residual(p, q)


def match(wrong: Array, right: Array, seed: int, tokens: int, level: float = 1e-6, shared: int = 1) -> Agreement:
    sides = Chain(wrong, 2 * seed, shared), Chain(right, 2 * seed + 1, shared)
    return Match(*sides, [Setting("plain", PROMPTS, 1.0)], level, seed=seed).until(tokens)


@pytest.mark.parametrize(
    ("kind", "most"),
    [(greedy, 1_000), (residual_is_p, 12_000), (top_k, 30_000), (lenient, 60_000), (drafts_law_is_hotter, 60_000)],
)
def test_a_wrong_side_is_told_from_a_right_one(kind: Callable[[Array, Array], Array], most: int) -> None:
    """At the level of a millionth, tokens of both sides; whichever side it is."""
    pair = random_pair(3)
    sides = kind(pair.p, pair.q), pair.p
    assert match(*sides, seed=1, tokens=most).differs
    if kind in (greedy, residual_is_p):
        assert match(*sides[::-1], seed=2, tokens=most).differs


@pytest.mark.parametrize("shared", [1, 8])
@pytest.mark.parametrize("seed", first(4, range(40)))
def test_right_sides_are_never_told_apart(seed: int, shared: int) -> None:
    """Also where all rows of a batch share their random numbers: a bet a request would call that a difference."""
    pair = random_pair(seed % 6)
    verdict = match(pair.p, pair.p, seed, 3_000, level=1e-3, shared=shared)
    assert not verdict.differs and "no difference seen" in str(verdict)


def test_the_bound_holds_and_falls() -> None:
    pair = random_pair(3)
    near = 0.97 * pair.p + 0.03 * pair.q
    apart = float(abs(near - pair.p)[:16].sum(1).mean() / 2)
    early, late = (match(near, pair.p, 5, tokens, level=1e-300) for tokens in (2_000, 30_000))
    assert late.bound < early.bound <= 1 and late.bound > apart / 4 and not late.differs


def test_the_wealth_has_mean_one_where_the_sides_are_exchangeable() -> None:
    """By enumeration: a fourth block after any three, both ways round, pays 2 together."""
    generator = np.random.default_rng(0)
    blocks = generator.integers(0, 3, (4, 2, 5, 3))
    paid = []
    for order in (1, -1):
        bets = TwoSided()
        for block in blocks[:3]:
            bets.add(np.arange(5) % 2, *block)
        before = bets._single.copy(), bets._sum.copy()
        bets.add(np.arange(5) % 2, *blocks[3][::order])
        paid.append((np.exp(bets._single - before[0]), np.exp(bets._sum - before[1])))
    for one, other in zip(*paid, strict=True):
        assert np.allclose(one + other, 2)


def writer(
    laws: Array, seed: int, spoil: Callable[[dict[str, Any], list[int]], list[int]] = lambda fields, tokens: tokens
) -> Any:
    """A server's answers: laws by the last token; temperature is understood, and what spoil makes of the tokens."""
    generator = np.random.default_rng(seed)

    def generate(fields: dict[str, Any]) -> tuple[Array, Array]:
        state, tokens = len(fields["prompt"]) % len(laws), []
        for _ in range(fields["max_tokens"]):
            law = np.power(laws[state], 1 / max(fields["temperature"], 0.05))
            state = int(generator.choice(len(laws), p=law / law.sum()))
            tokens.append(state)
        return np.array(spoil(fields, tokens)), laws[:1]

    return generate


def spoken(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
    return {}


@pytest.fixture
def no_logprobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in answers without being asked for log-probabilities."""
    from . import completions_server

    def post(self: Any) -> None:
        fields = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, dict(self.headers), fields))
        if self.server.misbehave is not None and self.server.misbehave(self, fields):
            return
        tokens, _ = self.server.generate(fields)
        answer = completion(tokens, {}, fields["max_tokens"])
        answer["choices"][0] |= {"token_ids": tokens.tolist()} if fields.get("return_token_ids") else {}
        self.give(answer)

    monkeypatch.setattr(completions_server.Handler, "do_POST", post)


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, ["audit", *arguments, "--json", "-"])
    return result.exit_code, json.loads(result.stdout) if result.stdout.startswith("{") else {"error": result.output}


def hotter_when_asked(fields: dict[str, Any], tokens: list[int]) -> list[int]:
    return [7] * len(tokens) if fields.get("top_p", 1) < 1 else tokens


@pytest.mark.parametrize("owner", ["vllm", "llamacpp"])
def test_servers_of_one_law_agree_and_no_log_probabilities_are_asked_for(owner: str, no_logprobs: None) -> None:
    pair = random_pair(0)
    with serving(writer(pair.p, 1), owner=owner) as (one, seen), serving(writer(pair.p, 2), owner=owner) as (other, _):
        status, record = run(one, "--against", other, "--tokens", "1500")
    assert status == 0 and record["tokens"] >= 1500 and "no difference seen" in record["verdict"]
    assert not any("logprobs" in fields for *_, fields in seen.seen)
    assert dict(record["notes"])["compared"] == ("token ids" if owner == "vllm" else "pieces of text")


@pytest.mark.parametrize("owner", ["vllm", "openai"])
def test_a_server_that_is_silently_greedy_differs(owner: str, no_logprobs: None) -> None:
    pair = random_pair(0)
    with (
        serving(writer(greedy(*vars(pair).values()), 1), owner=owner) as (one, _),
        serving(writer(pair.p, 2), owner=owner) as (other, _),
    ):
        status, record = run(one, "--against", other, "--tokens", "4000")
    assert status == 1 and record["decided_at"] < 2_000


def test_the_setting_that_is_wrong_is_named(no_logprobs: None) -> None:
    pair = random_pair(0)
    spoiled = writer(pair.p, 1, hotter_when_asked)
    with serving(spoiled) as (one, _), serving(writer(pair.p, 2)) as (other, _):
        status, record = run(
            one, "--against", other, "--tokens", "20000", "--settings", "plain,top-p 0.8,temperature 0.6"
        )
    assert status == 1 and record["settings"][0][0] == "top-p 0.8"
    assert all(log_e < 7 for name, _, log_e, _ in record["settings"] if name != "top-p 0.8")


def refuses_top_k(handler: Any, fields: dict[str, Any]) -> bool:
    if fields.get("top_k", -1) > 0:
        handler.give({"error": "no top-k here"}, status=400)
    return fields.get("top_k", -1) > 0


def test_a_setting_that_a_server_refuses_is_left_out_and_named(no_logprobs: None) -> None:
    pair = random_pair(0)
    with serving(writer(pair.p, 1), misbehave=refuses_top_k) as (one, _), serving(writer(pair.p, 2)) as (other, _):
        status, record = run(one, "--against", other, "--tokens", "1500", "--settings", "plain,top-k 5")
    assert status == 0 and record["left_out"][0][0] == "top-k 5"


def every_third(handler: Any, fields: dict[str, Any]) -> bool:
    if len(handler.server.seen) % 3 == 0:
        handler.give({"choices": [{"text": 5}]})
    return len(handler.server.seen) % 3 == 0


def test_too_many_answers_that_cannot_be_read_decide_nothing(no_logprobs: None) -> None:
    pair = random_pair(0)
    with serving(writer(pair.p, 1), misbehave=every_third) as (one, _), serving(writer(pair.p, 2)) as (other, _):
        status, record = run(one, "--against", other, "--tokens", "1500")
    assert status == 2 and "cannot be read" in record["undecided"]


def test_ends_that_come_too_early_are_seen(no_logprobs: None) -> None:
    """A stop token that is drawn more often on one side, as a bonus token that ignores the least length does."""
    pair = random_pair(0)
    early = writer(pair.p, 1, lambda fields, tokens: tokens[:1] if tokens[-1] % 3 == 0 else tokens)
    with serving(early, owner="llamacpp") as (one, _), serving(writer(pair.p, 2), owner="llamacpp") as (other, _):
        status, _ = run(one, "--against", other, "--tokens", "8000")
    assert status == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--against", "plain"], "second server"), (["--against", "http://127.0.0.1:9", "--settings", "loud"], "--settings loud"),
     (["--against", "http://127.0.0.1:9", "--html", "x.html"], "leave --html")],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(arguments: list[str], said: str, no_logprobs: None) -> None:
    with serving(writer(random_pair(0).p, 1)) as (one, _):
        result = CliRunner().invoke(main, ["audit", one, *arguments])
    assert result.exit_code == 2 and said in " ".join(result.output.split())


def test_every_setting_has_fields_for_some_engine() -> None:
    assert all(any(fields is not None for fields in by_engine.values()) for by_engine in SETTINGS.values())
