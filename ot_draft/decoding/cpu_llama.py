"""Passes of a Llama model over the engine's cache with nothing between the products that need not be there.

transformers' layers serve every model and every way of calling them: wrappers, masks made anew, norms of six operations. For 30 layers and
two tokens on one core that is a sixth of a pass, for a draft of two layers a quarter (75 and 8 ms; ratios of one run). Here the same
operations follow each other, and give the same numbers. Every other call goes to transformers as before. Hooks on single layers are not
called.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention
from transformers import LlamaConfig, LlamaModel
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from .cache import SlotCache
from .cpu import GROUPED, product_of, register


class LeanLlamaRMSNorm(LlamaRMSNorm):
    """A norm in one operation."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        if x.dtype != torch.float32:
            return super().forward(x)
        return rms_norm(x, self.weight.shape, self.weight, self.variance_epsilon)


class LeanLlamaModel(LlamaModel):
    """A Llama whose passes with the engine's cache, a mask of its own, and positions, are lean."""

    def forward(self, input_ids: Tensor | None = None, **options: Any) -> Any:
        """As transformers' own."""
        mask, positions, cache = (options.get(name) for name in ("attention_mask", "position_ids", "past_key_values"))
        fits = isinstance(cache, SlotCache) and isinstance(mask, Tensor) and mask.ndim == 4 and positions is not None
        if not fits or self.training or options.get("output_attentions"):
            return super().forward(input_ids, **options)
        x = options.get("inputs_embeds")
        x = self.embed_tokens(input_ids) if x is None else x
        assert isinstance(cache, SlotCache) and isinstance(mask, Tensor)
        between: list[Tensor] | None = [] if options.get("output_hidden_states") else None
        last = self._last(x, positions, mask, cache, between)
        given: Any = cache  # of which transformers only knows that it is handed back
        return BaseModelOutputWithPast(last, given, None if between is None else (*between, last))

    def _last(self, x: Tensor, positions: Any, mask: Tensor, cache: SlotCache, between: list[Tensor] | None) -> Tensor:
        """The last hidden states, normed; between gets those that go into each layer, which a long prompt has no memory to waste on."""
        cos, sin = (table.unsqueeze(1) for table in self.rotary_emb(x, position_ids=positions))
        layers: Any = self.layers[: self.config.num_hidden_layers]
        for layer in layers:
            if between is not None:
                between.append(x)
            x = x + _attention(layer.self_attn, layer.input_layernorm(x), cos, sin, mask, cache)
            mlp, read = layer.mlp, layer.post_attention_layernorm(x)
            gate, up = _products(read, mlp.gate_proj, mlp.up_proj).chunk(2, -1)
            x = x + mlp.down_proj(mlp.act_fn(gate) * up)
        return self.norm(x)


def _attention(own: Any, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, cache: SlotCache) -> Tensor:
    batch, length, _ = x.shape
    width, heads = own.head_dim, own.q_proj.out_features // own.head_dim
    product = _products(x, own.q_proj, own.k_proj, own.v_proj).view(batch, length, -1, width).transpose(1, 2)
    groups = (product.shape[1] - heads) // 2
    turned = product[:, : heads + groups]  # queries and keys
    first, second = turned.chunk(2, -1)
    turned = turned * cos + torch.cat((-second, first), -1) * sin
    keys, values = cache.update(turned[:, heads:], product[:, heads + groups :], own.layer_idx)
    shared = heads != groups
    found = scaled_dot_product_attention(turned[:, :heads], keys, values, mask, scale=own.scaling, enable_gqa=shared)
    return own.o_proj(found.transpose(1, 2).reshape(batch, length, -1))


def _products(x: Tensor, *layers: Any) -> Tensor:
    """What several layers make of x, side by side."""
    product = product_of(layers)
    return torch.cat([layer(x) for layer in layers], -1) if product is None else product(x)


def make_lean(model: nn.Module) -> int:
    """Let the Llama models among its modules (float32, on the CPU) read so, in place; returns how many.

    They are given a class, not a forward of the instance's own: that would remember the module that it was made for, and a shallow copy
    of a model, whose layers are others, would run the model that it was copied from.
    """
    made = 0
    for module in list(model.modules()):
        weight = next(module.parameters(), None)
        if weight is None or weight.device.type != "cpu" or weight.dtype != torch.float32:
            continue
        if type(module) is LlamaRMSNorm:
            module.__class__ = LeanLlamaRMSNorm
        attention = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if type(module) is LlamaModel and attention in ("sdpa", GROUPED):
            module.__class__ = LeanLlamaModel
            made += 1
    return made


def _make_known() -> None:
    """To transformers, which notes what can be recorded of a class when a first model of it is made; and the kind of attention.

    A pickled model has neither with it, and finds both where it is read.
    """
    register()
    ends: dict[str, Any] = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    with torch.device("meta"):
        LeanLlamaModel(LlamaConfig(vocab_size=1, hidden_size=2, num_attention_heads=1, num_hidden_layers=0, **ends))


_make_known()
