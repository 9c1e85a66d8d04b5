"""Forward passes of a hidden-state draft along texts, with the target's states and with its own, as in drafting."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ot_draft.decoding.draft_models import StateDraft, shift_right

# Weights of the losses after one and two of its own draft tokens: about their frequencies in decoding.
LATER = (0.4, 0.2)


def passes(draft: StateDraft, tokens: Tensor, features: Tensor, rows: int, drafted: int = len(LATER)) -> list[Tensor]:
    """Return states (B, T, width) given the target's features, and for the first rows the states after 1, 2, ... draft tokens.

    features: (B, T, f), of `features_of`. After draft tokens, the input is the draft's own state of the preceding position in the previous
    pass. Keys and values of earlier positions are those of the first pass, of the second pass for the first draft token, and so on.
    """
    from transformers import DynamicCache

    kept, earlier = DynamicCache(), DynamicCache()
    found = [draft.states(tokens, shift_right(draft.fuse(features)), kept)]
    layers: Any = kept.layers
    for number, layer in enumerate(layers):
        earlier.update(layer.keys[:rows], layer.values[:rows], number)
    length = tokens.shape[1]
    position = torch.arange(length, device=tokens.device)
    back = position[:, None] - position  # distance
    positions = position.expand(rows, -1)
    for count in range(1, drafted + 1):
        seen = torch.cat([back >= count, *(back == count - own for own in range(1, count + 1))], 1)
        states = draft.states(
            tokens[:rows],
            shift_right(found[-1][:rows]),
            earlier,
            attention_mask=seen.expand(rows, 1, -1, -1),
            position_ids=positions,
        )
        found.append(states)
    return found
