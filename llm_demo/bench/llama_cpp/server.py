"""Servers in processes of their own: llama.cpp's, started by any python that has xllamacpp, and what the tests of other engines share."""

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

WHEEL = "xllamacpp==2026.10.11549"  # llama.cpp with its own server
PROCESS = Path(__file__).with_name("process.py")
LIMIT = 3600.0  # seconds until a server answers: one that ends is seen at once, a busy machine may take long
SHOWN = 25  # last lines of what a server said that an error shows
ASK_VERSION = "import xllamacpp, importlib.metadata as data; print(data.version('xllamacpp'))"


@dataclass(frozen=True)
class Settings:
    """What one server of llama.cpp serves, and how it drafts.

    gguf, draft: files of the target and of the draft model. drafts: "none", "ngram" (llama.cpp's `ngram-simple` with its own numbers),
    "greedy" or "drawn": the draft model's likeliest tokens, or draws from its law. length: tokens that the draft model drafts a call.
    context: tokens of all slots together; parallel: their number.
    """

    gguf: str
    drafts: str = "none"
    draft: str = ""
    length: int = 3  # llama.cpp's own
    threads: int = 1
    context: int = 2048
    parallel: int = 1


def version(python: str) -> str:
    """Version of the xllamacpp that this python has; CannotDecode, with the command that installs it, where it has none."""
    try:
        asked = subprocess.run([python, "-c", ASK_VERSION], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotDecode(f"--llama-python {python!r} cannot be run: {error.strerror}") from None
    if asked.returncode:
        raise CannotDecode(
            f"llama.cpp (xllamacpp) cannot be imported by {python}: run  {python} -m pip install --no-deps {WHEEL}  "
            "or name a python that has it by --llama-python"
        )
    return asked.stdout.strip()


@contextmanager
def llama_server(python: str, settings: Settings, log: Path) -> Iterator[str]:
    """llama.cpp's own server: its address. log: the file for all that it says."""
    port = free_port()
    given = json.dumps(asdict(settings) | {"port": port})
    with running([python, str(PROCESS), given], log, os.environ) as process:
        yield until_it_answers(f"http://127.0.0.1:{port}", log, process)


@contextmanager
def running(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A server's processes, in a group of their own that is ended as a whole."""
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
    """Wait for the list of models; the address, as it was given. CannotDecode where the process ends or says nothing for LIMIT seconds."""
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
    """A port of this machine that nobody listened on a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
