"""A target of eight tokens, a draft near it and their tokenizer, written to a folder: small enough to enumerate every text."""

from __future__ import annotations

import copy
from pathlib import Path

LETTERS = "abcdefg"
END = "</s>"
N = len(LETTERS) + 1


def write(folder: Path) -> tuple[Path, Path]:
    """Write target and draft below the folder, unless they are there: their two folders."""
    target, draft = folder / "target", folder / "draft"
    if not (draft / "config.json").exists():
        _models(target, draft)
        for where in (target, draft):
            _tokenizer(where)
    return target, draft


def _models(target: Path, draft: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=N,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=N - 1,
        pad_token_id=N - 1,
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


def _tokenizer(folder: Path) -> None:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {letter: i for i, letter in enumerate(LETTERS)} | {END: N - 1}
    plain = Tokenizer(models.WordLevel(words, unk_token=END))
    plain.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    plain.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=plain, eos_token=END, pad_token=END).save_pretrained(folder)
