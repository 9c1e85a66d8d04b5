"""What makes passes of few tokens cheap on a CPU: attention without copies, products made together, weights laid out once or in fewer bits.

transformers copies the keys and values of the context for every head of a group wherever a mask is given and several tokens are read: for a
drafted tree, but not for the one token of plain decoding. Layers that read the same rows (q, k and v; gate and up) are one product here.

The few rows of a tree are too few to pay for rearranging a weight matrix in every call: it is laid out once, as oneDNN wants it. With few
rows the time is that of reading the weights: in 16 bits they are half as many bytes, and products and sums stay float32. A draft may be
coarser, 8 bits: its law q is whatever it computes, so that nothing is lost but acceptance. Measured at 480 places of real texts,
temperature 1 and .6: sum min(p, q) .394 and .381 with weights of 32 bits, .394 and .384 with the layers of COARSE in 8. (With `down_proj`
too, whose inputs have outliers, .391 and .379.)
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

GROUPED = "ot_draft_grouped"  # among transformers' kinds of attention
OTHERS = ("position_bias", "softcap", "cache")  # what transformers' own function has to see to


def group_heads(model: nn.Module) -> bool:
    """Let a model on the CPU read trees so, in place; returns whether it does. One of other attention than `sdpa` is left as it is."""
    weights = next(model.parameters(), None)
    if weights is None or weights.device.type != "cpu" or not register():
        return False
    configs: list[Any] = [module.config for module in model.modules() if hasattr(module, "config")]
    grouped = [config for config in configs if getattr(config, "_attn_implementation", None) == "sdpa"]
    for config in grouped:
        config._attn_implementation = GROUPED
    return bool(grouped)


def register() -> bool:
    """Make it known to transformers, in this process; returns whether that can know it, which old ones cannot."""
    if importlib.util.find_spec("transformers") is None:
        return False
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError:
        return False
    AttentionInterface.register(GROUPED, grouped_attention)
    AttentionMaskInterface.register(GROUPED, sdpa_mask)
    return True


def grouped_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """query (B, heads, T, width), key and value (B, groups, S, width), mask (B or 1, 1, T, S): (B, T, heads, width)."""
    if attention_mask is None or module.training or any(options.get(name) is not None for name in OTHERS):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    shared = query.shape[1] != key.shape[1]
    scale = options.get("scaling")
    found = scaled_dot_product_attention(query, key, value, attention_mask, scale=scale, enable_gqa=shared)
    return found.transpose(1, 2).contiguous(), None


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


COARSE = ("head", "lm_head", "gate_proj", "up_proj")  # of a draft: its largest matrices
SMALL = 2**18  # weights: one row through 192 x 576 takes 22 microseconds as it is and 59 packed, on one core
LARGEST = torch.finfo(torch.float16).max
ROWS = 16  # the number of rows that the layout is made for; it serves 1 to 512 about equally well


class Layout:
    """A weight in oneDNN's layout, which torch can neither copy nor store: a copy is laid out anew."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)

    def __reduce__(self) -> Any:
        return Layout, (self.weight.to_dense(),)


class PackedLinear(nn.Module):
    """x W^T + b with W packed; the plain weight is given up."""

    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bytes_read = 4 * linear.weight.numel()
        self._layout, self.bias = Layout(linear.weight.detach()), linear.bias

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


def bytes_read(model: nn.Module) -> int:
    """Bytes of weights that a pass of a few tokens reads: all, but of an embedding that is not the head, of which it reads some rows."""
    modules = list(model.modules())
    heads = {id(module.weight) for module in modules if isinstance(module, nn.Linear)}
    rows = {id(module.weight) for module in modules if isinstance(module, nn.Embedding)} - heads
    plain = [weight for weight in (*model.parameters(), *model.buffers()) if id(weight) not in rows]
    short = sum(
        module.bytes_read for module in modules if isinstance(module, PackedLinear | Float16Linear | Int8Linear)
    )
    return short + sum(weight.numel() * weight.element_size() for weight in plain)


def _replace(
    model: nn.Module, made_of: Callable[[nn.Linear], nn.Module], chosen: Callable[[str, nn.Linear], bool]
) -> int:
    """Replace the plain layers that are chosen by name and shape; returns how many, where those that read the same rows are one."""
    join(model)
    made: dict[nn.Module, nn.Module] = {}  # by the layer, which may be the child of several
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if is_plain(child) and chosen(name, child):
                made[child] = made[child] if child in made else made_of(child)
                setattr(module, name, made[child])
    return len(made)
