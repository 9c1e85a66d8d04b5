"""Two servers, one law? Wrong samplers beside right ones, right ones beside right ones, and servers that answer oddly."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from slow import slow

from ot_draft.arrays import Array
from ot_draft.cli import main
from ot_draft.errors import CannotAudit
from ot_draft.verify.outcome import Status
from ot_draft.verify.server.against import END_OF_TEXT, ServerSide, Setting, TwoServerTest
from ot_draft.verify.server.answers import BadAnswer
from ot_draft.verify.server.client import DIALECTS
from ot_draft.verify.server.report import ServerReport
from ot_draft.verify.server.server import RequestPlan
from ot_draft.verify.server.settings import SETTINGS
from ot_draft.verify.server.two_sided import ENDED, SideBets

from .chains import PROMPTS, Chain, random_pair, residual, softmax
from .completions_server import completion, serving


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


def match(wrong: Array, right: Array, seed: int, tokens: int, level: float = 1e-6, shared: int = 1) -> ServerReport:
    sides = Chain(wrong, 2 * seed, shared), Chain(right, 2 * seed + 1, shared)
    return TwoServerTest(*sides, [Setting("plain", PROMPTS, 1.0)], level, seed=seed).run(tokens)


@pytest.mark.parametrize(
    ("kind", "most"),
    [(greedy, 1_000), (residual_is_p, 12_000), (top_k, 30_000), (lenient, 60_000), (drafts_law_is_hotter, 60_000)],
)
def test_a_wrong_side_is_told_from_a_right_one(kind: Callable[[Array, Array], Array], most: int) -> None:
    """At the level of a millionth, tokens of both sides; whichever side it is."""
    pair = random_pair(3)
    sides = kind(pair.p, pair.q), pair.p
    assert match(*sides, seed=1, tokens=most).status == Status.FAILED
    if kind in (greedy, residual_is_p):
        assert match(*sides[::-1], seed=2, tokens=most).status == Status.FAILED


@pytest.mark.parametrize("shared", [1, 8])
@pytest.mark.parametrize("seed", [*range(2), *map(slow, range(2, 40))])
def test_right_sides_are_never_told_apart(seed: int, shared: int) -> None:
    """Also where all rows of a batch share their random numbers: a bet a request would call that a difference."""
    pair = random_pair(seed % 6)
    report = match(pair.p, pair.p, seed, 3_000, level=1e-3, shared=shared)
    assert report.status == Status.PASSED and "no difference found" in str(report)


def test_the_bound_holds_and_falls() -> None:
    pair = random_pair(3)
    near = 0.97 * pair.p + 0.03 * pair.q
    apart = float(abs(near - pair.p)[:16].sum(1).mean() / 2)
    early, late = (match(near, pair.p, 5, tokens, level=1e-300) for tokens in (2_000, 8_000))
    assert (
        late.evidence.bound < early.evidence.bound <= 1
        and late.evidence.bound > apart / 4
        and late.status == Status.PASSED
    )


def test_the_wealth_has_mean_one_where_the_sides_are_exchangeable() -> None:
    """By enumeration: a fourth block after any three, both ways round, pays 2 together."""
    generator = np.random.default_rng(0)
    blocks = generator.integers(0, 3, (4, 2, 5, 3))
    paid = []
    for order in (1, -1):
        bets = SideBets()
        for block in blocks[:3]:
            bets.add(np.arange(5) % 2, *block)
        before = bets._single.copy(), bets._sum.copy()
        bets.add(np.arange(5) % 2, *blocks[3][::order])
        paid.append((np.exp(bets._single - before[0]), np.exp(bets._sum - before[1])))
    for one, other in zip(*paid, strict=True):
        assert np.allclose(one + other, 2)


class Mirrored(Chain):
    """Two sides with one stream of numbers, u for the one and 1 - u for the other, all rows of a wave alike."""

    def __init__(self, laws: Array, seed: int, mirrored: bool) -> None:
        super().__init__(laws, seed, shared=10**6)
        draw = self.generator.random
        self.generator = SimpleNamespace(random=lambda size: 1 - draw(size) if mirrored else draw(size))  # type: ignore[assignment]


@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_sides_that_share_their_numbers_are_not_told_apart(seed: int) -> None:
    """u and 1 - u have one law: (X, Y) and (Y, X) have too, though neither rows nor sides are independent."""
    laws = random_pair(seed).p
    sides = (Mirrored(laws, seed, mirrored) for mirrored in (False, True))
    assert TwoServerTest(*sides, [Setting("plain", PROMPTS, 1.0)], 1e-3, seed=seed).run(2_000).status == Status.PASSED


class Changed(Chain):
    """A side whose answers are changed, or lost, after they were drawn."""

    def __init__(self, laws: Array, seed: int, change: Callable[[Array], Any]) -> None:
        super().__init__(laws, seed)
        self.change = change

    def ask(self, requests: Sequence[tuple[str, Any]], tokens: int) -> list[Any]:
        return [self.change(answer) for answer in super().ask(requests, tokens)]


def between(
    change: Callable[[Array], Any], tokens: int, level: float = 1e-3, laws: Array | None = None
) -> ServerReport:
    right = random_pair(0).p
    sides = Changed(right if laws is None else laws, 1, change), Chain(right, 2)
    return TwoServerTest(*sides, [Setting("plain", PROMPTS, 1.0)], level, seed=0).run(tokens)


def test_answers_that_one_side_loses_by_a_token_decide_nothing() -> None:
    """The law of what is left is another one; the law of what was drawn is not."""
    token = int(random_pair(0).p[:16].sum(0).argsort()[-4])
    report = between(lambda answer: BadAnswer("lost") if token in answer else answer, 4_000)
    assert report.status == Status.UNDECIDED and "cannot be read" in report.evidence.reason


@pytest.mark.parametrize("own", [3, 5])
def test_sides_that_always_say_the_same_are_not_called_different(own: int) -> None:
    """A fixed seed, or a cache of answers, on both sides: equal answers, or other ones."""
    right = random_pair(0).p
    sides = (Changed(right, 1, lambda answer, said=said: np.full_like(answer, said)) for said in (own, 3))
    report = TwoServerTest(*sides, [Setting("plain", PROMPTS, 1.0)], seed=0).run(1_000)
    assert report.status != Status.FAILED and (report.evidence.reason == "All answers are equal") == (own == 3)
    assert own == 3 or "repeats its answers" in report.evidence.reason


def test_at_temperature_0_nothing_is_called_different() -> None:
    """Near ties fall to one side or the other by the batch; what was won there is no evidence, and is said."""
    right = random_pair(0).p
    sides = (Changed(greedy(right, right), 1, lambda answer, said=said: answer + said) for said in (0, 1))
    settings = [Setting("plain", PROMPTS, 1.0), Setting("temperature 0", PROMPTS, 1.0)]
    settings[0].skipped = "not in this test"
    report = TwoServerTest(*sides, settings, seed=0).run(1_000)
    assert report.status == Status.UNDECIDED and "temperature 0" in report.evidence.reason


def test_answers_without_a_token_end_the_comparison() -> None:
    sides = (Changed(random_pair(0).p, seed, lambda answer: np.full_like(answer, ENDED)) for seed in (1, 2))
    with pytest.raises(CannotAudit, match="without a token"):
        TwoServerTest(*sides, [Setting("plain", PROMPTS, 1.0)], seed=0).run(1_000)


def test_the_bound_is_about_the_second_token_too() -> None:
    """Most answers have one token, and say nothing about the second: here it is always 0 on one side."""

    def second(answer: Array) -> Array:
        return np.where(np.arange(len(answer)) == 1, 0, answer)

    assert between(second, 4_000, level=1e-300).evidence.bound > 1 - random_pair(0).p[:, 0].mean() - 0.1


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


def run(one: str, other: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, ["audit", "servers", one, other, *arguments, "--json", "-"])
    return result.exit_code, json.loads(result.stdout) if result.stdout.startswith("{") else {"error": result.output}


def hotter_when_asked(fields: dict[str, Any], tokens: list[int]) -> list[int]:
    return [7] * len(tokens) if fields.get("top_p", 1) < 1 else tokens


@pytest.mark.parametrize("owner", ["vllm", slow("llamacpp")])
def test_servers_of_one_law_agree_and_no_log_probabilities_are_asked_for(owner: str, no_logprobs: None) -> None:
    pair = random_pair(0)
    with serving(writer(pair.p, 1), owner=owner) as (one, seen), serving(writer(pair.p, 2), owner=owner) as (other, _):
        status, record = run(one, other, "--tokens", "600")
    assert status == 0 and record["status"] == "passed" and record["outcomes"][0]["evidence"]["tokens"] >= 600
    assert not any("logprobs" in fields for *_, fields in seen.seen)
    assert record["tried"]["compared"] == ("token ids" if owner == "vllm" else "pieces of text")


@pytest.mark.parametrize("owner", ["vllm", "openai"])
def test_a_server_that_is_silently_greedy_differs(owner: str, no_logprobs: None) -> None:
    pair = random_pair(0)
    with (
        serving(writer(greedy(*vars(pair).values()), 1), owner=owner) as (one, _),
        serving(writer(pair.p, 2), owner=owner) as (other, _),
    ):
        status, record = run(one, other, "--tokens", "4000")
    assert status == 1 and record["outcomes"][0]["evidence"]["decided_at"] < 2_000


def test_the_setting_that_is_wrong_is_named(no_logprobs: None) -> None:
    pair = random_pair(0)
    spoiled = writer(pair.p, 1, hotter_when_asked)
    with serving(spoiled) as (one, _), serving(writer(pair.p, 2)) as (other, _):
        status, record = run(one, other, "--tokens", "20000", "--settings", "plain,top-p 0.8,temperature 0.6")
    _, found, *others = record["outcomes"]
    assert status == 1 and found["check"] == "top-p 0.8" and found["status"] == "failed"
    assert len(others) == 2
    assert all(each["status"] == "not decided" and each["evidence"]["log_e_value"] < 7 for each in others)


def refuses_top_k(handler: Any, fields: dict[str, Any]) -> bool:
    if fields.get("top_k", -1) > 0:
        handler.give({"error": "no top-k here"}, status=400)
    return fields.get("top_k", -1) > 0


def test_a_setting_that_a_server_refuses_is_left_out_and_named(no_logprobs: None) -> None:
    pair = random_pair(0)
    with serving(writer(pair.p, 1), misbehave=refuses_top_k) as (one, _), serving(writer(pair.p, 2)) as (other, _):
        status, record = run(one, other, "--tokens", "600", "--settings", "plain,top-k 5")
    assert status == 0 and [each["check"] for each in record["outcomes"] if each["status"] == "skipped"] == ["top-k 5"]


def every_third(handler: Any, fields: dict[str, Any]) -> bool:
    if len(handler.server.seen) % 3 == 0:
        handler.give({"choices": [{"text": 5}]})
    return len(handler.server.seen) % 3 == 0


def test_too_many_answers_that_cannot_be_read_decide_nothing(no_logprobs: None) -> None:
    pair = random_pair(0)
    with serving(writer(pair.p, 1), misbehave=every_third) as (one, _), serving(writer(pair.p, 2)) as (other, _):
        status, record = run(one, other, "--tokens", "600", "--settings", "plain")
    assert status == 2 and "cannot be read" in record["outcomes"][0]["evidence"]["reason"]


def test_ends_that_come_too_early_are_seen(no_logprobs: None) -> None:
    """A stop token that is drawn more often on one side, as a bonus token that ignores the least length does."""
    pair = random_pair(0)
    early = writer(pair.p, 1, lambda fields, tokens: tokens[:1] if tokens[-1] % 3 == 0 else tokens)
    with serving(early, owner="llamacpp") as (one, _), serving(writer(pair.p, 2), owner="llamacpp") as (other, _):
        status, _ = run(one, other, "--tokens", "8000")
    assert status == 1


def completed(text: str, finish: str | None, ids: list[int] | None = None, count: int = 1) -> bytes:
    choice = {"text": text, "finish_reason": finish} | ({} if ids is None else {"token_ids": ids})
    return json.dumps({"choices": [choice] * count, "timings": {"draft_n": 4}}).encode()


def read(body: bytes, ids: bool = False, **asked: Any) -> Any:
    side = ServerSide(None, RequestPlan(engine="vllm"), ids)  # type: ignore[arg-type]
    found = side._read(body, {"max_tokens": 3} | asked)
    assert side.drafted == 4
    return found.tolist()


def test_answers_are_read_alike_whatever_an_engine_calls_their_end() -> None:
    ended = [read(completed(" a b", finish)) for finish in ("stop", "eos", "stop_sequence")]
    assert ended[0] == ended[1] == ended[2] and ended[0][2] == END_OF_TEXT
    assert read(completed(" a b", "length"))[2] == read(completed(" a b", None))[2] == ENDED
    assert read(completed(" a b\ufffd", "length")) == read(completed(" a b", "length"))
    assert read(completed("", "length")) == [ENDED] * 3
    assert read(completed("", "length", [4, 2]), ids=True) == [4, 2, ENDED]


def test_several_answers_to_a_request_stand_behind_each_other() -> None:
    assert read(completed("", "length", [4, 2], count=2), ids=True, n=2) == [4, 2, ENDED, 4, 2, ENDED]
    for count, n in ((1, 2), (2, 1), (0, 1)):
        with pytest.raises(BadAnswer, match="asked for"):
            read(completed("", "length", [4], count=count), ids=True, n=n)


def test_settings_are_asked_as_they_can_be(no_logprobs: None) -> None:
    """Least lengths are never above what is asked for; every seed is another."""
    pair = random_pair(0)
    with serving(writer(pair.p, 1)) as (one, seen), serving(writer(pair.p, 2)) as (other, _):
        status, record = run(one, other, "--tokens", "1500", "--settings", "plain,at least 3 tokens,seeds")
    asked = [fields for *_, fields in seen.seen if "max_tokens" in fields]
    assert status == 0 and {each["status"] for each in record["outcomes"]} == {"passed"}
    least = [fields["max_tokens"] for fields in asked if fields.get("min_tokens")]
    assert least and min(least) >= 3
    seeds = [fields["seed"] for fields in asked if "seed" in fields]
    assert len(seeds) > 20 and len(set(seeds)) == len(seeds)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["http://127.0.0.1:9", "--temperature", "0.5"], "No such option '--temperature'"),
     (["http://127.0.0.1:9", "--settings", "loud"], "got 'loud'"), ([], "Missing argument 'URL2'"),
     (["http://127.0.0.1:9", "--html", "x.html"], "No such option '--html'")],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(arguments: list[str], said: str, no_logprobs: None) -> None:
    with serving(writer(random_pair(0).p, 1)) as (one, _):
        result = CliRunner().invoke(main, ["audit", "servers", one, *arguments])
    assert result.exit_code == 2 and said in " ".join(result.output.split())


@pytest.mark.parametrize(("owner", "least"), [("llamacpp", 5), ("vllm", 1)])
def test_answers_are_long_enough_to_be_drafted_for(owner: str, least: int, no_logprobs: None) -> None:
    """llama.cpp drafts for no answer of one or two tokens: with those alone two servers would be compared without their drafts."""
    pair = random_pair(0)
    with serving(writer(pair.p, 1), owner=owner) as (one, seen), serving(writer(pair.p, 2), owner=owner) as (other, _):
        status, _ = run(one, other, "--tokens", "300", "--settings", "plain,top-k 5")
    assert status == 0 and min(fields["max_tokens"] for *_, fields in seen.seen if "max_tokens" in fields) == least


def test_every_setting_has_fields_for_some_engine() -> None:
    assert all(any(each.of(engine) is not None for engine in DIALECTS) for each in SETTINGS.values())
