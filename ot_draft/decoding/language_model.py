"""A causal language model as the engine sees it: new tokens into given slots of a cache, logits out."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ..errors import CannotDecode
from .cache import SlotCache, causal_mask, with_cache
from .draft_models import IntersectionDraft, StateDraft, SubsetDraft, features_of
from .passes import Passes

# What bounds a text, in tokens: as configurations call it, and as messages do.
LIMITS = {
    "max_position_embeddings": "context",
    "sliding_window": "sliding window, over which this engine does not go,",
    "attention_chunk_size": "chunks of attention, over which this engine does not go,",
    "keep_window_size": "window of its own mask, over which this engine does not go,",
}
ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}


class LanguageModel(Passes):
    """A causal language model of transformers.

    Logits of tokens from n on are dropped: models of one family pad their embeddings differently.
    """

    def __init__(self, model: Any, n: int, keeps: Sequence[int] = ()) -> None:
        self.model, self.n, self.keeps = model, n, tuple(keeps)
        self.backbone = self._backbone()
        config = self.backbone.config
        self.config = config.get_text_config() if hasattr(config, "get_text_config") else config
        embedding = self.backbone.get_input_embeddings().weight
        self.device, self.dtype, self.embedded = embedding.device, embedding.dtype, len(embedding)
        self.scored = self._scored()

    def _backbone(self) -> Any:
        """The model of transformers in it."""
        return self.model

    def _scored(self) -> Tensor | None:
        """The tokens that it scores, None for all."""
        width = vocabulary_size(self.model)
        return torch.arange(width, device=self.device) if width < self.n else None

    def check_reads_trees(self) -> None:
        """CannotDecode for a model of transformers that would not read a tree from the cache as its positions and mask say.

        Some would not even tell: what comes out is a law, but not the model's own.
        """
        attention = getattr(self.config, "_attn_implementation", "eager")
        if attention not in ("sdpa", "eager"):
            raise CannotDecode(
                f"attention {attention!r} takes no tree mask: load the model with attn_implementation='sdpa'"
            )
        reason = _why_no_trees(self.backbone, self.config)
        if reason:
            raise CannotDecode(
                f"{type(self.backbone).__name__} {reason}: take a model with plain attention, such as Llama, Qwen or GPT-2"
            )

    @property
    def spread(self) -> bool:  # type: ignore[override]
        """Whether its layers stand on several devices or are split between processes: no CUDA graph holds such a pass."""
        return len({weight.device for weight in self.model.parameters()}) > 1 or split_between_processes(self.model)

    def cache(self, slots: int) -> SlotCache:
        """One piece of memory for all layers, where they stand on one device."""
        return SlotCache(slots, 1 if self.spread else int(getattr(self.config, "num_hidden_layers", 1)))

    @property
    def limit(self) -> tuple[int | None, str]:
        """The smallest of LIMITS that the model names, and what it is.

        Behind a window a token does not see the text's beginning. The engine's mask shows it all of the text, and so is right within it.
        """
        named = [(getattr(self.config, name, None), called) for name, called in LIMITS.items()]
        if getattr(self.config, "use_sliding_window", True) is False:
            named = [(limit, called) for limit, called in named if called != LIMITS["sliding_window"]]
        known = [(limit, called) for limit, called in named if isinstance(limit, int) and limit > 0]
        return min(known, default=(None, ""))

    @property
    def switch(self) -> int | None:  # type: ignore[override]
        """transformers takes other factors for a pass with a place that far back: keys that are in the cache keep the old ones."""
        rope = getattr(self.config, "rope_parameters", None) or getattr(self.config, "rope_scaling", None) or {}
        parts = [each for each in (rope, *rope.values()) if isinstance(each, dict)]  # of some models by kind of layer
        name = "original_max_position_embeddings"
        found = [
            part.get(name) or getattr(self.config, name, None)
            for part in parts
            if "longrope" in (part.get("rope_type"), part.get("type"))
        ]
        return min((int(switch) for switch in found if switch), default=None)

    def logits(
        self,
        cache: SlotCache,
        tokens: Tensor,
        slots: Tensor,
        positions: Tensor,
        sees: Tensor,
        last: int = 0,
        before: Tensor | None = None,
    ) -> Tensor:
        cache.slots = slots
        tokens = tokens.clamp(0, self.embedded - 1)
        return self._read(
            cache, tokens, last, before, attention_mask=additive(sees, self.dtype), position_ids=positions
        )

    def _read(self, cache: SlotCache, tokens: Tensor, last: int, before: Tensor | None, **options: Any) -> Tensor:
        """One pass of the model."""
        keeps = bool(self.keeps)
        # Places by number, which are copied: of a slice, torch's product would copy the head's weights for every row of the batch.
        keep: Any = torch.arange(-last, 0, device=tokens.device) if last else 0
        given = with_cache(self.model, cache)
        output = self.model(tokens, logits_to_keep=keep, output_hidden_states=keeps, **given, **options)
        if keeps:
            cache.keep_states(self._features(output.hidden_states))
        return output.logits[..., : self.n].to(self.device)

    def logits_along(self, text: Sequence[int], places: Sequence[int], context: Any = None) -> Tensor:
        """In passes without a cache."""
        last = torch.tensor(places, device=self.device) - 1
        return self._at_places(self._along(text[: places[-1]]), last, context)

    def _at_places(self, tokens: Tensor, last: Tensor, context: Any) -> Tensor:
        return self.model(tokens, logits_to_keep=last).logits[0, :, : self.n].to(self.device)

    def features_along(self, text: Sequence[int]) -> Tensor:
        if not text:
            return torch.zeros(0, (len(self.keeps) + 1) * self.config.hidden_size, dtype=self.dtype, device=self.device)
        output = self.model(self._along(text), logits_to_keep=1, output_hidden_states=True)
        return self._features(output.hidden_states)[0]

    def _along(self, text: Sequence[int]) -> Tensor:
        return torch.tensor([list(text)], device=self.device).clamp(0, self.embedded - 1)

    def _features(self, hidden: Sequence[Tensor]) -> Tensor:
        features = features_of(hidden, self.keeps, getattr(self.config, "rms_norm_eps", 1e-6))
        return features.to(self.device)


class SubsetModel(LanguageModel):
    """A `SubsetDraft`, which scores a subset of the vocabulary."""

    def _backbone(self) -> Any:
        return self.model.backbone

    def _scored(self) -> Tensor:
        subset: Tensor = self.model.vocabulary_subset
        return subset

    def _read(self, cache: SlotCache, tokens: Tensor, last: int, before: Tensor | None, **options: Any) -> Tensor:
        return self.model(tokens, cache, last, **options)

    def _at_places(self, tokens: Tensor, last: Tensor, context: Any) -> Tensor:
        return self.model(tokens)[0, last]


class IntersectionModel(SubsetModel):
    """A draft with another tokenizer, which is given the target's tokens and reads them as its own."""

    def __init__(self, model: Any, n: int, keeps: Sequence[int] = ()) -> None:
        super().__init__(model, n, keeps)
        self.embedded = n


class StateModel(SubsetModel):
    """A `StateDraft`, which reads the target's hidden states: before a token, those of the place before it."""

    def __init__(self, model: Any, n: int, keeps: Sequence[int] = ()) -> None:
        super().__init__(model, n, keeps)
        self.reads = model.reads

    def _read(self, cache: SlotCache, tokens: Tensor, last: int, before: Tensor | None, **options: Any) -> Tensor:
        states = self.model.states(tokens, before, cache, **options)
        cache.keep_states(states)
        return self.model.score(states[:, -last:])

    def before(self, target: SlotCache, places: Tensor) -> Tensor:
        """The target's states, made one vector; 0 before the first token."""
        fused = self.model.fuse(target.states_at((places - 1).clamp(min=0)).to(self.device))
        return fused.masked_fill((places == 0)[..., None].to(fused.device), 0)

    def before_drafted(self, own: SlotCache, slots: Tensor) -> Tensor:
        """Its own states."""
        return own.states_at(slots)

    def commit(self, root: int, length: int) -> int:
        """Drafted tokens that were accepted are read again: its own states stood for those of the target."""
        return min(root + 1, length - 2)

    def reads_again(self, drafted: int) -> int:
        """A graph holds one number of tokens: as many as are drafted at most. On the CPU those that it has to read are."""
        return drafted - 1 if self.device.type != "cpu" else 0

    def target_context(self, target: Any, text: Sequence[int], room: int) -> Tensor:
        """Hidden states of the target, (T, f)."""
        return language_model(target, self.n, self.reads).features_along(text)

    def _at_places(self, tokens: Tensor, last: Tensor, context: Any) -> Tensor:
        return self._by_states(tokens, context[: tokens.shape[1] - 1])[0, last]

    def _by_states(self, tokens: Tensor, features: Tensor) -> Tensor:
        """Logits (1, T, s) of a draft that reads hidden states; from its own ones where there are no features."""
        fused = self.model.fuse(features[None].to(self.device, self.dtype))
        before = torch.cat((fused.new_zeros(1, 1, fused.shape[-1]), fused), 1)
        while True:
            states = self.model.states(tokens[:, : before.shape[1]], before)
            if before.shape[1] == tokens.shape[1]:
                return self.model.score(states)
            before = torch.cat((before, states[:, -1:]), 1)


class SelfModel(LanguageModel):
    """The target without some layers: of a text it reads the last token alone, those before it are in the target's cache.

    What it drafts stands behind the text in that cache, where the target writes over it.
    """

    shares_cache = True

    def target_context(self, target: Any, text: Sequence[int], room: int) -> tuple[SlotCache, int]:
        """A cache in which the target has read the text, and how long that is."""
        model, known = language_model(target, self.n), len(text)
        cache = model.cache(known + room)
        if known:
            slots = torch.arange(known, device=model.device)[None]
            sees = causal_mask(known, cache.live, model.device)
            model.logits(cache, model._along(text), slots, slots, sees, last=1)
        return cache, known

    def _at_places(self, tokens: Tensor, last: Tensor, context: Any) -> Tensor:
        cache, known = context
        places = torch.cat((last[last < known], torch.arange(known, tokens.shape[1], device=last.device)))
        # Of what it reads itself, a token sees itself and what was drafted before: the rest is in the cache, by the target.
        own = (places == places[:, None]) | ((places >= known) & (places <= places[:, None]))
        sees = torch.cat((torch.arange(known, device=last.device) < places[:, None], own), 1)
        sees = pad(sees, (0, cache.live - sees.shape[1]))
        slots = known + torch.arange(len(places), device=last.device)
        logits = self.logits(cache, tokens[:, places], slots[None], places[None], sees[None])
        return logits[0, torch.searchsorted(places, last)]


def additive(sees: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask bool (B, T, S) of what is seen, as attention takes it: (B, 1, T, S), 0 where it is seen.

    The lowest number elsewhere instead of -inf: a row that sees nothing must not turn into NaN.
    """
    hidden = torch.zeros((), dtype=dtype, device=sees.device).expand(sees.shape)
    return hidden.masked_fill(~sees, torch.finfo(dtype).min)[:, None]


def language_model(model: Any, n: int, keeps: Sequence[int] = ()) -> Any:
    """The model as the engine calls it: as it says itself, else by its kind, for which this is the one place that asks."""
    if hasattr(model, "passes"):
        return model.passes(n, keeps)
    kinds: dict[type, type[LanguageModel]] = {
        StateDraft: StateModel,
        SubsetDraft: SubsetModel,
        IntersectionDraft: IntersectionModel,
    }
    other = SelfModel if hasattr(model, "shares_cache") else LanguageModel
    kind = next((ours for theirs, ours in kinds.items() if isinstance(model, theirs)), other)
    return kind(model, n, keeps)


def _why_no_trees(model: Any, config: Any) -> str:
    """Reason why a model cannot read trees; empty for one that can."""
    kinds = set(getattr(config, "layer_types", None) or ()) - ATTENTION
    if kinds:
        return f"has layers of kind {min(kinds)!r}, whose state cannot go back to where a draft was refused"
    if not type(model).__module__.startswith("transformers."):
        return ""
    if "position_ids" not in signature(type(model).forward).parameters or getattr(config, "alibi", False) is True:
        return "does not go by position_ids, without which the nodes of a tree have no place"
    if getattr(config, "model_type", None) == "gpt_neo":
        return "has a causal mask of its own besides the one that it is given"
    return ""


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
    """Number of tokens that a model knows; CannotDecode for what is not a causal language model."""
    if (own := getattr(model, "vocabulary_size", None)) is not None:
        return int(own)
    head = getattr(getattr(model, "get_output_embeddings", lambda: None)(), "out_features", None)
    if head is None:
        given = repr(model) if isinstance(model, str) else type(model).__name__
        raise CannotDecode(
            f"a model must have a language-model head, got {given}. Load one, as transformers.AutoModelForCausalLM.from_pretrained(NAME)."
        )
    return int(head)
