"""Layers that read the same rows as one product: q, k and v of attention, and the two that open a feed-forward layer.

Their single matrices are small: three rows through one of 192 x 576 and two more like it take longer than through all 960 x 576 at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))  # layers of one module that read the same rows


class Joined(nn.Module):
    """The first of several linear layers that read the same rows: all as one product, which the others take their parts of.

    Whoever asks first for a tensor multiplies; who then asks for the same tensor is given its part, once. A layer that is asked for another
    tensor multiplies anew: nothing is wrong then, only slower. The tensor must not be changed in place in between, which a layer that
    several others read is not.
    """

    def __init__(self, name: str, linears: Sequence[nn.Linear]) -> None:
        """name: of the product among the children, by which it is chosen for packing."""
        super().__init__()
        self.sizes, self.name = [linear.out_features for linear in linears], name
        self.out_features = linears[0].out_features
        whole = nn.Linear(linears[0].in_features, sum(self.sizes), linears[0].bias is not None, device="meta")
        whole.weight = nn.Parameter(torch.cat([linear.weight for linear in linears]), requires_grad=False)
        if whole.bias is not None:
            whole.bias = nn.Parameter(torch.cat([linear.bias for linear in linears]), requires_grad=False)
        self.add_module(name, whole)
        self._last: tuple[Tensor, dict[int, Tensor]] | None = None  # one tuple: threads may overwrite it, not mix it

    def whole(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., sum of all out), their parts side by side."""
        return self.get_submodule(self.name)(x)

    def part(self, number: int, x: Tensor) -> Tensor:
        """(..., in) -> (..., out) of one of the layers."""
        last = self._last
        if last is None or last[0] is not x or number not in last[1]:
            last = self._last = x, dict(enumerate(self.whole(x).split(self.sizes, -1)))
        found = last[1].pop(number)
        if not last[1]:
            self._last = None  # long prompts take memory
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Of the first."""
        return self.part(0, x)


class Part(nn.Module):
    """Another one of the layers of a `Joined`."""

    def __init__(self, joined: Joined, number: int) -> None:
        super().__init__()
        self._joined, self._number = (joined,), number  # in a tuple: it is a child of the first layer's place only

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return self._joined[0].part(self._number, x)


def join(model: nn.Module) -> None:
    """Make one product, in place, of the float32 layers on the CPU that read the same rows."""
    for module in list(model.modules()):
        for names in TOGETHER:
            linears = [getattr(module, name, None) for name in names]
            found = [linear for linear in linears if is_plain(linear)]
            alike = {(linear.in_features, linear.bias is None) for linear in found}
            if len(found) == len(names) and len(alike) == 1:
                joined = Joined(names[0], found)
                setattr(module, names[0], joined)
                for number, name in enumerate(names[1:], 1):
                    setattr(module, name, Part(joined, number))


def is_plain(module: Any) -> TypeGuard[nn.Linear]:
    """Whether it is a float32 layer on the CPU that nobody has changed."""
    return type(module) is nn.Linear and module.weight.device.type == "cpu" and module.weight.dtype == torch.float32
