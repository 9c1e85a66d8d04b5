"""A tiny pair of models with a tokenizer, in two directories, as a user would have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiny_models import tiny_pair

WORDS = tuple("abcdefghijkl")


def save_tiny_pair(folder: Path) -> list[str]:
    """Write target and draft, and return the options that name them; token i is the word WORDS[i]."""
    import torch

    pair = tiny_pair(4, len(WORDS), dtype=torch.float32)
    for name in ("target", "draft"):
        getattr(pair, name).save_pretrained(folder / name)
        tokenizer(WORDS).save_pretrained(folder / name)
    return ["--target", str(folder / "target"), "--draft", str(folder / "draft")]


def tokenizer(words: Any) -> Any:
    """One token a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="a"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made)
