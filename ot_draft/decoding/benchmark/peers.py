"""The same two models in transformers' own generation: autoregressive sampling, assisted generation with one draft, prompt lookup."""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from ... import defaults
from ...errors import CannotDecode
from ..draft_models import SubsetDraft
from ..loop import DecodeOptions
from ..methods import Method, lookup_method, method_called, shape_of
from ..pair import Pair
from ..prompt_lookup import PromptLookup
from .calls import Call, Watch, calls, nobody

__all__ = ["OneByOne", "Peer", "peers"]


class SubsetHead(nn.Module):
    """The head of a `SubsetDraft` with logits on the whole vocabulary: -inf, that is probability 0, outside the subset."""

    def __init__(self, draft: SubsetDraft) -> None:
        super().__init__()
        self.head, self.out_features = draft.head, draft.vocabulary_size
        self.register_buffer("vocabulary_subset", draft.vocabulary_subset, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., width) -> (..., n)."""
        scores = self.head(hidden)
        whole = scores.new_full((*scores.shape[:-1], self.out_features), -torch.inf)
        return whole.index_copy_(-1, self.vocabulary_subset, scores)


def assistant(draft: Any) -> Any:
    """Return the draft model as transformers' assistant: a causal model that scores the target's whole vocabulary.

    A `SubsetDraft` gets a model around it without weights; backbone and head are the draft model's, not copies.
    """
    if not isinstance(draft, SubsetDraft):
        return draft
    if draft.reads:
        raise CannotDecode(
            "assistant must be a draft model that reads tokens, got one that reads the target's hidden states. Use another draft model."
        )
    from transformers import AutoModelForCausalLM

    backbone: Any = draft.backbone
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(copy.deepcopy(backbone.config))
    model.model, model.lm_head = backbone, SubsetHead(draft)
    return model.eval()


@dataclass(frozen=True)
class OneByOne(Method, ABC):
    """A method by another engine, which continues one text at a time, as assisted generation takes no batch."""

    @classmethod
    def like(cls, method: Method, name: str, drafts: str | None = None, **more: Any) -> Self:
        """Return the method with the drafting of one of this package, and its draft law and drafts by default. more: engine fields."""
        law, drafts = (method.law, method.drafts) if drafts is None else ("", drafts)
        return cls(name, law, name, drafts, method.drafting, method.policy, fixed_shape=False, **more)

    @abstractmethod
    def continued(self, prompt: Sequence[int], options: DecodeOptions, seed: int) -> tuple[int, int, float]:
        """Return tokens, target calls including the prefill, and seconds of all calls but the prefill, for one prompt."""


@calls.register
def calls_one_by_one(
    method: OneByOne, pair: Pair, prompts: Sequence[Sequence[int]], options: DecodeOptions, watch: Watch = nobody
) -> Iterator[Call]:
    """Yield the mean call of every sequence, as often as there were calls."""
    texts = range(len(prompts)) if options.rows is None else options.rows
    for text, prompt in zip(texts, prompts, strict=True):
        tokens, count, seconds = method.continued(prompt, options, options.seed + text)
        for _ in range(count):
            yield Call(text, tokens / count, seconds / max(count - 1, 1))


@dataclass(frozen=True)
class Peer(OneByOne):
    """A method by transformers' own generation. models: of transformers, `generating`; helper: from `assistant`, or None; L tokens are
    drafted; or those of prompt lookup, where there is one."""

    models: Any = field(default=None, compare=False)
    helper: Any = field(default=None, compare=False)
    lookup: PromptLookup | None = None

    def continued(self, prompt: Sequence[int], options: DecodeOptions, seed: int) -> tuple[int, int, float]:
        done = generate(self.models, self.helper, prompt, self.L, options, seed, self.lookup)
        return len(done.tokens), done.calls, done.seconds


@dataclass
class TargetCalls:
    """Counts calls of a model, and notes when the first one ended: what comes after is decoding, what comes before prefill."""

    count: int = 0
    first_end: float = field(default=float("nan"))

    def __call__(self, model: nn.Module, arguments: Any, output: Any) -> None:
        self.count += 1
        if self.count == 1:
            self.first_end = now(next(model.parameters()).device)


def now(device: torch.device) -> float:
    """Time, once the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@dataclass(frozen=True)
class GeneratedText:
    """tokens of one text; calls of the target, the one that read the prompt included; seconds of all calls but this one."""

    tokens: list[int]
    calls: int
    seconds: float


def generate(
    pair: Pair,
    helper: Any,
    prompt: Sequence[int],
    length: int,
    decoding: DecodeOptions,
    seed: int,
    lookup: PromptLookup | None = None,
) -> GeneratedText:
    """Return one completion by transformers' `generate`. helper: from `assistant`, or None for autoregressive sampling.

    length: constant number of draft tokens per target call. decoding: sampling and max_tokens. lookup: prompt lookup instead of a helper.
    """
    from transformers.utils import logging

    device, verbosity = next(pair.target.parameters()).device, logging.get_verbosity()
    tokens = torch.tensor([list(prompt)], device=device)
    settings = _settings(pair, tokens, helper, length, decoding)
    settings |= {} if lookup is None else lookup.settings
    calls = TargetCalls()
    hook = pair.target.register_forward_hook(calls)
    logging.set_verbosity_error()  # it warns of how it calls the assistant itself
    try:
        with torch.inference_mode():
            torch.manual_seed(seed)
            texts = pair.target.generate(tokens, **settings)
            seconds = now(device) - calls.first_end
    finally:
        hook.remove()
        logging.set_verbosity(verbosity)
    return GeneratedText(texts[0, len(prompt) :].tolist(), calls.count, seconds)


def _settings(pair: Pair, tokens: Tensor, helper: Any, length: int, decoding: DecodeOptions) -> dict[str, Any]:
    """Keyword arguments for `generate`."""
    sampling = decoding.sampling
    warped = {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p}
    hot = {"do_sample": True, "min_p": sampling.min_p or None} | warped
    settings: dict[str, Any] = {
        **(hot if sampling.temperature else {"do_sample": False}),
        "max_new_tokens": decoding.max_tokens,
        "eos_token_id": list(pair.stop_tokens) or None,
        "pad_token_id": 0,
        "attention_mask": torch.ones_like(tokens),
    }
    if helper is not None:
        # L draft tokens per target call: no confidence threshold, no schedule.
        for name, value in (("num_assistant_tokens", length), ("assistant_confidence_threshold", 0.0)):
            setattr(helper.generation_config, name, value)
        helper.generation_config.num_assistant_tokens_schedule = "constant"
        settings["assistant_model"] = helper
    return settings


def peers(pair: Pair, *lengths: int, lookup: PromptLookup | None = None) -> list[Peer]:
    """Return transformers' methods: autoregressive, assisted by one draft path of each length, and prompt lookup."""
    models = generating(pair)
    generate = Peer.like(
        method_called("autoregressive", None, shape_of(1, 1, None)), "transformers, plain", models=models
    )
    assisted = []
    if models.assisting is not None:
        helper, drafted = (
            assistant(models.assisting),
            [shape_of(1, length, None) for length in lengths or (defaults.LENGTH,)],
        )
        methods = [method_called("speculativesampling", None, shape) for shape in drafted]
        assisted = [Peer.like(method, "transformers, assisted", models=models, helper=helper) for method in methods]
    return [
        generate,
        *assisted,
        Peer.like(lookup_method(lookup), "transformers, prompt lookup", models=models, lookup=lookup or PromptLookup()),
    ]


def generating(pair: Pair) -> Pair:
    """The pair as transformers' own models, which are loaded for this where ours are others."""
    return pair if pair.by_transformers is None else pair.by_transformers()
