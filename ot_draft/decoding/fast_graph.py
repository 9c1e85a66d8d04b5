"""A Llama as graphs of OpenVINO, in which attention is a node of our own: it reads and writes a cache outside of them.

Products of 4 and 8 bits take rows rounded to 8 bits, group by group, or as floats; all else is float32. The least of a group of the file's
weights is a second product, with the sums of the row's groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import torch

from ..optional import load
from .fast_attention import kernels
from .fast_weights import MIDDLE, Weights
from .file_weights import GROUP
from .llama import head_width, rope_base

ov = load("openvino", "openvino")
from openvino import Op, opset13  # noqa: E402

WHOLE = np.iinfo(np.int32).max


@dataclass
class Pass:
    """State of the pass that runs, for attention: set before it, read by every layer's node.

    keys, values: (layers, cells, groups, width). cells: (R,) where the R tokens are written; found (R, most), counts (R,): what they see.
    """

    width: int
    base: float
    keys: Any = None
    values: Any = None
    cells: Any = None
    found: Any = None
    counts: Any = None
    cosines: Any = None
    sines: Any = None
    room: Any = field(default_factory=lambda: np.zeros(0, np.float32))
    powers: Any = field(default_factory=lambda: np.zeros(0, np.int32))
    frequencies: Any = None
    shapes: dict[int, Any] = field(default_factory=dict)  # of what attention gives, by width: every layer asks twice

    def __post_init__(self) -> None:
        self.frequencies = self.base ** -(np.arange(0, self.width, 2) / self.width)

    def shape_of(self, width: int) -> Any:
        """(R, width) in the pass that runs; before there is any, of any number of rows."""
        if width not in self.shapes:
            self.shapes[width] = ov.PartialShape([-1 if self.cells is None else len(self.cells), width])
        return self.shapes[width]

    def begin(self, keys: Any, values: Any, cells: Any, positions: Any, sees: Any, slots_per_row: int) -> None:
        """sees: bool (B or 1, T, live); positions, cells: (R,)."""
        self.keys, self.values, self.cells = keys, values, cells
        self.shapes.clear()
        live = sees.shape[-1]
        self.found, self.counts = np.zeros((len(cells), live), np.int64), np.zeros(len(cells), np.int64)
        kernels()[0](sees, slots_per_row, self.found, self.counts)
        if len(self.room) < live:
            self.room, self.powers = np.zeros(live, np.float32), np.zeros(live, np.int32)
        angles = np.outer(positions, self.frequencies)
        self.cosines, self.sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def attend(self, number: int, qkv: Any, out: Any) -> None:
        """Of layer `number`."""
        at = self.keys[number], self.values[number]
        kernels()[1](
            qkv, *at, self.cells, self.found, self.counts, self.cosines, self.sines, self.room, self.powers, out
        )


class Attention(Op):
    """Queries, keys and values (R, ...) of a layer to what it attends to, (R, heads * width)."""

    def __init__(self, inputs: Any, now: Pass, number: int, width: int) -> None:
        super().__init__(self)
        self.now, self.number, self.width = now, number, width
        self._for_shapes: Attention | None = None
        self.set_arguments(inputs)
        self.constructor_validate_and_infer_types()

    def validate_and_infer_types(self) -> None:
        self.set_output_type(0, ov.Type.f32, self.now.shape_of(self.width))

    def clone_with_new_inputs(self, inputs: Any) -> Attention:
        """Another one for a graph that is being made; one and the same for passes, which ask it for shapes and let it go.

        OpenVINO's nodes in Python are never freed: a new one for every pass of another number of rows would be so many more.
        """
        if self.now.cells is None:
            return Attention(inputs, self.now, self.number, self.width)
        if self._for_shapes is None:
            self._for_shapes = Attention(inputs, self.now, self.number, self.width)
        return (
            self._for_shapes
        )  # with the inputs of that time, which nobody reads: OpenVINO has it infer its shape anew

    def has_evaluate(self) -> bool:
        return True

    def visit_attributes(self, visitor: Any) -> bool:
        return True

    def evaluate(self, outputs: Any, inputs: Any) -> bool:
        self.now.attend(self.number, inputs[0].data, outputs[0].data)
        return True


def integers(*values: int) -> Any:
    """A constant."""
    return opset13.constant(np.array(values, np.int64))


def in_4_bits(codes: Any) -> Any:
    """A constant of the whole numbers codes - MIDDLE, of codes 0 .. 15 in uint8: two share a byte, the first the lower half."""
    flat = codes.reshape(-1) ^ MIDDLE  # which in four bits is the difference
    pairs = np.pad(flat, (0, len(flat) % 2)).reshape(-1, 2)
    tensor = ov.Tensor(ov.Type.i4, ov.Shape(list(codes.shape)))  # which owns its memory; the constant shares it
    tensor.data.reshape(-1)[:] = (pairs[:, 0] | (pairs[:, 1] << 4)).view(tensor.data.dtype)
    return opset13.constant(tensor)


def cut(x: Any, start: int, end: int) -> Any:
    """Columns of (R, width)."""
    return opset13.slice(x, integers(start), integers(end), integers(1), integers(1))


def product(x: Any, parts: Sequence[Any]) -> Any:
    """x (R, in) times the weights of layers that read the same rows, side by side."""
    if len({part.kind for part in parts}) > 1:
        return opset13.concat([product(x, [part]) for part in parts], 1)
    whole = reduce(lambda one, other: one.beside(other), parts)
    if not isinstance(whole, Weights):
        return opset13.matmul(x, opset13.constant(whole.values), False, True)
    found = opset13.matmul(x, _unpacked(whole), False, True)
    if whole.least is None:
        return found
    groups = whole.codes.shape[1]
    sums = opset13.reduce_sum(opset13.reshape(x, integers(-1, groups, GROUP), False), integers(2), False)
    return opset13.add(found, opset13.matmul(sums, opset13.constant(whole.least), False, True))


def _unpacked(weights: Weights) -> Any:
    """Floats (out, in) without the groups' least, which OpenVINO makes of the packed ones in its product.

    Signed codes, of which nothing is subtracted: a group's own zero takes a product of one to eight rows a quarter longer.
    """
    codes = opset13.constant(weights.codes) if weights.codes.dtype == np.int8 else in_4_bits(weights.codes)
    scales = opset13.convert(opset13.constant(weights.scales[..., None]), ov.Type.f32)
    return opset13.reshape(
        opset13.multiply(opset13.convert(codes, ov.Type.f32), scales), integers(len(weights.scales), -1), False
    )


def unit(x: Any, epsilon: float) -> Any:
    """Rows brought to mean square 1."""
    square = opset13.reduce_mean(opset13.multiply(x, x), integers(-1), True)
    root = opset13.power(opset13.add(square, opset13.constant(np.float32(epsilon))), opset13.constant(np.float32(-0.5)))
    return opset13.multiply(x, root)


def norm(x: Any, weight: Any, epsilon: float) -> Any:
    """The same times a weight."""
    return opset13.multiply(unit(x, epsilon), opset13.constant(weight))


class Layers:
    """The layers of a Llama. now: what their attention is told before a pass."""

    def __init__(self, weights: Any, config: Any, count: int) -> None:
        self.weights, self.config, self.count = weights, config, count
        self.width, self.bytes_read = head_width(config), 0
        self.now = Pass(self.width, rope_base(config))

    def part(self, x: Any, *names: str) -> Any:
        """A product with the layers of these names."""
        layers = [self.weights.layer(name) for name in names]
        self.bytes_read += sum(layer.bytes_read for layer in layers)
        return product(x, layers)

    def normed(self, x: Any, name: str) -> Any:
        """A norm by its name."""
        return norm(x, self.weights.tensor(f"{name}.weight"), self.config.rms_norm_eps)

    def through(self, x: Any) -> list[Any]:
        """x (R, width), and what comes out of each layer."""
        found = [x]
        for number in range(self.count):
            found.append(self._layer(found[-1], number))
        return found

    def _layer(self, x: Any, number: int) -> Any:
        name = f"model.layers.{number}"
        heads = self.config.num_attention_heads * self.width
        qkv = self.part(self.normed(x, f"{name}.input_layernorm"), *(f"{name}.self_attn.{each}_proj" for each in "qkv"))
        attention = Attention([qkv.output(0)], self.now, number, heads)
        x = opset13.add(x, self.part(attention.output(0), f"{name}.self_attn.o_proj"))
        both = self.part(
            self.normed(x, f"{name}.post_attention_layernorm"), f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj"
        )
        inner = self.config.intermediate_size
        raised = opset13.multiply(opset13.swish(cut(both, 0, inner)), cut(both, inner, 2 * inner))
        return opset13.add(x, self.part(raised, f"{name}.mlp.down_proj"))


def rows_in(width: int) -> Any:
    """An input of rows of so many numbers."""
    return opset13.parameter([-1, width], ov.Type.f32)


def places_in() -> Any:
    """An input of numbers of rows."""
    return opset13.parameter([-1], ov.Type.i64)


def chosen(x: Any, places: Any) -> Any:
    """Rows of these numbers."""
    return opset13.gather(x, places, integers(0))


class Compiled:
    """A graph that can be asked. group: rows of products of 4 and 8 bits are rounded to 8 bits in groups of so many; 0: kept as floats."""

    def __init__(self, outputs: Sequence[Any], inputs: Sequence[Any], group: int) -> None:
        settings = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,  # else every process has its threads on the first processors, beside those of all others
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": group,
        }
        self._request = (
            ov.Core().compile_model(ov.Model(list(outputs), list(inputs)), "CPU", settings).create_infer_request()
        )
        self._outputs = range(len(outputs))

    def __call__(self, *inputs: Any) -> list[torch.Tensor]:
        """Tensors in memory of their own."""
        arrays = [np.ascontiguousarray(given) for given in inputs]  # which live until the graph has read them
        for number, given in enumerate(arrays):  # one by one: `infer` takes .2 ms to look through a list
            self._request.set_input_tensor(number, ov.Tensor(given, shared_memory=True))
        self._request.infer()
        return [torch.from_numpy(self._request.get_output_tensor(number).data.copy()) for number in self._outputs]
