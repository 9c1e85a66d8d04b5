"""One of several processes that decode with a target split between them: `torch.distributed.run ... decode_in_parallel.py DIRECTORY`.

Every process prints one line of JSON; test_parallel_target.py compares them with what one process makes of the whole target.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from tiny_models import tiny_pair

import ot_draft as otd
from ot_draft.decoding import DecodeOptions, Drafting, Pair, decode
from ot_draft.integrations.transformers import multi_draft

PROMPTS = [[1, 2, 3], [4, 5, 6, 7]]


def parallel_pair() -> Pair:
    """Two key-value heads, one a process."""
    pair: Pair = tiny_pair(3, n=32, num_key_value_heads=2)
    return pair


def decoded(target: Any, draft: Any) -> list[list[int]]:
    drafting = Drafting.chains(3, 2, otd.trees.Joint())
    return decode(Pair(target, draft), PROMPTS, drafting, DecodeOptions(max_tokens=10, seed=3, stop=())).tokens


def generated(target: Any, draft: Any, seed: int | None) -> list[list[int]]:
    loop = multi_draft(draft, paths=2, length=3, seed=seed)
    ids = torch.tensor(PROMPTS[:1])
    return list(target.generate(ids, custom_generate=loop, do_sample=True, max_new_tokens=10).tolist())


def main(directory: str) -> None:
    from transformers import AutoModelForCausalLM
    from transformers.distributed import DistributedConfig

    from ot_draft.decoding.language_model import LanguageModel

    split = DistributedConfig(tp_plan="auto")
    options = {"dtype": torch.float64, "attn_implementation": "sdpa", "distributed_config": split}
    target = AutoModelForCausalLM.from_pretrained(directory, **options).eval().requires_grad_(False)
    draft, rank = parallel_pair().draft, torch.distributed.get_rank()
    torch.manual_seed(rank)  # two generators that disagree: the processes must agree on a seed all the same
    made = {
        "held": target.model.layers[0].self_attn.q_proj.weight.to_local().numel(),
        "spread": LanguageModel(target, 32).info.sharded,
        "decoded": decoded(target, draft),
        "generated": generated(target, draft, 5),
        "unseeded": generated(target, draft, None),
    }
    print("\n" + json.dumps(made), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
