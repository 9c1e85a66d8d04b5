"""Pairs in files of tensors and columns, each by its own package: .npy, .safetensors, files of torch.save, .parquet."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from ..array_files import Column, Stored, reading, stored_array
from ..arrays import Array
from ..errors import InvalidDistribution
from ..optional import load
from .records import HOLDS, KNOWN, by_known_name, known_name, stack_records


@dataclass(frozen=True)
class Half(Column):
    """p or q of an .npy file that holds both stacked, unread. index: 0 for p, 1 for q."""

    both: Stored
    index: int

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.both.shape[1:]

    def rows(self, start: int, stop: int) -> Array:
        begin = self.index * self.count
        return self.both.rows(begin + start, begin + stop)


def read_npy(file: Path) -> dict[str, Column]:
    """p and q stacked, (2, ..., n)."""
    both = stored_array(file, "", HOLDS)
    _check_stacked(both.shape, file)
    return {name: Half(both, index) for index, name in enumerate("pq")}


def _check_stacked(shape: tuple[int, ...], file: Path) -> None:
    if len(shape) < 2 or shape[0] != 2:
        raise InvalidDistribution(
            f"{file} must hold p and q stacked, shape (2, ..., n), got shape {shape}. Stack them, or give two .npy files."
        )


@dataclass(frozen=True)
class Tensor(Column):
    """A tensor of a .safetensors file, unread. framework: of `safe_open`; NumPy lacks bfloat16 and float8."""

    file: Path
    name: str
    shape: tuple[int, ...]
    framework: str

    def rows(self, start: int, stop: int) -> Array:
        with reading(self.file, HOLDS), _open(self.file, self.framework) as tensors:
            if len(self.shape) < 2:
                return _array(tensors.get_tensor(self.name)).reshape(1, -1)[start:stop]
            part, each = tensors.get_slice(self.name), self.shape[-2]
            found = [np.empty((0, self.width))]
            for number in range(start // each, -(-stop // each)) if stop > start else ():
                begin = number * each
                index = (*np.unravel_index(number, self.shape[:-2]),) if len(self.shape) > 2 else ()
                rows = slice(max(start - begin, 0), min(stop - begin, each))
                found.append(_array(part[(*map(int, index), rows)]))
        return np.concatenate(found[1:] or found)


def _open(file: Path, framework: str) -> Any:
    return load("safetensors", "sweep").safe_open(file, framework=framework)


def tensors(file: Path) -> dict[str, Column]:
    """The tensors of a .safetensors file by name, unread."""
    try:
        with _open(file, "np") as found:
            parts = {name: found.get_slice(name) for name in found.keys()}  # noqa: SIM118  # it is not a mapping
            shapes = {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in parts.items()}
    except load("safetensors", "sweep").SafetensorError as error:
        raise ValueError(str(error)) from error
    foreign = any(dtype.startswith(("BF", "F8")) for _, dtype in shapes.values())
    if foreign:
        load("torch", "torch")
    return {name: Tensor(file, name, shape, "pt" if foreign else "np") for name, (shape, _) in shapes.items()}


def read_torch(file: Path) -> dict[str, Array]:
    """Tensors and NumPy arrays by name, records of them, or one stacked. Nothing in the file is run."""
    found = _load_torch(file)
    if hasattr(found, "shape"):
        array = _array(found)
        _check_stacked(array.shape, file)
        return dict(zip("pq", array, strict=True))
    if isinstance(found, list) and found and all(isinstance(entry, Mapping) for entry in found):
        return stack_records(((f"object {number}", _named(entry, file)) for number, entry in enumerate(found)), file)
    if not isinstance(found, Mapping):
        raise InvalidDistribution(f"{file} must hold tensors by name: {HOLDS}, got {type(found).__name__}.")
    return _named(found, file)


def _named(found: Mapping[Any, Any], file: Path) -> dict[str, Array]:
    named = by_known_name({str(name): value for name, value in found.items()}, str(file))
    arrays = {}
    for name, value in named.items():
        try:
            arrays[name] = _array(value)
        except (
            ValueError,
            TypeError,
            RuntimeError,
        ) as error:  # of tensors without rows of numbers: sparse, nested, on the meta device
            reason = str(error).splitlines()[0]
            raise InvalidDistribution(
                f"{file}: {name} must be a dense tensor of floats ({reason}). Save it as one."
            ) from error
    return arrays


def _array(value: Any) -> Array:
    """A tensor of torch, or a list of such, as a NumPy array; what NumPy has no type for (bfloat16, float8) as float32."""
    if isinstance(value, list | tuple):
        return np.array([_array(row) for row in value])
    if not hasattr(value, "detach"):
        return np.asarray(value)
    value = value.detach()
    return np.asarray(value.numpy() if hasattr(np, str(value.dtype).removeprefix("torch.")) else value.float().numpy())


def _load_torch(file: Path) -> Any:
    torch = load("torch", "torch")
    rebuild = np.empty(0).__reduce__()[0]  # what a pickled array names
    kinds = {type(np.dtype(kind)) for kind in "?bhilqBHILQefdg"}
    allowed = [rebuild, np.ndarray, np.dtype, *kinds, (rebuild, "numpy.core.multiarray._reconstruct")]
    try:
        with torch.serialization.safe_globals(allowed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's own: how it stores quantised tensors
            return torch.load(file, map_location="cpu", weights_only=True, mmap=is_zipfile(file))
    except Exception as error:  # unpickling raises any kind, with the advice to run what the file holds
        raise InvalidDistribution(
            f"{file} must be a file of torch.save with tensors alone ({type(error).__name__}); it should hold {HOLDS}"
        ) from None


def read_parquet(file: Path) -> dict[str, Array]:
    """Its columns by name: of lists, or lists of lists, one row per pair."""
    with reading(file, HOLDS):
        table = load("pyarrow.parquet", "sweep").ParquetFile(file, page_checksum_verification=True).read()
        return {
            name: _numbers(table[name].combine_chunks(), name, file)
            if known_name(name) in KNOWN
            else np.asarray(table[name].to_pylist())
            for name in table.column_names
        }


def _numbers(array: Any, name: str, file: Path) -> Array:
    """The numbers of a column of lists; raises InvalidDistribution for a row that is of another shape, or holds null."""
    shape, each = [len(array)], 1  # lists per row of the file
    while hasattr(array.type, "value_field"):
        lengths = np.asarray(array.value_lengths().fill_null(-1))
        if len(wrong := np.flatnonzero((lengths != lengths[:1]) | (lengths < 0))):
            first, seen = (f"a list of {size}" if size >= 0 else "null" for size in (lengths[0], lengths[wrong[0]]))
            raise InvalidDistribution(
                f"{file}, row {int(wrong[0]) // each}: {name} must be a list of one length in all rows, got {seen} (row 0: {first})."
                " Write 0 for mass 0."
            )
        shape.append(int(lengths[0]) if len(lengths) else 0)
        array, each = array.flatten(), each * shape[-1]
    if array.null_count:
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0]) // each
        raise InvalidDistribution(f"{file}, row {row}: {name} must hold numbers, got null. Write 0 for mass 0.")
    numbers = np.asarray(array.to_numpy(zero_copy_only=False))
    if numbers.dtype.hasobject:
        raise InvalidDistribution(f"{file}: {name} must hold numbers, got {array.type}. Save it as a list of floats.")
    return numbers.reshape(shape)
