"""Arrays by name in files of every kind that pairs come in: whole, or so many rows of them.

.npz, .safetensors and .pt hold arrays under names. .npy holds two stacked, (2, ..., n), as one tensor in a .pt may: p and q.
.json is an object of nested lists, its numbers exact where they are texts like "1/3". .csv has columns p and q, one token a row,
and a column `pair` where there are several pairs. .parquet has columns of lists, one row a pair.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..array_files import Stored, array_names, hash_of, read_array, reading, stored_array
from ..arrays import Array
from ..errors import InvalidDistribution
from ..optional import load

HOLDS = "p and q, or target_logits and draft_logits, of shape (..., n)"
LAWS = ("p", "q", "target", "draft")
EXPONENT = 1000  # decimals beyond 1e-1000 would be Fractions of millions of digits
AT_ONCE = 1 << 24  # numbers that are hashed at once


@dataclass(frozen=True)
class Loaded:
    """An array that is in memory, or mapped there.

    shape: of all of it. rows(start, stop): these rows, all leading axes taken together, (stop - start, n). whole: all of it.
    digest: hash of all its numbers; checksums that the file has are checked on the way. `Tensor` and `Stored` have the same.
    """

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def rows(self, start: int, stop: int) -> Array:
        return self.array.reshape(-1, self.shape[-1])[start:stop]

    def whole(self) -> Array:
        return self.array

    def digest(self) -> str:
        exact = self.array.dtype.hasobject
        numbers = " ".join(map(str, self.array.ravel())).encode() if exact else np.ascontiguousarray(self.array).data
        return hash_of(f"{self.shape} {self.array.dtype}", [numbers])


@dataclass(frozen=True)
class Tensor:
    """An array of a .safetensors file, which has no checksums; of two axes, rows are read without the rest."""

    file: Path
    name: str
    shape: tuple[int, ...]

    def rows(self, start: int, stop: int) -> Array:
        with _safetensors(self.file) as tensors:
            if len(self.shape) == 2:
                return np.asarray(tensors.get_slice(self.name)[start:stop])
            return np.asarray(tensors.get_tensor(self.name)).reshape(-1, self.shape[-1])[start:stop]

    def whole(self) -> Array:
        with _safetensors(self.file) as tensors:
            return np.asarray(tensors.get_tensor(self.name))

    def digest(self) -> str:
        with _safetensors(self.file) as tensors:
            slices, first = tensors.get_slice(self.name), max(1, self.shape[0])
            step = max(1, AT_ONCE * first // max(1, int(np.prod(self.shape))))
            ends = ((start, min(start + step, self.shape[0])) for start in range(0, self.shape[0], step))
            pieces = (np.ascontiguousarray(slices[start:end]).data for start, end in ends)
            return hash_of(f"{self.shape} {slices.get_dtype()}", pieces)


Column = Loaded | Tensor | Stored  # an array of a file


def columns(file: Path) -> dict[str, Column]:
    """What the file holds. Raises InvalidDistribution where it is broken, or of no kind that is known."""
    if file.suffix not in READERS:
        raise InvalidDistribution(f"{file}: give a file that ends in {', '.join(READERS)}")
    try:
        found = file.stat()
    except OSError as error:
        raise InvalidDistribution(f"{file} cannot be read: {error.strerror}; it should hold {HOLDS}") from error
    return _columns(file, (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=4)
def _columns(file: Path, as_it_is: tuple[int, ...]) -> dict[str, Column]:
    """Kept for the next rows of the same file, as long as that is not written to."""
    with reading(file, HOLDS):
        return READERS[file.suffix](file)


def _stacked(array: Array, file: Path) -> dict[str, Column]:
    if array.ndim < 2 or len(array) != 2:
        raise InvalidDistribution(f"{file}: the array has shape {array.shape}: give p and q stacked, shape (2, ..., n)")
    return {"p": Loaded(array[0]), "q": Loaded(array[1])}


def _read_safetensors(file: Path) -> dict[str, Column]:
    with _safetensors(file) as tensors:
        names = tensors.keys()
        return {name: Tensor(file, name, tuple(tensors.get_slice(name).get_shape())) for name in names}


@contextmanager
def _safetensors(file: Path) -> Iterator[Any]:
    safetensors = load("safetensors", "sweep")
    try:
        with reading(file, HOLDS), safetensors.safe_open(file, framework="numpy") as tensors:
            yield tensors
    except safetensors.SafetensorError as error:
        raise InvalidDistribution(f"{file} cannot be read as safetensors: {error}") from error


def _read_torch(file: Path) -> dict[str, Column]:
    torch = load("torch", "torch")
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)  # nothing in the file is run
    except Exception as error:  # what unpickling raises is of any kind
        reason = " ".join(str(error).split())[:120]
        raise InvalidDistribution(f"{file} holds no tensors alone ({reason}); it should hold {HOLDS}") from None
    if isinstance(found, torch.Tensor):
        return _stacked(_as_numpy(found), file)
    if not isinstance(found, Mapping):
        raise InvalidDistribution(f"{file} holds a {type(found).__name__}; it should hold tensors by name: {HOLDS}")
    tensors = {str(name): value for name, value in found.items() if isinstance(value, torch.Tensor)}
    return {name: Loaded(_as_numpy(tensor)) for name, tensor in tensors.items()}


def _as_numpy(tensor: Any) -> Array:
    """bfloat16, which numpy has not, as float32."""
    tensor = tensor.detach()
    return np.asarray((tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy())


def _read_parquet(file: Path) -> dict[str, Column]:
    table = load("pyarrow.parquet", "sweep").read_table(file, page_checksum_verification=True)
    found: dict[str, Column] = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if column.null_count or not hasattr(column, "value_lengths"):
            found[name] = Loaded(np.asarray(column.to_pylist()))
            continue
        lengths = set(column.value_lengths().to_pylist())
        if len(lengths) != 1:
            seen = f"column {name} has lists of {len(lengths)} lengths"
            raise InvalidDistribution(f"{file}: {seen}: give all rows n masses")
        numbers = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
        found[name] = Loaded(numbers.reshape(len(column), *lengths))
    return found


def _read_json(file: Path) -> dict[str, Column]:
    content = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise InvalidDistribution(f'{file}: give one object {{"p": [...], "q": [...]}}')
    exact = any('"' in json.dumps(content[name]) for name in LAWS if name in content)
    laws = {name: _numbers(value, exact, file) for name, value in content.items() if isinstance(value, list)}
    return {name: Loaded(np.array(value, object if exact and name in LAWS else None)) for name, value in laws.items()}


def _numbers(values: Any, exact: bool, file: Path) -> Any:
    if isinstance(values, list):
        return [_numbers(value, exact, file) for value in values]
    if isinstance(values, str):
        return as_fraction(values, str(file)) if exact else values
    if isinstance(values, bool):
        raise InvalidDistribution(f"{file}: {str(values).lower()} is no mass: write 1 or 0")
    if exact and isinstance(values, float):
        raise InvalidDistribution(f"{file}: {values} stands among exact fractions: write it as a string, too")
    return float(values) if not exact and isinstance(values, int) else values


def as_fraction(text: str, where: str = "") -> Fraction:
    """A mass as it is written: 1/3, 0.25, 1e-9."""
    try:
        exponent = text.lower().partition("e")[2]
        if exponent and abs(int(exponent)) > EXPONENT:
            raise ValueError
        return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        where = f"{where}: " if where else ""
        raise InvalidDistribution(f"{where}{text.strip()!r} is no mass: write 1/3 or 0.25") from None


def _read_csv(file: Path) -> dict[str, Column]:
    with file.open(encoding="utf-8-sig", newline="") as stream:  # spreadsheets begin with a byte order mark
        reader = csv.DictReader(stream)
        try:
            rows, header = list(reader), reader.fieldnames or []
        except csv.Error as error:
            raise InvalidDistribution(f"{file} cannot be read: {error}") from error
    if not rows or not {"p", "q"} <= set(header) or len(set(header)) < len(header):
        wanted = "the columns p and q (and pair), each once, then one token a row"
        raise InvalidDistribution(f"{file}: give a header with {wanted}")
    if longer := [number for number, row in enumerate(rows) if None in row]:
        seen = f"token row {longer[0]} has more cells than the header"
        raise InvalidDistribution(f"{file}: {seen}: write decimals as 0.5 or 1/2")
    pairs: dict[str, dict[str, list[Fraction]]] = {}
    for row in rows:
        for name, masses in pairs.setdefault(row.get("pair") or "", {"p": [], "q": []}).items():
            masses.append(as_fraction(row[name] or "", str(file)))
    sizes = {len(pair["p"]) for pair in pairs.values()}
    if len(sizes) > 1:
        seen = f"pairs of {sorted(sizes)} tokens in one file"
        raise InvalidDistribution(f"{file}: {seen}: fill the shorter ones up with mass 0")
    exact = any("/" in (row["p"] or "") + (row["q"] or "") for row in rows)
    stacked = {name: [pair[name] for pair in pairs.values()] for name in ("p", "q")}
    return {name: Loaded(np.array(masses, dtype=object if exact else np.float64)) for name, masses in stacked.items()}


READERS: dict[str, Callable[[Path], dict[str, Column]]] = {
    ".npz": lambda file: {name: stored_array(file, name, HOLDS) for name in array_names(file, HOLDS)},
    ".npy": lambda file: _stacked(read_array(file, f"{HOLDS}, stacked"), file),
    ".json": _read_json,
    ".csv": _read_csv,
    ".safetensors": _read_safetensors,
    ".parquet": _read_parquet,
    ".pt": _read_torch,
}
