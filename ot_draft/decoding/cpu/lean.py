"""Which models can be read leanly, and how they come to it: their modules are given a class whose forward is leaner.

A class, not a forward of the instance's own: that would remember the module that it was made for, and a shallow copy of a model,
whose layers are others, would run the model that it was copied from.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

from .attention import GROUPED

LLAMA = "transformers.models.llama.modeling_llama"


def make_lean(model: nn.Module) -> int:
    """Let the Llama models among its modules (float32, on the CPU) read so, in place; returns how many."""
    theirs = sys.modules.get(LLAMA)
    if theirs is None:
        return 0  # then there is no such model
    from .llama import LeanLlamaModel, LeanLlamaRMSNorm

    made = 0
    for module in list(model.modules()):
        weight = next(module.parameters(), None)
        if weight is None or weight.device.type != "cpu" or weight.dtype != torch.float32:
            continue
        if type(module) is theirs.LlamaRMSNorm:
            module.__class__ = LeanLlamaRMSNorm
        attention = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if type(module) is theirs.LlamaModel and attention in ("sdpa", GROUPED):
            module.__class__ = LeanLlamaModel
            made += 1
    return made
