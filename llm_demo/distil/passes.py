"""A draft that reads the target's states, along whole texts: told by the target, and as it is told where it drafts by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ot_draft.decoding.draft_models import StateDraft, shift_right

SECOND_PASS = 0.4  # weight of the loss of what it is told by itself


def both_passes(draft: StateDraft, tokens: Tensor, features: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """States (B, T, width) where the target tells the place before every token, and those of the first rows again where that was drafted.

    features: (B, T, f), as `features_of` makes them. Again: from the draft's own state of the place before, with the keys and values of the
    first pass up to there, and its own.
    """
    from transformers import DynamicCache

    kept, earlier = DynamicCache(), DynamicCache()
    told = draft.states(tokens, shift_right(draft.fuse(features)), kept)
    layers: Any = kept.layers
    for number, layer in enumerate(layers):
        earlier.update(layer.keys[:rows], layer.values[:rows], number)
    length = tokens.shape[1]
    one = torch.ones(length, length, dtype=torch.bool, device=tokens.device)
    seen = torch.cat((one.tril(-1), one.tril() & one.triu()), 1).expand(rows, 1, -1, -1)
    places = torch.arange(length, device=tokens.device).expand(rows, -1)
    before = shift_right(told[:rows])
    return told, draft.states(tokens[:rows], before, earlier, attention_mask=seen, position_ids=places)
