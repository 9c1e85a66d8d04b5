"""Pairs in files of tensors and columns: .npy, .npz, .safetensors, files of torch.save, .parquet; by rows as far as the format lets."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from ..array_files import Column, Flat, array_names, npy_array, reading, stored_array
from ..arrays import Array
from ..errors import InvalidDistribution
from ..optional import load
from .records import HOLDS, KNOWN, Loaded, by_known_name, check_stacked, known_name, stack_records


def read_npz(file: Path) -> dict[str, Column]:
    """Its arrays by name; those in Fortran order, whose rows do not lie together, whole."""
    stored = {name: stored_array(file, name, HOLDS) for name in array_names(file, HOLDS)}
    return {name: Loaded(one.whole()) if one.fortran and len(one.shape) > 1 else one for name, one in stored.items()}


def npy_column(file: Path) -> Column:
    """The array of an .npy file."""
    array = npy_array(file, HOLDS)
    return array if isinstance(array, Column) else Loaded(array)


def read_npy(file: Path) -> dict[str, Column]:
    """p and q stacked, (2, ..., n)."""
    array = npy_column(file)
    check_stacked(array.shape, file)
    if not isinstance(array, Flat):
        p, q = array.whole()
        return {"p": Loaded(p), "q": Loaded(q)}
    half = prod(array.shape[1:]) * array.dtype.itemsize
    begins = {"p": array.begin, "q": array.begin + half}
    return {name: Flat(file, array.shape[1:], array.dtype, begin, array.holds) for name, begin in begins.items()}


def _bfloat16(bits: Array) -> Array:
    """The upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _float8_e5m2(bits: Array) -> Array:
    """The upper half of a float16."""
    return (bits.astype(np.uint16) << 8).view(np.float16)


def _float8_e4m3(bits: Array) -> Array:
    """Without infinities ("fn"): sign, 4 bits of exponent with bias 7, 3 of mantissa; a float16 has 5 with bias 15, and 10."""
    bits = bits.astype(np.uint16)
    numbers = ((bits & 0x80) << 8 | (bits & 0x7F) << 7).view(np.float16).astype(np.float32) * 2**8
    return np.where(bits & 0x7F == 0x7F, np.float32(np.nan), numbers)


# Types of a .safetensors file: what lies there, and what it stands for where numpy has no such type.
TYPES: dict[str, tuple[str, Callable[[Array], Array]]] = {
    **{
        name: (kind, np.asarray)
        for name, kind in {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "?"}.items()
        | {f"{letter}{8 * size}": f"<{letter.lower()}{size}" for letter in "IU" for size in (1, 2, 4, 8)}.items()
    },
    "BF16": ("<u2", _bfloat16),
    "F8_E5M2": ("u1", _float8_e5m2),
    "F8_E4M3": ("u1", _float8_e4m3),
}


def read_safetensors(file: Path) -> dict[str, Column]:
    """Its tensors by name. The package checks the header: the types are known, and the places fit the file."""
    safetensors = load("safetensors", "sweep")
    try:
        with safetensors.safe_open(file, framework="numpy") as tensors:
            names = list(tensors.keys())
    except safetensors.SafetensorError as error:
        raise InvalidDistribution(f"{file} cannot be read as safetensors: {error}") from error
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    found: dict[str, Column] = {}
    for name in names:
        entry = header[name]
        if entry["dtype"] in TYPES:
            kind, decode = TYPES[entry["dtype"]]
            begin = 8 + length + entry["data_offsets"][0]
            found[name] = Flat(file, tuple(entry["shape"]), np.dtype(kind), begin, HOLDS, decode)
        else:
            raise InvalidDistribution(
                f"{file}: {name} is of type {entry['dtype']}: save it as float32; read are {', '.join(TYPES)}"
            )
    return found


@dataclass(frozen=True)
class Tensor(Column):
    """A tensor of torch, in memory or mapped; of a type that numpy has not (bfloat16, float8) as float32."""

    tensor: Any
    file: Path

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.tensor.shape)

    def rows(self, start: int, stop: int) -> Array:
        with reading(self.file, HOLDS):
            rows = self.tensor.reshape(self.count, self.width)[start:stop]
            known = hasattr(np, str(rows.dtype).removeprefix("torch."))
            return np.asarray((rows if known else rows.float()).numpy())


def read_torch(file: Path) -> dict[str, Column]:
    """Tensors and arrays of numpy by name, records of them, or one stacked. Nothing in the file is run."""
    found = _load_torch(file)
    if _is_array(found):
        check_stacked(tuple(found.shape), file)
        return {"p": _column(found[0], file, "p"), "q": _column(found[1], file, "q")}
    if isinstance(found, list) and found and all(isinstance(entry, Mapping) for entry in found):
        plain = (
            {name: _torch_column(x, name, file).whole() for name, x in by_known_name(_named(entry), str(file)).items()}
            for entry in found
        )
        records = ((f"object {number}", entry) for number, entry in enumerate(plain))
        return {name: Loaded(array) for name, array in stack_records(records, file).items()}
    if not isinstance(found, Mapping):
        raise InvalidDistribution(f"{file} holds a {type(found).__name__}; it should hold tensors by name: {HOLDS}")
    return {name: _torch_column(value, name, file) for name, value in by_known_name(_named(found), str(file)).items()}


def _named(found: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in found.items()}


def _torch_column(value: Any, name: str, file: Path) -> Column:
    """A tensor, an array, or a list under the name of a distribution; other values as they are."""
    if _is_array(value):
        return _column(value, file, name)
    return Loaded(_listed(value, name, file) if name in KNOWN else np.asarray(value))


def _load_torch(file: Path) -> Any:
    torch = load("torch", "torch")
    rebuild = np.empty(0).__reduce__()[0]  # what a pickled array names
    kinds = {type(np.dtype(kind)) for kind in "?bhilqBHILQefdg"}
    try:
        with (
            torch.serialization.safe_globals(
                [rebuild, np.ndarray, np.dtype, *kinds, (rebuild, "numpy.core.multiarray._reconstruct")]
            ),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # of torch's own: how it stores quantised tensors
            return torch.load(file, map_location="cpu", weights_only=True, mmap=is_zipfile(file))
    except Exception as error:  # what unpickling raises is of any kind
        words = " ".join(str(error).split())
        foreign = re.search(r"Unsupported (?:global|class): GLOBAL (\S+)", words)
        if foreign or isinstance(error, pickle.UnpicklingError | KeyError | IndexError | AttributeError):
            nested = foreign and foreign[1].startswith("torch.nested.")  # as torch 2.15 refuses to load it
            reason = (
                "a tensor in it is nested: save it as one tensor (..., n)"
                if nested
                else f"it names {foreign[1]}, which is not loaded, since it may be any code"
                if foreign
                else "it is no file of torch.save, or a broken one"
            )
        else:
            reason = words[:120] or "it is empty"
        raise InvalidDistribution(f"{file} holds no tensors alone ({reason}); it should hold {HOLDS}") from None


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, load("torch", "torch").Tensor))


def _column(value: Any, file: Path, name: str) -> Column:
    """Refuses a tensor whose numbers do not lie there as they are; under a name that is none of a pair's it is passed over later."""
    if isinstance(value, np.ndarray):
        return Loaded(value)
    kinds = {  # of tensors without rows of numbers, and what makes one that has
        f"a sparse tensor ({str(value.layout).removeprefix('torch.')})": (
            value.is_sparse or "sparse" in str(value.layout),
            ".to_dense()",
        ),
        "quantised": (value.is_quantized, ".dequantize()"),
        "nested": (value.is_nested, " as one tensor (..., n)"),
        "on the meta device, which has no numbers": (value.is_meta, " from a device that has them"),
    }
    for kind, (it_is, remedy) in kinds.items():
        if it_is and known_name(name) in KNOWN:
            raise InvalidDistribution(f"{file}: {name} is {kind}: save {name}{remedy}")
    return Tensor(value.detach(), file)


def _listed(values: Any, name: str, file: Path) -> Array:
    """A list of rows as one array."""
    try:
        if isinstance(values, list | tuple) and all(map(_is_array, values)):
            return np.stack([_column(row, file, name).whole() for row in values])
        return np.array(values, np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidDistribution(
            f"{file}: {name} is a {type(values).__name__} of no one shape: give a tensor (..., n)"
        ) from error


@dataclass(frozen=True)
class ListColumn(Column):
    """A column of a .parquet file: lists, or lists of lists, of numbers, one a row. A row group at a time is read; see `_group`."""

    file: Path
    written: int  # when, so that a file that was written again is another
    name: str
    shape: tuple[int, ...]
    ends: tuple[int, ...]  # of the row groups

    def rows(self, start: int, stop: int) -> Array:
        each = prod(self.shape[1:-1])  # rows of n in one of the file
        first, last, begin = start // each, -(-stop // each), 0
        parts = [np.empty((0, self.width))]
        for number, end in enumerate(self.ends):
            if begin < last and first < end:
                group, low, high = _group(self.file, self.written, self.name, number), max(first, begin), min(last, end)
                numbers = _flattened(
                    group.slice(low - begin, high - low), self.shape[1:], f"{self.file}, row", self.name, low
                )
                parts.append(numbers.reshape(-1, self.width))
            begin = end
        return np.concatenate(parts[1:] or parts)[start - first * each : stop - first * each]


@lru_cache(maxsize=2)
def _group(file: Path, written: int, name: str, number: int) -> Any:
    """A row group of a column, kept for the next rows: of p and of q."""
    with _parquet(file) as parquet:
        return parquet.read_row_group(number, [name])[name].combine_chunks()


def _flattened(array: Any, shape: tuple[int, ...], where: str, name: str, first: int) -> Array:
    """The numbers of lists (rows, *shape); refuses a row that is of another shape, or holds null."""
    inner = 1  # lists a row of the file
    for size in shape:
        lengths = np.asarray(array.value_lengths().fill_null(-1))
        if len(wrong := np.flatnonzero(lengths != size)):
            row, length = first + int(wrong[0]) // inner, int(lengths[wrong[0]])
            seen = f"a list of length {length}" if length >= 0 else "null"
            raise InvalidDistribution(
                f"{where} {row}: {name} holds {seen}, the first has {size}: give all rows n masses"
            )
        array, inner = array.flatten(), inner * size
    if array.null_count:
        row = first + int(np.flatnonzero(np.asarray(array.is_null()))[0]) // inner
        raise InvalidDistribution(f"{where} {row}: {name} holds null: write 0 where there is no mass")
    numbers = np.asarray(array.to_numpy(zero_copy_only=False))
    if numbers.dtype.hasobject:
        raise InvalidDistribution(f"{where} {first}: {name} holds {array.type}: give numbers")
    return numbers


@contextmanager
def _parquet(file: Path) -> Iterator[Any]:
    module = load("pyarrow.parquet", "sweep")
    with reading(file, HOLDS), module.ParquetFile(file, page_checksum_verification=True) as parquet:
        yield parquet


def read_parquet(file: Path) -> dict[str, Column]:
    """Its columns by name: of lists, one row a pair, unread."""
    found: dict[str, Column] = {}
    with _parquet(file) as parquet:
        about = parquet.metadata
        ends = tuple(np.cumsum([about.row_group(group).num_rows for group in range(about.num_row_groups)]).tolist())
        for name in dict.fromkeys(parquet.schema_arrow.names):
            if not hasattr(parquet.schema_arrow.field(name).type, "value_field"):
                found[name] = Loaded(np.asarray(parquet.read([name])[name].to_pylist()))
                continue
            first = next(parquet.iter_batches(1, columns=[name])).column(0).to_pylist()[0] if about.num_rows else []
            if first is not None:
                found[name] = ListColumn(file, file.stat().st_mtime_ns, name, (about.num_rows, *np.shape(first)), ends)
            elif known_name(name) in KNOWN:
                raise InvalidDistribution(f"{file}, row 0: {name} holds null: write 0 where there is no mass")
    return found
