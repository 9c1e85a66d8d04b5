"""Files of pairs of laws or of logits, read by rows, so that a shard larger than the memory is no trouble (.npz, .safetensors)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from ..arrays import Array
from ..errors import InvalidDistribution
from ..problem import Problem
from .formats import READERS, columns
from .pairs import LOGITS, as_laws, names_in

IN_FOLDERS = (".npz", ".safetensors", ".parquet")  # others are named one by one


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
        return self.names in LOGITS

    def read(self, start: int, stop: int, temperature: float = 1.0) -> tuple[Array, Array]:
        """Rows start .. stop - 1 as laws (p, q), (rows, n) each, in float64; logits divided by the temperature first.

        Raises InvalidDistribution for a row that is no law, to the precision in which it is stored.
        """
        found, where = columns(self.file), f"{self.file}, in the rows from {start} on"
        arrays = [found[name].rows(start, stop) for name in self.names]
        if self.holds_logits:
            p, q = (as_laws(x, self.names[0], str(self.file), start, temperature) for x in arrays)
            return p, q
        try:
            p, q = (as_laws(x, name, "", start) for x, name in zip(arrays, self.names, strict=True))
            problem = Problem(p, q, 1)
        except InvalidDistribution as error:
            raise InvalidDistribution(f"{where}: {error}") from error
        if problem.p.dtype.hasobject:
            return problem.p.astype(float), problem.q.astype(float)
        return problem.p, problem.q


def open_shards(paths: Iterable[Path | str], temperature: float = 1.0) -> list[Shard]:
    """The shards of files and folders (of which all .npz, .safetensors and .parquet files, by name). Raises InvalidDistribution.

    All of every file is read once, to check its checksums, which reading single rows cannot do, and for the digest.
    """
    files = [file for path in map(Path, paths) for file in _files(path)]
    if not files:
        raise InvalidDistribution(
            "no shard was given: name .npz, .safetensors or other files, or a folder that holds some"
        )
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
                f" ({' and '.join(LOGITS[0])}), or temperature 1"
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
        shards = (file for file in path.iterdir() if file.suffix in IN_FOLDERS)
        return sorted(file for file in shards if not file.name.startswith("."))  # such are half written
    if not path.is_file():
        raise InvalidDistribution(f"{path} is not there")
    if path.suffix not in READERS:
        raise InvalidDistribution(f"{path}: a shard is one of {', '.join(READERS)}")
    return [path]


def _open(file: Path) -> Shard:
    found = columns(file)
    names = names_in(found, file)
    target, draft = (found[name].shape for name in names)
    if target != draft or len(target) < 2 or not target[-1]:
        raise InvalidDistribution(
            f"{file}: {names[0]} has shape {target} and {names[1]} has {draft}: give both one shape (..., n),"
            " of two axes at least, n >= 1"
        )
    digest = " ".join(found[name].digest() for name in names)
    return Shard(file, names, prod(target[:-1]), target[-1], file.name, digest)
