"""Files that hold pairs of laws or of logits, read by rows, so that a shard larger than the memory is no trouble."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b, file_digest
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..array_files import array_names, reading, stored_array
from ..arrays import Array
from ..errors import InvalidDistribution
from ..optional import load
from ..problem import Problem
from .logits import LOGITS, laws_of_logits

LAWS = ("p", "q")
SUFFIXES = (".npz", ".safetensors")
IN_NPZ = f"p and q, or {' and '.join(LOGITS)}"


@dataclass(frozen=True)
class Shard:
    """One file. names: its two arrays, target first. rows: pairs in it, all leading axes taken together. n: tokens.

    label: as much of its path as tells it from the other shards; where that is unique, the file's name. digest: of its numbers.
    """

    file: Path
    names: tuple[str, str]
    rows: int
    n: int
    label: str
    digest: str

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
    """The shards of files and folders (of which all .npz and .safetensors files, by name). Raises InvalidDistribution.

    All of every file is read once, to check its checksums, which reading single rows cannot do, and for the digest.
    """
    files = [file for path in map(Path, paths) for file in _files(path)]
    if not files:
        raise InvalidDistribution("no shard was given: name .npz or .safetensors files, or a folder that holds some")
    places = [os.path.realpath(file) for file in files]
    twice = [file for number, file in enumerate(files) if places[number] in places[:number]]
    if twice:
        raise InvalidDistribution(f"{twice[0]} is named twice: its pairs would count twice; name it once")
    shards = [replace(_open(file), label=label) for file, label in zip(files, _labels(files), strict=True)]
    if not any(shard.rows for shard in shards):
        raise InvalidDistribution(f"{files[0]}{' and all others hold' if len(files) > 1 else ' holds'} no pair")
    for shard in shards:
        if not shard.holds_logits and temperature != 1:
            raise InvalidDistribution(
                f"{shard.file} holds laws p and q, and temperature {temperature} was asked for: give logits"
                f" ({' and '.join(LOGITS)}), or temperature 1"
            )
    return shards


def _labels(files: Sequence[Path]) -> list[str]:
    """The end of every path that no other one has."""
    parts = [file.absolute().parts for file in files]
    depths = [1] * len(files)
    ends = [mine[-1:] for mine in parts]
    while len(set(ends)) < len(ends):
        depths = [depth + (ends.count(end) > 1) for depth, end in zip(depths, ends, strict=True)]
        ends = [mine[-depth:] for mine, depth in zip(parts, depths, strict=True)]
    return ["/".join(end) for end in ends]


def _files(path: Path) -> Sequence[Path]:
    if path.is_dir():
        shards = (file for file in path.iterdir() if file.suffix in SUFFIXES)
        return sorted(file for file in shards if not file.name.startswith("."))  # such are half written
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
    return Shard(file, names, prod(target[:-1]), target[-1], file.name, _digest(file, names))


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    if file.suffix == ".safetensors":
        with _safetensors(file) as tensors:
            return {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118 no mapping
    return {name: stored_array(file, name, IN_NPZ).shape for name in array_names(file, IN_NPZ)}


def _digest(file: Path, names: Sequence[str]) -> str:
    """Hash of what these arrays hold; of a .safetensors, of all of it. Checksums that are there are checked on the way."""
    if file.suffix == ".npz":
        return " ".join(stored_array(file, name, IN_NPZ).digest() for name in names)
    with reading(file, IN_NPZ), file.open("rb") as stream:
        return file_digest(stream, lambda: blake2b(digest_size=16)).hexdigest()


def _read(file: Path, name: str, start: int, stop: int) -> Array:
    """Rows of an array, (stop - start, n). Only these are read, except from a compressed .npz, which has to be passed through."""
    if file.suffix == ".npz":
        return stored_array(file, name, IN_NPZ).rows(start, stop)
    with _safetensors(file) as tensors:
        tensor = tensors.get_slice(name)
        rows = len(tensor.get_shape()) == 2
        return np.asarray(tensor[start:stop] if rows else _flat(tensors.get_tensor(name))[start:stop])


def _flat(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


@contextmanager
def _safetensors(file: Path) -> Iterator[Any]:
    safetensors = load("safetensors", "sweep")
    try:
        with reading(file, IN_NPZ), safetensors.safe_open(file, framework="numpy") as tensors:
            yield tensors
    except safetensors.SafetensorError as error:
        raise InvalidDistribution(f"{file} cannot be read as safetensors: {error}") from error


def _in_doubles(masses: Array) -> Array:
    """Laws in float64; what was rounded to float32 sums to 1 in that precision only, and is divided by its sum."""
    if masses.dtype == np.float64:
        return np.asarray(masses)
    masses = masses.astype(np.float64)
    return masses / masses.sum(-1, keepdims=True)
