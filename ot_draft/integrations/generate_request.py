"""Conversion of the arguments of transformers' `generate` to those of the decoding loop. Unsupported ones raise CannotDecode."""

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

# Processors that the decoding loop applies itself, in its order, and the attribute with their setting.
WARPERS: dict[type, str] = {
    logits_process.TemperatureLogitsWarper: "temperature",
    logits_process.TopKLogitsWarper: "top_k",
    logits_process.TopPLogitsWarper: "top_p",
    logits_process.MinPLogitsWarper: "min_p",
}
# Processors that depend on input_ids and scores alone, row by row, some after `_of_row`. Others hold the whole batch (encoder
# penalties), run a model (guidance) or remember earlier calls (SynthID).
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


def sampling_of(processors: Sequence[Any], do_sample: bool) -> SamplingParams | None:
    """Return the sampling settings of both models; None if the processors are not the four warpers, each at most once and in order."""
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
    """Return the processors of each row, to apply at every node. Raises CannotDecode for one that depends on more than its row.

    stateless: types of the user's own processors that do not. The processors see the padding before the prompts, as in `generate`.
    """
    for processor in processors:
        kind, name = type(processor), type(processor).__name__
        if kind in STATELESS:
            continue
        if vars(logits_process).get(name) is kind:
            raise CannotDecode(f"logits processors must depend on input_ids and scores alone, got {name}. Remove it.")
        if kind not in stateless:
            raise CannotDecode(
                f"{name} is not known to depend on input_ids and scores alone, row by row. multi_draft applies it at every node of a tree,"
                f" mostly to sequences that are not emitted. Remove it, or, if it does, pass multi_draft(..., stateless=({name},))."
            )
    padding = torch.zeros_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask == 0
    between = (padding[:, 1:] & ~padding[:, :-1]).any(1)
    if bool(between.any()):
        raise CannotDecode(
            f"row {int(between.long().argmax())} of attention_mask hides a token after another, which the logits processors would see."
            " Pass attention_mask=torch.ones_like(input_ids), or remove the token."
        )
    shared: dict[Any, Any] = {}
    return [
        Processed([_of_row(each, row, shared) for each in processors], not do_sample, before)
        for row, before in enumerate(tokens[out].tolist() for tokens, out in zip(input_ids, padding, strict=True))
    ]


def _of_row(processor: Any, row: int, shared: dict[Any, Any]) -> Any:
    """Return the processor for one row of the batch if it holds data of each; rows with equal data share it."""
    kind = type(processor)
    if kind is logits_process.RepetitionPenaltyLogitsProcessor and torch.is_tensor(processor.prompt_ignore_length):
        ignored = int(processor.prompt_ignore_length[row])
        return shared.setdefault((id(processor), ignored), kind(processor.penalty, ignored))
    if kind is logits_process.PrefixConstrainedLogitsProcessor:
        return partial(_constrained, processor._prefix_allowed_tokens_fn, row)
    return processor


def _constrained(allowed: Any, row: int, tokens: Tensor, scores: Tensor) -> Tensor:
    """Apply a prefix constraint as transformers does, but give NaN if nothing is allowed: the target may never reach that node.

    If processors before have excluded all allowed tokens, these get equal scores.
    """
    mask = torch.full_like(scores, float("-inf"))
    for i, text in enumerate(tokens):
        listed = allowed(row, text)
        mask[i, listed if len(listed) else slice(None)] = 0 if len(listed) else torch.nan
    masked = scores + mask
    return torch.where(masked.amax(-1, keepdim=True).isneginf(), mask, masked)


def prompts_of(model: Any, input_ids: Tensor, inputs: dict[str, Any]) -> list[list[int]]:
    """Return the prompts without padding. Raises CannotDecode if a forward pass of `generate` would read anything else."""
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
        except (ValueError, AttributeError):  # of layers without positions, as in Mamba; or not a cache
            raise CannotDecode(
                f"{name} must have positions, got a {type(cache).__name__}, whose state cannot be rewound to a rejected draft token. Use a"
                " model with attention in all layers, such as Llama, Qwen or GPT-2."
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
    """Raise CannotDecode if the model prepares inputs that the decoding loop does not pass on."""
    for name, value in (prepared | {"input_ids": prepared.get("input_ids")}).items():
        if _as_given(name, value, input_ids, inputs) or _ignored(model, name, value, prepared):
            continue
        origin = "" if name in inputs else f", as {type(model).__name__} prepares it for `generate`,"
        raise CannotDecode(
            f"{name}{origin} is not passed on to the models. Pass input_ids and attention_mask only, and use a model that reads only these."
        )


def _as_given(name: str, value: Any, input_ids: Tensor, inputs: dict[str, Any]) -> bool:
    """Whether an input of the model's first forward pass is empty, or one that the decoding loop makes itself."""
    if name not in ("input_ids", "attention_mask"):
        own = (*CACHE_NAMES, "position_ids", "use_cache", "logits_to_keep", "cache_position")
        return name in own or value is None or value == {}
    given = input_ids if name == "input_ids" else inputs.get(name)
    if given is None or (name == "attention_mask" and getattr(value, "ndim", 0) != 2):
        return True  # some caches use another form of the mask
    return torch.is_tensor(value) and value.shape == given.shape and bool(value.eq(given).all())


def _ignored(model: Any, name: str, value: Any, prepared: dict[str, Any]) -> bool:
    """Whether zeros, such as the token types of a tokenizer, do not change the model's logits."""
    if name == "input_ids" or not torch.is_tensor(value) or bool(value.any()):
        return False
    given = {each: prepared.get(each) for each in ("input_ids", "attention_mask")}
    with_it, without = (model(**given, **more).logits for more in ({name: value}, {}))
    return torch.equal(with_it, without)


def check_request(model: Any, generation_config: Any, synced_gpus: bool | None) -> None:
    """Raise CannotDecode for settings of `generate` beyond one sequence per row from a causal language model."""
    if model.config.is_encoder_decoder:
        raise CannotDecode(
            f"model must be a causal language model, got {type(model).__name__}. Use a decoder-only model."
        )
    # Methods of `generate`'s loop that the decoding loop replaces. A model's own version would not run.
    for name in ("_sample", "_prefill", "_update_model_kwargs_for_generation"):
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
    for name in ("output_scores", "output_logits", "output_attentions", "output_hidden_states"):
        if getattr(generation_config, name, False):
            raise CannotDecode(f"{name} must be False, since multi_draft returns token ids only. Remove it.")
    if synced_gpus:
        raise CannotDecode("synced_gpus must be False, since processes take different numbers of steps. Remove it.")


def hidden_from_callables(name: str) -> Any:
    """Return an argument of the calling `generate`, None if it is not set.

    transformers 5.23 puts the prompt into the streamer, and passes neither the streamer nor an assistant on to a callable custom_generate:
    tokens would be missing without an error.
    """
    frame, generate = sys._getframe(2), inspect.unwrap(transformers.GenerationMixin.generate)
    return frame.f_locals.get(name) if frame.f_code is generate.__code__ else None
