"""Passes of a Llama of SmolLM2-135M's sizes over the engine's cache: by transformers and by `Llama`, both packed; the products alone."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import tiny_llama

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding.cache import SlotCache, causal_mask  # noqa: E402
from ot_draft.decoding.cpu import pack, pack_float16  # noqa: E402
from ot_draft.decoding.language_model import LanguageModel  # noqa: E402
from ot_draft.decoding.load import as_llama  # noqa: E402

SIZES = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
N, READ = 1024, 160  # vocabulary, tokens in the cache


def model(layers: int, ours: bool, short: bool) -> Any:
    made = tiny_llama(0, N, layers, torch.float32, spread=0.02, **SIZES)
    made = as_llama(made) if ours else made
    if short:
        pack_float16(made)
    pack(made)
    return made


@pytest.mark.parametrize("layers", [2, 30])
@pytest.mark.parametrize("tokens", [1, 3, 9])
@pytest.mark.parametrize("short", [False, True], ids=["32 bits", "16 bits"])
@pytest.mark.parametrize("ours", [False, True], ids=["transformers", "ours"])
def test_a_pass(benchmark: Any, layers: int, tokens: int, short: bool, ours: bool) -> None:
    reader, cache = LanguageModel(model(layers, ours, short), N), SlotCache(READ + 16, layers)
    slots = torch.arange(READ + tokens)[None]
    mask = causal_mask(READ + tokens, READ + 16, torch.device("cpu"))
    with torch.inference_mode():
        reader.logits(cache, slots % N, slots, slots, mask, last=1)
        last, seen = slots[:, READ:], mask[:, READ:]
        benchmark(reader.logits, cache, last % N, last, last, seen)


@pytest.mark.parametrize("tokens", [1, 3, 9])
@pytest.mark.parametrize("short", [False, True], ids=["32 bits", "16 bits"])
def test_the_products_of_a_pass_alone(benchmark: Any, tokens: int, short: bool) -> None:
    """What `test_a_pass` of ours, 30 layers, is to be compared with."""
    made = model(30, True, short)
    wide, inner = torch.randn(1, tokens, SIZES["hidden_size"]), torch.randn(1, tokens, SIZES["intermediate_size"])

    def products() -> None:
        for layer in made.model.layers:
            layer.qkv(wide), layer.o_proj(wide), layer.gate_up(wide), layer.down_proj(inner)
        made.lm_head(wide)

    with torch.inference_mode():
        benchmark(products)
