"""Passes of a Llama of SmolLM2-135M's sizes over the engine's cache: transformers' layers and lean ones, of the same packed weights."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import tiny_llama

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding.cache import SlotCache, causal_mask  # noqa: E402
from ot_draft.decoding.cpu import group_heads, pack  # noqa: E402
from ot_draft.decoding.cpu_llama import make_lean  # noqa: E402
from ot_draft.decoding.language_model import LanguageModel  # noqa: E402

SIZES = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
N, READ = 1024, 160  # vocabulary, tokens in the cache


@pytest.mark.parametrize("layers", [2, 30])
@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("lean", [False, True], ids=["transformers", "lean"])
def test_a_pass(benchmark: Any, layers: int, tokens: int, lean: bool) -> None:
    model = tiny_llama(0, N, layers, torch.float32, spread=0.02, **SIZES)
    pack(model)
    group_heads(model)
    assert not lean or make_lean(model) == 1
    reader, cache = LanguageModel(model, N), SlotCache(READ + 16, layers)
    slots = torch.arange(READ + tokens)[None]
    mask = causal_mask(READ + tokens, READ + 16, torch.float32, torch.device("cpu"))
    with torch.inference_mode():
        reader.logits(cache, slots % N, slots, slots, mask, last=1)
        last, seen = slots[:, READ:], mask[:, :, READ:]
        benchmark(reader.logits, cache, last % N, last, last, seen)
