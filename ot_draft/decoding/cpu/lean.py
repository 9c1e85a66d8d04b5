"""Passes of a Llama model over the engine's cache with nothing between the products that need not be there.

transformers' layers serve every model and every way of calling them: wrappers, masks made anew, norms of six operations. For 30 layers and
two tokens on one core that is a sixth of a pass, for a draft of two layers a quarter (75 and 8 ms; ratios of one run). Here the same
operations follow each other, and give the same numbers. Every other call goes to transformers as before. Hooks on single layers are not
called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from ..cache import SlotCache
from .attention import GROUPED
from .joined import Joined


def make_lean(model: nn.Module) -> int:
    """Let the Llama models among its modules (float32, on the CPU) read so, in place; returns how many."""
    made = 0
    for module in list(model.modules()):
        name = f"{type(module).__module__}.{type(module).__qualname__}"
        weight = next(module.parameters(), None)
        if weight is None or weight.device.type != "cpu" or weight.dtype != torch.float32:
            continue
        if name == "transformers.models.llama.modeling_llama.LlamaRMSNorm":
            module.forward = LeanNorm(module)  # an object, not a function: a copy of the module gets one of its own
        attention = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if name == "transformers.models.llama.modeling_llama.LlamaModel" and attention in ("sdpa", GROUPED):
            module.forward = LeanLlama(module)
            made += 1
    return made


@dataclass
class LeanNorm:
    """The forward of a LlamaRMSNorm in one operation."""

    norm: Any

    def __call__(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        if x.dtype != torch.float32:
            return type(self.norm).forward(self.norm, x)
        return rms_norm(x, self.norm.weight.shape, self.norm.weight, self.norm.variance_epsilon)


@dataclass
class LeanLlama:
    """The forward of a LlamaModel."""

    model: Any

    def __call__(self, input_ids: Tensor | None = None, **options: Any) -> Any:
        """As transformers' own; leaner with the engine's cache, a mask of its own, and positions."""
        mask, positions, cache = (options.get(name) for name in ("attention_mask", "position_ids", "past_key_values"))
        fits = isinstance(cache, SlotCache) and isinstance(mask, Tensor) and mask.ndim == 4 and positions is not None
        if not fits or self.model.training or options.get("output_attentions"):
            return type(self.model).forward(self.model, input_ids, **options)
        from transformers.modeling_outputs import BaseModelOutputWithPast

        x = options.get("inputs_embeds")
        x = self.model.embed_tokens(input_ids) if x is None else x
        assert isinstance(cache, SlotCache) and isinstance(mask, Tensor)
        between: list[Tensor] | None = [] if options.get("output_hidden_states") else None
        last = self._last(x, positions, mask, cache, between)
        given: Any = cache  # of which transformers only knows that it is handed back
        return BaseModelOutputWithPast(last, given, None if between is None else (*between, last))

    def _last(self, x: Tensor, positions: Any, mask: Tensor, cache: SlotCache, between: list[Tensor] | None) -> Tensor:
        """The last hidden states, normed; between gets those that go into each layer, which a long prompt has no memory to waste on."""
        cos, sin = (table.unsqueeze(1) for table in self.model.rotary_emb(x, position_ids=positions))
        for layer in self.model.layers[: self.model.config.num_hidden_layers]:
            if between is not None:
                between.append(x)
            x = x + _attention(layer.self_attn, layer.input_layernorm(x), cos, sin, mask, cache)
            mlp, read = layer.mlp, layer.post_attention_layernorm(x)
            gate, up = _product(read, mlp.gate_proj, mlp.up_proj).chunk(2, -1)
            x = x + mlp.down_proj(mlp.act_fn(gate) * up)
        return self.model.norm(x)


def _attention(own: Any, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, cache: SlotCache) -> Tensor:
    batch, length, _ = x.shape
    width, heads = own.head_dim, own.q_proj.out_features // own.head_dim
    product = _product(x, own.q_proj, own.k_proj, own.v_proj).view(batch, length, -1, width).transpose(1, 2)
    groups = (product.shape[1] - heads) // 2
    turned = product[:, : heads + groups]  # queries and keys
    first, second = turned.chunk(2, -1)
    turned = turned * cos + torch.cat((-second, first), -1) * sin
    keys, values = cache.update(turned[:, heads:], product[:, heads + groups :], own.layer_idx)
    shared = heads != groups
    found = scaled_dot_product_attention(turned[:, :heads], keys, values, mask, scale=own.scaling, enable_gqa=shared)
    return own.o_proj(found.transpose(1, 2).reshape(batch, length, -1))


def _product(x: Tensor, first: Any, *others: Any) -> Tensor:
    """What several layers make of x, side by side."""
    return first.whole(x) if isinstance(first, Joined) else torch.cat([layer(x) for layer in (first, *others)], -1)
