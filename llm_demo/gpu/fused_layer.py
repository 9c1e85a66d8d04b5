"""Decoder layers of the Llama family in ten operations each, instead of transformers' layers (about 45 operations).

`fuse` replaces the layers of a model in place: merged query-key-value and gate-up projections, residual add with RMSNorm, rotary embedding
with the write into the cache, SiLU times up projection, and attention with the heads of a group packed as queries. The three kernels are
Triton's on a GPU (`layer_kernels`) and torch's elsewhere.

liger-kernel 0.8.5 has kernels for residual add with RMSNorm and for SiLU times up, but they are for training: they store inputs of a
backward pass, and take gate and up separately. It has no rotary embedding that writes into a cache. torch.compile of one layer and
FlashInfer's operators are not compared, because they require a GPU. The tests run these kernels in Triton's interpreter only.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

from ot_draft.decoding.cache import SlotCache

TRITON = find_spec("triton") is not None


def add_norm(x: Tensor, residual: Tensor | None, weight: Tensor | None, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return the sum of a layer's output and the residual stream, and its RMSNorm.

    Parameters
    ----------
    x, residual : Tensor of shape (B, T, width)
        residual: None for nothing to add.
    weight : Tensor of shape (width,)
        None for no norm: the sum is returned twice.
    epsilon : float
        Added to the mean square.

    Returns
    -------
    summed, normed : Tensor of shape (B, T, width)
    """
    if _by_kernels(x):
        from llm_demo.gpu import layer_kernels

        return layer_kernels.add_norm(x, residual, weight, epsilon)
    summed = x if residual is None else residual + x
    if weight is None:
        return summed, summed
    wide = summed.float()
    return summed, weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)).to(x.dtype)


def silu_mul(gate_up: Tensor) -> Tensor:
    """Return silu(gate) * up of concatenated gate and up, (..., 2 w) -> (..., w)."""
    if _by_kernels(gate_up):
        from llm_demo.gpu import layer_kernels

        return layer_kernels.silu_mul(gate_up)
    gate, up = gate_up.chunk(2, -1)
    return silu(gate) * up


def rotate_and_write(
    qkv: Tensor, turns: tuple[Tensor, Tensor], slots: Tensor, keys: Tensor, values: Tensor, heads: int
) -> Tensor:
    """Apply the rotary embedding, write keys and values into the cache, and return the queries.

    Parameters
    ----------
    qkv : Tensor of shape (B, T, (H + 2 G) width)
        Queries of H heads, keys and values of G groups.
    turns : pair of Tensor of shape (B or 1, T, width)
        Cosines and sines.
    slots : int Tensor of shape (B, T)
        Slots of the cache.
    keys, values : Tensor of shape (B, G, S, width)
        The cache, which is written.
    heads : int
        H.

    Returns
    -------
    queries : Tensor of shape (B, G, H / G * T, width)
        The heads of a group are consecutive.
    """
    if _by_kernels(qkv):
        from llm_demo.gpu import layer_kernels

        return layer_kernels.rotate_and_write(qkv, turns, slots, keys, values, heads)
    groups, width = keys.shape[1], keys.shape[3]
    parts = qkv.unflatten(-1, (heads + 2 * groups, width))
    cos, sin = (each[:, :, None] for each in turns)
    rotated, new = parts[:, :, : heads + groups], parts[:, :, heads + groups :]
    low, high = rotated.chunk(2, -1)
    rotated = rotated * cos + torch.cat((-high, low), -1) * sin
    rows = torch.arange(len(qkv), device=qkv.device)[:, None]
    keys.transpose(1, 2)[rows, slots] = rotated[:, :, heads:]
    values.transpose(1, 2)[rows, slots] = new
    packed = rotated[:, :, :heads].unflatten(2, (groups, heads // groups)).permute(0, 2, 3, 1, 4)
    return packed.flatten(2, 3)


def _by_kernels(x: Tensor) -> bool:
    """Return whether Triton's kernels are used: on a GPU, and on a CPU if OT_DRAFT_TRITON is 1 (interpreter)."""
    switch = os.environ.get("OT_DRAFT_TRITON", "")
    return switch != "0" and (x.is_cuda or switch == "1") and TRITON


class FusedLayer(nn.Module):
    """One decoder layer with the weights of transformers' layer; the next layer adds the residual stream.

    Parameters
    ----------
    layer : LlamaDecoderLayer
        Its projections become views of the merged weights.
    """

    def __init__(self, layer: Any) -> None:
        super().__init__()
        attention, mlp = layer.self_attn, layer.mlp
        self.index, self.width, self.scaling = attention.layer_idx, attention.head_dim, attention.scaling
        self.heads, self.groups = (len(each.weight) // self.width for each in (attention.q_proj, attention.k_proj))
        self.qkv = _merged(attention.q_proj, attention.k_proj, attention.v_proj)
        self.gate_up = _merged(mlp.gate_proj, mlp.up_proj)
        self.out, self.down = attention.o_proj, mlp.down_proj
        self.before, self.between = layer.input_layernorm, layer.post_attention_layernorm

    def forward(
        self, x: Tensor, residual: Tensor | None, turns: tuple[Tensor, Tensor], mask: Tensor, cache: SlotCache
    ) -> tuple[Tensor, Tensor]:
        """Return the layer's output and the residual stream to which it must be added, (B, T, hidden) each.

        mask: (B, 1, H / G * T, S), additive, for the live slots; `cache.slots` are the slots of the new keys and values.
        """
        assert cache.slots is not None
        residual, normed = add_norm(x, residual, self.before.weight, self.before.variance_epsilon)
        qkv = self.qkv(normed)
        new = qkv[..., self.heads * self.width :].unflatten(-1, (2 * self.groups, self.width)).transpose(1, 2)
        keys, values = cache.memory(self.index, *new.chunk(2, 1))
        queries = rotate_and_write(qkv, turns, cache.slots, keys, values, self.heads)
        live = slice(cache.live)
        found = scaled_dot_product_attention(queries, keys[:, :, live], values[:, :, live], mask, scale=self.scaling)
        packed = found.unflatten(2, (self.heads // self.groups, x.shape[1])).permute(0, 3, 1, 2, 4).flatten(2)
        residual, normed = add_norm(self.out(packed), residual, self.between.weight, self.between.variance_epsilon)
        return self.down(silu_mul(self.gate_up(normed))), residual


class FusedBackbone(nn.Module):
    """transformers' LlamaModel with fused layers, as the engine calls it: with a `SlotCache`, positions and an additive mask.

    Parameters
    ----------
    backbone : LlamaModel
        Its layers are replaced, and share their weights with the fused ones.
    """

    def __init__(self, backbone: Any) -> None:
        super().__init__()
        self.config, self.embed_tokens = backbone.config, backbone.embed_tokens
        self.rotary_emb, self.norm = backbone.rotary_emb, backbone.norm
        known: dict[int, FusedLayer] = {}  # layers that share their weights are merged once
        layers = []
        for layer in backbone.layers:
            key, index = id(layer.self_attn.q_proj), layer.self_attn.layer_idx
            if key not in known:
                known[key] = FusedLayer(layer)
            layers.append(known[key] if known[key].index == index else _again(known[key], index))
        self.layers = nn.ModuleList(layers)

    def get_input_embeddings(self) -> Any:
        """Return the embedding of the tokens."""
        return self.embed_tokens

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Any = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool = False,
        **others: Any,
    ) -> Any:
        """Return the outputs of transformers' LlamaModel.forward; without a cache all tokens are read from position 0 on, causally."""
        from transformers.modeling_outputs import BaseModelOutputWithPast

        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        given, count = cache, x.shape[1]
        if cache is None:
            cache = SlotCache(count, len(self.layers))
            cache.slots = position_ids = torch.arange(count, device=x.device).expand(len(x), -1)
            hidden = torch.ones(count, count, dtype=torch.bool, device=x.device).triu(1)
            attention_mask = torch.zeros_like(hidden, dtype=x.dtype).masked_fill(hidden, torch.finfo(x.dtype).min)[
                None, None
            ]
        assert attention_mask is not None
        first: Any = self.layers[0]
        repeats = first.heads // first.groups
        mask = attention_mask[:, :, None].expand(-1, -1, repeats, -1, -1).flatten(2, 3)
        turns = self.rotary_emb(x, position_ids=position_ids)
        residual: Tensor | None = None
        states = [x]
        for layer in self.layers:
            x, residual = layer(x, residual, turns, mask, cache)
            if output_hidden_states:
                states.append(residual + x)
        weight = getattr(self.norm, "weight", None)  # a `StateDraft` has its last norm outside the backbone
        _, last = add_norm(x, residual, weight, getattr(self.norm, "variance_epsilon", 0.0))
        hidden_states = (*states[:-1], last) if output_hidden_states else None
        return BaseModelOutputWithPast(last_hidden_state=last, cache=given, hidden_states=hidden_states)


def fuse(model: Any) -> Any:
    """Replace the decoder layers of a model of the Llama family by fused ones, in place.

    Parameters
    ----------
    model : LlamaForCausalLM or SubsetDraft
        Model of transformers, or a draft of layers, with full attention and without biases.

    Returns
    -------
    model : LlamaForCausalLM or SubsetDraft
        The same object.

    Raises
    ------
    ValueError
        If a layer is not one of transformers' Llama, or has biases.
    """
    name = "backbone" if hasattr(model, "backbone") else "model"
    backbone = getattr(model, name)
    for layer in backbone.layers:
        projections = [module for module in layer.modules() if isinstance(module, nn.Linear)]
        if type(layer).__name__ != "LlamaDecoderLayer" or any(each.bias is not None for each in projections):
            raise ValueError(
                f"model must have Llama layers without biases, got {type(layer).__name__}. Leave it as it is."
            )
    setattr(model, name, FusedBackbone(backbone))
    return model


def _merged(*projections: Any) -> nn.Linear:
    """Merge projections into one; their weights become views of the merged weights, so that memory is not doubled."""
    weights = [each.weight for each in projections]
    merged = nn.Linear(weights[0].shape[1], sum(map(len, weights)), bias=False, device="meta")
    merged.weight = nn.Parameter(torch.cat([weight.detach() for weight in weights]), requires_grad=False)
    for each, part in zip(projections, merged.weight.detach().split([len(weight) for weight in weights]), strict=True):
        each.weight = nn.Parameter(part, requires_grad=False)
    return merged


def _again(layer: FusedLayer, index: int) -> FusedLayer:
    """Return a layer with the same weights and a separate index in the cache."""
    twin = object.__new__(FusedLayer)
    twin.__dict__.update(layer.__dict__)
    twin.index = index
    return twin
