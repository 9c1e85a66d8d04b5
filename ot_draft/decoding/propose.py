"""Draft a tree, level by level, with the draft model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import ot_draft as ot

from .cache import SlotCache
from .drafting import Drafting
from .network import Network
from .processed import Processed, drawable, laws_at_nodes
from .sampling import Sampling
from .texts import Texts


def propose(
    network: Network,
    cache: SlotCache,
    texts: Texts,
    mask: Tensor,
    drafting: Drafting,
    sampling: Sampling | Sequence[Processed],
    uniforms: Tensor,
    tokens: Tensor,
    q: Tensor,
) -> None:
    """Fill tokens (B, N) and q (B, M, n) with a tree drawn from the draft model, one forward pass a level.

    mask: (B, 1, N + 2, S), see `TreeMask.of`. uniforms: (B, N or more), number i - 1 draws node i. Every node's children follow the
    drafting's law, given the node's row of q, which is 0 wherever the draft model scores nothing.
    """
    for level in drafting.levels:
        first = level.nodes.start == 0
        fed = _last_two(texts, mask) if first else _nodes(texts, mask, drafting, tokens, level.nodes)
        logits = network.logits(cache, *fed, last=1 if first else 0)
        if isinstance(sampling, Sampling):
            network.store(sampling.masses(logits), into=q[:, level.nodes])
        else:
            found = laws_at_nodes(sampling, network, logits, texts, drafting.shape, tokens, level.nodes)
            q[:, level.nodes] = drawable(found)
        for draw in level.draws:
            shape = (len(q), -1, draw.count)
            tokens[:, draw.children] = _draw(drafting.law, q[:, draw.nodes], uniforms[:, draw.children].reshape(shape))


def _draw(law: ot.DraftLaw, q: Tensor, uniforms: Tensor) -> Tensor:
    return law.draw(q, uniforms).flatten(1)


def _last_two(texts: Texts, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens, slots, positions and mask of the root and of the token before it.

    The token before may have been a leaf of the last tree, which the draft model has not read. Reading it always, though
    it is mostly in the cache already, keeps the shape fixed.
    """
    lengths = texts.lengths
    # A text of one token has none before: its root is read twice, into one slot, from the same tokens.
    has_before = lengths > 0
    places = torch.stack(((lengths - 1).clamp(min=0), lengths), 1)
    before = torch.where(has_before[:, None, None, None], mask[:, :, -1:], mask[:, :, :1])
    tokens = torch.stack((texts.before_last, texts.last), 1)
    return tokens, places, places, torch.cat((before, mask[:, :, :1]), 2)


def _nodes(
    texts: Texts, mask: Tensor, drafting: Drafting, tokens: Tensor, nodes: slice
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    slots = texts.lengths[:, None] + torch.arange(nodes.start, nodes.stop, device=tokens.device)
    depth = drafting.shape.depths[nodes.start]
    positions = (texts.lengths[:, None] + depth).expand_as(slots)
    return tokens[:, nodes.start - 1 : nodes.stop - 1], slots, positions, mask[:, :, nodes]
