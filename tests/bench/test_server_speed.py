"""Cost of the audit a token: `make bench`. The goal is below 50 microseconds for laws of twenty listed tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from verify.server.completions_server import columns, completion, entries

import ot_draft as otd
from ot_draft.verify.server import Token
from ot_draft.verify.server.recorded import RecordedAnswer, audit_recorded, plan_of

TOKENS = 4096


def texts(n: int, tokens: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Tokens and their laws (tokens, n), of twenty contexts."""
    generator = np.random.default_rng(0)
    logits = 3 * generator.standard_normal((20, n))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    context = generator.integers(20, size=tokens)
    ends = p.cumsum(1)
    token = [min(int(np.searchsorted(ends[c], generator.random())), n - 1) for c in context]
    return np.array(token), p[context]


@pytest.mark.parametrize("way", ["of_arrays", "of_top", "of_law"])
def test_audit_of_4096_tokens_with_laws_of_20(benchmark: Any, way: str) -> None:
    token, law = texts(20, TOKENS)
    ids = np.arange(20)

    def run() -> otd.Audit:
        audit = otd.Audit()
        if way == "of_arrays":
            audit.add(*Token.of_arrays(token, law, request=np.arange(TOKENS) // 16))
        else:
            for i in range(TOKENS):
                if way == "of_law":
                    audit.add(Token.of_law(int(token[i]), law[i], request=i // 16))
                else:
                    audit.add(Token.of_top(int(token[i]), ids, law[i], request=i // 16, whole=True))
        return audit

    audit = benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    assert audit.tokens == TOKENS and not audit.biased


@pytest.mark.parametrize("style", [columns, entries])
def test_audit_of_4096_tokens_as_servers_answer(benchmark: Any, style: Callable[..., dict[str, Any]]) -> None:
    """With their JSON made once more: see `ot_draft.verify.server.recorded`."""
    length, n, generator = 16, 2000, np.random.default_rng(0)
    p = np.exp(3 * generator.standard_normal((length, n)))  # the law at every place, whatever came before
    p /= p.sum(1, keepdims=True)
    plan, answers = plan_of(TOKENS // length, 8, length), []
    for _ in range(plan.requests):
        token = np.minimum((p.cumsum(1) < generator.random((length, 1))).sum(1), n - 1)
        answers.append(RecordedAnswer(completion(token, style(token, p, 20), length)))

    verdict = benchmark.pedantic(lambda: audit_recorded(answers, plan, 20, otd.Audit()), rounds=3, warmup_rounds=1)
    assert verdict.evidence.tokens == TOKENS


@pytest.mark.parametrize("n", [32_000, 151_936])
def test_audit_of_1024_tokens_with_whole_laws(benchmark: Any, n: int) -> None:
    token, law = texts(n, 64)
    law = law.astype(np.float32)

    def run() -> otd.Audit:
        audit = otd.Audit()
        for i in range(1024):
            audit.add(Token.of_law(int(token[i % 64]), law[i % 64]))
        return audit

    assert benchmark.pedantic(run, rounds=3, warmup_rounds=1).tokens == 1024
