"""Matrix products with 4-bit weights by library: `python -m llm_demo.bench.products --out figures/data/bench_products_cpu.csv`.

The products have the shapes of all linear layers of the embedded target, including its head, with random 4-bit weights in groups of 32 that
share a scale. The input of every product is the output of the previous one, cut to the required width. A pass over 1, 2, ... rows thus
reads all weights once, in order, from memory and not from the processor's cache. Each library runs in a separate process, one at a time,
and the processes are repeated; libraries that are not installed are omitted.

* `made_s`: seconds from the codes to the end of the first pass, including the import of the library.
* `equal_from`: smallest number of rows from which on the first row of the result is bitwise identical for all numbers of rows; 1: always.
* `off`: root mean square difference of the first row from float32 products, divided by the root mean square of the latter.
* Milliseconds and `changed_ms`: as in `llm_demo.bench.backends`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click
import numpy as np
import torch

from llm_demo.backends.fast_weights import GROUP, MIDDLE, Weights
from llm_demo.bench.backends import Times, in_turns, note, quartiles, size_of, timed
from llm_demo.machine import machine
from llm_demo.rows import Row, write
from ot_draft.cli import progress_bar

OUT = Path("figures/data/bench_products_cpu.csv")
ROWS = (1, 2, 4, 8, 16, 32)
SEED = 48
Pass = Callable[[np.ndarray], np.ndarray]  # rows (R, width) -> outputs of the head (R, n), float32


@dataclass(frozen=True)
class Shapes:
    """Shapes of a Llama. keys: number of outputs for queries, keys and values together. n: number of outputs of the head."""

    layers: int
    width: int
    keys: int
    inner: int
    n: int

    def all(self) -> Iterator[tuple[int, int]]:
        """Yield (outputs, inputs) in the order of a forward pass."""
        for _ in range(self.layers):
            yield from (
                (self.keys, self.width),
                (self.width, self.width),
                (2 * self.inner, self.width),
                (self.width, self.inner),
            )
        yield self.n, self.width


SMOLLM2_135M = Shapes(30, 576, 960, 1536, 49152)


def random_weights(shapes: Shapes, seed: int) -> list[Weights]:
    """Return random weights whose outputs are about as large as their inputs."""
    random, made = np.random.default_rng(seed), list[Weights]()
    for outputs, inputs in shapes.all():
        codes = random.integers(1, 2 * MIDDLE, (outputs, inputs // GROUP, GROUP), np.uint8)  # of mean MIDDLE
        spread = random.uniform(0.75, 1.25, codes.shape[:2]) / (codes[:8].std() * inputs**0.5)
        made.append(Weights(codes, spread.astype(np.float16)))
    return made


def floats(weights: Weights) -> torch.Tensor:
    """Return the weights as float32 (outputs, inputs)."""
    signed = weights.codes.astype(np.float32) - MIDDLE
    return torch.from_numpy((signed * weights.scales.astype(np.float32)[..., None]).reshape(len(signed), -1))


def width(weights: Weights) -> int:
    """Return the number of inputs."""
    return int(weights.codes.shape[1]) * GROUP


def in_order(
    products: Sequence[tuple[int, Callable[[torch.Tensor], torch.Tensor]]], dtype: torch.dtype = torch.float32
) -> Pass:
    """Return a pass of torch products, given with their numbers of inputs; dtype: of the activations."""

    @torch.inference_mode()
    def one_pass(rows: np.ndarray) -> np.ndarray:
        x = torch.from_numpy(rows).to(dtype)
        for inputs, product in products:
            x = product(x[:, :inputs].contiguous())
        return x.float().numpy()

    return one_pass


def by_float32(weights: Sequence[Weights]) -> Pass:
    """Return a pass of torch with float32 weights."""
    linear = torch.nn.functional.linear
    return in_order([(width(each), partial(linear, weight=floats(each))) for each in weights])


def by_torch(weights: Sequence[Weights]) -> Pass:
    """Return a pass of torch's 4-bit products on a CPU, which torchao calls, with bfloat16 activations.

    torch has fast kernels for bfloat16 only: with float32 activations a product takes thirty times as long.
    """

    # Used for this measurement only, because these are private operators of torch.
    pack, multiply = torch.ops.aten._convert_weight_to_int4pack_for_cpu, torch.ops.aten._weight_int4pack_mm_for_cpu

    def product(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = multiply(x, packed, GROUP, scales)
        return found

    made = []
    for each in weights:
        codes = torch.from_numpy(each.codes.reshape(len(each.codes), -1)).int()
        packed = pack(codes, 1)
        scales = torch.from_numpy(each.scales).T.bfloat16()
        scales = torch.stack(
            (scales, torch.zeros_like(scales)), -1
        ).contiguous()  # a weight is scale * (code - 8) + zero
        made.append((width(each), partial(product, packed=packed, scales=scales)))
    return in_order(made, torch.bfloat16)


def by_openvino(weights: Sequence[Weights], exact: bool) -> Pass:
    """Return an OpenVINO graph, as in the backends. exact: with float activations, else with 8-bit activations."""
    from llm_demo.backends.fast_graph import Compiled, Product, cut, quantizes_activations, rows_in

    def make(_: int | None, x: Any) -> list[Any]:
        before = width(weights[0])
        for each in weights:
            x = Product([each])(x if before == width(each) else cut(x, 0, width(each)))
            before = len(each.codes)
        return [x]

    group = 0 if exact or not quantizes_activations() else GROUP
    graph = Compiled(make, [partial(rows_in, width(weights[0]))], group)
    return lambda rows: graph(rows)[0].numpy()


def by_onnxruntime(weights: Sequence[Weights], exact: bool) -> Pass:
    """Return an ONNX graph of operators MatMulNBits. exact: with float activations, else 8 bits are allowed (`accuracy_level` 4)."""
    import onnx
    import onnxruntime
    from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
    from onnx.numpy_helper import from_array

    constants, nodes, x = dict[str, np.ndarray](), list[Any](), "rows"
    before, number = width(weights[0]), onnx.TensorProto.FLOAT
    for index, each in enumerate(weights):
        outputs, inputs = len(each.codes), width(each)
        if before != inputs:
            ends = {"start": 0, f"end_{inputs}": inputs, "axis": 1}
            constants |= {name: np.array([value], np.int64) for name, value in ends.items()}
            nodes.append(make_node("Slice", [x, *ends], [f"cut_{index}"]))
            x = f"cut_{index}"
        given = {
            f"codes_{index}": each.codes[..., ::2] | (each.codes[..., 1::2] << 4),
            f"scales_{index}": each.scales.astype(np.float32),
        }
        settings = {"K": inputs, "N": outputs, "bits": 4, "block_size": GROUP, "accuracy_level": 1 if exact else 4}
        nodes.append(make_node("MatMulNBits", [x, *given], [f"out_{index}"], domain="com.microsoft", **settings))
        constants |= given
        x, before = f"out_{index}", outputs
    ends_of = [("rows", width(weights[0])), (x, before)]
    entered, left = (make_tensor_value_info(name, number, ["R", size]) for name, size in ends_of)
    graph = make_graph(
        nodes, "products", [entered], [left], [from_array(each, name) for name, each in constants.items()]
    )
    model = make_model(graph, opset_imports=[make_opsetid("", 17), make_opsetid("com.microsoft", 1)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])

    def one_pass(rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = session.run(None, {"rows": rows})[0]
        return found

    return one_pass


@dataclass(frozen=True)
class Library:
    """A library. needs: required modules. packages: required distributions in addition to torch."""

    make: Callable[[Sequence[Weights]], Pass]
    needs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def installed(self) -> bool:
        """Whether all required modules are installed."""
        return all(find_spec(module) is not None for module in self.needs)


OPENVINO = ("openvino", "numba"), ("openvino", "openvino-telemetry")
ONNX = ("onnx", "onnxruntime"), ("onnxruntime", "flatbuffers", "protobuf")
LIBRARIES = {
    "torch, float32 weights": Library(by_float32),
    "torch, bfloat16 rows": Library(by_torch),
    "OpenVINO, float rows": Library(partial(by_openvino, exact=True), *OPENVINO),
    "OpenVINO, 8-bit rows": Library(partial(by_openvino, exact=False), *OPENVINO),
    "ONNX Runtime, float rows": Library(partial(by_onnxruntime, exact=True), *ONNX),
    "ONNX Runtime, 8-bit rows": Library(partial(by_onnxruntime, exact=False), *ONNX),
}


def equal_from(first: dict[int, np.ndarray]) -> int:
    """Return the smallest number of rows from which on the first row is bitwise identical."""
    numbers = sorted(first)
    found = numbers[-1]
    for number in reversed(numbers):
        if not np.array_equal(first[number], first[numbers[-1]]):
            break
        found = number
    return found


def measured(name: str, threads: int, visits: int, shapes: Shapes = SMOLLM2_135M) -> tuple[Times, int, float]:
    """Return the measurements of one process: times, `equal_from` and `off`."""
    torch.set_num_threads(threads)
    weights = random_weights(shapes, SEED)
    x = np.random.default_rng(SEED).standard_normal((max(ROWS), shapes.width), np.float32)
    began = perf_counter(), process_time()
    one_pass = LIBRARIES[name].make(weights)
    one_pass(x[:1])
    found = {"made_s": [perf_counter() - began[0]], "cpu_made_s": [process_time() - began[1]]}
    first = {rows: one_pass(x[:rows])[0].copy() for rows in ROWS}
    for _ in range(visits):
        for rows in ROWS:
            work = partial(one_pass, x[:rows])
            changed, again = timed(work), timed(work)
            note(found, f"ms_{rows}", again)
            note(found, "changed_ms", (changed[0] - again[0], changed[1] - again[1]))
    return found, equal_from(first), off(first[1], weights, x[:1])


def off(first: np.ndarray, weights: Sequence[Weights], row: np.ndarray) -> float:
    """Return the relative root mean square difference of a row's outputs from those of float32 products."""
    wanted = row
    for each in weights:  # one in memory at a time
        wanted = by_float32([each])(wanted)
    return float(np.sqrt(np.square(first - wanted[0]).mean() / np.square(wanted).mean()))


@click.command()
@click.option("--out", default=OUT, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--threads", multiple=True, default=(1, 2), show_default=True, type=click.IntRange(1))
@click.option("--turns", default=2, show_default=True, type=click.IntRange(1), help="Number of processes per library.")
@click.option(
    "--visits", default=6, show_default=True, type=click.IntRange(1), help="Rounds over all sizes per process."
)
def main(out: Path, threads: tuple[int, ...], turns: int, visits: int) -> None:
    """Measure all libraries, write OUT and print the table."""
    names = [name for name, library in LIBRARIES.items() if library.installed]
    if left := [name for name in LIBRARIES if name not in names]:
        click.echo(f"not installed: {'; '.join(left)}", err=True)
    kinds = [(name, count) for count in threads for name in names]
    where, times = machine(), {kind: Times() for kind in kinds}
    rest: dict[tuple[str, int], Row] = {}
    with progress_bar(turns * len(kinds), "processes") as advance:
        for kind, (found, equal, distance) in in_turns(measured, kinds, turns, visits):
            for column, several in found.items():
                times[kind].setdefault(column, []).extend(several)
            rest[kind] = {"equal_from": max(equal, rest.get(kind, {}).get("equal_from", 1)), "off": f"{distance:.2g}"}
            advance()
    rows = []
    for kind in kinds:
        row: Row = {"library": kind[0], "threads": kind[1]} | quartiles(times[kind]) | rest[kind]
        row |= {"packages_mb": f"{size_of(LIBRARIES[kind[0]].packages):.0f}"}
        rows.append(row | where)
        click.echo(", ".join(f"{column} {value}" for column, value in row.items()))
    write(rows, out)


if __name__ == "__main__":
    main()
