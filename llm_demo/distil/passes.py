"""A draft that reads the target's states, along whole texts: told by the target, and as it is told where it drafts by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ot_draft.decoding.draft_models import StateDraft, shift_right

# Weights of the losses behind one and two tokens that it drafted itself: about how often it gets there.
LATER = (0.4, 0.2)


def passes(draft: StateDraft, tokens: Tensor, features: Tensor, rows: int, drafted: int = len(LATER)) -> list[Tensor]:
    """States (B, T, width) where the target tells the place before each token, and of the first rows those behind 1, 2, ... drafted tokens.

    features: (B, T, f), as `features_of` makes them. Behind drafted ones it is told its own state of the place before, of the pass before.
    What it sees of earlier places are keys and values of the first pass, of the second for the first token that it drafted, and so on.
    """
    from transformers import DynamicCache

    kept, earlier = DynamicCache(), DynamicCache()
    found = [draft.states(tokens, shift_right(draft.fuse(features)), kept)]
    layers: Any = kept.layers
    for number, layer in enumerate(layers):
        earlier.update(layer.keys[:rows], layer.values[:rows], number)
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device)
    back = place[:, None] - place  # how far
    places = place.expand(rows, -1)
    for count in range(1, drafted + 1):
        seen = torch.cat([back >= count, *(back == count - own for own in range(1, count + 1))], 1)
        states = draft.states(
            tokens[:rows],
            shift_right(found[-1][:rows]),
            earlier,
            attention_mask=seen.expand(rows, 1, -1, -1),
            position_ids=places,
        )
        found.append(states)
    return found
