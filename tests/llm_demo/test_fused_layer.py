"""Fused decoder layers: logits as transformers', cache and all; how many operations a layer starts; the kernels by the interpreter."""

from __future__ import annotations

import copy
import importlib.util
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from counted_operations import Counted  # noqa: E402

import ot_draft as otd  # noqa: E402
from llm_demo.gpu import fused_layer  # noqa: E402
from llm_demo.gpu import large as gpu_large  # noqa: E402
from llm_demo.gpu.checks import tiny_pair  # noqa: E402
from llm_demo.gpu.fused_layer import fuse  # noqa: E402
from ot_draft.decoding import DecodeOptions, Drafting, Pair, decode  # noqa: E402
from ot_draft.decoding.cache import SlotCache  # noqa: E402
from ot_draft.decoding.language_model import additive  # noqa: E402

HAS_TRITON = importlib.util.find_spec("triton") is not None
WAYS = ["0", pytest.param("1", marks=pytest.mark.skipif(not HAS_TRITON, reason="triton is not installed"))]
SHAPE = gpu_large.LlamaShape("test", 48, 80, 2, 6, 2, 40, held=1)  # width 8, three heads per group, shared layers


def model_of(dtype: Any, held: int = 1) -> Any:
    torch.manual_seed(1)
    return gpu_large.random_model(replace(SHAPE, held=held), torch.device("cpu"), torch.float32).to(dtype)


def logits(model: Any, dtype: Any) -> Any:
    """Two rows: a prompt of five tokens, then a tree of three nodes in slots that are not in order."""
    cache, tokens = SlotCache(16, 2), torch.arange(16).reshape(2, 8) % 40
    found = []
    slots = torch.arange(5).expand(2, -1)
    sees = torch.arange(16) <= slots[..., None]
    positions = slots
    for part in (slice(0, 5), slice(5, 8)):
        cache.slots = slots
        options = {
            "attention_mask": additive(sees, dtype),
            "position_ids": positions,
            "cache": cache,
            "use_cache": True,
        }
        found.append(model(tokens[:, part], **options).logits)
        slots, positions = torch.tensor([[7, 5, 9], [6, 10, 5]]), torch.tensor([[5, 6, 6], [5, 5, 6]])
        own = torch.arange(16) == slots[..., None]
        sees = (torch.arange(16) < 5) | own | (torch.arange(16) == slots[:, :1, None])
    return torch.cat(found, 1).double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_logits_are_those_of_transformers(dtype: Any, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To rounding: no farther from the same weights in float64 than transformers' own are."""
    monkeypatch.setenv("OT_DRAFT_TRITON", way)
    model = model_of(dtype)
    exact = logits(copy.deepcopy(model).double(), torch.float64)
    theirs = logits(model, dtype)
    ours = logits(fuse(model), dtype)
    error, of_theirs = ((each - exact).abs().max() for each in (ours, theirs))
    assert (
        0 < of_theirs < 0.1 * exact.abs().max()
        and error <= 1.5 * of_theirs + torch.finfo(dtype).eps * exact.abs().max()
    )


def test_without_a_cache_and_hidden_states() -> None:
    model, tokens = model_of(torch.float64, 2), torch.arange(7)[None]
    theirs = model(tokens, output_hidden_states=True, logits_to_keep=torch.tensor([2, 6]))
    ours = fuse(model)(tokens, output_hidden_states=True, logits_to_keep=torch.tensor([2, 6]))
    torch.testing.assert_close(ours.logits, theirs.logits)
    torch.testing.assert_close(torch.stack(ours.hidden_states), torch.stack(theirs.hidden_states))


@pytest.mark.parametrize("states", [False, True])
def test_decoding_gives_the_same_tokens(states: bool) -> None:
    """Target and draft fused, tokens and states read, paths and trees."""
    plain, fused = (tiny_pair(states=states) for _ in range(2))
    fused = Pair(fuse(fused.target), fuse(fused.draft))
    for drafting in (Drafting.chains(3, 3, otd.trees.Joint()), Drafting.of(otd.trees.drafting.ALL["adaptive"](6))):
        texts = [
            decode(pair, [[1, 2, 3], [4]], drafting, DecodeOptions(max_tokens=12, stop=())).tokens
            for pair in (plain, fused)
        ]
        assert texts[0] == texts[1]


def test_operations_of_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 14 with a kernel counted as one; ten."""
    monkeypatch.setenv("OT_DRAFT_TRITON", "0")
    model = fuse(model_of(torch.float32))
    launched: list[str] = []

    def stand_in(name: str, result: Any) -> None:
        def call(*args: Any) -> Any:
            launched.append(name)
            return result(*args)

        monkeypatch.setattr(fused_layer, name, call)

    stand_in("add_norm", lambda x, *_: (x.new_empty(x.shape), x.new_empty(x.shape)))
    stand_in("silu_mul", lambda x: x.new_empty(*x.shape[:-1], x.shape[-1] // 2))
    stand_in(
        "rotate_and_write",
        lambda qkv, turns, slots, keys, values, heads: qkv.new_empty(len(qkv), 2, 3 * qkv.shape[1], 8),
    )
    cache, x = SlotCache(16, 2), torch.zeros(2, 4, 48)
    cache.slots = torch.arange(4).expand(2, -1)
    turns, mask = (torch.ones(1, 4, 8), torch.zeros(1, 4, 8)), torch.zeros(2, 1, 12, 16)
    layer = model.model.layers[1]
    layer(x, x, turns, mask, cache)  # the first pass takes the cache's memory
    launched.clear()
    with Counted() as counted:
        layer(x, x, turns, mask, cache)
    assert len(counted.names) + len(launched) == 10, (counted.names, launched)


def test_weights_are_shared_and_merged_once() -> None:
    model = model_of(torch.float32)
    before, bytes_before = sum(weight.numel() for weight in model.parameters()), gpu_large.bytes_read(model)
    fused = fuse(model)
    assert sum(weight.numel() for weight in fused.parameters()) == before
    assert gpu_large.bytes_read(fused) == bytes_before


def test_other_layers_are_named() -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {
        "vocab_size": 8,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    with pytest.raises(ValueError, match="got Qwen2DecoderLayer"):
        fuse(Qwen2ForCausalLM(Qwen2Config(**sizes, num_key_value_heads=2)))
