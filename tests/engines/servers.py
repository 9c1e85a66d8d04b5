"""Real servers, each in processes of its own, and `ot-draft audit` run on them as a person would."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from engine_cases import environment

from llm_demo.bench.llama_cpp.server import free_port, running, until_it_answers


@contextmanager
def vllm_server(target: Path, speculative: dict[str, Any] | None, folder: Path, **more: str) -> Iterator[str]:
    """vLLM's OpenAI server on the CPU: its address. more: environment variables."""
    port, log = free_port(), folder / "server.txt"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(target), "--port", str(port)]
    command += ["--host", "127.0.0.1", "--served-model-name", "tiny", "--dtype", "float32", "--enforce-eager"]
    command += ["--max-model-len", "192", "--max-num-seqs", "64", "--block-size", "32"]
    if speculative:
        command += ["--speculative-config", json.dumps(speculative)]
    variables = environment(VLLM_CPU_KVCACHE_SPACE="1", VLLM_LOGGING_LEVEL="INFO", **more)
    with running(command, log, variables) as process:
        url = until_it_answers(f"http://127.0.0.1:{port}", log, process)
        assert "Failed to load plugin" not in (said := log.read_text(errors="replace")), said  # vLLM goes on without it
        yield url


@contextmanager
def changed(url: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[str]:
    """A proxy before a server, which changes the fields of every request: its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            self.give(httpx.get(url + self.path, timeout=300, trust_env=False))

        def do_POST(self) -> None:
            fields = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.give(httpx.post(url + self.path, json=change(fields), timeout=300, trust_env=False))

        def give(self, answer: httpx.Response) -> None:
            self.send_response(answer.status_code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def audited(subject: str, folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, facts of the report, and what was printed.

    The facts are its status, what was tried, the evidence of the first outcome, and `skipped`, the names of skipped checks.
    subject: an address; or "servers", and two of them come first among the options.
    """
    file = folder / "report.json"
    command = [sys.executable, "-m", "ot_draft", "audit", subject, "--json", str(file), "--level", "1e-6", *options]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    found = {}
    if file.exists():
        report = json.loads(file.read_text())
        skipped = [each["check"] for each in report["outcomes"] if each["status"] == "skipped"]
        found = report["tried"] | report["outcomes"][0]["evidence"] | {"status": report["status"], "skipped": skipped}
    return done.returncode, found, done.stdout + done.stderr
