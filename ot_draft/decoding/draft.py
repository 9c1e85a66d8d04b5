"""A draft model that scores only a subset of the target's vocabulary."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Draft(nn.Module):
    """A small causal model that shares the target's embedding and scores only a subset of the vocabulary.

    vocabulary_subset: (s,) int64, increasing token ids of the target; every other token has draft probability 0.
    """

    vocabulary_subset: Tensor

    def __init__(self, backbone: nn.Module, embedding: nn.Embedding, vocabulary_subset: Tensor) -> None:
        super().__init__()
        self.backbone = backbone
        self.vocabulary_size = embedding.num_embeddings
        self.register_buffer("vocabulary_subset", vocabulary_subset.long(), persistent=False)
        rows = embedding.weight.detach()[vocabulary_subset.long()]  # a copy of rows of the target's tied embedding
        self.head = nn.Linear(rows.shape[1], len(rows), bias=False, device="meta")
        self.head.weight = nn.Parameter(rows, requires_grad=False)

    def forward(self, tokens: Tensor, cache: Any = None, **options: Any) -> Tensor:
        """Logits on the subset, (batch, length, s) for tokens (batch, length); position i scores token i + 1.

        cache: a transformers Cache, extended in place, or None. options (attention_mask, position_ids, ...) go to
        the Llama backbone as they are.
        """
        output = self.backbone(tokens, past_key_values=cache, use_cache=cache is not None, **options)
        return self.head(output.last_hidden_state)

    def spread(self, masses: Tensor) -> Tensor:
        """Masses on the subset (..., s) as masses on the whole vocabulary (..., n), 0 outside the subset."""
        whole = masses.new_zeros(*masses.shape[:-1], self.vocabulary_size)
        return whole.index_copy_(-1, self.vocabulary_subset, masses)
