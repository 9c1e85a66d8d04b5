"""What a call of transformers' `generate` asks for, in the engine's terms; what the engine cannot honour is refused."""

import inspect
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers.generation import logits_process

from ..decoding import CannotDecode, Processed, SamplingParams
from ..decoding.cache import CACHE_NAMES
from ..decoding.pair import unpadded

# The processors that the engine applies itself, in the order in which it does, and the attribute that holds their setting.
WARPERS: dict[type, str] = {
    logits_process.TemperatureLogitsWarper: "temperature",
    logits_process.TopKLogitsWarper: "top_k",
    logits_process.TopPLogitsWarper: "top_p",
    logits_process.MinPLogitsWarper: "min_p",
}
# Processors whose answer depends on input_ids and scores alone, row by row, or is brought to that by `_of_text`. Not among them:
# those that hold the whole batch (encoder penalties), that run a model (guidance) or remember earlier calls (SynthID).
STATELESS: tuple[type, ...] = (
    *WARPERS,
    logits_process.LogitNormalization,
    logits_process.EpsilonLogitsWarper,
    logits_process.EtaLogitsWarper,
    logits_process.ExponentialDecayLengthPenalty,
    logits_process.ForcedBOSTokenLogitsProcessor,
    logits_process.ForcedEOSTokenLogitsProcessor,
    logits_process.InfNanRemoveLogitsProcessor,
    logits_process.MinLengthLogitsProcessor,
    logits_process.MinNewTokensLengthLogitsProcessor,
    logits_process.NoBadWordsLogitsProcessor,
    logits_process.NoRepeatNGramLogitsProcessor,
    logits_process.PrefixConstrainedLogitsProcessor,
    logits_process.RepetitionPenaltyLogitsProcessor,
    logits_process.SequenceBiasLogitsProcessor,
    logits_process.SuppressTokensAtBeginLogitsProcessor,
    logits_process.SuppressTokensLogitsProcessor,
    logits_process.TopHLogitsWarper,
    logits_process.TypicalLogitsWarper,
    logits_process.WatermarkLogitsProcessor,
)
OUTPUTS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
# Methods of `generate`'s loop that the decoding loop replaces. A model's own version would not run.
REPLACED = ("_sample", "_prefill", "_update_model_kwargs_for_generation")
# What `generate` prepares for every causal language model. The engine keeps its own cache and positions.
PREPARED = (
    "input_ids",
    "attention_mask",
    "position_ids",
    *CACHE_NAMES,
    "use_cache",
    "logits_to_keep",
    "cache_position",
)


def sampling_of(processors: Sequence[Any], do_sample: bool) -> SamplingParams | None:
    """The way both models' logits become laws; None where that takes more than the four warpers, each once and in order."""
    settings: dict[str, Any] = {}
    awaited = list(WARPERS)
    for processor in processors:
        kind = type(processor)
        if kind is logits_process.LogitNormalization:  # a softmax follows in any case
            continue
        kept, dropped = getattr(processor, "min_tokens_to_keep", 1), getattr(processor, "filter_value", float("-inf"))
        if kind not in awaited or kept != 1 or dropped != float("-inf"):
            return None
        awaited = awaited[awaited.index(kind) + 1 :]
        settings[WARPERS[kind]] = getattr(processor, WARPERS[kind])
    return SamplingParams(**settings) if do_sample else SamplingParams(temperature=0)


def processed(
    processors: Sequence[Any],
    stateless: Sequence[type],
    do_sample: bool,
    input_ids: Tensor,
    attention_mask: Tensor | None,
) -> list[Processed]:
    """For each text the processors, to be asked at every node. CannotDecode for one that cannot be asked about many texts.

    stateless: types of the user's own that can. The processors see the prompts' padding, as in plain `generate`, always before
    the text.
    """
    for processor in processors:
        kind, name = type(processor), type(processor).__name__
        if kind in STATELESS:
            continue
        if vars(logits_process).get(name) is kind:
            raise CannotDecode(f"logits processors must depend on input_ids and scores alone, got {name}. Remove it.")
        if kind not in stateless:
            raise CannotDecode(
                f"{name} is not known to depend on input_ids and scores alone, row by row: several drafts ask it at every node of"
                f" a tree, mostly about texts that will not be. Leave it out, or, if it does, say multi_draft(..., stateless=({name},))"
            )
    padding = torch.zeros_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask == 0
    between = (padding[:, 1:] & ~padding[:, :-1]).any(1)
    if bool(between.any()):
        raise CannotDecode(
            f"row {int(between.long().argmax())} of attention_mask hides a token behind another, which the logits processors would see:"
            " give attention_mask=torch.ones_like(input_ids), or leave the token out"
        )
    shared: dict[Any, Any] = {}
    return [
        Processed([_of_text(each, row, shared) for each in processors], not do_sample, before)
        for row, before in enumerate(tokens[out].tolist() for tokens, out in zip(input_ids, padding, strict=True))
    ]


def _of_text(processor: Any, row: int, shared: dict[Any, Any]) -> Any:
    """The processor for one text of the batch, where it holds something of each; shared by texts that need the same one."""
    kind = type(processor)
    if kind is logits_process.RepetitionPenaltyLogitsProcessor and torch.is_tensor(processor.prompt_ignore_length):
        ignored = int(processor.prompt_ignore_length[row])
        return shared.setdefault((id(processor), ignored), kind(processor.penalty, ignored))
    if kind is logits_process.PrefixConstrainedLogitsProcessor:
        return partial(_constrained, processor._prefix_allowed_tokens_fn, row)
    return processor


def _constrained(allowed: Any, row: int, tokens: Tensor, scores: Tensor) -> Tensor:
    """As transformers' processor; NaN where it raises, nothing allowed: that may be at a node that the target never reaches.

    Where all that is allowed has been refused before, it is allowed again, with equal scores.
    """
    mask = torch.full_like(scores, float("-inf"))
    for place, text in enumerate(tokens):
        listed = allowed(row, text)
        mask[place, listed if len(listed) else slice(None)] = 0 if len(listed) else torch.nan
    masked = scores + mask
    return torch.where(masked.amax(-1, keepdim=True).isneginf(), mask, masked)


def prompts_of(model: Any, input_ids: Tensor, inputs: dict[str, Any]) -> list[list[int]]:
    """Return the prompts without padding. CannotDecode if a pass of `generate` would read anything else, the first one or a later one."""
    if not input_ids.shape[-1]:
        raise CannotDecode(
            "prompts must have at least one token, got none. Pass, for example, the beginning-of-sequence token."
        )
    prepared = model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **inputs)
    _check_prepared(model, prepared, input_ids, inputs)
    for name in CACHE_NAMES:
        if (cache := prepared.get(name)) is None:
            continue
        try:
            held = cache.get_seq_length()
        except (ValueError, AttributeError):  # of layers without positions, as in Mamba; or no cache at all
            raise CannotDecode(
                f"{name} is a {type(cache).__name__} without positions, whose state cannot go back to where a draft was refused:"
                " take a model with plain attention, such as Llama, Qwen or GPT-2"
            ) from None
        if held > 0:
            raise CannotDecode(
                f"{name} must be empty, got a cache that holds tokens. Pass the whole prompt and no cache."
            )
    mask = inputs.get("attention_mask")
    mask = torch.ones_like(input_ids) if mask is None else mask
    positions = prepared.get("position_ids")
    if positions is not None and bool(((positions != mask.cumsum(-1) - 1) & mask.bool()).any()):
        raise CannotDecode("position_ids must be the positions of the tokens. Remove them.")
    longer = torch.cat((input_ids, input_ids[:, -1:]), 1)
    later = {
        name: value for name, value in inputs.items() if name not in (*CACHE_NAMES, "position_ids", "cache_position")
    }
    later |= {"attention_mask": torch.cat((mask, torch.ones_like(mask[:, -1:])), 1), "use_cache": False}
    _check_prepared(model, model.prepare_inputs_for_generation(longer, **later), longer, later)
    return unpadded(input_ids, mask)


def _check_prepared(model: Any, prepared: dict[str, Any], input_ids: Tensor, inputs: dict[str, Any]) -> None:
    """CannotDecode if the model prepares inputs that the decoding loop does not pass on."""
    for name, value in (prepared | {"input_ids": prepared.get("input_ids")}).items():
        if _as_given(name, value, input_ids, inputs) or _ignored(model, name, value, prepared):
            continue
        origin = "" if name in inputs else f", as {type(model).__name__} prepares it for `generate`,"
        raise CannotDecode(
            f"{name}{origin} is not passed on to the models: give input_ids and attention_mask only, to a model that reads these alone"
        )


def _as_given(name: str, value: Any, input_ids: Tensor, inputs: dict[str, Any]) -> bool:
    """Whether an input of the model's first pass is one that the engine makes itself, or nothing."""
    if name not in ("input_ids", "attention_mask"):
        return name in PREPARED or value is None or value == {}
    given = input_ids if name == "input_ids" else inputs.get(name)
    if given is None or (name == "attention_mask" and getattr(value, "ndim", 0) != 2):
        return True  # some caches take the mask in another form
    return torch.is_tensor(value) and value.shape == given.shape and bool(value.eq(given).all())


def _ignored(model: Any, name: str, value: Any, prepared: dict[str, Any]) -> bool:
    """Whether zeros, as tokenizers return them by default for the types of tokens, leave the model's logits as they are."""
    if name == "input_ids" or not torch.is_tensor(value) or bool(value.any()):
        return False
    given = {each: prepared.get(each) for each in ("input_ids", "attention_mask")}
    with_it, without = (model(**given, **more).logits for more in ({name: value}, {}))
    return torch.equal(with_it, without)


def check_request(model: Any, generation_config: Any, synced_gpus: bool | None) -> None:
    """CannotDecode for settings of `generate` that go past one text a row from a causal language model."""
    if model.config.is_encoder_decoder:
        raise CannotDecode(
            f"model must be a causal language model, got {type(model).__name__}. Use a decoder-only model."
        )
    for name in REPLACED:
        if not getattr(getattr(model, name, None), "__module__", "transformers.").startswith("transformers."):
            raise CannotDecode(
                f"{type(model).__name__}.{name} must be that of transformers, got its own, which multi_draft would not call. Use generate"
                " without custom_generate."
            )
    mode = generation_config.get_generation_mode()
    if mode not in ("greedy_search", "sample"):
        raise CannotDecode(
            f"generation mode must be greedy search or sampling, got {mode.value.replace('_', ' ')}. Remove its settings."
        )
    for name in OUTPUTS:
        if getattr(generation_config, name, False):
            raise CannotDecode(f"{name} must be False, since multi_draft returns token ids only. Remove it.")
    if synced_gpus:
        raise CannotDecode("synced_gpus must be False, since processes take different numbers of steps. Remove it.")


def hidden_from_callables(name: str) -> Any:
    """An argument of the `generate` that called our caller; None where it has none.

    transformers 5.23 puts the prompt into the streamer, and hands neither the streamer nor an assistant on to a
    callable custom_generate: the tokens would be missing without a word.
    """
    frame, generate = sys._getframe(2), inspect.unwrap(transformers.GenerationMixin.generate)
    return frame.f_locals.get(name) if frame.f_code is generate.__code__ else None
