"""A real HTTP server that speaks the completions of OpenAI's API, with a sampler of `chains` behind it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from ot_draft.arrays import Array

Generate = Callable[[dict[str, Any]], tuple[Array, Array]]  # request -> tokens (T,), their laws (T, n)


def columns(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
    """Tokens and laws as vLLM gives them: ids as texts, the emitted token appended where it is not among the listed."""
    lists, logs = [], np.log(np.maximum(laws, 1e-300))
    for token, row in zip(tokens.tolist(), logs, strict=True):
        top = np.argsort(-row, kind="stable")[:listed].tolist()
        lists.append({f"token_id:{x}": float(row[x]) for x in dict.fromkeys([token, *top])})
    return {
        "tokens": [f"token_id:{token}" for token in tokens.tolist()],
        "token_logprobs": [float(row[token]) for token, row in zip(tokens, logs, strict=True)],
        "top_logprobs": lists,
        "text_offset": list(range(len(tokens))),
    }


def entries(tokens: Array, laws: Array, listed: int) -> dict[str, Any]:
    """The same as llama.cpp's server gives it: a list of objects."""
    made, logs = [], np.log(np.maximum(laws, 1e-300))
    for token, row in zip(tokens.tolist(), logs, strict=True):
        top = np.argsort(-row, kind="stable")[:listed].tolist()
        others = [{"id": x, "token": f"t{x}", "logprob": float(row[x])} for x in top]
        made.append({"id": token, "token": f"t{token}", "logprob": float(row[token]), "top_logprobs": others})
    return {"content": made}


def completion(tokens: Array, logprobs: dict[str, Any], asked: int = 0) -> dict[str, Any]:
    """The whole answer to a request of so many tokens."""
    choice = {
        "index": 0,
        "text": "".join(f"t{token} " for token in tokens),
        "finish_reason": "stop" if len(tokens) < asked else "length",
        "logprobs": logprobs,
    }
    usage = {"prompt_tokens": 1, "completion_tokens": len(tokens), "total_tokens": 1 + len(tokens)}
    return {"id": "c", "object": "text_completion", "model": "tiny", "choices": [choice], "usage": usage}


def evidence_of(report: str) -> dict[str, Any]:
    """The evidence of the first outcome of a report in JSON, and its status."""
    outcome = json.loads(report)["outcomes"][0]
    return {"status": outcome["status"], **outcome["evidence"]}


class Handler(BaseHTTPRequestHandler):
    """GET /v1/models and POST /v1/completions."""

    protocol_version = "HTTP/1.1"
    server: Server

    disable_nagle_algorithm = True  # else an answer in two parts waits 40 ms for an acknowledgement of the first

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers), {}))
        self.give({"data": [{"id": "tiny", "owned_by": self.server.owner}]})

    def do_POST(self) -> None:
        fields = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, dict(self.headers), fields))
        if self.server.misbehave is not None and self.server.misbehave(self, fields):
            return
        tokens, laws = self.server.generate(fields)
        self.give(completion(tokens, self.server.style(tokens, laws, fields["logprobs"]), fields["max_tokens"]))

    def give(self, content: dict[str, Any], status: int = 200) -> None:
        """Answer in one write, which the client reads at once."""
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 {status} {self.responses[status][0]}\r\ncontent-type: application/json\r\n"
        self.wfile.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)


class Server(ThreadingHTTPServer):
    """The server with what it generates by, and what it has been asked."""

    daemon_threads = True

    def __init__(
        self,
        generate: Generate,
        style: Callable[..., dict[str, Any]],
        owner: str,
        misbehave: Callable[..., bool] | None,
    ) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.generate, self.style, self.owner, self.misbehave = generate, style, owner, misbehave
        self.seen: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what several tests want."""


@contextmanager
def serving(
    generate: Generate,
    style: Callable[..., dict[str, Any]] = columns,
    owner: str = "vllm",
    misbehave: Callable[..., bool] | None = None,
) -> Iterator[tuple[str, Server]]:
    """The address of a running server, and the server."""
    server = Server(generate, style, owner, misbehave)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
