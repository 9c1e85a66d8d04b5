"""What decoding needs besides models, prompts and drafting, and what of it cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import CannotDecode
from .sampling import NodeLaws, Processed, ProcessedTexts, SamplingParams


@dataclass(frozen=True)
class DecodeOptions:
    """Sampling, limits, random numbers, and what every step records.

    sampling: for both models alike; draft_sampling: for the draft alone, if it is to differ (every rule stays lossless:
    drafts follow the q that the rule sees). processed: for each text the logits processors of both models, in
    the place of both samplings.
    max_tokens: a text. stop: tokens that end a text, None for the target's own.
    seed, rows: the random numbers of a text depend on the seed and on its row number only, which is its place in the batch
    unless `rows` says otherwise. details, laws: record masses and ranks of drafted tokens, or whole p and q, in every step.
    graphs: CUDA graphs, where there is CUDA and each model is whole on one device.
    """

    sampling: SamplingParams = field(default_factory=SamplingParams)
    draft_sampling: SamplingParams | None = None
    processed: Sequence[Processed] | None = None
    max_tokens: int = 64
    stop: Sequence[int] | None = None
    seed: int = 0
    rows: Sequence[int] | None = None
    details: bool = False
    laws: bool = False
    graphs: bool = True

    @property
    def of_both(self) -> tuple[NodeLaws, NodeLaws]:
        """How the target's and the draft's logits become laws."""
        if self.processed is not None:
            return ProcessedTexts(self.processed, of_draft=False), ProcessedTexts(self.processed, of_draft=True)
        return self.sampling, self.draft_sampling or self.sampling


def check_options(options: DecodeOptions, texts: int) -> None:
    if options.max_tokens < 1:
        raise CannotDecode(f"max-tokens is {options.max_tokens}: give at least 1")
    if options.rows is not None and len(options.rows) != texts:
        raise CannotDecode(f"{len(options.rows)} row numbers for {texts} prompts: give one for each")
    if options.processed is not None and len(options.processed) != texts:
        raise CannotDecode(f"processors of {len(options.processed)} texts for {texts} prompts: give one for each")


def check_prompts(
    prompts: Sequence[Sequence[int]], n: int, limit: tuple[int | None, str], name: str, max_tokens: int, depth: int
) -> None:
    context, called = limit
    if not prompts:
        raise CannotDecode("no prompt was given: give at least one")
    for row, prompt in enumerate(prompts):
        if len(prompt) == 0:
            raise CannotDecode(
                f"prompt {row} has no token: give at least one, for example the token that begins a text"
            )
        outside = [token for token in prompt if not 0 <= token < n]
        if outside:
            raise CannotDecode(f"prompt {row} holds token {outside[0]}: the vocabulary is 0 .. {n - 1}")
        if context is not None and len(prompt) >= context:
            raise CannotDecode(
                f"prompt {row} has {len(prompt)} tokens, the {name}'s {called} {context}: shorten the prompt"
            )
        if context is not None and len(prompt) + max_tokens + depth > context:
            raise CannotDecode(
                f"prompt {row} of {len(prompt)} tokens, {max_tokens} new ones and drafts of length {depth} pass the {name}'s"
                f" {called} of {context}: give max-tokens of at most {max(context - len(prompt) - depth, 0)}"
            )
