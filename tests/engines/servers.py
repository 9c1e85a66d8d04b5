"""Real servers, each in processes of its own, and `ot-draft audit` run on them as a person would."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine_cases import environment

from llm_demo.bench.llama_cpp.server import free_port, running, until_it_answers


@contextmanager
def vllm_server(target: Path, speculative: dict[str, Any] | None, folder: Path, **more: str) -> Iterator[str]:
    """vLLM's OpenAI server on the CPU: its address. more: environment variables."""
    port, log = free_port(), folder / "server.txt"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(target), "--port", str(port)]
    command += ["--host", "127.0.0.1", "--served-model-name", "tiny", "--dtype", "float32", "--enforce-eager"]
    command += ["--max-model-len", "64", "--max-num-seqs", "64"]
    if speculative:
        command += ["--speculative-config", json.dumps(speculative)]
    variables = environment(VLLM_CPU_KVCACHE_SPACE="1", VLLM_LOGGING_LEVEL="INFO", **more)
    with running(command, log, variables) as process:
        yield until_it_answers(f"http://127.0.0.1:{port}", log, process)


def audited(url: str, folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, verdict and what was printed."""
    verdict = folder / "verdict.json"
    command = [sys.executable, "-m", "ot_draft", "audit", url, "--json", str(verdict), "--level", "1e-6", *options]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=600)
    found = json.loads(verdict.read_text()) if verdict.exists() else {}
    return done.returncode, found, done.stdout + done.stderr
