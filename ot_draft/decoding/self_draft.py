"""Self-drafting: the target without some of its layers drafts for it; and the search for the layers to skip.

It reads the text in the target's cache (`SelfModel`). Sources: SWIFT (Xia et al. 2024), any layers; LayerSkip and Kangaroo (2024), the last
ones.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from ..draft_spec import EarlyExit, SkipLayers
from ..errors import CannotDecode
from .language_model import language_model, target_context, vocabulary_size


def self_draft(target: Any, spec: SkipLayers | EarlyExit) -> Any:
    """Return the target without the skipped layers. Raises CannotDecode unless it is a Llama or Qwen2 with these layers."""
    layers = len(_layers_of(target))
    skipped = spec.skipped(layers)
    if not 1 <= len(set(skipped)) < layers or max(skipped) >= layers:
        raise CannotDecode(
            f"draft must skip some of the target's layers 0 to {layers - 1}, but not all, got {spec.layers!r}. Name other layers."
        )
    return without_layers(target, skipped)


def _layers_of(target: Any) -> Any:
    layers = getattr(getattr(target, "model", None), "layers", None)
    if layers is None or not hasattr(target.model, "rotary_emb"):
        raise CannotDecode(
            f"target must be a Llama or Qwen2 to draft for itself, got {type(target).__name__}. Use a draft model."
        )
    return layers


def without_layers(target: Any, missing: Sequence[int]) -> Any:
    """Return a Llama without these layers, with shared weights and the layer numbers of the target's cache."""
    model, backbone = copy.copy(target), copy.copy(target.model)
    kept = [layer for number, layer in enumerate(target.model.layers) if number not in set(missing)]
    backbone._modules = target.model._modules | {"layers": nn.ModuleList(kept)}
    model._modules = target._modules | {"model": backbone}
    model.shares_cache = True  # see `SelfModel`
    return model


Text = tuple[list[int], list[int]]  # token ids, and the positions to predict


@torch.inference_mode()
def least_missed(target: Any, texts: Sequence[Text], most: int) -> Iterator[tuple[list[int], float]]:
    """Yield the skipped layers, one more each time, up to `most`, and the mean of sum min(p, q), which is maximised greedily.

    texts: held-out ones.
    """
    whole = language_model(target, vocabulary_size(target))
    p = [whole.full_pass(tokens, places).logits.softmax(-1) for tokens, places in texts]
    missing: list[int] = []
    while len(missing) < most:
        left = [number for number in range(len(_layers_of(target))) if number not in missing]
        drafts = {number: language_model(without_layers(target, [*missing, number]), whole.info.n) for number in left}
        shares = dict.fromkeys(left, 0.0)
        for (tokens, places), wanted in zip(texts, p, strict=True):
            context = target_context(drafts[left[0]], target, tokens[: places[-1] - 1], places[-1])
            for number, draft in drafts.items():
                q = draft.full_pass(tokens, places, context).logits.softmax(-1)
                shares[number] += float(torch.minimum(wanted, q).sum())
        best = max(shares, key=lambda number: shares[number])
        missing = sorted([*missing, best])
        yield missing, shares[best] / sum(len(places) for _, places in texts)
