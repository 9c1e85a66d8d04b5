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


def constant_llama(law: Any, dtype: Any = None) -> Any:
    """A LlamaForCausalLM that gives every token after every text the same law, (n,)."""
    import torch

    masses = torch.as_tensor(law, dtype=torch.float64)
    model = tiny_llama(0, len(masses), dtype=dtype)
    for weight in model.model.layers.parameters():
        weight.zero_()
    model.model.embed_tokens.weight.zero_()
    model.model.embed_tokens.weight[:, 0] = 1
    model.lm_head.weight.zero_()
    # The norm makes its one number sqrt(16); a token without mass has a chance of e^-90.
    model.lm_head.weight[:, 0] = masses.log().clamp(min=-90) / 16**0.5
    return model


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


def tiny_state_pair(seed: int = 0, n: int = 8, subset: Any = None, told: float = 0.5) -> Any:
    """The same where the draft reads the target's hidden states after the first and the second layer of three.

    told: the size of what it makes of them.
    """
    import torch

    from ot_draft.decoding.draft_models import StateDraft
    from ot_draft.decoding.pair import Pair

    made = tiny_pair(seed, n, layers=3)
    embedding = made.target.get_input_embeddings()
    made.draft.model.set_input_embeddings(embedding)
    scored = torch.arange(n) if subset is None else torch.tensor(subset)
    draft = StateDraft(made.draft.model, embedding, scored, (1, 2)).to(torch.float64)
    generator = torch.Generator().manual_seed(seed + 2)
    for weight in (draft.fuse.weight, draft.project.weight):
        weight.data.copy_(told * torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    draft.norm_states.weight.data.uniform_(0.5, 1.5, generator=generator)
    return Pair(made.target, draft.eval().requires_grad_(False))
