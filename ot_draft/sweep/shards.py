"""Files that hold pairs of laws or of logits, read by rows, so that a shard larger than the memory is no trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import unpack
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from ..array_files import array_names, reading
from ..arrays import Array
from ..compare.logits import LOGITS, laws_of_logits
from ..errors import InvalidDistribution
from ..optional import load
from ..problem import Problem

LAWS = ("p", "q")
SUFFIXES = (".npz", ".safetensors")
IN_NPZ = f"p and q, or {' and '.join(LOGITS)}"
LOCAL_HEADER = 30  # bytes of a zip member's header before its name


@dataclass(frozen=True)
class Shard:
    """One file. names: its two arrays, target first. rows: pairs in it, all leading axes taken together. n: tokens."""

    file: Path
    names: tuple[str, str]
    rows: int
    n: int

    @property
    def holds_logits(self) -> bool:
        return self.names == LOGITS

    def read(self, start: int, stop: int, temperature: float = 1.0) -> tuple[Array, Array]:
        """Rows start .. stop - 1 as laws (p, q), (rows, n) each, in float64; logits divided by the temperature first.

        Raises InvalidDistribution for a row that is no law, to the precision in which it is stored.
        """
        p, q = (_read(self.file, name, start, stop) for name in self.names)
        if self.holds_logits:
            p, q = (laws_of_logits(x, temperature, str(self.file), start) for x in (p, q))
            return p, q
        try:
            Problem(p, q, 1)
        except InvalidDistribution as error:
            raise InvalidDistribution(f"{self.file}, in the rows from {start} on: {error}") from error
        return _in_doubles(p), _in_doubles(q)


def open_shards(paths: Iterable[Path | str], temperature: float = 1.0) -> list[Shard]:
    """The shards of files and folders (of which all .npz and .safetensors files, by name). Raises InvalidDistribution."""
    files = [file for path in map(Path, paths) for file in _files(path)]
    if not files:
        raise InvalidDistribution("no shard was given: name .npz or .safetensors files, or a folder that holds some")
    twice = [file for place, file in enumerate(files) if file.resolve() in {other.resolve() for other in files[:place]}]
    if twice:
        raise InvalidDistribution(f"{twice[0]} is named twice: its pairs would count twice; name it once")
    shards = [_open(file) for file in files]
    if not any(shard.rows for shard in shards):
        raise InvalidDistribution(f"{files[0]}{' and all others hold' if len(files) > 1 else ' holds'} no pair")
    for shard in shards:
        if not shard.holds_logits and temperature != 1:
            raise InvalidDistribution(
                f"{shard.file} holds laws p and q, and temperature {temperature} was asked for: give logits"
                f" ({' and '.join(LOGITS)}), or temperature 1"
            )
    return shards


def _files(path: Path) -> Sequence[Path]:
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not path.is_file():
        raise InvalidDistribution(f"{path} is not there")
    if path.suffix not in SUFFIXES:
        raise InvalidDistribution(f"{path}: a shard is one of {', '.join(SUFFIXES)}")
    return [path]


def _open(file: Path) -> Shard:
    shapes = _shapes(file)
    names = next((names for names in (LAWS, LOGITS) if set(names) <= shapes.keys()), None)
    if names is None:
        raise InvalidDistribution(f"{file} holds {', '.join(shapes) or 'nothing'}: a shard holds {IN_NPZ}")
    target, draft = (shapes[name] for name in names)
    if target != draft or len(target) < 2 or not target[-1]:
        raise InvalidDistribution(
            f"{file}: {names[0]} has shape {target} and {names[1]} has {draft}: give both one shape (..., n),"
            " of two axes at least, n >= 1"
        )
    return Shard(file, names, int(np.prod(target[:-1])), target[-1])


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    if file.suffix == ".safetensors":
        with _safetensors(file) as tensors:
            return {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118 no mapping
    return {name: _header(file, name)[0] for name in array_names(file, IN_NPZ)}


def _header(file: Path, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape and type of an array in an .npz, and the length of its own header."""
    with reading(file, IN_NPZ), ZipFile(file) as archive, archive.open(f"{name}.npy") as stream:
        readers: dict[tuple[int, int], Callable[[Any], Any]] = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        version = np.lib.format.read_magic(stream)
        if version not in readers:
            raise InvalidDistribution(f"{file}: array {name} has .npy version {version}; 1.0 and 2.0 are known")
        shape, fortran, dtype = readers[version](stream)
        if dtype.hasobject:
            raise InvalidDistribution(f"{file}: array {name} holds Python objects, no numbers; give {IN_NPZ}")
        if fortran and len(shape) > 1:
            raise InvalidDistribution(f"{file}: array {name} is in Fortran order: save numpy.ascontiguousarray of it")
        return shape, dtype, stream.tell()


def _read(file: Path, name: str, start: int, stop: int) -> Array:
    """Rows of an array, (stop - start, n). Only these are read, except from a compressed .npz, which has to be passed through."""
    if file.suffix == ".safetensors":
        with _safetensors(file) as tensors:
            tensor = tensors.get_slice(name)
            rows = len(tensor.get_shape()) == 2
            return np.asarray(tensor[start:stop] if rows else _flat(tensors.get_tensor(name))[start:stop])
    shape, dtype, header = _header(file, name)
    width = shape[-1] * dtype.itemsize
    with reading(file, IN_NPZ), ZipFile(file) as archive:
        member = archive.getinfo(f"{name}.npy")
        if member.compress_type == ZIP_STORED:
            offset = _data_offset(file, member.header_offset) + header + start * width
            return np.memmap(file, dtype, "r", offset, (stop - start, shape[-1]))
        with archive.open(member) as stream:
            stream.seek(header + start * width)
            return np.frombuffer(stream.read((stop - start) * width), dtype).reshape(stop - start, shape[-1])


def _data_offset(file: Path, header_offset: int) -> int:
    with file.open("rb") as stream:
        stream.seek(header_offset)
        name_length, extra_length = unpack("<HH", stream.read(LOCAL_HEADER)[-4:])
    return header_offset + LOCAL_HEADER + name_length + extra_length


def _flat(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


def _safetensors(file: Path) -> Any:
    safetensors = load("safetensors", "sweep")
    try:
        return safetensors.safe_open(file, framework="numpy")
    except safetensors.SafetensorError as error:
        raise InvalidDistribution(f"{file} cannot be read as safetensors: {error}") from error


def _in_doubles(masses: Array) -> Array:
    """Laws in float64; what was rounded to float32 sums to 1 in that precision only, and is divided by its sum."""
    if masses.dtype == np.float64:
        return np.asarray(masses)
    masses = masses.astype(np.float64)
    return masses / masses.sum(-1, keepdims=True)
