"""Tiny random Llama pairs in float64: small enough to enumerate, sharp enough that every token of the context matters."""

from __future__ import annotations

from typing import Any


def tiny_llama(seed: int, n: int = 8, layers: int = 1, dtype: Any = None, spread: float = 0.6, **changes: Any) -> Any:
    """A LlamaForCausalLM with random weights: hidden 16, two heads, one key-value head."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    options = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1}
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    settings = options | ends | {"max_position_embeddings": 256, "initializer_range": spread} | changes
    config = LlamaConfig(vocab_size=n, num_hidden_layers=layers, **settings)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    return model.to(torch.float64 if dtype is None else dtype).eval().requires_grad_(False)


def tiny_pair(seed: int = 0, n: int = 8, layers: int = 2, **changes: Any) -> Any:
    """Target and draft that are like each other: the draft is the target with noise on its weights."""
    import copy

    import torch

    from ot_draft.decoding.pair import Pair

    target = tiny_llama(seed, n, layers, **changes)
    draft = copy.deepcopy(target)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for weight in draft.parameters():
            noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight.dtype)
            weight.add_(0.15 * noise)
    return Pair(target, draft)
