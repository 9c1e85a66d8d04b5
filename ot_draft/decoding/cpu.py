"""What makes products of few rows cheap on a CPU: weights laid out once, or in fewer bits.

The few rows of a tree are too few to pay for rearranging a weight matrix in every call: it is laid out once, as oneDNN wants it. With few
rows the time is that of reading the weights: in 16 bits they are half as many bytes, and products and sums stay float32. A draft may be
coarser, 8 bits: its law q is whatever it computes, so that nothing is lost but acceptance. Measured at 480 places of real texts,
temperature 1 and .6: sum min(p, q) .394 and .381 with weights of 32 bits, .394 and .384 with the layers of COARSE in 8. (With `down_proj`
too, whose inputs have outliers, .391 and .379.)
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

COARSE = ("head", "lm_head", "gate_up", "gate_proj", "up_proj")  # of a draft: its largest matrices
SMALL = 2**18  # weights: one row through 192 x 576 takes 22 microseconds as it is and 59 packed, on one core
LARGEST = torch.finfo(torch.float16).max
ROWS = 16  # the number of rows that the layout is made for; it serves 1 to 512 about equally well


class PackedWeight:
    """A weight in oneDNN's layout, which torch can neither copy nor store: a copy is laid out anew."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)

    def __reduce__(self) -> Any:
        return PackedWeight, (self.weight.to_dense(),)


class PackedLinear(nn.Module):
    """x W^T + b with W packed; the plain weight is given up."""

    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bytes_read = 4 * linear.weight.numel()
        self._layout, self.bias = PackedWeight(linear.weight.detach()), linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return torch.ops.mkldnn._linear_pointwise(x, self._layout.weight, self.bias, "none", [], "")


class Float16Linear(nn.Module):
    """x W^T + b with W rounded to float16; x, products and sums are float32. The plain weight is given up."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bytes_read = 2 * linear.weight.numel()
        self.weight: Any = torch.ops.quantized.linear_prepack_fp16(linear.weight.detach(), linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return torch.ops.quantized.linear_dynamic_fp16(x, self.weight)


class Int8Linear(nn.Module):
    """x W^T + b in whole numbers of 8 bits: W scaled row by row, and x row by row, so that no row depends on what is read with it."""

    weight: Any
    bias: Tensor | None
    edge: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach()
        self.bytes_read = weight.numel()
        scales = (weight.abs().amax(1).double() / 127).clamp(min=1e-30)
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        whole = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self.weight, self.bias = torch.ops.quantized.linear_prepack(whole, None), linear.bias
        # The products take their scale from the largest and the least entry of all rows: this row has both.
        edge = torch.zeros(1, self.in_features)
        edge[0, 0], edge[0, -1] = 1, -1
        self.register_buffer("edge", edge, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        rows = x.reshape(-1, self.in_features)
        largest = rows.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
        product = torch.ops.quantized.linear_dynamic(torch.cat((rows / largest, self.edge)), self.weight, True)
        product = product[:-1] * largest
        product = product if self.bias is None else product + self.bias
        return product.reshape(*x.shape[:-1], self.out_features)


def pack_draft(draft: nn.Module) -> int:
    """Replace the layers named in COARSE of a float32 draft on the CPU by such of 8 bits, in place; returns how many.

    0 where torch has no such products.
    """
    if not has_short_products():
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would have its other package used, which has no such kernels
        return _replace(draft, Int8Linear, lambda name, linear: name in COARSE)


def pack_float16(model: nn.Module, least: int = SMALL) -> int:
    """Round the weights of float32 linear layers on the CPU to float16, in place; returns how many layers.

    The model computes another law then, by the rounding of its weights (one part in 2048 of each at most). 0 where torch has no such
    products; layers of fewer than `least` weights, or with one beyond what float16 can hold, stay as they are.
    """
    if not has_short_products():
        return 0

    def chosen(name: str, linear: nn.Linear) -> bool:
        return linear.weight.numel() >= least and bool(linear.weight.abs().max() <= LARGEST)

    return _replace(model, Float16Linear, chosen)


def has_short_products() -> bool:
    """Whether torch multiplies by weights of 8 and 16 bits on this processor (x86)."""
    return "fbgemm" in torch.backends.quantized.supported_engines


def pack(model: nn.Module, least: int = SMALL) -> int:
    """Replace the float32 linear layers on the CPU by packed ones, in place; returns how many (0 where torch cannot).

    least: weights that a layer must have; a call costs more than packing gains below that. Products stay float32, summed in another order.
    """
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return 0
    return _replace(model, PackedLinear, lambda name, linear: linear.weight.numel() >= least)


def bytes_read(model: Any) -> int:
    """Bytes of weights that a pass of a few tokens reads: all, but of an embedding that is not the head, of which it reads some rows."""
    if hasattr(model, "bytes_read"):
        return int(model.bytes_read)
    modules = list(model.modules())
    heads = {id(module.weight) for module in modules if isinstance(module, nn.Linear)}
    rows = {id(module.weight) for module in modules if isinstance(module, nn.Embedding)} - heads
    plain = [weight for weight in (*model.parameters(), *model.buffers()) if id(weight) not in rows]
    packed = PackedLinear | Float16Linear | Int8Linear
    short = sum(module.bytes_read for module in modules if isinstance(module, packed))
    return short + sum(weight.numel() * weight.element_size() for weight in plain)


def _replace(
    model: nn.Module, made_of: Callable[[nn.Linear], nn.Module], chosen: Callable[[str, nn.Linear], bool]
) -> int:
    """Replace the float32 layers on the CPU that nobody has changed, and that are chosen by name and shape; returns how many."""
    count = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is not nn.Linear or child.weight.dtype != torch.float32 or child.weight.device.type != "cpu":
                continue
            if chosen(name, child):
                setattr(module, name, made_of(child))
                count += 1
    return count
