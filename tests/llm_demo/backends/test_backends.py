"""What `auto` stands for: OpenVINO with float rows where it reads the target and is installed, torch elsewhere, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_fast import target_of
from tiny_folders import WORDS, tokenizer

from llm_demo.backends import EXACT, in_openvino
from llm_demo.backends.fast_graph import quantizes_activations
from llm_demo.backends.fast_models import FLOAT, INT8, NO_INT8, FastTarget
from ot_draft.decoding import Pair, load, load_pair
from ot_draft.decoding.backends import TORCH, resolve
from ot_draft.decoding.gguf_files import BLOCKS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a tiny file of a Llama was converted to, with a tokenizer."""
    _, model = target_of(tmp_path, "Q4_1")
    tokenizer(WORDS).save_pretrained(tmp_path)
    assert model.config.vocab_size >= len(WORDS)
    return tmp_path


def test_openvino_where_it_reads_the_target(folder: Path) -> None:
    assert resolve(folder) == (EXACT, "")
    (folder / BLOCKS).unlink()  # a folder that is no file's is read as it is, unless OpenVINO is asked for
    assert resolve(folder)[0] == TORCH and f"use --backend {EXACT}" in resolve(folder)[1]
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"mlp_bias": false', '"mlp_bias": true'))
    assert resolve(folder) == (TORCH, "")
    assert resolve(folder / "nothing") == resolve(None) == (TORCH, "")


@pytest.mark.parametrize("lacks", in_openvino.PACKAGES)
def test_without_its_packages_torch_and_the_remedy(lacks: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_openvino, "find_spec", lambda name: None if name == lacks else True)
    backend, why = resolve(folder)
    assert backend == TORCH and f"{lacks} is not installed" in why and "pip install" in why
    assert resolve(None) == (TORCH, "")  # nothing is missing where OpenVINO would not be taken


@pytest.mark.parametrize(
    ("settings", "by"),
    [
        ({}, EXACT),
        ({"draft": "skip:0"}, TORCH),
        ({"dtype": "bfloat16"}, TORCH),
        ({"cache": False}, TORCH),
        ({"draft": "b.gguf"}, EXACT),
        ({"backend": TORCH}, TORCH),
        ({"backend": "openvino"}, "openvino"),
    ],
)
def test_load_pair_takes_it_where_nothing_else_is_asked_for(
    settings: dict[str, Any], by: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers of the target that draft for it, and other weights, are torch's."""
    file = folder / "a.gguf"
    file.write_bytes(b"")
    (folder / "b.gguf").write_bytes(b"")
    monkeypatch.chdir(folder)
    for module in (load, in_openvino):
        monkeypatch.setattr(module, "folder_of", lambda *_: folder)
    monkeypatch.setattr(load, "_model_and_tokenizer", lambda *_: (target_of(folder, "Q4_1")[1], tokenizer(WORDS)))
    pair: Pair = load_pair(**{"target": str(file), "draft": "lookup"} | settings)
    assert pair.backend == by and isinstance(pair.target, FastTarget) == (by != TORCH)
    if by != TORCH:
        assert pair.law == (FLOAT if by == EXACT else INT8 if quantizes_activations() else NO_INT8)
    if settings.get("draft") == "b.gguf":  # whose law is whatever it computes
        assert isinstance(pair.draft, FastTarget) and pair.draft.exact != quantizes_activations()
