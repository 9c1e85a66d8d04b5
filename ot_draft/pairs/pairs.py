"""Pairs (p, q) in memory, or in shards, read by rows, so that one larger than the memory is no trouble.

From a file or from the command line: which arrays are a pair, masses or logits as laws.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import InvalidDistribution
from ..problem import Problem
from .formats import READERS, Column, columns

LAWS = (("p", "q"), ("target", "draft"))  # target first
LOGITS = (("target_logits", "draft_logits"), ("p_logits", "q_logits"))
NAMES = f"p and q, or {' and '.join(LOGITS[0])}"
LABELS = ("text", "kind", "origin", "position")  # arrays that say what a context is


@dataclass(frozen=True)
class Pairs:
    """m pairs of laws. p, q: (m, n), float numpy or Fractions.

    index: (m,) what each was called in its file, which also seeds its random drafts, so that a selection of pairs gets the
    numbers it has among all. group: (m,) the temperature, or "" without one. labels: name -> (m,), for the output only.
    text: (m,) pairs of one text are not independent of each other; every pair its own where nothing is known.
    """

    p: Array
    q: Array
    source: str
    index: tuple[int, ...]
    group: tuple[str, ...]
    text: tuple[int, ...]
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.p)

    def choose(self, rows: list[int]) -> Pairs:
        """Some of the pairs."""
        of_rows = {name: tuple(getattr(self, name)[row] for row in rows) for name in ("index", "group", "text")}
        labels = {name: tuple(values[row] for row in rows) for name, values in self.labels.items()}
        return Pairs(self.p[rows], self.q[rows], self.source, **of_rows, labels=labels)

    def at_temperature(self, temperature: float) -> Pairs:
        """The pairs of one temperature."""
        rows = [row for row, group in enumerate(self.group) if group and float(group) == temperature]
        if not rows:
            known = ", ".join(sorted({group for group in self.group if group}))
            raise InvalidDistribution(f"{self.source} holds no temperature {temperature}: it holds {known or 'none'}")
        return self.choose(rows)

    def first(self, limit: int) -> Pairs:
        """At most `limit` pairs of every group, evenly spaced, because files are sorted by kind of text."""
        rows = []
        for group in dict.fromkeys(self.group):
            members = [row for row, value in enumerate(self.group) if value == group]
            count = min(limit, len(members))
            rows += [members[int(number * len(members) / count)] for number in range(count)]
        return self.choose(rows)


def read_pairs(file: Path, normalise: bool = False) -> Pairs:
    """The pairs of a file of any kind that `formats` reads, under the names of `names_in`; logits are taken at temperature 1.

    Where the file holds `temperatures` (T,) and p is (T, C, n), and where it holds `text` (C,), as the committed data does, these
    are used.
    """
    found = columns(file)
    names = names_in(found, file)
    arrays: dict[str, Any] = {name: found[name].whole() for name in ("temperatures", *LABELS) if name in found}
    stored = {name: found[name].whole() for name in names}
    if normalise and names not in LOGITS:
        stored = {name: _divided(masses) for name, masses in stored.items()}
    p, q = (as_laws(array, name, str(file)) for name, array in stored.items())
    return as_pairs({**arrays, "p": p, "q": q}, str(file), normalise)


def as_pairs(arrays: dict[str, Any], source: str, normalise: bool = False) -> Pairs:
    """Validated pairs from p and q (..., n) and, if they are there, `temperatures` and the labels of contexts.

    normalise: divide masses by their sums first, where these are within 1 % of 1, as those of rounded masses are.
    """
    p, q = (_divided(arrays[name]) if normalise else arrays[name] for name in ("p", "q"))
    try:
        problem = Problem(p, q, 1)
    except InvalidDistribution as error:
        rounded = not normalise and all(_is_rounded(arrays[name]) for name in ("p", "q"))
        remedy = "; if the masses were rounded, --normalise (normalise=True) does" if rounded else ""
        raise InvalidDistribution(f"{source}: {error}{remedy}") from error
    batch, n = problem.batch, problem.n
    count = int(np.prod(batch))
    if count == 0:
        raise InvalidDistribution(f"{source} holds no pair: p has shape {tuple(problem.p.shape)}")
    context = np.arange(count) % (batch[-1] if batch else 1)
    temperatures = np.asarray(arrays.get("temperatures", []))
    group = np.full(count, "", dtype=object)
    if len(batch) == 2 and temperatures.shape == batch[:1]:
        if temperatures.dtype.kind not in "fiu":
            raise InvalidDistribution(f"{source}: temperatures have dtype {temperatures.dtype}: give numbers")
        group = np.repeat([str(value) for value in temperatures.tolist()], batch[1])
    labels = {name: np.asarray(arrays[name]) for name in LABELS if np.shape(arrays.get(name, ())) == batch[-1:] != ()}
    text = labels["text"][context] if "text" in labels else np.arange(count)
    return Pairs(
        p=problem.p.reshape(count, n),
        q=problem.q.reshape(count, n),
        source=source,
        index=tuple(range(count)),
        group=tuple(map(str, group)),
        text=tuple(np.unique(text, return_inverse=True)[1].tolist()),
        labels={name: tuple(map(str, values[context])) for name, values in labels.items()},
    )


def _is_rounded(masses: Any) -> bool:
    """Whether it is an array of masses whose rows all sum to 1 within 1 %."""
    if not isinstance(masses, np.ndarray) or not masses.size:
        return False
    exact = masses.dtype.hasobject and all(isinstance(mass, Fraction | int) for mass in masses.ravel())
    if not exact and masses.dtype.kind != "f":
        return False
    return bool(np.all(masses >= 0) and np.all(abs(masses.sum(-1) - 1) <= Fraction(1, 100)))


def _divided(masses: Array) -> Array:
    if not _is_rounded(masses):
        return masses
    masses = masses if masses.dtype.hasobject else masses.astype(np.float64)
    return masses / masses.sum(-1, keepdims=True)


def names_in(found: Mapping[str, Column], file: Path) -> tuple[str, str]:
    """The first two of these names that the file has. Raises InvalidDistribution where there are none."""
    for names in (*LAWS, *LOGITS):
        if set(names) <= found.keys():
            return names
    lacking = [name for name in LAWS[0] if name not in found]
    lacks = f" has no {lacking[0]}," if len(lacking) == 1 else ""
    raise InvalidDistribution(f"{file}:{lacks} it holds {', '.join(found) or 'nothing'}: give {NAMES}")


def as_laws(array: Array, name: str, source: str, start: int = 0, temperature: float = 1.0) -> Array:
    """An array of masses or of logits, by its name, as laws (..., n) in float64; Fractions stay what they are.

    Masses sum to 1 to the precision in which they are stored, else InvalidDistribution; of float32 and float16 they are divided by
    their sum. start: row of the file that the first row is.
    """
    if any(name in names for names in LOGITS):
        return laws_of_logits(array, temperature, source, start)
    if array.dtype == np.float64 or array.dtype.hasobject:
        return np.asarray(array)
    where = f"{source}: " if source else ""
    if array.dtype == np.float16:
        _check_sums(array, where, start)
    elif array.dtype == np.float32:
        try:
            Problem(array, array, 1)
        except InvalidDistribution as error:
            raise InvalidDistribution(f"{where}{name}{str(error).removeprefix('p')}") from error
    else:
        raise InvalidDistribution(f"{where}{name} has dtype {array.dtype}: give float64, float32, float16 or Fractions")
    array = array.astype(np.float64)
    return np.asarray(array / array.sum(-1, keepdims=True))


def _check_sums(masses: Array, where: str, start: int) -> None:
    """Masses of float16 are off by 2^-11 of themselves, those near 0 by 2^-25."""
    sums, allowed = masses.astype(np.float64).sum(-1), 2.0**-11 + masses.shape[-1] * 2.0**-25
    wrong = np.flatnonzero((~(abs(sums - 1) <= allowed) | (masses < 0).any(-1)).ravel())  # NaN is wrong, too
    if len(wrong):
        row = int(wrong[0])
        seen = f"masses of float16 that sum to {sums.ravel()[row]:.6g}, or negative ones"
        raise InvalidDistribution(f"{where}row {start + row}: {seen}: give laws")


def laws_of_logits(logits: Array, temperature: float = 1.0, source: str = "", start: int = 0) -> Array:
    """softmax(logits / temperature) in float64, (..., n). start: row of the file that the first row is, for the error.

    -inf is a token without mass. Raises InvalidDistribution for NaN, +inf, and rows that are -inf throughout.
    """
    if logits.dtype.kind not in "fiu" or not logits.shape[-1:] or not logits.shape[-1]:
        seen = f"logits have dtype {logits.dtype}, shape {logits.shape}"
        raise InvalidDistribution(f"{source}: {seen}: give real numbers (..., n), n >= 1")
    logits = logits.astype(np.float64)
    highest = logits.max(-1, keepdims=True)
    sound = np.isfinite(highest[..., 0]) & ~np.isnan(logits).any(-1)
    if not sound.all():
        row = start + int(np.flatnonzero(~sound)[0])
        seen = "its logits hold NaN or inf, or are -inf throughout"
        raise InvalidDistribution(f"{source}, row {row}: {seen}: capture the row again, or leave it out")
    with np.errstate(over="ignore"):  # what is as far below the highest as no float64 can say has mass 0
        masses = np.exp((logits - highest) / temperature)
    law: Array = masses / masses.sum(-1, keepdims=True)
    return law


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
        raise InvalidDistribution("no shard: name .npz, .safetensors or other files, or a folder that holds some")
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
