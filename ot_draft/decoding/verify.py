"""Read the whole tree with the target, in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import ot_draft as ot

from .cache import SlotCache
from .network import Network
from .processed import Processed, checked_target, laws_at_nodes
from .sampling import Sampling
from .texts import Texts


def verify(
    network: Network,
    cache: SlotCache,
    texts: Texts,
    mask: Tensor,
    depths: Tensor,
    sampling: Sampling | Sequence[Processed],
    shape: ot.paths.TreeShape,
    tokens: Tensor,
) -> Tensor:
    """The target's law p (B, N + 1, n) of the token after the root and after every drafted token.

    mask: (B, 1, N + 2, S), see `TreeMask.of`; depths: (N + 1,) of the nodes; tokens: (B, N) drafted. The keys and values of node i come to
    stand in slot length + i of the cache.
    """
    nodes = torch.arange(len(depths), device=depths.device)
    logits = network.logits(
        cache,
        tokens=torch.cat((texts.last[:, None], tokens), 1),
        slots=texts.lengths[:, None] + nodes,
        positions=texts.lengths[:, None] + depths,
        mask=mask[:, :, :-1],
    )
    if isinstance(sampling, Sampling):
        return sampling.masses(logits)
    p = laws_at_nodes(sampling, network, logits, texts, shape, tokens, slice(0, shape.size + 1))
    return checked_target(p, texts, shape, tokens)
