"""Files of pairs, read by rows, also if larger than the memory: which arrays are a pair, and logits as distributions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..array_files import Column
from ..arrays import Array
from ..errors import InvalidDistribution
from ..problem import TOLERANCE, Problem
from .formats import columns, is_known
from .records import COLUMN_IDS, KNOWN, LAWS, LOGITS, LOGPROBS

IN_FOLDERS = (".npz", ".safetensors", ".parquet")  # other files are given one by one
LARGEST_ROUNDING = Fraction(1, 100)  # max. difference from 1 of the sum of rounded probabilities


def names_in(found: Mapping[str, Column], file: Path) -> tuple[str, str]:
    """The two names that the file has. Raises InvalidDistribution where there are none, or more than two."""
    for names in (*LAWS, *LOGITS):
        if set(names) == KNOWN & found.keys():
            return names
    raise InvalidDistribution(
        f"{file} must hold p and q, or {' and '.join(LOGITS[0])}, got {', '.join(found) or 'nothing'}. Rename or add arrays."
    )


def is_rounded(masses: Any) -> bool:
    """Whether it is an array of masses whose rows all sum to 1 within 1 %."""
    if not isinstance(masses, np.ndarray) or not masses.size:
        return False
    exact = masses.dtype.hasobject and all(isinstance(mass, Fraction | int) for mass in masses.ravel())
    if not exact and masses.dtype.kind != "f":
        return False
    return bool(
        np.all(masses >= 0) and np.all(np.asarray(abs(masses.sum(-1) - 1), np.float64) <= float(LARGEST_ROUNDING))
    )


def divided(masses: Array) -> Array:
    """Rounded masses by their sums; others as they are, to be refused."""
    if not is_rounded(masses):
        return masses
    masses = masses if masses.dtype.hasobject else masses.astype(np.float64)
    return np.asarray(masses / masses.sum(-1, keepdims=True))


def as_laws(array: Array, name: str, source: str, start: int = 0, temperature: float = 1.0) -> Array:
    """An array of masses or of logits, by its name, as laws (..., n) in float64; Fractions stay what they are.

    Masses of float32 and float16 sum to 1 to that precision, else InvalidDistribution, and are divided by their sum; of float64 and
    Fractions `Problem` says whether they are laws. start: row of the file that the first row is.
    """
    if any(name in names for names in LOGITS):
        if any(name in names for names in LOGPROBS):
            with np.errstate(over="ignore"):
                _check_sums(np.exp(array.astype(np.float64)), name, source, start, float(LARGEST_ROUNDING))
        return laws_of_logits(array, temperature, source, start, name)
    if array.dtype == np.float64 or array.dtype.hasobject:
        return np.asarray(array)
    if array.dtype not in (np.float32, np.float16):
        raise InvalidDistribution(
            f"{source}: {name} must be float64, float32, float16 or Fractions, got {array.dtype}. Convert it."
        )
    _check_sums(array, name, source, start)
    array = array.astype(np.float64)
    return np.asarray(array / array.sum(-1, keepdims=True))


def _check_sums(masses: Array, name: str, source: str, start: int, allowed: float = 0) -> None:
    """Masses of float16 are off by 2^-11 of themselves, those near 0 by 2^-25. allowed: another distance from 1."""
    half = masses.dtype == np.float16
    allowed = allowed or (2.0**-11 + masses.shape[-1] * 2.0**-25 if half else TOLERANCE["float32"])
    sums = masses.astype(np.float64).sum(-1)
    wrong = np.flatnonzero((~(abs(sums - 1) <= allowed) | (masses < 0).any(-1)).ravel())  # NaN is wrong, too
    if len(wrong):
        row = int(wrong[0])
        raise InvalidDistribution(
            f"{source}, row {start + row}: {name} must be probabilities >= 0 with sum 1, got sum {sums.ravel()[row]:.6g} in {masses.dtype}."
            " Correct the row."
        )


def laws_of_logits(
    logits: Array, temperature: float = 1.0, source: str = "", start: int = 0, name: str = "logits"
) -> Array:
    """softmax(logits / temperature) in float64, (..., n). start: row of the file that the first row is; name: of the array, for errors.

    -inf is a token without mass. Raises InvalidDistribution for NaN, +inf, and rows that are -inf throughout.
    """
    logits = logits.astype(np.float64) if logits.dtype.hasobject else logits  # Fractions of a text file
    if logits.dtype.kind != "f" or not logits.shape[-1:] or not logits.shape[-1]:
        raise InvalidDistribution(
            f"{source}: {name} must be floating-point of shape (..., n), n >= 1, got dtype {logits.dtype}, shape {logits.shape}."
            " Convert bfloat16 to float32 before saving; integers are taken for its bits."
        )
    logits = logits.astype(np.float64)
    highest = logits.max(-1, keepdims=True)
    sound = np.isfinite(highest[..., 0]) & ~np.isnan(logits).any(-1)
    if not sound.all():
        row = int(np.flatnonzero(~sound)[0])
        of_row = logits.reshape(-1, logits.shape[-1])[row]
        wrong = np.flatnonzero(~(of_row < np.inf))  # NaN and inf
        seen = f"token {wrong[0]}: logit {of_row[wrong[0]]:g}" if len(wrong) else "all are -inf"
        raise InvalidDistribution(
            f"{source}, row {start + row}, {name} must be finite or -inf, and not all -inf, got {seen}. Capture the row again or remove it."
        )
    with np.errstate(over="ignore"):  # what is as far below the highest as no float64 can say has mass 0
        masses = np.exp((logits - highest) / temperature)
    law: Array = masses / masses.sum(-1, keepdims=True)
    return law


@dataclass(frozen=True)
class Shard:
    """One file. columns: its arrays by name, unread where the format allows it; names: those of the two distributions, target first.

    label: as much of its path as tells it from the other shards; where that is unique, the file's name. digest: of its numbers.
    normalise: masses are divided by their sums, which are within 1 % of 1. temperatures: one, in words, for each entry of the first axis,
    where the file has them.
    """

    file: Path
    names: tuple[str, str]
    columns: Mapping[str, Column]
    label: str
    digest: str
    normalise: bool = False
    temperatures: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[int, ...]:
        """The leading axes of both arrays."""
        return self.columns[self.names[0]].shape[:-1]

    @property
    def widths(self) -> tuple[int, int]:
        """Number of tokens of each array."""
        target, draft = (self.columns[name].width for name in self.names)
        return target, draft

    def groups(self, start: int, stop: int) -> list[str]:
        """The temperature of each of these rows, "" where the file has none."""
        each = prod(self.axes[1:])
        return [self.temperatures[row // each] if self.temperatures else "" for row in range(start, stop)]

    @property
    def rows(self) -> int:
        return prod(self.axes)

    @property
    def n(self) -> int:
        """Tokens, those of the longer array where the other is filled up."""
        return max(self.widths)

    @property
    def holds_logits(self) -> bool:
        return self.names in LOGITS

    @property
    def padding(self) -> str:
        """A sentence on what is filled up with what; "" where nothing is."""
        if self.widths[0] == self.widths[1]:
            return ""
        name, width = min(zip(self.names, self.widths, strict=True), key=lambda each: each[1])
        return f"{name} has {width:,} tokens, {self.n:,} with {self.filler} at the end (--pad)"

    @property
    def filler(self) -> str:
        return "-inf" if self.holds_logits else "mass 0"

    def read(self, start: int, stop: int, temperature: float = 1.0, exact: bool = False) -> tuple[Array, Array]:
        """Rows start .. stop - 1 as laws (p, q), (rows, n) each, in float64; logits divided by the temperature first.

        exact: Fractions stay what they are. Raises InvalidDistribution for a row that is not a distribution at its stored precision.
        """
        arrays = [self._filled(self.columns[name].rows(start, stop)) for name in self.names]
        if self.normalise and not self.holds_logits:
            arrays = [divided(array) for array in arrays]
        try:
            p, q = (
                as_laws(x, name, str(self.file), start, temperature) for x, name in zip(arrays, self.names, strict=True)
            )
            if not self.holds_logits:
                _check(p, q, str(self.file), start)
        except InvalidDistribution as error:
            raise InvalidDistribution(f"{str(error).removesuffix('.')}{self._remedy(arrays)}") from error
        if p.dtype.hasobject and not exact:
            return p.astype(float), q.astype(float)
        return p, q

    def _filled(self, array: Array) -> Array:
        """(rows, n) of an array that may be shorter."""
        lacking = self.n - array.shape[-1]
        if not lacking:
            return array
        filler = np.full(
            (len(array), lacking),
            -np.inf if self.holds_logits else 0,
            array.dtype if array.dtype.kind == "f" else float,
        )
        if array.dtype.hasobject:
            filler = np.full(filler.shape, Fraction(0), object)
        return np.concatenate([array, filler], axis=-1)

    def _remedy(self, arrays: Sequence[Array]) -> str:
        if not self.holds_logits and any(array.dtype.kind in "fiu" and (array < 0).any() for array in arrays):
            return f". {self.names[0]} and {self.names[1]} are read as probabilities. For logits, use --logits (logits=True)."
        rounded = not self.holds_logits and not self.normalise and all(map(is_rounded, arrays))
        return ". For rounded probabilities, use --normalise (normalise=True)" if rounded else ""


def _check(p: Array, q: Array, source: str, start: int) -> None:
    """Raise InvalidDistribution with the first row that is not a distribution."""
    try:
        Problem(p, q, 1)
    except InvalidDistribution as error:
        for row, pair in enumerate(zip(p, q, strict=True)):
            try:
                Problem(*pair, 1)
            except InvalidDistribution as of_row:
                raise InvalidDistribution(f"{source}, row {start + row}: {of_row}") from of_row
        raise InvalidDistribution(f"{source}: {error}") from error


def open_shards(
    paths: Iterable[Path | str], temperature: float = 1.0, pad: bool = False, normalise: bool = False, logits: bool = False
) -> list[Shard]:  # fmt: skip
    """Return the shards of files and folders, whose rows are read when they are needed.

    Every file is read once here, for its checksums and its digest.

    Parameters
    ----------
    paths : iterable of str or Path
        Files, and folders whose .npz, .safetensors and .parquet files are taken, by name.
    temperature : float, default=1.0
        Temperature by which logits are divided.
    pad, normalise, logits : bool, default=False
        As in `read_pairs`.

    Returns
    -------
    list of Shard

    Raises
    ------
    InvalidDistribution
        If a file cannot be read or is given twice, no pair is found, or a temperature is given for probabilities.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "pairs.npz"), p=[[0.5, 0.5]], q=[[0.75, 0.25]])
    ...     [shard] = open_shards([folder])
    >>> shard.rows, shard.n
    (1, 2)
    """
    files = [file for path in map(Path, paths) for file in _files(path)]
    if not files:
        raise InvalidDistribution(
            "SHARDS must name files, or folders that hold .npz, .safetensors or .parquet files, got none. Add one."
        )
    places = [os.path.realpath(file) for file in files]
    twice = [file for number, file in enumerate(files) if places[number] in places[:number]]
    if twice:
        raise InvalidDistribution(f"SHARDS must be distinct files, got {twice[0]} twice. Name it once.")
    opened = (open_shard(file, pad, normalise, logits=logits) for file in files)
    shards = [replace(shard, label=label) for shard, label in zip(opened, _labels(files), strict=True)]
    if not any(shard.rows for shard in shards):
        raise InvalidDistribution(
            f"SHARDS must hold at least one pair, got none in {', '.join(map(str, files[:3]))}. Add pairs."
        )
    for shard in shards:
        check_temperature(shard, temperature)
    return shards


def check_temperature(shard: Shard, temperature: float) -> None:
    """A temperature applies to logits only."""
    if not shard.holds_logits and temperature != 1:
        raise InvalidDistribution(
            f"temperature must be 1 for probabilities, as in {shard.file}, got {temperature:g}. For logits, use"
            " --logits (logits=True)."
        )


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
        shards = (file for file in path.iterdir() if is_known(file, IN_FOLDERS))
        return sorted(file for file in shards if not file.name.startswith("."))  # such are half written
    if not path.is_file():
        raise InvalidDistribution(f"{path} must be a file or a folder, got neither. Correct the path.")
    return [path]


def temperatures_of(given: Any, axes: tuple[int, ...], source: str) -> tuple[str, ...]:
    """Temperatures (T,) of a file, in words, one for each entry of the first axis; none for an empty one."""
    temperatures = np.asarray(given)
    if not temperatures.size:
        return ()
    if temperatures.dtype.kind not in "fiu":
        raise InvalidDistribution(
            f"{source}: temperatures must be numbers, got dtype {temperatures.dtype}. Convert them."
        )
    if not axes or temperatures.shape != axes[:1]:
        raise InvalidDistribution(
            f"{source}: temperatures must be one number for each entry of the first axis of p, of shape {axes[:1]}, got shape"
            f" {temperatures.shape}. Correct or remove them."
        )
    wrong = np.flatnonzero(~(np.isfinite(temperatures) & (temperatures >= 0)))
    if wrong.size:
        raise InvalidDistribution(
            f"{source}: temperatures must be finite numbers >= 0, got {temperatures[wrong[0]]}. Correct entry {wrong[0]}."
        )
    return tuple(str(value) for value in temperatures.tolist())


def _check_ids(ids: Column, name: str, file: Path) -> None:
    """Each token has one column, which is that of both distributions."""
    rows = np.sort(ids.whole().reshape(ids.count, ids.width), axis=-1)
    twice = ((rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0)).any(-1)
    if twice.any():
        raise InvalidDistribution(
            f"{file}, row {int(twice.argmax())}: {name} must be different token ids, one for each column of both distributions."
            " Add up the probabilities of each token first."
        )


def open_shard(
    file: Path, pad: bool = False, normalise: bool = False, draft_file: Path | None = None, logits: bool = False
) -> Shard:
    """One file, all of which is read once, see `open_shards`.

    pad: where one array has fewer tokens it is filled up at its end, logits with -inf, masses with 0, as is right where the other
    model's vocabulary begins with that of the one. normalise: for masses that were rounded. draft_file: of q, where
    `file` is an .npy file of p. logits: whether the arrays hold logits under names of probabilities.
    """
    found = columns(file, draft_file)
    names = names_in(found, file)
    target, draft = (found[name].shape for name in names)
    shapes = f"{target} and {draft} of {names[0]} and {names[1]}"
    if not target or target[:-1] != draft[:-1] or not (target[-1] and draft[-1]):
        raise InvalidDistribution(
            f"{file} must hold arrays of one shape (..., n), n >= 1, got {shapes}. Correct the arrays."
        )
    for name in COLUMN_IDS:
        if name in found and (len(found[name].shape) > 1 or len(target) == 1):
            _check_ids(found[name], name, file)
    digest = " ".join(found[name].digest() for name in names)
    if logits and names not in LOGITS:
        found = {**found, **dict(zip(LOGITS[0], (found[name] for name in names), strict=True))}
        names, digest = LOGITS[0], f"{digest} logits"
    told = found["temperatures"].whole() if "temperatures" in found else ()
    temperatures = temperatures_of(told, target[:-1], str(file))
    shard = Shard(file, names, found, file.name, digest, normalise, temperatures)
    if shard.padding and not pad:
        raise InvalidDistribution(
            f"{file} must hold arrays with one number of tokens, got {shapes}. If the token ids agree, use --pad (pad=True), which appends"
            f" {shard.filler} to the shorter one."
        )
    return shard
