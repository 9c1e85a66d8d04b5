"""Servers that name tokens by texts which several tokens share: a right one is never called biased, a wrong one is found or not decided."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from mutants.catalogue import TABLES
from slow import slow

from ot_draft.arrays import Array
from ot_draft.cli import main
from ot_draft.verify.server import client
from ot_draft.verify.server.answers import Answer, Emitted, json_object, read_answer
from ot_draft.verify.server.reported import Lists, ListState, Reported

from .chains import random_pair, run, softmax
from .completions_server import Handler, completion, evidence_of, serving
from .kinds_of_servers import plain, send

pytest.importorskip("httpx")
Name = Callable[[int], str]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OT_DRAFT_AUDIT_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(client, "HttpSettings", partial(client.HttpSettings, backoff_s=0.001))


def names(*groups: tuple[int, ...], fragments: tuple[int, ...] = ()) -> Name:
    """Tokens of a group have one text; fragments are parts of a character."""
    shared = {token: f"s{group[0]}" for group in groups for token in group} | dict.fromkeys(fragments, "\ufffd")
    return lambda token: shared.get(token, f"w{token}")


def entry_of(law: Array, token: int, listed: int, name: Name, own: str, stays: str) -> dict[str, float]:
    """The list of one place. own: where the emitted token is written, first, last or nowhere; stays: of equal texts, the first or last."""
    top = np.argsort(-law, kind="stable")[:listed].tolist()
    order = {"first": [token, *top], "last": [*[x for x in top if x != token], token], "nowhere": top}[own]
    found: dict[str, float] = {}
    for x in dict.fromkeys(order):
        if stays == "last" or name(x) not in found:
            found[name(x)] = float(np.log(law[x]))
    return found


def style(
    name: Name, own: str = "first", stays: str = "last", most: int = 100
) -> Callable[[Array, Array, int], dict[str, Any]]:
    """Columns with texts as keys, `most` listed at most."""

    def columns(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
        pairs = list(zip(tokens.tolist(), laws, strict=True))
        lists = [entry_of(law, token, min(listed, most), name, own, stays) for token, law in pairs]
        logs = [float(np.log(law[token])) for token, law in pairs]
        return {"tokens": [name(token) for token in tokens.tolist()], "token_logprobs": logs, "top_logprobs": lists}

    return columns


class Chain:
    """A Markov chain over n tokens that the report is true of."""

    def __init__(self, n: int, seed: int, spread: float = 1.3) -> None:
        self.p, self.generator = (
            softmax(np.random.default_rng(0).normal(0, spread, (n, n))),
            np.random.default_rng(seed),
        )
        self.lock = threading.Lock()

    def __call__(self, fields: dict[str, Any]) -> tuple[Array, Array]:
        with self.lock:
            state, tokens, states = sum(map(ord, fields["prompt"])) % len(self.p), [], []
            for uniform in self.generator.random(fields["max_tokens"]).tolist():
                states.append(state)
                state = min(int((self.p[state].cumsum() <= uniform).sum()), len(self.p) - 1)
                tokens.append(state)
        return np.array(tokens), self.p[states]


def audit(source: Any, shown: Any, *words: str, owner: str = "a-gateway", misbehave: Any = None) -> Result:
    with serving(source, shown, owner, misbehave) as (url, _):
        return CliRunner().invoke(main, ["audit", url, *words])


def said(done: Result) -> str:
    return " ".join(done.output.split())


# Exactly: what is bet on does not hang on the emitted token, whichever texts are shared and whichever entry stays.


def read(law: Array, token: int, listed: int, name: Name, own: str, stays: str) -> Emitted:
    made = style(name, own, stays)(np.array([token]), law[None], listed)
    return read_answer(json_object(json.dumps(completion(np.array([token]), made)).encode()), 1).tokens[0]


@pytest.mark.parametrize(("own", "stays"), [*product(("first", "last", "nowhere"), ("first", "last"))])
def test_what_is_bet_on_is_a_function_of_the_law_or_every_bet_is_charged(own: str, stays: str) -> None:
    """Of every law and every way to share texts: of the tokens that are not charged all are bet on under one law, or none is."""
    generator, seen = np.random.default_rng(0), {ListState.KNOWN: 0, ListState.SHORT: 0, ListState.DOUBTFUL: 0}
    for turn in range(400):
        n, listed = int(generator.integers(3, 9)), int(generator.integers(2, 5))
        law = generator.dirichlet(np.full(n, generator.choice([0.3, 1.0, 30.0]))) + 1e-9
        if turn % 5 == 0:  # twins of nearly one mass
            law[1] = law[0] * (1 + generator.choice([0.0, 1e-3, 2e-2]))
        law /= law.sum()
        texts = generator.integers(0, generator.integers(2, 2 * n), size=n)
        name: Name = lambda token, texts=texts: "\ufffd" if texts[token] == 0 else f"t{texts[token]}"  # noqa: E731
        lists = Lists(Reported(listed=listed))
        every = [read(law, token, listed, name, own, stays) for token in range(n)]
        states = [lists.state(each) for each in every]
        for each in states:
            seen[each] += 1
        assert len(set(states) - {ListState.DOUBTFUL}) <= 1
        laws = [lists.distribution(each) for each, state in zip(every, states, strict=True) if state == ListState.KNOWN]
        if not laws:
            continue
        assert all((a is None) == (laws[0] is None) for a in laws)
        if laws[0] is None:
            continue
        ids, mass, _ = laws[0]
        assert all(
            np.array_equal(ids, other[0]) and np.array_equal(mass, other[1]) for other in laws if other is not None
        )
        for token, each, state in zip(range(n), every, states, strict=True):
            if state == ListState.KNOWN and each.token in ids:  # it is this token's own mass that is listed
                assert mass[ids == each.token] == pytest.approx(law[token])
        came = [
            each.token
            for each, state in zip(every, states, strict=True)
            if state == ListState.KNOWN and each.token in ids
        ]
        assert len(came) == len(set(came))  # and no two tokens count as one
    assert min(seen.values()) > 50


def test_a_small_vocabulary_is_known_until_a_text_hides_one() -> None:
    law = np.array([0.4, 0.3, 0.2, 0.1])
    unique, shared = names(), names((0, 1))
    lists = Lists(Reported(listed=20))
    for state in (ListState.SHORT, ListState.KNOWN, ListState.KNOWN):
        wave = [read(law, token, 20, unique, "first", "last") for token in range(4)]
        lists.learn([Answer(tuple(wave), "length")])
        assert {lists.state(each) for each in wave} == {state}
    hidden = [read(law, token, 20, shared, "first", "last") for token in range(4)]
    lists.learn([Answer(tuple(hidden), "length")])
    assert {lists.state(each) for each in hidden} == {ListState.DOUBTFUL}
    lists.learn([Answer(tuple(wave), "length")])
    assert {lists.state(each) for each in (*wave, *hidden)} == {ListState.SHORT}


def test_two_probabilities_of_one_text_that_no_right_list_has_are_charged() -> None:
    """Another token of this text is no heavier than the last that is listed: here the emitted one is said to be."""
    emitted = read(np.array([0.4, 0.3, 0.2, 0.1]), 0, 3, names(), "first", "last")
    apart = Emitted(-3, np.log(0.35), emitted.ids, emitted.logs, True, keyed=True, other_probability=True)
    assert Lists(Reported(listed=3)).state(apart) == ListState.DOUBTFUL


def test_a_list_that_sums_the_tokens_of_a_text_pays_for_each_of_them() -> None:
    """Of tokens 0 and 4, which are one entry of mass .5: none may count as a token of the rest, of which too few would come then."""
    law = np.array([0.45, 0.2, 0.15, 0.1, 0.05, 0.05])
    name, sums = names((0, 4)), np.array([0.5, 0.2, 0.15, 0.1, 0.0, 0.05])
    lists = Lists(Reported(listed=3))
    for token in (0, 4):
        shown = {name(x): float(np.log(sums[x])) for x in (0, 1, 2)}
        made = {"tokens": [name(token)], "token_logprobs": [float(np.log(law[token]))], "top_logprobs": [shown]}
        emitted = read_answer(json_object(json.dumps(completion(np.array([token]), made)).encode()), 1).tokens[0]
        assert lists.state(emitted) == ListState.DOUBTFUL


# Right servers.

PAIRS = {
    "a pair of twelve": (12, names((1, 4))),
    "two pairs of twelve": (12, names((1, 4), (2, 7))),
    "two pairs of forty": (40, names((1, 4), (2, 7))),
    "three pairs of 200": (200, names((1, 4), (20, 70), (30, 131))),
    "triplets of 200": (200, names((1, 4, 9), (20, 70, 100))),
    "half of 100": (100, names(*((i, i + 50) for i in range(25)))),
    "fragments of 200": (200, names(fragments=tuple(range(0, 200, 9)))),
    "fragments and pairs": (100, names((1, 4), (2, 50), fragments=(5, 6, 7, 90))),
}
WAYS = [("first", "last"), ("first", "first"), ("last", "last"), ("nowhere", "last"), ("nowhere", "first")]
QUICK = {("a pair of twelve", WAYS[1], 1), ("fragments and pairs", WAYS[2], 1)}
CASES = [
    pytest.param(*case, id=f"{case[0]}, own {case[1][0]}, {case[1][1]} stays, {case[2]}",
                 marks=() if case in QUICK else pytest.mark.slow)
    for case in product(PAIRS, WAYS, (1, 2, 3))
]  # fmt: skip


@pytest.mark.parametrize(("pairs", "way", "seed"), CASES)
def test_a_right_server_whose_tokens_share_texts_is_not_called_biased(
    pairs: str, way: tuple[str, str], seed: int
) -> None:
    n, name = PAIRS[pairs]
    done = audit(Chain(n, seed), style(name, *way), "--tokens", "3000")
    assert done.exit_code in (0, 2), done.output
    assert "strongest evidence" not in done.output


@pytest.mark.parametrize("seed", [1, slow(2)])
def test_the_reported_server(seed: int) -> None:
    """A gateway, two of twelve tokens with one text: it was called biased after some 2,000 tokens."""
    done = audit(Chain(12, seed), style(names((1, 4))), "--tokens", "6000")
    assert done.exit_code == 2, done.output
    assert "return_tokens_as_token_ids" in said(done) and "several tokens may have one" in said(done)


@pytest.mark.parametrize(
    "words",
    [
        ("--top-logprobs", "5"),
        slow(("--top-k", "20")),
        slow(("--top-p", ".8")),
        slow(("--temperature", "0")),
        slow(("--top-logprobs", "2")),
    ],
)
@pytest.mark.parametrize("way", [WAYS[0], *map(slow, WAYS[1:3])])
def test_other_settings(words: tuple[str, ...], way: tuple[str, str]) -> None:
    """Fewer listed, and laws that are computed from the lists."""
    from .kinds_of_servers import Source

    name = names((1, 4), (9, 30), fragments=(5, 17))
    done = audit(Source(raw=True), style(name, *way), *words, "--tokens", "4000", owner="vllm")
    assert done.exit_code in (0, 2), done.output


def test_lists_shorter_than_asked_may_hide_a_text() -> None:
    done = audit(Chain(40, 1), style(names(), most=5), "--tokens", "2000")
    assert done.exit_code == 2 and "--top-logprobs" in said(done), done.output
    done = audit(Chain(40, 1), style(names(), most=5), "--tokens", "2000", "--top-logprobs", "5")
    assert done.exit_code in (0, 2), done.output


# Wrong ones.

WRONG = ("every draft taken", "greedy drafts", "last token of the place before", "residual is p")


BEHIND = [
    pytest.param(*case, marks=() if i == 0 else pytest.mark.slow)
    for i, case in enumerate(product(WRONG, ("none", "some", "many"), WAYS[:4]))
]


@pytest.mark.parametrize(("wrong", "pairs", "way"), BEHIND)
def test_wrong_samplers_behind_shared_texts(wrong: str, pairs: str, way: tuple[str, str]) -> None:
    pair, generator, lock = random_pair(0, 64), np.random.default_rng(0), threading.Lock()
    tables = TABLES[wrong](pair)

    def generate(fields: dict[str, Any]) -> tuple[Array, Array]:
        with lock:
            start = np.array([sum(map(ord, str(fields["prompt"]))) % 64**2])
            emitted = run(pair, tables, 1.0, 1, fields["max_tokens"], generator, start)
        return emitted.token[0], pair.p[emitted.last[0]]

    name = {"none": names(), "some": names((1, 4), (9, 30)), "many": names(*((i, i + 32) for i in range(32)))}[pairs]
    done = audit(generate, style(name, *way), "--tokens", "16000")
    if pairs == "many":
        # Half of the tokens cannot be told. Where the emitted one is in no list, the gravest fault is seen before that is known.
        assert done.exit_code == (1 if (wrong, way[0]) == ("greedy drafts", "nowhere") else 2), done.output
    elif pairs == "some" and wrong == "last token of the place before" and way[0] != "nowhere":
        # Every bet pays for tokens that may hide others of their texts: that takes the power here, and is said.
        paid = re.search(
            r"Every bet is charged .* a bias of less than about (\S+) in an event of probability 1/2 may be missed",
            said(done),
        )
        assert done.exit_code == 0 and paid and float(paid[1]) > 0.05, done.output
    else:
        assert done.exit_code == 1, done.output


# Beside it: what a server says badly, and what it does by itself.


def test_broken_connections_that_take_the_power_are_said(tmp_path: Path) -> None:
    """Every third request breaks off after its tokens were drawn: the bets pay, the bound grows, and it is said."""
    count: list[int] = []

    def broken(handler: Handler, fields: dict[str, Any]) -> bool:
        count.append(1)
        return len(count) % 3 == 0 and send(handler, b"HTTP/1.1 200 OK\r\ncontent-length: 2000\r\n\r\n{}")

    words = ("--tokens", "3000", "--lengths", "16", "--concurrency", "8", "--json")
    quiet = evidence_of(audit(Chain(40, 1), style(names()), *words, "-").stdout)
    text = said(audit(Chain(40, 1), style(names()), *words, str(tmp_path / "a.json"), misbehave=broken))
    loud = evidence_of((tmp_path / "a.json").read_text())
    assert loud["status"] == "passed" and loud["charged"] > 1000 and loud["bound"] > quiet["bound"] + 0.2
    assert loud["distance"] > 2 * quiet["distance"] > 0
    assert "Every bet is charged its largest loss for" in text and "may be missed" in text


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda found: found["token_logprobs"].__setitem__(3, None), "token_logprobs[3] must be a number, got None"),
        (
            lambda found: found["top_logprobs"][2].__setitem__("w7", None),
            "top_logprobs[2]['w7'] must be a number, got None",
        ),
        (
            lambda found: found["token_logprobs"].__setitem__(0, 0.7),
            "token_logprobs[0] must be a log-probability, at most 0, got 0.7",
        ),
    ],
)
def test_what_is_no_number_is_named(change: Callable[[dict[str, Any]], Any], where: str) -> None:
    source = Chain(40, 1)

    def misbehave(handler: Handler, fields: dict[str, Any]) -> bool:
        tokens, laws = source(fields)
        whole = completion(tokens, style(names())(tokens, laws, fields["logprobs"]))
        change(whole["choices"][0]["logprobs"])
        return send(handler, plain(json.dumps(whole).encode()))

    done = audit(source, style(names()), "--concurrency", "2", "--lengths", "8", misbehave=misbehave)
    assert done.exit_code == 2 and where in said(done) and "answer 0: " in said(done), done.output


@pytest.mark.parametrize("owner", ["vllm", slow("llamacpp"), slow("a-gateway")])
def test_penalties_of_the_servers_own_are_switched_off(owner: str) -> None:
    """A server with a presence penalty of .5 unless one is sent; and one that has it whatever is sent."""
    source = Chain(40, 1)

    def generate(fields: dict[str, Any], always: bool = False) -> tuple[Array, Array]:
        if not always and fields.get("presence_penalty") == 0 == fields.get("frequency_penalty"):
            return source(fields)
        state, tokens, states = sum(map(ord, fields["prompt"])) % 40, list[int](), []
        for _ in range(fields["max_tokens"]):
            law = source.p[state] * np.exp(-2.0 * np.isin(np.arange(40), tokens))
            states.append(state)
            state = int(source.generator.choice(40, p=law / law.sum()))
            tokens.append(state)
        return np.array(tokens), source.p[states]

    done = audit(generate, style(names()), "--tokens", "3000", owner=owner)
    assert done.exit_code == 0, done.output
    done = audit(lambda fields: generate(fields, True), style(names()), "--tokens", "6000", owner=owner)
    assert done.exit_code == 1 and "the server may have defaults of its own" in said(done), done.output
