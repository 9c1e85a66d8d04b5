"""Requests that run together and share what they must not: found by what they have in common, each being right by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from ot_draft.arrays import Array
from ot_draft.verify.outcome import Status
from ot_draft.verify.server import Audit, Token
from ot_draft.verify.server.blocks import stack
from ot_draft.verify.server.grouped import BINS, Groups, Last, SharedUniform
from ot_draft.verify.server.reported import Reported
from ot_draft.verify.server.server import RequestPlan, audit_server

from .chains import inverse, random_pair
from .completions_server import columns, completion
from .together import answers, apart, audited, one_for_each_place, one_for_two

N = 8

REQUESTS = {"tokens of 6 other requests", "tokens of 32 other requests", "uniform of other requests"}


@pytest.mark.parametrize("with_draft", [False, True])
def test_one_uniform_for_all_requests_at_a_place_is_found(with_draft: bool) -> None:
    """Every marginal law is right: it shows in what the requests of a wave have together, or not at all."""
    pair = random_pair(0)
    report = audited(pair, one_for_each_place, 12_000, 1, with_draft).report()
    assert report.status == Status.FAILED and report.evidence.bets[0].name in REQUESTS, report
    assert not audited(pair, apart, 2_000, 1, with_draft).biased


def test_answers_that_are_copies_are_found_at_once() -> None:
    """A cache of answers: equal prompts have equal answers."""
    pair, generator, audit = random_pair(0), np.random.default_rng(0), Audit()
    token, last = answers(pair, np.array([3]), 16, apart, generator)
    for request in range(8):
        audit.add(
            *Token.of_arrays(token[0], pair.p[last[0]], request=np.full(16, request), batch=np.zeros(16, dtype=int))
        )
    report = audit.report()
    assert report.status == Status.FAILED and report.evidence.bets[0].family in ("requests", "learned"), report


def test_requests_of_the_simulation_are_right_one_by_one() -> None:
    """The law of a request's first three tokens, sharing its numbers with the one beside it or not, against the enumerated one."""
    pair = random_pair(3, 4)
    law = pair.p[0][:, None, None] * pair.p[:, :, None] * pair.p[None]
    for share in (apart, one_for_two):
        made = answers(pair, np.zeros(80_000, dtype=int), 3, share, np.random.default_rng(5))[0][::2]
        counts = np.zeros((4, 4, 4))
        np.add.at(counts, tuple(made.T), 1)
        assert np.abs(counts / len(made) - law).sum() / 2 < 0.03


def test_the_law_given_the_uniform_is_what_speculative_sampling_does() -> None:
    """By programs that draw, for each part of the unit interval; and its mean over them is p."""
    generator = np.random.default_rng(0)
    p, q = generator.dirichlet(np.ones(5), size=(2, 3))
    tokens = stack(Token.of_arrays(np.zeros(3, dtype=int), p, draft_probs=q))
    law = tokens.by_uniform
    assert law.shape == (3, BINS, 6) and np.allclose(law.mean(1), tokens.with_rest[0])
    for row, part in product(range(3), (0, BINS // 2, BINS - 1)):
        ours = np.zeros(5)
        for u in (part + (np.arange(400) + 0.5) / 400) / BINS:
            taken = u < p[row] / q[row]
            left = np.maximum(p[row] - q[row], 0)
            ours += (np.where(taken, q[row], 0) + q[row][~taken].sum() * left / left.sum()) / 400
        assert np.allclose(law[row, part, :5][np.argsort(tokens.ids[row])], ours, atol=3e-3)


def test_the_last_rows_of_a_key_are_those_before_over_blocks_too() -> None:
    generator, last, seen = np.random.default_rng(1), Last(np.array([-2]), 3), list[tuple[int, int]]()
    for _ in range(4):
        key, value = generator.integers(3, size=20), generator.integers(100, size=20)
        found = last.read(Groups.of(key.astype(np.uint64)), value[:, None])[:, :, 0]
        for row in range(20):
            before = [x for k, x in seen if k == key[row]][-3:]
            assert found[row].tolist() == [-2] * (3 - len(before)) + before
            seen.append((int(key[row]), int(value[row])))


def test_a_shared_uniform_is_narrowed_by_row_and_by_block() -> None:
    """One block or two: the same law; a row that no part explains says nothing."""

    def read(parts: list[Array]) -> Array:
        shared = SharedUniform()
        return np.concatenate([shared.read(Groups.of(np.zeros(len(part), dtype=np.uint64)), part) for part in parts])

    rows = np.random.default_rng(2).random((6, BINS))
    at_once = read([rows])
    assert np.allclose(at_once, read([rows[:2], rows[2:]])) and np.allclose(at_once[0], 1 / BINS)
    assert np.allclose(at_once.sum(1), 1)
    assert np.allclose(read([np.zeros((2, BINS))]), 1 / BINS)


class WithCache:
    """An engine asked for a wave at once, whose last request gets the first one's tokens, and goes on from its own drafts."""

    def __init__(self, laws: Array, wrong: bool) -> None:
        self.laws, self.wrong, self.generator = laws, wrong, np.random.default_rng(4)

    def lost(self) -> int:
        return 0

    def complete(self, requests: list[dict[str, Any]], read: Callable[[bytes, dict[str, Any]], Any]) -> list[Any]:
        length = requests[0]["max_tokens"]
        states = np.array([fields["prompt"][0] for fields in requests])
        held = np.empty(
            (len(requests), length + 1), dtype=np.int64
        )  # what the cache holds, with the prompt's last token
        held[:, 0] = states
        for place in range(length):
            held[:, place + 1] = inverse(self.laws[held[:, place]], self.generator.random(len(held)))
        tokens = held[:, 1:].copy()
        if self.wrong:
            tokens[-1, 1:] = tokens[0, 1:]  # the first token is not drafted for
        bodies = [completion(row, columns(row, self.laws[before], N), length)
                  for row, before in zip(tokens, held[:, :-1], strict=True)]  # fmt: skip
        return [read(json.dumps(body).encode(), fields) for body, fields in zip(bodies, requests, strict=True)]


@pytest.mark.parametrize(
    "shapes", [RequestPlan.shapes, ((8, 16), (32, 32), (4, 16), (8, 32), (32, 16), (4, 32))], ids=["default", "short"]
)
@pytest.mark.parametrize("wrong", [False, True])
def test_a_request_with_the_tokens_of_another_is_not_called_right(wrong: bool, shapes: Any) -> None:
    """Its reports are those of another text: they are shown, and decide nothing."""
    audit = Audit()
    plan = RequestPlan([[i] for i in range(N)], 2500, shapes, engine="vllm")
    audit_server(WithCache(random_pair(1, N).p, wrong), plan, Reported(listed=N), audit)  # type: ignore[arg-type]
    assert audit.report().word == ("cannot be decided" if wrong else "no bias found")
    assert ("Two distributions for one context" in audit.undecided) == wrong
