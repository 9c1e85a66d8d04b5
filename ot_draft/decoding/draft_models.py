"""Drafts that are small models on the target's own embedding and score a subset of its vocabulary; some read its hidden states, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from ..errors import CannotDecode
from .cache import with_cache

__all__ = ["StateDraft", "SubsetDraft", "features_of", "shift_right"]


class SubsetDraft(nn.Module):
    """A small causal model that shares the target's embedding and scores only a subset of the vocabulary.

    vocabulary_subset: (s,) int64, increasing token ids of the target; every other token has draft probability 0.
    """

    vocabulary_subset: Tensor
    reads: tuple[int, ...] = ()  # numbers of target layers after which it reads hidden states

    def __init__(self, backbone: nn.Module, embedding: nn.Embedding, vocabulary_subset: Tensor) -> None:
        super().__init__()
        self.backbone = backbone
        self.vocabulary_size = embedding.num_embeddings
        self.register_buffer("vocabulary_subset", vocabulary_subset.long(), persistent=False)
        rows = embedding.weight.detach()[vocabulary_subset.long()]  # a copy of rows of the target's tied embedding
        self.head = nn.Linear(rows.shape[1], len(rows), bias=False, device="meta")
        self.head.weight = nn.Parameter(rows, requires_grad=False)

    def forward(self, tokens: Tensor, cache: Any = None, last: int = 0, **options: Any) -> Tensor:
        """Logits on the subset, (batch, length, s) for tokens (batch, length); position i scores token i + 1.

        cache: a transformers Cache, extended in place, or None. last: score the last few positions only; 0: all. options
        (attention_mask, position_ids, ...) go to the Llama backbone as they are.
        """
        output = self.backbone(tokens, **with_cache(self.backbone, cache), **options)
        return self.score(output.last_hidden_state[:, -last:])

    def score(self, states: Tensor) -> Tensor:
        """Logits on the subset (batch, length, s) at hidden states (batch, length, width)."""
        # torch's product of a slice copies weights for every row
        return self.head(states.flatten(0, 1)).unflatten(0, states.shape[:2])


class IntersectionDraft(nn.Module):
    """A causal language model that reads and scores the target's tokens; mass it has on those that are its own, too.

    Source: Timor et al. 2025, TLI. What it is made to read costs acceptance where it is wrong, never losslessness.
    own_ids: (n,) int64, as which of its tokens it reads each token of the target. vocabulary_subset: (s,) int64, the target's tokens that
    it has, increasing. A token that it does not have is read as the last of its tokens that make the same text.
    """

    own_ids: Tensor
    vocabulary_subset: Tensor
    scored_ids: Tensor

    def __init__(self, model: Any, own_ids: Tensor, vocabulary_subset: Tensor) -> None:
        super().__init__()
        self.backbone, self.vocabulary_size = model, len(own_ids)
        self.register_buffer("own_ids", own_ids, persistent=False)
        self.register_buffer("vocabulary_subset", vocabulary_subset, persistent=False)
        self.register_buffer("scored_ids", own_ids[vocabulary_subset], persistent=False)

    @classmethod
    def of(cls, model: Any, tokenizer: Any, target_tokenizer: Any, n: int) -> IntersectionDraft:
        """Return the draft model for a target of n tokens; both tokenizers are of transformers. CannotDecode without common tokens."""
        theirs = {_plain(token): number for token, number in tokenizer.get_vocab().items()}
        common, others, own = [], [], [0] * n
        for token, number in target_tokenizer.get_vocab().items():
            if number < n and _plain(token) in theirs:
                own[number] = theirs[_plain(token)]
                common.append(number)
            elif number < n:
                others.append(number)
        if not common:
            raise CannotDecode(
                "draft must have a token in common with the target, got none. Use slem:NAME, which drafts text."
            )
        texts = [target_tokenizer.decode([number]) for number in others]
        made = tokenizer(texts, add_special_tokens=False).input_ids if texts else []
        for number, ids in zip(others, made, strict=True):
            own[number] = ids[-1] if ids else 0
        device = model.get_input_embeddings().weight.device
        return cls(model, torch.tensor(own, device=device), torch.tensor(sorted(common), device=device))

    def forward(self, tokens: Tensor, cache: Any = None, last: int = 0, **options: Any) -> Tensor:
        """Logits on the common tokens, (batch, length, s) for tokens of the target (batch, length); arguments as of `SubsetDraft`."""
        keep: Any = torch.arange(-last, 0, device=tokens.device) if last else 0
        output = self.backbone(self.own_ids[tokens], logits_to_keep=keep, **with_cache(self.backbone, cache), **options)
        return output.logits[..., self.scored_ids]


def _plain(token: str) -> str:
    """The token with a space where one is meant."""
    return token.replace("Ġ", " ").replace("▁", " ")  # in byte-level and in sentencepiece vocabularies


class StateDraft(SubsetDraft):
    """A draft model that also reads the target's hidden states one position earlier (as in EAGLE, Li et al. 2024).

    They are those after the layers `reads` and the normed ones after the last layer. All are normed without weights and combined by
    `fuse`. At draft tokens, which the target has not read, the draft model's own hidden state replaces them. The input of its first layer
    is the token's embedding plus a projection of that vector or state.
    """

    def __init__(
        self, backbone: nn.Module, embedding: nn.Embedding, vocabulary_subset: Tensor, reads: Sequence[int]
    ) -> None:
        """backbone: a Llama model, whose last norm moves to this module, since the hidden state is taken before it."""
        super().__init__(backbone, embedding, vocabulary_subset)
        width, self.reads = embedding.embedding_dim, tuple(reads)
        owner: Any = backbone
        self.norm, owner.norm = owner.norm, nn.Identity()
        self.fuse = nn.Linear((len(self.reads) + 1) * width, width, bias=False)
        self.norm_states = type(self.norm)(width, self.norm.variance_epsilon)
        self.project = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.project.weight)  # it begins as a draft that reads nothing of them

    def states(self, tokens: Tensor, before: Tensor, cache: Any = None, **options: Any) -> Tensor:
        """Hidden states (batch, length, width) at tokens (batch, length).

        before: (batch, length, width), features of the target through `fuse`, or the state of this draft, one place before each token; 0
        before the first.
        """
        embedded = self.backbone.get_input_embeddings()(tokens)  # type: ignore[operator]
        entered = embedded + self.project(self.norm_states(before))
        output = self.backbone(inputs_embeds=entered, **with_cache(self.backbone, cache), **options)
        return output.last_hidden_state

    def score(self, states: Tensor) -> Tensor:
        """Logits on the subset (..., s) at hidden states (..., width)."""
        return self.head(self.norm(states))

    def forward(self, tokens: Tensor, cache: Any = None, last: int = 0, **options: Any) -> Tensor:
        """Logits of the last few positions (0: of all) on the subset; options: with `before`, see `states`."""
        return self.score(self.states(tokens, options.pop("before"), cache, **options)[:, -last:])


def features_of(hidden: Sequence[Tensor], reads: Sequence[int], epsilon: float) -> Tensor:
    """Features (batch, length, f) that a `StateDraft` reads, of a target's hidden states after 0, 1, ... layers, the last of them normed.

    Each is normed to mean square 1, so that none drowns the others, and they stand side by side.
    """
    chosen = torch.stack([hidden[number] for number in reads] + [hidden[-1].to(hidden[0].device)], -2)
    return rms_norm(chosen, chosen.shape[-1:], eps=epsilon).flatten(-2)


def shift_right(states: Tensor) -> Tensor:
    """States (batch, length, w) as those before each place: zeros before the first."""
    return torch.cat((torch.zeros_like(states[:, :1]), states[:, :-1]), 1)
