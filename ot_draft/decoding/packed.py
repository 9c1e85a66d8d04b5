"""Linear layers whose weights were brought into oneDNN's own layout once, not in every call: for the CPU, in float32.

The few rows of a drafted tree are too few to pay for rearranging a weight matrix, and too many for the kernel that reads one
row. Measured on one core (n = 49,152, width 576): 17 rows through the head take 7 ms in the place of 21, one row 3 in the place of 7.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

ROWS = 16  # the number of rows that the layout is made for; it serves 1 to 512 about equally well


class PackedLinear(nn.Module):
    """x W^T + b with W packed; the plain weight is given up."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS)
        self.register_buffer("weight", packed, persistent=False)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        rows = x.reshape(-1, self.in_features)
        product = torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")
        return product.reshape(*x.shape[:-1], self.out_features)


def pack(model: nn.Module) -> int:
    """Replace the float32 linear layers on the CPU by packed ones, in place; returns how many (0 where torch cannot).

    Products stay float32, summed in another order.
    """
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return 0
    replaced = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and child.weight.device.type == "cpu" and child.weight.dtype == torch.float32:
                setattr(module, name, PackedLinear(child))
                replaced += 1
    return replaced
