"""How many greedy texts are plain `generate`'s, by number type: `python tests/integrations/greedy_in_16_bits.py`."""

from __future__ import annotations

import copy
from typing import Any

import torch
import transformers

import ot_draft as otd
from ot_draft.integrations.transformers import multi_draft

TEXTS, TOKENS, SEEDS = 48, 30, 3


def equal(seed: int, dtype: torch.dtype) -> int:
    """Texts of a random Llama, drafted by the same with noise on its weights, that are equal to plain ones."""
    torch.manual_seed(seed)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    ends: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = transformers.LlamaConfig(vocab_size=64, initializer_range=0.6, **sizes, **ends)
    target = transformers.LlamaForCausalLM(config).eval().requires_grad_(False)
    draft = copy.deepcopy(target)
    for weight in draft.parameters():
        weight.add_(0.1 * torch.randn_like(weight))
    prompts = torch.randint(1, 64, (TEXTS, 5))
    loop = multi_draft(draft.to(dtype), otd.trees.Joint(), paths=3, length=3)
    plain, drafted = (
        target.to(dtype).generate(prompts, max_new_tokens=TOKENS, custom_generate=way) for way in (None, loop)
    )
    return int((plain == drafted).all(1).sum())


if __name__ == "__main__":
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        print(dtype, sum(equal(seed, dtype) for seed in range(SEEDS)), "of", SEEDS * TEXTS)
