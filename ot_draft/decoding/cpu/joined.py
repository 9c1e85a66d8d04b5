"""Layers that read the same rows as one product: q, k and v of attention, and the two that open a feed-forward layer.

Their single matrices are small: three rows through one of 192 x 576 and two more like it take longer than through all 960 x 576 at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))  # layers of one module that read the same rows


class Results:
    """What a product last gave, as far as no layer has taken it yet."""

    def __init__(self) -> None:
        # One tuple: threads may overwrite it, not mix it.
        self.last: tuple[Tensor, nn.Module, dict[int, Tensor]] | None = None


class Part(nn.Module):
    """One of several linear layers that read the same rows. All have the same product as their child, and take their parts of it.

    Whoever asks first for a tensor multiplies; who then asks for the same tensor is given its part, once. A layer that is asked for another
    tensor multiplies anew: nothing is wrong then, only slower. The tensor must not be changed in place in between, which a layer that
    several others read is not.
    """

    def __init__(self, name: str, product: nn.Module, number: int, sizes: Sequence[int], results: Results) -> None:
        """name: of the product among the children, by which it is chosen for packing. number: of this layer among those of these sizes."""
        super().__init__()
        self.name, self.number, self.sizes, self.out_features = name, number, list(sizes), sizes[number]
        self._results = results  # common to all layers
        self.add_module(name, product)

    @property
    def product(self) -> Any:
        """(..., in) -> (..., sum of all out), the layers side by side."""
        return self._modules[self.name]

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        last, product = self._results.last, self.product
        if last is None or last[0] is not x or last[1] is not product or self.number not in last[2]:
            last = self._results.last = x, product, dict(enumerate(product(x).split(self.sizes, -1)))
        found = last[2].pop(self.number)
        if not last[2]:
            self._results.last = None  # long prompts take memory
        return found


def product_of(layers: Sequence[Any]) -> Any:
    """The one product that these layers, in their order, are all parts of; None where there is none."""
    first = layers[0]
    alike = all(
        type(layer) is Part and layer.number == number and layer.product is first.product
        for number, layer in enumerate(layers)
    )
    return first.product if alike and len(first.sizes) == len(layers) else None


def join(model: nn.Module) -> None:
    """Make one product, in place, of the float32 layers on the CPU that read the same rows."""
    for module in list(model.modules()):
        for names in TOGETHER:
            linears = [getattr(module, name, None) for name in names]
            found = [linear for linear in linears if is_plain(linear)]
            alike = {(linear.in_features, linear.bias is None) for linear in found}
            if len(found) == len(names) and len(alike) == 1:
                product, results = _side_by_side(found), Results()
                sizes = [linear.out_features for linear in found]
                for number, name in enumerate(names):
                    setattr(module, name, Part(names[0], product, number, sizes, results))


def _side_by_side(linears: Sequence[nn.Linear]) -> nn.Linear:
    first, outputs = linears[0], sum(linear.out_features for linear in linears)
    whole = nn.Linear(first.in_features, outputs, first.bias is not None, device="meta")
    whole.weight = nn.Parameter(torch.cat([linear.weight for linear in linears]), requires_grad=False)
    if whole.bias is not None:
        whole.bias = nn.Parameter(torch.cat([linear.bias for linear in linears]), requires_grad=False)
    return whole


def is_plain(module: Any) -> TypeGuard[nn.Linear]:
    """Whether it is a float32 layer on the CPU that nobody has changed."""
    return type(module) is nn.Linear and module.weight.device.type == "cpu" and module.weight.dtype == torch.float32
