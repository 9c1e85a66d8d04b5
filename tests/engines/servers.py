"""Real servers, each in processes of its own, and `ot-draft audit` run on them as a person would."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from engine_cases import HERE, environment

LIMIT = 300.0  # seconds until a server answers


@contextmanager
def running(command: list[str], log: Path, **more: str) -> Iterator[None]:
    """A server's processes, in a group of their own that is ended as a whole."""
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment(**more), start_new_session=True)
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def until_it_answers(url: str, log: Path) -> None:
    """Wait for the list of models."""
    begun = time.monotonic()
    while time.monotonic() - begun < LIMIT:
        try:
            if httpx.get(f"{url}/v1/models", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    pytest.fail(f"{url} did not answer in {LIMIT:.0f} s:\n" + "\n".join(log.read_text().splitlines()[-25:]))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def vllm_server(target: Path, speculative: dict[str, Any] | None, folder: Path, **more: str) -> Iterator[str]:
    """vLLM's OpenAI server on the CPU: its address. more: environment variables."""
    port, log = free_port(), folder / "server.txt"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(target), "--port", str(port)]
    command += ["--host", "127.0.0.1", "--served-model-name", "tiny", "--dtype", "float32", "--enforce-eager"]
    command += ["--max-model-len", "64", "--max-num-seqs", "64"]
    if speculative:
        command += ["--speculative-config", json.dumps(speculative)]
    with running(command, log, VLLM_CPU_KVCACHE_SPACE="1", VLLM_LOGGING_LEVEL="INFO", **more):
        until_it_answers(f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def llama_server(gguf: Path, drafts: str, folder: Path) -> Iterator[str]:
    """llama.cpp's own server: its address."""
    port, log = free_port(), folder / "server.txt"
    with running([sys.executable, str(HERE / "llama_process.py"), str(gguf), drafts, str(port)], log):
        until_it_answers(f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}"


def audited(url: str, folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, verdict and what was printed."""
    verdict = folder / "verdict.json"
    command = [sys.executable, "-m", "ot_draft", "audit", url, "--json", str(verdict), "--level", "1e-6", *options]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=600)
    found = json.loads(verdict.read_text()) if verdict.exists() else {}
    return done.returncode, found, done.stdout + done.stderr
