"""Causal language models of transformers as `DecoderModel`s."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ..errors import CannotDecode
from .cache import SlotCache, causal_mask, with_cache
from .draft_models import IntersectionDraft, StateDraft, SubsetDraft, features_of
from .model import DecoderModel, Head, HiddenStateModel, ModelInfo, ModelOutput

# What bounds a sequence, in tokens: as configurations call it, and as messages do. After a sliding window, a token does not attend to the
# beginning of the sequence; the masks of the decoding loop let it, and so are right within the window.
LIMITS = {
    "max_position_embeddings": "context",
    "sliding_window": "sliding window",
    "attention_chunk_size": "attention chunk size",
    "keep_window_size": "window of its own mask",
}


class LanguageModel(DecoderModel):
    """A causal language model of transformers.

    Logits of tokens from n on are dropped: models of one family pad their embeddings differently.
    """

    shares_cache = False

    def __init__(self, model: Any, n: int, hidden_layers: Sequence[int] = ()) -> None:
        self.model, backbone = model, self._backbone(model)
        config = backbone.config
        self.config = config.get_text_config() if hasattr(config, "get_text_config") else config
        embedding = backbone.get_input_embeddings().weight
        self._embedded = self._n_embedded(embedding, n)
        max_length, source = _max_length(self.config)
        self.info = ModelInfo(
            n=n,
            device=embedding.device,
            dtype=embedding.dtype,
            scored=self._scored(n, embedding.device),
            max_length=max_length,
            max_length_source=source,
            longrope_threshold=_longrope_threshold(self.config),
            hidden_layers=tuple(hidden_layers),
            reads=tuple(getattr(model, "reads", ())),
            shares_cache=self.shares_cache,
            sharded=len({weight.device for weight in model.parameters()}) > 1 or split_between_processes(model),
            unsupported=_why_no_trees(backbone, self.config),
        )

    def _backbone(self, model: Any) -> Any:
        """The model of transformers in it."""
        return model

    def _n_embedded(self, embedding: Tensor, n: int) -> int:
        """Number of tokens that it can read."""
        return len(embedding)

    def _scored(self, n: int, device: torch.device) -> Tensor | None:
        width = vocabulary_size(self.model)
        return torch.arange(width, device=device) if width < n else None

    def cache(self, slots: int) -> SlotCache:
        """One piece of memory for all layers, if they are on one device."""
        return SlotCache(slots, 1 if self.info.sharded else int(getattr(self.config, "num_hidden_layers", 1)))

    def forward(
        self,
        cache: SlotCache,
        tokens: Tensor,
        slots: Tensor,
        positions: Tensor,
        attention_mask: Tensor,
        last: int = 0,
        hidden: Tensor | None = None,
    ) -> ModelOutput:
        cache.slots = slots
        mask = additive(attention_mask, self.info.dtype)
        tokens = tokens.clamp(0, self._embedded - 1)
        return self._read(cache, tokens, last, hidden, attention_mask=mask, position_ids=positions)

    def _read(self, cache: SlotCache, tokens: Tensor, last: int, hidden: Tensor | None, **options: Any) -> ModelOutput:
        wanted = bool(self.info.hidden_layers)
        # Positions by number, which are copied: of a slice, torch's matmul would copy the head's weights for every row of the batch.
        keep: Any = torch.arange(-last, 0, device=tokens.device) if last else 0
        given = with_cache(self.model, cache)
        output = self.model(tokens, logits_to_keep=keep, output_hidden_states=wanted, **given, **options)
        logits = output.logits[..., : self.info.n].to(self.info.device)
        return ModelOutput(logits, self._features(output.hidden_states) if wanted else None)

    def full_pass(self, tokens: Sequence[int], positions: Sequence[int], context: Any = None) -> ModelOutput:
        last = torch.tensor(positions, device=self.info.device) - 1
        return self._at_positions(self._row(tokens[: positions[-1]]), last, context)

    def _at_positions(self, tokens: Tensor, last: Tensor, context: Any) -> ModelOutput:
        wanted = bool(self.info.hidden_layers)
        output = self.model(tokens, logits_to_keep=last, output_hidden_states=wanted)
        logits = output.logits[0, :, : self.info.n].to(self.info.device)
        return ModelOutput(logits, self._features(output.hidden_states)[0] if wanted else None)

    def _row(self, tokens: Sequence[int]) -> Tensor:
        return torch.tensor([list(tokens)], device=self.info.device).clamp(0, self._embedded - 1)

    def _features(self, hidden: Sequence[Tensor]) -> Tensor:
        features = features_of(hidden, self.info.hidden_layers, getattr(self.config, "rms_norm_eps", 1e-6))
        return features.to(self.info.device)


class SubsetModel(LanguageModel):
    """A `SubsetDraft`, which scores a subset of the vocabulary."""

    def _backbone(self, model: Any) -> Any:
        return model.backbone

    def _scored(self, n: int, device: torch.device) -> Tensor:
        subset: Tensor = self.model.vocabulary_subset
        return subset

    def split_head(self) -> tuple[DecoderModel, Head] | None:
        head, norm = getattr(self.model, "head", None), getattr(self.model, "norm", None)
        if type(head) is not nn.Linear or not (norm is None or type(norm).__name__ == "LlamaRMSNorm"):
            return None
        twin, twin.model = copy(self), copy(self.model)
        twin.model.score = lambda states: states
        normed = (None, 0.0) if norm is None else (norm.weight, norm.variance_epsilon)
        return twin, Head(head.weight, *normed)

    def _read(self, cache: SlotCache, tokens: Tensor, last: int, hidden: Tensor | None, **options: Any) -> ModelOutput:
        return ModelOutput(self.model(tokens, cache, last, **options))

    def _at_positions(self, tokens: Tensor, last: Tensor, context: Any) -> ModelOutput:
        return ModelOutput(self.model(tokens)[0, last])


class IntersectionModel(SubsetModel):
    """A draft model with another tokenizer, which is given the target's tokens and reads them as its own."""

    def _n_embedded(self, embedding: Tensor, n: int) -> int:
        return n


class StateModel(SubsetModel, HiddenStateModel):
    """A `StateDraft`, which reads the target's hidden states of the position before each token."""

    def prepare(self, hidden: Tensor) -> Tensor:
        fused: Tensor = self.model.fuse(hidden.to(self.info.device))
        return fused

    def _read(self, cache: SlotCache, tokens: Tensor, last: int, hidden: Tensor | None, **options: Any) -> ModelOutput:
        states = self.model.states(tokens, hidden, cache, **options)
        return ModelOutput(self.model.score(states[:, -last:]), states)

    def _at_positions(self, tokens: Tensor, last: Tensor, context: Any) -> ModelOutput:
        """context: hidden states (T, f) of the target; its own ones where there are none."""
        known = tokens.shape[1] - 1
        fused = self.prepare(context[None, :known].to(self.info.dtype))
        before = torch.cat((fused.new_zeros(1, 1, fused.shape[-1]), fused), 1)
        while True:
            states = self.model.states(tokens[:, : before.shape[1]], before)
            if before.shape[1] == tokens.shape[1]:
                return ModelOutput(self.model.score(states)[0, last])
            before = torch.cat((before, states[:, -1:]), 1)


class SelfModel(LanguageModel):
    """The target without some layers: of a sequence it reads the last token alone, those before it are in the target's cache.

    Its draft tokens are after the sequence in that cache, where the target overwrites them.
    """

    shares_cache = True

    def _at_positions(self, tokens: Tensor, last: Tensor, context: Any) -> ModelOutput:
        """context: a cache in which the target has read the first tokens, and their number."""
        cache, known = context
        places = torch.cat((last[last < known], torch.arange(known, tokens.shape[1], device=last.device)))
        # A token attends to itself and to earlier draft tokens in this pass; the target's cache holds the rest.
        own = (places == places[:, None]) | ((places >= known) & (places <= places[:, None]))
        mask = torch.cat((torch.arange(known, device=last.device) < places[:, None], own), 1)
        mask = pad(mask, (0, cache.live - mask.shape[1]))
        slots = known + torch.arange(len(places), device=last.device)
        logits = self.forward(cache, tokens[:, places], slots[None], places[None], mask[None]).logits
        return ModelOutput(logits[0, torch.searchsorted(places, last)])


def target_context(draft: DecoderModel, target: Any, tokens: Sequence[int], room: int) -> Any:
    """Return what a draft model reads of the target along a sequence, for its `full_pass` over up to `room` tokens that begin so.

    Hidden states (T, f), or a cache in which the target has read the tokens, with their number, or None.
    """
    if not (draft.info.reads or draft.info.shares_cache):
        return None
    model, known = language_model(target, draft.info.n, draft.info.reads), len(tokens)
    if draft.info.reads:
        return hidden_states(model, tokens)
    cache = model.cache(known + room)
    if known:
        slots = torch.arange(known, device=model.info.device)[None]
        mask = causal_mask(known, cache.live, model.info.device)
        model.forward(cache, torch.tensor([list(tokens)], device=model.info.device), slots, slots, mask, last=1)
    return cache, known


def hidden_states(target: DecoderModel, tokens: Sequence[int]) -> Tensor:
    """Return the hidden states (T, f) of a target with `hidden_layers` at all tokens."""
    if tokens:
        states = target.full_pass(tokens, [len(tokens)]).hidden
        assert states is not None
        return states
    one = hidden_states(target, [0])
    return one[:0]


def additive(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask bool (B, T, S) of what is seen, as attention takes it: (B, 1, T, S), 0 where it is seen.

    The lowest number elsewhere instead of -inf: a row that sees nothing must not turn into NaN.
    """
    hidden = torch.zeros((), dtype=dtype, device=attention_mask.device).expand(attention_mask.shape)
    return hidden.masked_fill(~attention_mask, torch.finfo(dtype).min)[:, None]


def language_model(model: Any, n: int, hidden_layers: Sequence[int] = ()) -> DecoderModel:
    """Return the model as the decoding loop calls it, on a vocabulary of n tokens.

    hidden_layers: of a target, whose hidden states a draft model reads. A model of another engine has a method `as_model` for it.
    """
    if hasattr(model, "as_model"):
        made: DecoderModel = model.as_model(n, hidden_layers)
        return made
    kinds: dict[type, type[LanguageModel]] = {
        StateDraft: StateModel,
        SubsetDraft: SubsetModel,
        IntersectionDraft: IntersectionModel,
    }
    other = SelfModel if hasattr(model, "shares_cache") else LanguageModel
    kind = next((ours for theirs, ours in kinds.items() if isinstance(model, theirs)), other)
    return kind(model, n, hidden_layers)


def _why_no_trees(model: Any, config: Any) -> str:
    """Why a model of transformers would not read a tree from the cache as positions and mask say; empty if it would.

    Some would not even fail: they return a distribution, but not the model's own.
    """
    attention = getattr(config, "_attn_implementation", "eager")
    if attention not in ("sdpa", "eager"):
        return f"attention must take a tree mask, got {attention!r}. Load the model with attn_implementation='sdpa'."
    reason = _why_no_tree_of(model, config)
    if not reason:
        return ""
    return f"{type(model).__name__} {reason}. Use a model with standard attention, such as Llama, Qwen or GPT-2."


def _why_no_tree_of(model: Any, config: Any) -> str:
    attention = {"full_attention", "sliding_attention", "chunked_attention"}
    kinds = set(getattr(config, "layer_types", None) or ()) - attention
    if kinds:
        return f"has layers of kind {min(kinds)!r}, whose state cannot go back to where a draft was refused"
    if not type(model).__module__.startswith("transformers."):
        return ""
    if "position_ids" not in signature(type(model).forward).parameters or getattr(config, "alibi", False) is True:
        return "does not go by position_ids, without which the nodes of a tree have no place"
    if getattr(config, "model_type", None) == "gpt_neo":
        return "has a causal mask of its own besides the one that it is given"
    return ""


def _max_length(config: Any) -> tuple[int | None, str]:
    """The smallest of LIMITS that the configuration names, and what it is."""
    named = [(getattr(config, name, None), called) for name, called in LIMITS.items()]
    if getattr(config, "use_sliding_window", True) is False:
        named = [(limit, called) for limit, called in named if called != LIMITS["sliding_window"]]
    known = [(limit, called) for limit, called in named if isinstance(limit, int) and limit > 0]
    return min(known, default=(None, ""))


def _longrope_threshold(config: Any) -> int | None:
    """transformers uses other RoPE factors for a pass with such a position: keys that are in the cache keep the old ones."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    parts = [
        each for each in (rope, *rope.values()) if isinstance(each, dict)
    ]  # some models have one per kind of layer
    name = "original_max_position_embeddings"
    found = [
        part.get(name) or getattr(config, name, None)
        for part in parts
        if "longrope" in (part.get("rope_type"), part.get("type"))
    ]
    return min((int(threshold) for threshold in found if threshold), default=None)


def bytes_read(model: Any) -> int:
    """Bytes of weights that a pass of a few tokens reads: all, but of an embedding that is not the head, of which it reads some rows."""
    if hasattr(model, "bytes_read"):
        return int(model.bytes_read)
    modules = list(model.modules())
    heads = {id(module.weight) for module in modules if isinstance(module, nn.Linear)}
    rows = {id(module.weight) for module in modules if isinstance(module, nn.Embedding)} - heads
    weights = [weight for weight in (*model.parameters(), *model.buffers()) if id(weight) not in rows]
    return sum(weight.numel() * weight.element_size() for weight in weights)


def split_between_processes(model: Any) -> bool:
    """Whether every process holds a part of every layer (transformers' tensor parallelism), so that all must decode alike."""
    return (getattr(model, "tp_size", None) or 1) > 1


def vocabulary_size(model: Any) -> int:
    """Return the number of tokens that a model knows; CannotDecode for what is not a causal language model."""
    if (own := getattr(model, "vocabulary_size", None)) is not None:
        return int(own)
    head = getattr(getattr(model, "get_output_embeddings", lambda: None)(), "out_features", None)
    generates = getattr(model, "can_generate", lambda: True)()  # a masked language model has a head, too
    if head is None or not generates or getattr(model.config, "is_encoder_decoder", False):
        given = repr(model) if isinstance(model, str) else type(model).__name__
        raise CannotDecode(
            f"a model must be a causal language model, got {given}. Load one, as transformers.AutoModelForCausalLM.from_pretrained(NAME)."
        )
    return int(head)
