"""A Llama as OpenVINO graphs with a custom attention node, which reads and writes a cache outside the graphs.

A few numbers of rows have separate graphs with static shapes. A graph with dynamic shapes infers the shape of every node in every pass, and
is specialised again whenever the number of rows changes.

Products with 4- and 8-bit weights use activations rounded to 8 bits, group by group, or float activations; all else is float32. Group
offsets of the file's weights are a second product, with the sums of the activations of each group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from typing import Any

import numpy as np
import torch

from llm_demo.backends.fast_attention import kernels
from llm_demo.backends.fast_weights import GROUP, MIDDLE, Weights
from llm_demo.backends.llama import head_width, rope_base
from ot_draft.optional import load

ov = load("openvino", "openvino")
from openvino import Op, opset13  # noqa: E402

WHOLE = np.iinfo(np.int32).max


@dataclass
class Pass:
    """State of the current forward pass for attention: set before the pass, read by the node of every layer.

    width: width of a head. together: number of heads that share keys. keys, values: (layers, cells, groups, width). cells: (R,), to which
    the R tokens are written. found (R, most), counts (R,): cells that they attend to.
    """

    width: int
    together: int
    base: float
    keys: Any = None
    values: Any = None
    cells: Any = None
    found: Any = None
    counts: Any = None
    cosines: Any = None
    sines: Any = None
    room: Any = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    powers: Any = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    frequencies: Any = None
    shapes: dict[int, Any] = field(default_factory=dict)  # shapes of attention's output, by width

    def __post_init__(self) -> None:
        self.frequencies = self.base ** -(np.arange(0, self.width, 2) / self.width)

    def shape_of(self, width: int) -> Any:
        """Return the shape (R, width) in the current pass; before the first pass R is dynamic."""
        if width not in self.shapes:
            self.shapes[width] = ov.PartialShape([-1 if self.cells is None else len(self.cells), width])
        return self.shapes[width]

    def begin(
        self, keys: Any, values: Any, cells: Any, positions: Any, attention_mask: Any, slots_per_row: int
    ) -> None:
        """Set the state of a pass. attention_mask: bool (B or 1, T, live). positions, cells: (R,)."""
        self.keys, self.values, self.cells = keys, values, cells
        self.shapes.clear()
        live = attention_mask.shape[-1]
        self.found, self.counts = np.zeros((len(cells), live), np.int64), np.zeros(len(cells), np.int64)
        kernels(self.width, self.together)[0](attention_mask, slots_per_row, self.found, self.counts)
        if self.room.shape[1] < live:
            shape = self.together, live
            self.room, self.powers = np.zeros(shape, np.float32), np.zeros(shape, np.int32)
        angles = np.outer(positions, self.frequencies)
        self.cosines, self.sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def attend(self, number: int, qkv: Any, out: Any) -> None:
        """Compute attention of layer `number`."""
        at = self.keys[number], self.values[number]
        kernels(self.width, self.together)[1](
            qkv, *at, self.cells, self.found, self.counts, self.cosines, self.sines, self.room, self.powers, out
        )


class Attention(Op):
    """Attention node of a layer: queries, keys and values (R, ...) to outputs (R, heads * width)."""

    def __init__(self, inputs: Any, now: Pass, number: int, width: int, rows: int | None = None) -> None:
        """rows: R, or None for a graph with a dynamic number of rows."""
        super().__init__(self)
        self.now, self.number, self.width, self.rows = now, number, width, rows
        self._for_shapes: Attention | None = None
        self.set_arguments(inputs)
        self.constructor_validate_and_infer_types()

    def validate_and_infer_types(self) -> None:
        known = self.now.shape_of(self.width) if self.rows is None else ov.PartialShape([self.rows, self.width])
        self.set_output_type(0, ov.Type.f32, known)

    def clone_with_new_inputs(self, inputs: Any) -> Attention:
        """Return a new node while a graph is built, and always the same node for shape inference during passes.

        OpenVINO never frees nodes in Python, so that a new node per pass would be a memory leak.
        """
        if self.rows is not None or self.now.cells is None:
            return Attention(inputs, self.now, self.number, self.width, self.rows)
        if self._for_shapes is None:
            self._for_shapes = Attention(inputs, self.now, self.number, self.width)
        return self._for_shapes  # its inputs are outdated but unused: OpenVINO only infers its shape

    def has_evaluate(self) -> bool:
        return True

    def visit_attributes(self, visitor: Any) -> bool:
        return True

    def evaluate(self, outputs: Any, inputs: Any) -> bool:
        self.now.attend(self.number, inputs[0].data, outputs[0].data)
        return True


def integers(*values: int) -> Any:
    """Return a constant of integers."""
    return opset13.constant(np.array(values, np.int64))


def in_4_bits(codes: Any) -> Any:
    """Return a 4-bit tensor of codes - MIDDLE, from codes 0 .. 15 in uint8; the first of two is the lower half of a byte."""
    flat = codes.reshape(-1) ^ MIDDLE  # equals the difference in 4-bit two's complement
    pairs = np.pad(flat, (0, len(flat) % 2)).reshape(-1, 2)
    tensor = ov.Tensor(ov.Type.i4, ov.Shape(list(codes.shape)))
    tensor.data.reshape(-1)[:] = (pairs[:, 0] | (pairs[:, 1] << 4)).view(tensor.data.dtype)
    return tensor


def cut(x: Any, start: int, end: int) -> Any:
    """Return columns start .. end of (R, width)."""
    return opset13.slice(x, integers(start), integers(end), integers(1), integers(1))


class Product:
    """Product of rows with the concatenated weights of layers that have the same input. Graphs share the memory of the weights."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._each = [Product([part]) for part in parts] if len({part.kind for part in parts}) > 1 else []
        if self._each:
            return
        whole, self._least = reduce(lambda one, other: one.beside(other), parts), None
        if not isinstance(whole, Weights):
            self._codes, self._scales = ov.Tensor(whole.values), None
            return
        codes, self._groups = whole.codes, whole.codes.shape[1]
        self._codes = ov.Tensor(codes) if codes.dtype == np.int8 else in_4_bits(codes)
        self._scales = ov.Tensor(whole.scales[..., None].astype(np.float32))
        if whole.least is not None:
            self._least = ov.Tensor(whole.least)

    def __call__(self, x: Any) -> Any:
        """Return the product with x, (R, in)."""
        if self._each:
            return opset13.concat([each(x) for each in self._each], 1)
        found = opset13.matmul(x, self._floats(), False, True)
        if self._least is None:
            return found
        sums = opset13.reduce_sum(opset13.reshape(x, integers(-1, self._groups, GROUP), False), integers(2), False)
        return opset13.add(found, opset13.matmul(sums, opset13.constant(self._least), False, True))

    def _floats(self) -> Any:
        """Return float weights (out, in) without group offsets; OpenVINO converts the packed weights within its product.

        Codes are signed without zero points: with zero points per group a product of one to eight rows takes a quarter longer.
        """
        codes = opset13.constant(self._codes)
        if self._scales is None:
            return codes
        scaled = opset13.multiply(opset13.convert(codes, ov.Type.f32), opset13.constant(self._scales))
        return opset13.reshape(scaled, integers(self._scales.shape[0], -1), False)


def unit(x: Any, epsilon: float) -> Any:
    """Return rows scaled to mean square 1."""
    square = opset13.reduce_mean(opset13.multiply(x, x), integers(-1), True)
    root = opset13.power(opset13.add(square, opset13.constant(np.float32(epsilon))), opset13.constant(np.float32(-0.5)))
    return opset13.multiply(x, root)


def norm(x: Any, weight: Any, epsilon: float) -> Any:
    """Return RMS-normalised rows times a weight."""
    return opset13.multiply(unit(x, epsilon), opset13.constant(weight))


class Layers:
    """The layers of a Llama. now: state of the current pass for attention."""

    def __init__(self, weights: Any, config: Any, count: int) -> None:
        self.weights, self.config, self.count = weights, config, count
        self.width, self.bytes_read = head_width(config), 0
        together = config.num_attention_heads // config.num_key_value_heads
        self.now = Pass(self.width, together, rope_base(config))
        self._products: dict[tuple[str, ...], Product] = {}

    def forget(self) -> None:
        """Free the weights after the graphs have been built."""
        self.weights = None
        self._products.clear()

    def part(self, x: Any, *names: str) -> Any:
        """Return the product with the layers of these names."""
        if names not in self._products:
            layers = [self.weights.layer(name) for name in names]
            self.bytes_read += sum(layer.bytes_read for layer in layers)
            self._products[names] = Product(layers)
        return self._products[names](x)

    def normed(self, x: Any, name: str) -> Any:
        """Return x after the norm of this name."""
        return norm(x, self.weights.tensor(f"{name}.weight"), self.config.rms_norm_eps)

    def through(self, x: Any, rows: int | None) -> list[Any]:
        """Return x (R, width), and the output of each layer. rows: R, or None if it is dynamic."""
        found = [x]
        for number in range(self.count):
            found.append(self._layer(found[-1], number, rows))
        return found

    def _layer(self, x: Any, number: int, rows: int | None) -> Any:
        name = f"model.layers.{number}"
        heads = self.config.num_attention_heads * self.width
        qkv = self.part(self.normed(x, f"{name}.input_layernorm"), *(f"{name}.self_attn.{each}_proj" for each in "qkv"))
        attention = Attention([qkv.output(0)], self.now, number, heads, rows)
        x = opset13.add(x, self.part(attention.output(0), f"{name}.self_attn.o_proj"))
        both = self.part(
            self.normed(x, f"{name}.post_attention_layernorm"), f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj"
        )
        inner = self.config.intermediate_size
        raised = opset13.multiply(opset13.swish(cut(both, 0, inner)), cut(both, inner, 2 * inner))
        return opset13.add(x, self.part(raised, f"{name}.mlp.down_proj"))


def rows_in(width: int) -> Any:
    """Return an input of rows of this width."""
    return opset13.parameter([-1, width], ov.Type.f32)


def places_in() -> Any:
    """Return an input of row indices."""
    return opset13.parameter([-1], ov.Type.i64)


def chosen(x: Any, places: Any) -> Any:
    """Return the rows with these indices."""
    return opset13.gather(x, places, integers(0))


Make = Callable[..., Sequence[Any]]  # (rows, *inputs) -> outputs; rows: R, or None if it is dynamic


def _one_graph(make: Make, inputs: Sequence[Callable[[], Any]], rows: int | None) -> Any:
    taken = [new() for new in inputs]
    known = taken
    if rows is not None:
        known = [
            x
            if len(x.partial_shape) < 2
            else opset13.reshape(x, integers(rows, x.partial_shape[1].get_length()), False)
            for x in taken
        ]
    return ov.Model(list(make(rows, *known)), taken)


def _graph(make: Make, inputs: Sequence[Callable[[], Any]], fitted: Sequence[int]) -> Any:
    """Return a graph with a dynamic number of rows, and with static branches for each of the fitted numbers."""
    if not fitted:
        return _one_graph(make, inputs, None)
    one, others = _one_graph(make, inputs, fitted[0]), _graph(make, inputs, fitted[1:])
    taken = [new() for new in inputs]
    rows = opset13.gather(opset13.shape_of(taken[0]), integers(0), integers(0))
    either = opset13.if_op(opset13.equal(rows, integers(fitted[0])).output(0))
    either.set_then_body(one)
    either.set_else_body(others)
    for x, of_one, of_others in zip(taken, one.get_parameters(), others.get_parameters(), strict=True):
        either.set_input(x.output(0), of_one, of_others)
    results = zip(one.get_results(), others.get_results(), strict=True)
    return ov.Model([either.set_output(of_one, of_others) for of_one, of_others in results], taken)


class Compiled:
    """A compiled graph.

    make(rows, *inputs): returns its outputs. inputs: factories of the inputs, rows first. group: group size for rounding the activations
    of products with 4- and 8-bit weights to 8 bits; 0: float activations. fitted: numbers of rows with a separate graph.
    """

    def __init__(self, make: Make, inputs: Sequence[Callable[[], Any]], group: int, fitted: Sequence[int] = ()) -> None:
        graph = _graph(make, inputs, fitted)
        settings = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,  # otherwise the threads of all processes share the first cores
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": group,
        }
        self._request = ov.Core().compile_model(graph, "CPU", settings).create_infer_request()
        self._outputs = range(len(graph.outputs))

    def __call__(self, *inputs: Any) -> list[torch.Tensor]:
        """Return the outputs as copies."""
        arrays = [np.ascontiguousarray(given) for given in inputs]  # kept alive until the graph has read them
        for number, given in enumerate(arrays):  # set individually, because `infer` takes 0.2 ms to parse a list
            self._request.set_input_tensor(number, ov.Tensor(given, shared_memory=True))
        self._request.infer()
        return [torch.from_numpy(self._request.get_output_tensor(number).data.copy()) for number in self._outputs]


@cache
def quantizes_activations() -> bool:
    """Return whether OpenVINO rounds activations to 8 bits on this CPU when `group` asks for it.

    On CPUs without the instructions (AVX-512, AVX-VNNI or AMX), OpenVINO ignores DYNAMIC_QUANTIZATION_GROUP_SIZE without an error. Where
    ONEDNN_MAX_CPU_ISA forbids the instructions that the CPU has, such a product raises RuntimeError or is an empty array. So one product
    of 4-bit weights and one of 8-bit weights are computed both ways and compared.
    """
    random = np.random.default_rng(0)
    scales = np.full((GROUP, 1), 0.01, np.float16)
    layers = [
        Weights(random.integers(0, 16, (GROUP, 1, GROUP), np.uint8), scales),
        Weights(random.integers(-127, 128, (GROUP, 1, GROUP)).astype(np.int8), scales),
    ]
    activations = random.standard_normal((1, GROUP)).astype(np.float32)

    def products(group: int) -> list[torch.Tensor]:
        graph = Compiled(lambda _, x: [Product([each])(x) for each in layers], [partial(rows_in, GROUP)], group)
        return graph(activations)

    try:
        in_groups = products(GROUP)
    except RuntimeError:
        return False
    # Rounding to 8 bits changes a product by about 0.5 %, another order of summation by about 1e-7.
    return any(
        rounded.shape == exact.shape and bool((rounded - exact).abs().max() > 1e-4 * exact.abs().max())
        for rounded, exact in zip(in_groups, products(0), strict=True)
    )
