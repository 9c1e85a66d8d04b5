"""The mean of every factor, exactly, over the tokens that a right server may emit: at most 1 whatever bet is placed, or nothing is decided.

A factor is g(token) with the mean 1 under the list that is shown, g >= 0 and constant on the rest; where a list depends on the emitted
token, g may be chosen for each list. A charged token gets no more than the least of g, so that it may be left away.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import product

import numpy as np
import pytest

from ot_draft.arrays import Array
from ot_draft.verify.server import Audit
from ot_draft.verify.server.answers import Answer, BadAnswer, Emitted, json_object, read_answer
from ot_draft.verify.server.reported import Lists, ListState, Reported
from ot_draft.verify.server.server import RequestPlan, audit_server

from .completions_server import completion
from .test_texts import Chain, Name, entry_of, names, style

Show = Callable[[Array, int, int, Name], dict[str, float]]  # law, emitted token, number listed, names -> the list


def by_tokens(own: str, stays: str) -> Show:
    """The entries of K tokens, of equal texts the first or the last."""
    return lambda law, token, listed, name: entry_of(law, token, listed, name, own, stays)


def summed(law: Array, token: int, listed: int, name: Name) -> dict[str, float]:
    """The K tokens, and for each of their texts the mass of all tokens that have it."""
    of = {name(x): [y for y in range(len(law)) if name(y) == name(x)] for x in np.argsort(-law)[:listed].tolist()}
    found = {text: float(law[tokens].sum()) for text, tokens in of.items()}
    return {text: float(np.log(mass)) for text, mass in found.items()}


def by_texts(stays: str) -> Show:
    """K texts, by their heaviest tokens. stays: the probability shown: the first (the heaviest), the sum, the emitted token's own."""

    def show(law: Array, token: int, listed: int, name: Name) -> dict[str, float]:
        of: dict[str, list[float]] = defaultdict(list)
        for x in np.argsort(-law, kind="stable").tolist():
            of[name(x)].append(float(law[x]))
        kept = dict(list(of.items())[:listed])
        found = {text: sum(all_) if stays == "sum" else all_[0] for text, all_ in kept.items()}
        if stays == "own" or name(token) not in found:
            found[name(token)] = float(law[token])
        return {text: float(np.log(mass)) for text, mass in found.items()}

    return show


def objects(law: Array, token: int, listed: int, name: Name) -> list[tuple[str, float]]:
    """A list of objects, in which every token stands, and the emitted one twice."""
    return [(name(x), float(np.log(law[x]))) for x in [*np.argsort(-law, kind="stable")[:listed].tolist(), token]]


def answered(law: Array, token: int, listed: int, name: Name, show: Show) -> Emitted:
    shown, log = show(law, token, listed, name), float(np.log(law[token]))
    logprobs = {"tokens": [name(token)], "token_logprobs": [log], "top_logprobs": [shown]}
    if isinstance(shown, list):
        top = [{"token": text, "logprob": value} for text, value in shown]
        logprobs = {"content": [{"token": name(token), "logprob": log, "top_logprobs": top}]}
    return read_answer(json_object(json.dumps(completion(np.array([token]), logprobs)).encode()), 1).tokens[0]


def largest_mean(law: Array, listed: int, name: Name, show: Show) -> tuple[float, int]:
    """Over all bets, the largest mean of the factor at one place, and how many of the tokens tell that lists are of texts.

    Of one list it is the largest ratio of what comes to what is listed.
    """
    came: dict[tuple[float, ...], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    asked: dict[tuple[float, ...], dict[int, float]] = {}
    lists, nothing = Lists(Reported(listed=listed)), 0.0  # nothing: mass of the tokens on which no bet is
    for token, mass in enumerate(law.tolist()):
        try:
            emitted = answered(law, token, listed, name, show)
        except BadAnswer:  # left out, and charged
            continue
        if lists.state(emitted) == ListState.DOUBTFUL:
            continue
        known = lists.distribution(emitted)
        if known is None:
            nothing += mass
            continue
        ids, masses, _ = known
        key = (*ids.tolist(), *masses.tolist())
        asked[key] = dict(zip(ids.tolist(), masses.tolist(), strict=True)) | {-1: 1 - float(masses.sum())}
        came[key][emitted.token if emitted.token in ids else -1] += mass
    for token in range(len(law)):
        with suppress(BadAnswer):
            lists.learn([Answer((answered(law, token, listed, name, show),), "length")])
    ratios = [max(mass / max(asked[key][slot], 1e-300) for slot, mass in slots.items()) for key, slots in came.items()]
    return nothing + sum(ratios), lists.of_texts


WAYS: dict[str, Show] = {
    **{f"by tokens, own {own}, {stays} stays": by_tokens(own, stays)
       for own, stays in product(("first", "last", "nowhere"), ("first", "last"))},
    "sums of K tokens": summed,
    "objects": objects,  # type: ignore[dict-item]
    **{f"by texts, {stays}": by_texts(stays) for stays in ("sum", "first")},
}  # fmt: skip


def laws_and_names(number: int) -> list[tuple[Array, Name, int]]:
    """Laws of 3 to 8 tokens whose texts are shared at random, some of them parts of a character; no two masses within two per cent."""
    generator, found = np.random.default_rng(0), []
    while len(found) < number:
        n, listed = int(generator.integers(3, 9)), int(generator.integers(2, 5))
        law = generator.dirichlet(np.full(n, generator.choice([0.3, 1.0, 30.0]))) + 1e-9
        law /= law.sum()
        texts = generator.integers(0, generator.integers(2, 2 * n), size=n)
        if np.diff(np.sort(np.log(law))).min() > 0.02:
            found.append(
                (law, lambda token, texts=texts: "\ufffd" if texts[token] == 0 else f"t{texts[token]}", listed)
            )
    return found


@pytest.mark.parametrize("way", WAYS)
def test_the_mean_of_every_factor_is_at_most_1(way: str) -> None:
    found = [largest_mean(law, listed, name, WAYS[way]) for law, name, listed in laws_and_names(60)]
    assert max(mean for mean, _ in found) > 0.5
    assert all(mean < 1 + 1e-6 or told for mean, told in found)
    assert any(told for _, told in found) == (way.startswith("by texts") or way == "sums of K tokens"), way


def test_it_is_more_where_the_entry_follows_the_emitted_token() -> None:
    """Of lists of K texts, in which nothing tells it; and where two tokens of one text have one probability."""
    law, twins, name = np.array([0.3, 0.25, 0.2, 0.15, 0.1]), np.array([0.3, 0.25, 0.3, 0.1, 0.05]), names((0, 2))
    for each, stays in ((law, "own"), (twins, "first")):
        mean, told = largest_mean(each, 3, name, by_texts(stays))
        assert mean > 1.2 and not told


class Asked:
    """A client without a network: answers of a source, as a server shows them."""

    url = "a source"

    def __init__(self, source: Chain, columns: Callable[..., object]) -> None:
        self.source, self.columns = source, columns

    def lost(self) -> int:
        return 0

    def complete(self, requests: list[dict[str, object]], read: Callable[..., Answer]) -> list[Answer]:
        made = ((*self.source(fields), fields) for fields in requests)
        return [read(json.dumps(completion(tokens, self.columns(tokens, laws, fields["logprobs"]))).encode(), fields)
                for tokens, laws, fields in made]  # fmt: skip


def word_on(columns: Callable[..., object], n: int, listed: int) -> tuple[str, str]:
    audit, source = Audit(), Chain(n, 1)
    audit_server(
        Asked(source, columns), RequestPlan(tokens=3000, model="m", engine="openai"), Reported(listed=listed), audit
    )  # type: ignore[arg-type]
    report = audit.report()
    return report.word, report.evidence.reason


@pytest.mark.parametrize("stays", ["own", "first"])
def test_lists_of_texts_are_told(stays: str) -> None:
    name = names((1, 4), (2, 7))

    def columns(tokens: Array, laws: Array, listed: int) -> dict[str, object]:
        pairs = list(zip(tokens.tolist(), laws, strict=True))
        logs = [float(np.log(law[token])) for token, law in pairs]
        lists = [by_texts(stays)(law, token, listed, name) for token, law in pairs]
        return {"tokens": [name(token) for token, _ in pairs], "token_logprobs": logs, "top_logprobs": lists}

    word, why = word_on(columns, 12, 5)
    assert word == "cannot be decided" and "one entry stands for several tokens" in why


def test_lists_of_tokens_with_texts_of_their_own_are_not_held_to_be_of_texts() -> None:
    word, why = word_on(style(names()), 12, 5)
    assert word == "no bias found", why
