"""Servers in separate processes: that of llama.cpp, run by a Python with xllamacpp, and helpers for tests of other engines."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from ot_draft.decoding import CannotDecode

WHEEL = "xllamacpp==2026.10.11549"  # llama.cpp with its server
PROCESS = Path(__file__).with_name("process.py")
LIMIT = 3600.0  # timeout in seconds until a server answers; one that ends is detected at once
SHOWN = 25  # number of last log lines in an error message
ASK_VERSION = "import xllamacpp, importlib.metadata as data; print(data.version('xllamacpp'))"


@dataclass(frozen=True)
class Settings:
    """Settings of one llama.cpp server.

    gguf, draft: files of the target and of the draft model. drafts: "none", "ngram" (llama.cpp's `ngram-simple` with its defaults),
    "greedy" (the draft model's most probable tokens) or "drawn" (samples from its distribution). length: number of draft tokens per target
    call. context: number of tokens of all slots together. parallel: number of slots.
    """

    gguf: str
    drafts: str = "none"
    draft: str = ""
    length: int = 3  # llama.cpp's default
    threads: int = 1
    context: int = 2048
    parallel: int = 1


def version(python: str) -> str:
    """Return the version of xllamacpp of a Python executable. Raises CannotDecode, with the command to install it, if it is missing."""
    try:
        asked = subprocess.run([python, "-c", ASK_VERSION], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotDecode(
            f"--llama-python must be a Python executable, got {python!r} ({error.strerror}). Name another one."
        ) from None
    if asked.returncode:
        raise CannotDecode(
            f"--llama-python must be a Python with xllamacpp, got {python}. "
            f"Run  {python} -m pip install --no-deps {WHEEL}  or name another one."
        )
    return asked.stdout.strip()


@contextmanager
def llama_server(python: str, settings: Settings, log: Path) -> Iterator[str]:
    """Run llama.cpp's server and yield its address. log: file for its output."""
    port = free_port()
    given = json.dumps(asdict(settings) | {"port": port})
    with running([python, str(PROCESS), given], log, os.environ) as process:
        yield until_it_answers(f"http://127.0.0.1:{port}", log, process)


@contextmanager
def running(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server in a separate process group, which is ended with the block."""
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=out, env=environment, start_new_session=True
        )
        try:
            yield process
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(30)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            process.wait()
        return


def until_it_answers(url: str, log: Path, process: subprocess.Popen[bytes]) -> str:
    """Wait until the server lists its models, and return the address.

    Raises CannotDecode if the process ends or does not answer within LIMIT seconds.
    """
    begun = time.monotonic()
    while time.monotonic() - begun < LIMIT and process.poll() is None:
        try:
            if httpx.get(f"{url}/v1/models", timeout=5, trust_env=False).status_code == 200:
                return url
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    said = "\n".join(log.read_text(errors="replace").splitlines()[-SHOWN:])
    ended = f"ended with {process.returncode}" if process.poll() is not None else f"did not answer in {LIMIT:.0f} s"
    raise CannotDecode(f"the server at {url} {ended}:\n{said}")


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
