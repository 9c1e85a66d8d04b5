"""What a call of transformers' `generate` asks for, in the engine's terms; what the engine cannot honour is refused."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..decoding import CannotDecode, Sampling, unpadded

# The processors that the engine applies itself, in the order in which it does, and the attribute that holds their setting.
WARPERS = {
    "TemperatureLogitsWarper": "temperature",
    "TopKLogitsWarper": "top_k",
    "TopPLogitsWarper": "top_p",
    "MinPLogitsWarper": "min_p",
}
OUTPUTS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
# What `generate` prepares for every causal language model. The engine keeps its own cache and positions.
PREPARED = ("attention_mask", "position_ids", "past_key_values", "use_cache", "logits_to_keep", "cache_position")


def sampling_of(processors: Sequence[Any], do_sample: bool) -> Sampling:
    """How both models' logits become laws. CannotDecode for a processor that the engine does not apply at every node."""
    found: dict[str, Any] = {}
    awaited = list(WARPERS)
    for processor in processors:
        name = type(processor).__name__
        if name == "LogitNormalization":  # a softmax follows in any case
            continue
        if name not in WARPERS:
            raise CannotDecode(
                f"{name} cannot be applied to every drafted position of both models: set it to its neutral value, also where"
                " the model's generation_config sets it (temperature, top-k, top-p and min-p can be applied)"
            )
        if name not in awaited:
            raise CannotDecode(f"{name} comes twice or too late: give temperature, top-k, top-p, min-p in this order")
        if getattr(processor, "min_tokens_to_keep", 1) != 1:
            raise CannotDecode(
                f"{name} keeps {processor.min_tokens_to_keep} tokens at least: give min_tokens_to_keep=1"
            )
        awaited = awaited[awaited.index(name) + 1 :]
        found[WARPERS[name]] = getattr(processor, WARPERS[name])
    return Sampling(**found) if do_sample else Sampling(temperature=0)


def prompts_of(input_ids: Tensor, given: dict[str, Any]) -> list[list[int]]:
    """The prompts without their padding. CannotDecode for inputs of the model that the engine does not pass on."""
    unknown = [name for name, value in given.items() if value is not None and name not in PREPARED]
    if unknown:
        raise CannotDecode(f"{unknown[0]} is not passed on to the models: give input_ids and attention_mask only")
    cache = given.get("past_key_values")
    if cache is not None and cache.get_seq_length() > 0:
        raise CannotDecode("past_key_values holds tokens already: give the whole prompt and no cache")
    mask = given.get("attention_mask")
    mask = torch.ones_like(input_ids) if mask is None else mask
    positions = given.get("position_ids")
    if positions is not None and bool(((positions != mask.cumsum(-1) - 1) & mask.bool()).any()):
        raise CannotDecode("position_ids differ from the places of the tokens: leave them out")
    return unpadded(input_ids, mask)


def check_request(model: Any, generation_config: Any, synced_gpus: bool | None) -> None:
    """CannotDecode for settings of `generate` that go past one text a row from a causal language model."""
    if model.config.is_encoder_decoder:
        raise CannotDecode(f"{type(model).__name__} has an encoder: give a causal language model")
    mode = generation_config.get_generation_mode()
    if mode not in ("greedy_search", "sample"):
        raise CannotDecode(
            f"{mode.value.replace('_', ' ')} was asked for: several drafts replace greedy decoding and sampling"
        )
    for name in OUTPUTS:
        if getattr(generation_config, name, False):
            raise CannotDecode(f"{name} is set: several drafts return token ids only")
    if synced_gpus:
        raise CannotDecode("synced_gpus is set: every process would have to make as many steps as the others")


def hidden_from_callables(name: str) -> Any:
    """An argument of the `generate` that called our caller; None where it has none.

    transformers 5.23 puts the prompt into the streamer, and hands neither the streamer nor an assistant on to a
    callable custom_generate: the tokens would be missing without a word.
    """
    frame = sys._getframe(2)
    return frame.f_locals.get(name) if frame.f_code.co_name == "generate" else None
