"""A target and a draft model that share a vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..errors import CannotDecode
from ..trees.drafting.counted_acceptance import PairAcceptance
from .language_model import language_model, target_context, vocabulary_size
from .model import DecoderModel
from .probe import check_reads_trees


@dataclass(frozen=True)
class Pair:
    """A target and a draft model that share a vocabulary.

    Parameters
    ----------
    target : causal language model
        Target model of transformers or of a backend.
    draft : causal language model, optional
        The draft model. None: draft tokens come from prompt lookup only.
    tokenizer : transformers tokenizer, optional
        Not needed if prompts are given as token ids.
    shared_prefix : bool, default=False
        Whether the models may know different numbers of tokens, where equal ids are equal tokens up to the smaller number.
        Tokens of the target only are never drafted, those of the draft model only are cut off.
    assistant : causal language model, optional
        Another draft model for transformers' own generation, which gives no hidden states to a draft model that reads them.
    acceptance : PairAcceptance, optional
        Counts of accepted draft tokens of this pair, for `otd.trees.CountedTree`.
    text_draft : TextDraft, optional
        A draft model with another tokenizer, which replaces prompt lookup.
    cascade : causal language model, optional
        A model that drafts for the draft model.
    by_transformers : callable, optional
        Loader of the same pair by transformers, if these models are of another engine.
    law : str
        Description of the number types and matmuls of the target.
    backend : str
        Name of the backend that computes the forward passes.
    no_faster : str
        Why it is not a faster one, with the remedy.
    name : str
        Key under which `Auto` caches costs of steps; empty: it does not.

    Raises
    ------
    CannotDecode
        If the models do not know the same tokens, or are not causal language models.

    Examples
    --------
    >>> Pair(target, draft, tokenizer)  # doctest: +SKIP
    """

    target: Any
    draft: Any = None
    tokenizer: Any = None
    shared_prefix: bool = False
    assistant: Any = None
    acceptance: PairAcceptance | None = None
    text_draft: Any = None
    cascade: Any = None
    by_transformers: Callable[[], Pair] | None = None
    law: str = ""
    backend: str = ""
    no_faster: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        if self.draft is None:
            return
        sizes = self.n, vocabulary_size(self.draft)
        if self.tokenizer is None and not self.shared_prefix and sizes[0] != sizes[1]:
            raise CannotDecode(
                f"draft must have the target's vocabulary of {sizes[0]} tokens, got {sizes[1]}. Use two models of one family."
            )

    @property
    def n(self) -> int:
        """Vocabulary size of the target."""
        return vocabulary_size(self.target)

    @cached_property
    def target_model(self) -> DecoderModel:
        """The target as the decoding loop calls it, without hidden states."""
        return language_model(self.target, self.n)

    @cached_property
    def draft_model(self) -> DecoderModel | None:
        """The draft model as the decoding loop calls it."""
        return None if self.draft is None else language_model(self.draft, self.n)

    @cached_property
    def cascade_model(self) -> DecoderModel | None:
        """The model that drafts for the draft model, as the decoding loop calls it."""
        return None if self.cascade is None else language_model(self.cascade, self.n)

    def models(self, with_draft: bool, with_cascade: bool) -> list[DecoderModel]:
        """Return target, draft model and cascade, as far as a run asks for them; the target with the hidden states that the draft reads.

        Raises CannotDecode if one is missing, or cannot read trees from a cache.
        """
        target, draft, cascade = self.target_model, self.draft_model, self.cascade_model
        for model in (target, draft):
            if model is not None:
                check_reads_trees(model)
        if not with_draft:
            return [target]
        if draft is None:
            raise CannotDecode(
                "draft must be a model for this drafting, got None. Load one, or draft by prompt lookup."
            )
        if draft.info.reads:
            target = language_model(self.target, self.n, draft.info.reads)
        if not with_cascade:
            return [target, draft]
        if cascade is None:
            raise CannotDecode(
                "cascade must be a model that drafts for the draft model, got None. Load the draft chain:Q,R."
            )
        if cascade.info.reads:
            raise CannotDecode(
                "cascade must be a model that reads tokens, got one that reads the target's hidden states. Use another model."
            )
        check_reads_trees(cascade)
        return [target, draft, cascade]

    @property
    def assisting(self) -> Any:
        """The draft that transformers' own generation can ask: the assistant, or the draft if it reads tokens only; else None."""
        info = None if self.draft_model is None else self.draft_model.info
        alone = info is not None and not info.reads and not info.shares_cache
        return self.draft if self.assistant is None and alone else self.assistant

    @property
    def stop_tokens(self) -> tuple[int, ...]:
        """Tokens that end a sequence, by the generation settings of the target."""
        settings = [getattr(self.target, "generation_config", None), self.target.config]
        ends = next((ids for s in settings if (ids := getattr(s, "eos_token_id", None)) is not None), ())
        return (ends,) if isinstance(ends, int) else tuple(ends)

    def logits_along(self, text: Sequence[int], places: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return logits of target and draft model, (rows, n) each, of the token at each position of a sequence, given those before it.

        places: increasing, from 1 on. Passes of each model over the text, without a cache. -inf where the draft does not
        score a token of the target's vocabulary.
        """
        target, draft = self.target_model, self.draft_model
        assert draft is not None
        for longrope_threshold in (target.info.longrope_threshold, draft.info.longrope_threshold):
            # A longer pass uses the long factors for all its positions.
            if longrope_threshold is not None and places[0] <= longrope_threshold < places[-1]:
                parts = ([place for place in places if (place > longrope_threshold) is over] for over in (False, True))
                found = [self.logits_along(text, part) for part in parts]
                return torch.cat([p for p, _ in found]), torch.cat([q for _, q in found])
        context = target_context(draft, self.target, text[: places[-1] - 1], places[-1])
        logits = draft.full_pass(text, places, context).logits
        return target.full_pass(text, places).logits, draft.info.expand_to_vocab(logits, float("-inf"))

    def encode(self, text: str, chat: bool = False) -> list[int]:
        """Return the token ids of a prompt; with `chat`, as a user message in the model's chat template."""
        if chat:
            return chat_tokens(self.tokenizer, [{"role": "user", "content": text}])[0]
        return list(self.tokenizer(text).input_ids)

    def text(self, tokens: Sequence[int]) -> str:
        """Return token ids as text, without special tokens."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))


def unpadded(tokens: Tensor, attention_mask: Tensor) -> list[list[int]]:
    """Prompts from a batch (B, T) as tokenizers make it, padded on the left: mask 1 where a token counts.

    What the mask hides between tokens is left out: no token sees it, and it takes no position. CannotDecode where it hides a row's last
    token, behind which plain `generate` would go on.
    """
    hidden = attention_mask[:, -1] == 0
    if bool(hidden.any()):
        raise CannotDecode(
            f"attention_mask row {int(hidden.long().argmax())} must be 1 at the last token, got 0. Pad on the left (padding_side='left')."
            " If the last token is the pad token and belongs to the prompt, pass attention_mask=torch.ones_like(input_ids)."
        )
    return [row[mask.bool()].tolist() for row, mask in zip(tokens, attention_mask, strict=True)]


def chat_tokens(tokenizer: Any, messages: Sequence[Any], completion: str = "") -> tuple[list[int], list[int]]:
    """Token ids of messages in the chat template, and of what the assistant goes on to say: the template writes special tokens itself."""
    text = prompt_text({"messages": messages}, tokenizer)
    prompt, answer = (tokenizer(part, add_special_tokens=False).input_ids for part in (text, completion))
    return list(prompt), list(answer)


def entry_tokens(entry: dict[str, Any], tokenizer: Any) -> tuple[list[int], list[int]]:
    """Token ids of an entry's messages (none without), and of its text; alone, that has the tokenizer's own special tokens."""
    if entry["messages"]:
        return chat_tokens(tokenizer, entry["messages"], entry["text"])
    return [], list(tokenizer(entry["text"]).input_ids)


def prompt_text(entry: dict[str, Any], tokenizer: Any) -> str:
    """Text before the entry's own: its messages in the chat template, or nothing."""
    if not entry["messages"]:
        return ""
    return tokenizer.apply_chat_template(entry["messages"], tokenize=False, add_generation_prompt=True)
