"""evalscope runs the audit as a benchmark: its own command, against a server that stands in for a chat endpoint, right, wrong or refusing.

What it shares with the audit is tested without evalscope in tests/verify/server/test_recorded.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from verify.server.chains import random_pair
from verify.server.completions_server import Handler, serving

pytest.importorskip("evalscope", reason="evalscope is not installed here: pip install evalscope")
N, LISTED, LENGTH, REQUESTS = 24, 8, 16, 160
BROKEN = 0  # in the place of a status: the connection ends without an answer
ROOT = Path(__file__).parents[1]


def chat(heat: float, refuse: Callable[[int], tuple[int, dict[str, Any]] | None] = lambda number: None) -> Any:
    """A chat endpoint on a Markov model, drawn from at a temperature; refuse: status and body in the place of the answer to a request."""
    p, generator, lock, asked = random_pair(3, N).p, np.random.default_rng(0), threading.Lock(), []
    drawn = p ** (1 / heat)
    drawn /= drawn.sum(-1, keepdims=True)

    def answer(handler: Handler, fields: dict[str, Any]) -> bool:
        with lock:
            asked.append(fields)
            text = [len(fields["messages"][0]["content"]) % N]
            for _ in range(fields["max_tokens"]):
                text.append(int(generator.choice(N, p=drawn[text[-1]])))
            refused = refuse(len(asked))
        if refused is not None and refused[0] == BROKEN:
            handler.close_connection = True
            return True
        if refused is not None:
            handler.give(refused[1], refused[0])
            return True
        content = []
        for token, law in zip(text[1:], p[text[:-1]], strict=True):
            top = np.argsort(-law)[: fields["top_logprobs"]].tolist()
            listed = [{"token": f"token_id:{x}", "logprob": float(np.log(law[x])), "bytes": None} for x in top]
            own = {"token": f"token_id:{token}", "logprob": float(np.log(law[token])), "bytes": None}
            content.append(own | {"top_logprobs": listed})
        choice = {"index": 0, "finish_reason": "length", "logprobs": {"content": content},
                  "message": {"role": "assistant", "content": "x" * LENGTH}}  # fmt: skip
        usage = {"prompt_tokens": 1, "completion_tokens": LENGTH, "total_tokens": LENGTH + 1}
        handler.give(
            {"id": "c", "object": "chat.completion", "created": 0, "model": "tiny", "choices": [choice], "usage": usage}
        )
        return True

    return answer


def evaluated(
    folder: Path, answer: Any, *more: str, repeats: int = 1
) -> tuple[dict[str, Any], str, list[dict[str, Any]]]:
    """The report that evalscope wrote, what it said, and what the server was asked. repeats: runs into one folder."""
    params = {"requests": REQUESTS, "length": LENGTH, "listed": LISTED, "engine": "vllm"}
    given = {"temperature": 0.2, "seed": 1, "max_tokens": 3, "retries": 3, "retry_interval": 0}
    with serving(lambda fields: (np.zeros(0), np.zeros(0)), misbehave=answer) as (url, server):
        command = [
            sys.executable,
            str(ROOT / "examples" / "evalscope_token_law.py"),
            "eval",
            "--model",
            "tiny",
            "--api-url",
            f"{url}/v1",
        ]
        command += ["--api-key", "none", "--datasets", "token_law", "--no-timestamp", "--work-dir", str(folder)]
        command += [
            "--dataset-args",
            json.dumps({"token_law": {"extra_params": params}}),
            "--generation-config",
            json.dumps(given),
        ]
        variables = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([*command, *more], env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        seen = [fields for path, _, fields in server.seen if path.endswith("/chat/completions")]
    return json.loads((folder / "reports" / "tiny" / "token_law.json").read_text()), done.stdout + done.stderr, seen


def test_a_right_endpoint_has_a_small_number_and_a_sentence(tmp_path: Path) -> None:
    report, said, seen = evaluated(tmp_path, chat(1.0))
    (metric,) = report["metrics"]
    assert metric["score"] < 3 and metric["num"] == REQUESTS
    assert f"{REQUESTS} requests of up to {LENGTH} tokens" in report["analysis"]
    assert f"no bias found in {REQUESTS * LENGTH:,} tokens" in report["analysis"] and report["analysis"] in said
    assert len(seen) == REQUESTS
    for fields in seen:  # none of what the task said of the law
        assert fields["temperature"] == 1 and fields["max_tokens"] == LENGTH and "seed" not in fields
        assert fields["logprobs"] is True and fields["top_logprobs"] == LISTED and fields["return_tokens_as_token_ids"]
    report, _, seen = evaluated(tmp_path, chat(1.0), "--use-cache", str(tmp_path), "--rerun-review")
    assert not seen and report["metrics"][0]["score"] == metric["score"]  # judged again from what is kept


def test_a_wrong_endpoint_has_six_or_more(tmp_path: Path) -> None:
    report, _, _ = evaluated(tmp_path, chat(0.8))
    assert report["metrics"][0]["score"] >= 6 and "biased: e-value" in report["analysis"]


@pytest.mark.parametrize("status", [400, 500, 429])
def test_an_endpoint_that_refuses_has_no_score(status: int, tmp_path: Path) -> None:
    report, said, _ = evaluated(
        tmp_path, chat(1.0, lambda number: (status, {"error": {"message": "no", "code": status}}))
    )
    assert not report["metrics"] and "cannot be decided" in said and "biased" not in said


def test_what_was_drawn_and_lost_is_paid_for(tmp_path: Path) -> None:
    """Status 500 after the draw, or a broken connection: asked again, and charged; 429 comes before it."""
    statuses = {20: 500, 40: 429, 0: BROKEN}

    def refuse(number: int) -> tuple[int, dict[str, Any]] | None:
        return (statuses[number % 60], {"error": {"message": "busy"}}) if number % 20 == 0 else None

    report, _, seen = evaluated(tmp_path, chat(1.0, refuse))
    lost = sum(number % 20 == 0 and number % 60 != 40 for number in range(1, len(seen) + 1))
    assert lost > 4
    assert report["metrics"][0]["score"] < 3
    assert f"Every bet is charged its largest loss for {lost * LENGTH} tokens" in report["analysis"]
