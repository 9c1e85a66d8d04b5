"""A tiny pair of models with tokenizer, written to a folder: with eight tokens, all completions can be enumerated."""

from __future__ import annotations

import copy
from pathlib import Path

__all__ = ["CONTEXT", "END", "letter"]

END = "</s>"
CONTEXT = 256  # tokens


def write(folder: Path, n: int = 8) -> tuple[Path, Path]:
    """Write target and draft model of n tokens below the folder, unless they exist. Return their two folders.

    The last token is the end-of-sequence token. A token is a letter, from the eighth on a character of Unicode's private area.
    """
    target, draft = folder / "target", folder / "draft"
    if not (draft / "config.json").exists():
        _models(target, draft, n)
        for where in (target, draft):
            _tokenizer(where, n)
    return target, draft


def letter(token: int) -> str:
    """Return the text of a token, except the last one."""
    letters = "abcdefg"
    return letters[token] if token < len(letters) else chr(0xE000 + token)


def _models(target: Path, draft: Path, n: int) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=n,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=n - 1,
        pad_token_id=n - 1,
        tie_word_embeddings=False,
    )
    p = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, weight in p.named_parameters():
            if "norm" not in name:
                weight.normal_(0, 0.25 if "lm_head" in name else 0.15)
        p.model.embed_tokens.weight.normal_(0, 1)
        q = copy.deepcopy(p)
        for name, weight in q.named_parameters():
            if "norm" not in name:
                weight.add_(0.35 * weight.std() * torch.randn_like(weight))
    p.save_pretrained(target)
    q.save_pretrained(draft)


def _tokenizer(folder: Path, n: int) -> None:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {letter(token): token for token in range(n - 1)} | {END: n - 1}
    plain = Tokenizer(models.WordLevel(words, unk_token=END))
    plain.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    plain.decoder = decoders.Fuse()
    chat = "{% for message in messages %}{{ message['content'] }}{% endfor %}"  # concatenates the messages
    words_of = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token=END, pad_token=END, chat_template=chat)
    words_of.save_pretrained(folder)
