"""Drafts of a model with another tokenizer by its text (SLEM); `IntersectionDraft` is the other way, by common tokens.

It ran on CPUs and small models only.

Source: Timor et al. 2025, 'Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies'.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .cache import with_cache
from .prompt_lookup import Match


class TextDraft:
    """Greedy drafts as text: the draft model goes on in its own tokens, and the target's tokenizer reads what it wrote.

    It depends on the text alone, so that every lossless rule may take it. The cache of the last text is kept, as far as the next agrees.
    """

    def __init__(self, model: Any, tokenizer: Any, target_tokenizer: Any, num_tokens: int = 4) -> None:
        """num_tokens: of the draft model's own tokens, written in each step."""
        self.model, self.tokenizer, self.target_tokenizer, self.num_tokens = (
            model,
            tokenizer,
            target_tokenizer,
            num_tokens,
        )
        self._read: list[int] = []
        self._cache: Any = None

    @torch.inference_mode()
    def find(self, text: Sequence[int]) -> Match:
        """Return the draft model's continuation of the text, in tokens of the target."""
        own = list(self.tokenizer(self.target_tokenizer.decode(text), add_special_tokens=False).input_ids)
        if not own:
            return Match()
        logits, written = self._after(own), list[int]()
        for _ in range(self.num_tokens):
            written.append(int(logits.argmax()))
            if len(written) < self.num_tokens:
                logits = self._after([*own, *written])
        behind = self.tokenizer.decode([*own, *written])[len(self.tokenizer.decode(own)) :]
        found = self.target_tokenizer(behind, add_special_tokens=False).input_ids if behind else []
        return Match(tuple(found), len(text))

    def _after(self, tokens: list[int]) -> Tensor:
        """Logits of the token behind these, by a cache that holds as much of them as it can."""
        from transformers import DynamicCache

        agree = next((i for i, (a, b) in enumerate(zip(self._read, tokens, strict=False)) if a != b), len(self._read))
        agree = min(agree, len(tokens) - 1)
        if self._cache is None:
            self._cache = DynamicCache()
        if agree < len(self._read):
            self._cache.crop(agree - len(self._read))  # number of dropped tokens, negative
        rest = torch.tensor([tokens[agree:]], device=self.model.device)
        output = self.model(rest, **with_cache(self.model, self._cache), logits_to_keep=1)
        self._read = list(tokens)
        return output.logits[0, -1]
