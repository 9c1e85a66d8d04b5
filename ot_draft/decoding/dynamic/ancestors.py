"""Which nodes a node of a drafted tree sees, where the tree's shape is data: computed on the device, from parents."""

from __future__ import annotations

import torch
from torch import Tensor


def ancestors(parents: Tensor, length: int) -> Tensor:
    """Whether a node sees another, itself and those above it: bool (B, N + 1, N + 1), of parents int (B, N) of trees `length` deep.

    An absent node, whose parent is N, sees itself and maybe node N, which is absent then.
    """
    nodes = torch.arange(parents.shape[1] + 1, device=parents.device)
    above = torch.cat((torch.zeros_like(parents[:, :1]), parents), 1)
    way = nodes.expand_as(above)
    sees = (way[..., None] == nodes).clone()
    for _ in range(length):
        way = above.gather(1, way)
        sees |= way[..., None] == nodes
    return sees


def tree_mask(sees: Tensor, lengths: Tensor, slots_per_row: int, dtype: torch.dtype) -> Tensor:
    """Additive mask (B, 1, W, S) of nodes that see the context, lengths (B,), and of the nodes behind it those told, bool (B, W, M)."""
    edge = torch.zeros_like(sees[..., :1])
    # The first column stands for the context, the last for what lies behind the tree.
    seen = torch.cat((~edge, sees, edge), -1)
    behind = torch.arange(slots_per_row, device=lengths.device) - lengths[:, None]
    column = (behind + 1).clamp(0, seen.shape[-1] - 1)
    seen = seen.gather(2, column[:, None].expand(-1, sees.shape[1], -1))
    mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    # The lowest number instead of -inf: a row that sees nothing must not turn into NaN.
    return mask.masked_fill(~seen, torch.finfo(dtype).min)[:, None]


class Seen:
    """What the draft model's nodes see of each other, slot by slot, while the trees grow. rows: bool (B, M + 1, M), the last of no use."""

    def __init__(self, batch: int, slots: int, device: torch.device) -> None:
        self._slots = torch.arange(slots, device=device)
        self.rows = (torch.arange(slots + 1, device=device)[:, None] == self._slots).expand(batch, -1, -1).clone()

    def add(self, slots: Tensor, above: Tensor) -> Tensor:
        """Nodes in slots int (B, W), -1 where there is none, below those in `above`: bool (B, W, M), what they see."""
        size = len(self._slots)
        sees = self.rows.gather(1, above[..., None].expand(-1, -1, size)) | (slots[..., None] == self._slots)
        self.rows.scatter_(1, torch.where(slots < 0, size, slots)[..., None].expand_as(sees), sees)
        return sees
