"""A Llama in plain torch: what a CPU reads few tokens with, over the engine's cache, in few and large operations. Without transformers.

Layers that read the same rows are one product; the heads that share keys are further rows of one product; a turn of all pairs of numbers is
one product of complex ones; a norm is four operations. It is called as transformers' LlamaForCausalLM is, as far as the engine and its
drafts call that, and gives the same numbers, summed in another order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu


class NamedTensors(ABC):
    """The tensors of a model by transformers' names."""

    @abstractmethod
    def __contains__(self, name: str) -> bool:
        """Whether there is such a tensor."""

    @abstractmethod
    def __getitem__(self, name: str) -> Tensor:
        """One of them, as numbers."""

    def layer(self, names: Sequence[str], order: Tensor | None = None) -> Any:
        """Linear layers that read the same rows as one, side by side. order: of the outputs."""
        weight, bias = (self._outputs([f"{name}.{kind}" for name in names], order) for kind in ("weight", "bias"))
        assert weight is not None
        made = nn.Linear(weight.shape[1], len(weight), bias is not None, device="meta")
        made.weight = nn.Parameter(weight, requires_grad=False)
        if bias is not None:
            made.bias = nn.Parameter(bias, requires_grad=False)
        return made

    def _outputs(self, names: Sequence[str], order: Tensor | None) -> Tensor | None:
        """Tensors side by side, None where there is none."""
        if not all(name in self for name in names):
            return None
        whole = self[names[0]] if len(names) == 1 else torch.cat([self[name] for name in names])
        return whole if order is None else whole[order]


class FloatTensors(NamedTensors):
    """Tensors that are numbers already."""

    def __init__(self, tensors: dict[str, Tensor], dtype: torch.dtype = torch.float32) -> None:
        self._tensors, self._dtype, self.names = tensors, dtype, tuple(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name].to(self._dtype)


class Norm(nn.Module):
    """x over the root of its mean square, times a weight, which is kept times the root of the width."""

    least: Tensor

    def __init__(self, width: int, epsilon: float, weight: Tensor | None = None) -> None:
        super().__init__()
        weight, self.variance_epsilon = torch.ones(width) if weight is None else weight, epsilon
        self.scaled = nn.Parameter(weight * width**0.5, requires_grad=False)
        self.register_buffer("least", torch.tensor((width * epsilon) ** 0.5, dtype=weight.dtype), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        size = torch.linalg.vector_norm(x, dim=-1, keepdim=True).hypot(self.least)
        return (x / size).mul_(self.scaled)


class Layer(nn.Module):
    """Attention over the slots of a cache, and what stands behind it."""

    def __init__(self, weights: NamedTensors, number: int, config: SimpleNamespace) -> None:
        super().__init__()
        self.number, self.heads, self.groups = number, config.num_attention_heads, config.num_key_value_heads
        self.width = head_width(config)
        name, epsilon = f"model.layers.{number}", config.rms_norm_eps
        both = [f"{name}.self_attn.{each}_proj" for each in "qkv"]
        self.qkv = weights.layer(both, turned_rows(self.heads + self.groups, self.groups, self.width))
        sizes = self.qkv.in_features, self.qkv.out_features
        if sizes != (config.hidden_size, (self.heads + 2 * self.groups) * self.width):
            raise RuntimeError(f"layer {number} has sizes {sizes}, which are not those of the configuration")
        self.o_proj = weights.layer([f"{name}.self_attn.o_proj"])
        self.gate_up = weights.layer([f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj"])
        self.down_proj = weights.layer([f"{name}.mlp.down_proj"])
        self.before_attention, self.before_mlp = (
            Norm(config.hidden_size, epsilon, weights[f"{name}.{each}_layernorm.weight"])
            for each in ("input", "post_attention")
        )

    def forward(self, x: Tensor, turns: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """x: (B, T, width); turns: complex (B, T, 1, half a head); mask: (B or 1, 1, heads of a group * T, S)."""
        x = x + self._attention(self.before_attention(x), turns, mask, cache)
        gate, up = self.gate_up(self.before_mlp(x)).chunk(2, -1)
        return x + self.down_proj(silu(gate).mul_(up))

    def _attention(self, x: Tensor, turns: Tensor, mask: Tensor, cache: Any) -> Tensor:
        (batch, length, _), turned = x.shape, self.heads + self.groups
        product = self.qkv(x).view(batch, length, -1, self.width)
        pairs = torch.view_as_complex(product[:, :, :turned].unflatten(-1, (-1, 2)))
        queries_keys = torch.view_as_real(pairs * turns).flatten(-2)
        queries = queries_keys[:, :, : self.heads].unflatten(2, (self.groups, -1)).permute(0, 2, 3, 1, 4)
        keys, values = queries_keys[:, :, self.heads :].transpose(1, 2), product[:, :, turned:].transpose(1, 2)
        if cache is not None:
            keys, values = cache.update(keys, values, self.number)
        found = scaled_dot_product_attention(queries.flatten(2, 3), keys, values, mask)
        found = found.unflatten(2, (-1, length)).permute(0, 3, 1, 2, 4)
        return self.o_proj(found.reshape(batch, length, -1))


@dataclass(frozen=True)
class Output:
    """Of a pass. hidden_states: those that go into each layer and the last, where they were asked for."""

    last_hidden_state: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    logits: Any = None


class LlamaBody(nn.Module):
    """Embedding, layers, and the last norm; without head. Called as transformers' LlamaModel."""

    def __init__(self, weights: NamedTensors, config: SimpleNamespace, embedding: nn.Embedding) -> None:
        super().__init__()
        self.config, self.embed_tokens = config, embedding
        self.layers = nn.ModuleList([Layer(weights, number, config) for number in range(config.num_hidden_layers)])
        self.norm: nn.Module = Norm(config.hidden_size, config.rms_norm_eps, weights["model.norm.weight"])
        width = head_width(config)
        steps = torch.arange(0, width, 2, dtype=torch.int64).float() / width
        self.register_buffer("inverse", 1.0 / (rope_base(config) ** steps))

    inverse: Tensor

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of tokens."""
        return self.embed_tokens

    def forward(
        self,
        tokens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Any = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool = True,
        output_hidden_states: bool = False,
    ) -> Output:
        """tokens: (B, T), or inputs_embeds: (B, T, width). attention_mask: (B or 1, 1, T, S), additive; None: everything before."""
        x = self.embed_tokens(tokens) if inputs_embeds is None else inputs_embeds
        length = x.shape[1]
        places = torch.arange(length)[None] if position_ids is None else position_ids
        if attention_mask is None:
            attention_mask = torch.full((1, 1, length, length), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)
        mask = attention_mask.repeat(1, 1, self.config.num_attention_heads // self.config.num_key_value_heads, 1)
        angles = (places[..., None] * self.inverse)[:, :, None]
        turns = torch.complex(angles.cos(), angles.sin()).to(x.dtype.to_complex())
        between: list[Tensor] = []
        for layer in self.layers:
            if output_hidden_states:  # a long prompt has no memory to waste on them
                between.append(x)
            x = layer(x, turns, mask, cache)
        x = self.norm(x)
        return Output(x, (*between, x) if output_hidden_states else None)


class Llama(nn.Module):
    """Body and head. Called as transformers' LlamaForCausalLM."""

    def __init__(self, weights: NamedTensors, config: SimpleNamespace, generation_config: Any = None) -> None:
        super().__init__()
        self.config, self.generation_config = config, generation_config
        embedding = nn.Embedding.from_pretrained(weights["model.embed_tokens.weight"])
        self.model = LlamaBody(weights, config, embedding)
        self.lm_head = weights.layer(["lm_head" if "lm_head.weight" in weights else "model.embed_tokens"])

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of tokens."""
        return self.model.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        """The head."""
        return self.lm_head

    def forward(self, tokens: Tensor, cache: Any = None, logits_to_keep: int | Tensor = 0, **options: Any) -> Output:
        """logits_to_keep: places, or how many of the last ones; 0: all."""
        found = self.model(tokens, cache=cache, **options)
        keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        return Output(found.last_hidden_state, found.hidden_states, self.lm_head(found.last_hidden_state[:, keep]))


def reads(config: dict[str, Any]) -> bool:
    """Whether a model of this configuration is one that is read so."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return (
        config.get("model_type") == "llama"
        and (config.get("architectures") or ["LlamaForCausalLM"]) == ["LlamaForCausalLM"]
        and config.get("hidden_act") == "silu"
        and rope.get("rope_type", "default") == "default"
        and config.get("quantization_config") is None
    )


def head_width(config: SimpleNamespace) -> int:
    """Numbers of a head."""
    own = getattr(config, "head_dim", None)
    return int(own or config.hidden_size // config.num_attention_heads)


def rope_base(config: SimpleNamespace) -> float:
    """Of the turns by place."""
    rope = getattr(config, "rope_parameters", None) or {}
    return float(rope.get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0)


def turned_rows(heads: int, plain: int, width: int) -> Tensor:
    """The order in which the two numbers of each pair that is turned together are neighbours; `plain` heads behind stay as they are."""
    pairs = torch.arange(heads * width).view(heads, 2, width // 2).transpose(1, 2).flatten()
    return torch.cat((pairs, torch.arange(heads * width, (heads + plain) * width)))
