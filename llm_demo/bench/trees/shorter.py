"""Drafts of known quality without training: the target without some of its layers, and which layers it misses least."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def without_layers(target: Any, missing: Sequence[int]) -> Any:
    """A Llama without these layers; all weights are shared, and every layer has a place of its own in a cache."""
    model, backbone = copy.copy(target), copy.copy(target.model)
    kept = [layer for number, layer in enumerate(target.model.layers) if number not in set(missing)]
    layers = nn.ModuleList([_as_number(layer, number) for number, layer in enumerate(kept)])
    backbone._modules = target.model._modules | {"layers": layers}
    model._modules = target._modules | {"model": backbone}
    model.config = backbone.config = copy.deepcopy(target.config)
    backbone.config.num_hidden_layers = len(kept)
    return model


def _as_number(layer: Any, number: int) -> Any:
    twin, attention = copy.copy(layer), copy.copy(layer.self_attn)
    attention.layer_idx = number
    twin._modules = layer._modules | {"self_attn": attention}
    return twin


Text = tuple[list[int], list[int]]  # token ids, and the places whose tokens are to be foretold


@torch.inference_mode()
def least_missed(target: Any, texts: Sequence[Text], most: int) -> Iterator[tuple[list[int], float]]:
    """One layer after the other, up to `most`, that costs the draft least: the layers left out so far, and mean sum min(p, q).

    texts: held-out ones. What stands below a layer is computed once for all layers that might go.
    """
    layers = list(target.model.layers)
    p = [_laws(target, layers, _embedded(target, tokens), places) for tokens, places in texts]
    missing: list[int] = []
    while len(missing) < most:
        left = [number for number in range(len(layers)) if number not in missing]
        shares = dict.fromkeys(left, 0.0)
        for (tokens, places), wanted in zip(texts, p, strict=True):
            hidden = _embedded(target, tokens)
            for place, number in enumerate(left):
                q = _laws(target, [layers[above] for above in left[place + 1 :]], hidden, places)
                shares[number] += float(torch.minimum(wanted, q).sum())
                hidden = _through(target, [layers[number]], hidden)
        best = max(shares, key=lambda number: shares[number])
        missing = sorted([*missing, best])
        yield missing, shares[best] / sum(len(places) for _, places in texts)


def _embedded(target: Any, tokens: Sequence[int]) -> Tensor:
    table = target.model.embed_tokens
    return table(torch.tensor([list(tokens)], device=table.weight.device))


def _through(target: Any, layers: Sequence[Any], hidden: Tensor) -> Tensor:
    """Hidden states (1, t, width) of a text after these layers, without a cache."""
    positions = torch.arange(hidden.shape[1], device=hidden.device)[None]
    turned = target.model.rotary_emb(hidden, position_ids=positions)
    for layer in layers:
        hidden = layer(hidden, attention_mask=None, position_ids=positions, position_embeddings=turned)
    return hidden


def _laws(target: Any, layers: Sequence[Any], hidden: Tensor, places: Sequence[int]) -> Tensor:
    """Laws (rows, n) of the tokens at these places of a text."""
    last = _through(target, layers, hidden)[0, torch.tensor(places) - 1]
    return target.lm_head(target.model.norm(last)).softmax(-1)
