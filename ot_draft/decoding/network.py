"""A causal language model as the engine sees it: new tokens into given slots of a cache, logits out."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
from torch import Tensor

from .cache import SlotCache
from .draft import Draft
from .errors import CannotDecode

LIMITS = ("max_position_embeddings", "sliding_window", "attention_chunk_size")  # in tokens, as configurations call them
ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}


class Network:
    """Target or draft: a transformers causal language model, or a `Draft` that scores a subset of the vocabulary.

    n: size of the vocabulary that both models are brought to. Logits of tokens from n on are dropped (models of one family
    pad their embeddings differently); tokens that this model does not score have probability 0.
    """

    def __init__(self, model: Any, n: int) -> None:
        self.model, self.n = model, n
        backbone: Any = model.backbone if isinstance(model, Draft) else model
        self.config = (
            backbone.config.get_text_config() if hasattr(backbone.config, "get_text_config") else backbone.config
        )
        attention = getattr(self.config, "_attn_implementation", "eager")
        if attention not in ("sdpa", "eager"):
            raise CannotDecode(
                f"attention {attention!r} takes no tree mask: load the model with attn_implementation='sdpa'"
            )
        _check_kind(backbone, self.config)
        embedding = backbone.get_input_embeddings().weight
        self.device, self.dtype, self.embedded = embedding.device, embedding.dtype, len(embedding)
        if isinstance(model, Draft):
            self.scored: Tensor | None = model.vocabulary_subset
        else:
            width = vocabulary_size(model)
            self.scored = torch.arange(width, device=self.device) if width < n else None

    @property
    def spread(self) -> bool:
        """Whether its layers stand on several devices or are split between processes: no CUDA graph holds such a pass."""
        return len({weight.device for weight in self.model.parameters()}) > 1 or split_between_processes(self.model)

    @property
    def layers(self) -> int:
        """Number of layers whose cache may be one piece of memory: 1 where they stand on several devices."""
        return 1 if self.spread else int(getattr(self.config, "num_hidden_layers", 1))

    @property
    def context(self) -> int | None:
        """Number of tokens that the model can look back over, None if it names no limit."""
        limits = [getattr(self.config, name, None) for name in LIMITS]
        return min((limit for limit in limits if isinstance(limit, int) and limit > 0), default=None)

    def logits(
        self, cache: SlotCache, tokens: Tensor, slots: Tensor, positions: Tensor, mask: Tensor, last: int = 0
    ) -> Tensor:
        """Logits (B, T, n or fewer) of what follows each token, or of the last few tokens only.

        tokens, slots, positions: (B, T); an absent token (-1) is read as token 0, its logits mean nothing; a token
        that only the other model knows is read as the last one.
        mask: (B or 1, 1, T, S), additive.
        """
        cache.slots = slots
        options = {"attention_mask": mask, "position_ids": positions}
        tokens = tokens.clamp(0, self.embedded - 1)
        if isinstance(self.model, Draft):
            return self.model(tokens, cache, **options)[:, -last:]
        output = self.model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=last, **options)
        return output.logits[..., : self.n].to(self.device)

    def spread_logits(self, logits: Tensor) -> Tensor:
        """Logits (..., n or fewer) on the whole vocabulary (..., n), -inf at tokens that this model does not score."""
        if self.scored is None:
            return logits
        whole = logits.new_full((*logits.shape[:-1], self.n), float("-inf"))
        return whole.index_copy_(-1, self.scored, logits)

    def store(self, masses: Tensor, into: Tensor) -> None:
        """Write masses (B, T, n or fewer) into rows (B, T, n) that hold 0 wherever this model scores nothing."""
        if self.scored is None:
            into.copy_(masses)
        else:
            into.index_copy_(-1, self.scored, masses)


def _check_kind(model: Any, config: Any) -> None:
    """CannotDecode for a model of transformers that would not read a tree from the cache as its positions and mask say.

    Some would not even tell: what comes out is a law, but not the model's own.
    """
    kinds = set(getattr(config, "layer_types", None) or ()) - ATTENTION
    if kinds:
        reason = f"has layers of kind {min(kinds)!r}, whose state cannot go back to where a draft was refused"
    elif not type(model).__module__.startswith("transformers."):
        return
    elif "position_ids" not in signature(type(model).forward).parameters or getattr(config, "alibi", False) is True:
        reason = "does not go by position_ids, without which the nodes of a tree have no place"
    elif getattr(config, "model_type", None) == "gpt_neo":
        reason = "has a causal mask of its own besides the one that it is given"
    else:
        return
    raise CannotDecode(
        f"{type(model).__name__} {reason}: take a model with plain attention, such as Llama, Qwen or GPT-2"
    )


def split_between_processes(model: Any) -> bool:
    """Whether every process holds a part of every layer (transformers' tensor parallelism), so that all must decode alike."""
    return (getattr(model, "tp_size", None) or 1) > 1


def vocabulary_size(model: Any) -> int:
    """Number of tokens that a model knows."""
    return int(model.vocabulary_size if isinstance(model, Draft) else model.get_output_embeddings().out_features)
