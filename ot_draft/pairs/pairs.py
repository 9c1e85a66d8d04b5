"""Pairs (p, q) to compare rules on, read from a file or from the command line; every wrong input ends in one clear line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ..array_files import array_names, read_array, read_arrays
from ..arrays import Array
from ..errors import InvalidDistribution
from ..problem import Problem
from .logits import LOGITS, laws_of_logits

EXPONENT = 1000  # decimals beyond 1e-1000 would be Fractions of millions of digits
Reader = Callable[[Path], dict[str, Any]]  # p and q, and what stands beside them
LAWS = ("p", "q")
IN_NPZ, IN_NPY = f"p and q, or {' and '.join(LOGITS)}", "p and q stacked, shape (2, ..., n)"
LABELS = ("text", "kind", "origin", "position")  # arrays of an .npz that say what a context is


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
        return Pairs(
            p=self.p[rows],
            q=self.q[rows],
            source=self.source,
            index=tuple(self.index[row] for row in rows),
            group=tuple(self.group[row] for row in rows),
            text=tuple(self.text[row] for row in rows),
            labels={name: tuple(values[row] for row in rows) for name, values in self.labels.items()},
        )

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


def read_pairs(file: Path) -> Pairs:
    """The pairs of an .npz (p, q), .npy (two laws stacked), .json or .csv file.

    .npz: arrays p and q of shape (..., n), or target_logits and draft_logits, taken at temperature 1; where it holds
    `temperatures` (T,) and p is (T, C, n), and where it holds `text` (C,), as the committed data does, these are used.
    .npy: shape (2, ..., n). .json: {"p": ..., "q": ...}, nested lists, masses as numbers or as strings like "1/3". .csv:
    columns p and q, one token a row; a column `pair` separates pairs.
    """
    of_arrays: dict[str, Reader] = {".npz": _read_npz, ".npy": _read_npy}
    of_text: dict[str, Reader] = {".json": _read_json, ".csv": _read_csv}
    if file.suffix not in of_arrays | of_text:
        raise InvalidDistribution(f"{file}: give a file that ends in {', '.join(of_arrays | of_text)}")
    arrays = of_arrays[file.suffix](file) if file.suffix in of_arrays else _from_text(file, of_text[file.suffix])
    missing = [name for name in ("p", "q") if name not in arrays]
    if missing:
        raise InvalidDistribution(f"{file} has no {' and no '.join(missing)}: it has {', '.join(arrays) or 'nothing'}")
    return as_pairs(arrays, str(file))


def _from_text(file: Path, read: Reader) -> dict[str, Any]:
    try:
        return read(file)
    except InvalidDistribution as error:
        raise InvalidDistribution(f"{file}: {error}") from error
    except (OSError, ValueError, OverflowError, RecursionError, csv.Error) as error:  # json's are ValueErrors
        raise InvalidDistribution(f"{file} cannot be read: {' '.join(str(error).split())}") from error


def as_pairs(arrays: dict[str, Any], source: str) -> Pairs:
    """Validated pairs from p and q (..., n) and, if they are there, `temperatures` and the labels of contexts."""
    try:
        problem = Problem(arrays["p"], arrays["q"], 1)
    except InvalidDistribution as error:
        raise InvalidDistribution(f"{source}: {error}") from error
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


def exact_masses(text: str) -> list[Fraction]:
    """Masses like 1/2,1/4,0.25 as Fractions; decimals are read as written."""
    return [_fraction(part) for part in text.split(",")]


def _fraction(text: str) -> Fraction:
    try:
        exponent = text.lower().partition("e")[2]
        if exponent and abs(int(exponent)) > EXPONENT:
            raise ValueError
        return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        raise InvalidDistribution(f"{text.strip()!r} is no mass: write 1/3 or 0.25") from None


def _read_npz(file: Path) -> dict[str, Any]:
    stored = array_names(file, IN_NPZ)
    laws = next((names for names in (LAWS, LOGITS) if set(names) <= set(stored)), None)
    if laws is None:
        raise InvalidDistribution(f"{file}: it holds {', '.join(stored) or 'nothing'}: give {IN_NPZ}")
    arrays = read_arrays(file, [*laws, *(name for name in ("temperatures", *LABELS) if name in stored)], IN_NPZ)
    if laws == LOGITS:
        arrays |= {
            law: laws_of_logits(arrays[name], source=f"{file}: its arrays")
            for law, name in zip(LAWS, LOGITS, strict=True)
        }
    return arrays


def _read_npy(file: Path) -> dict[str, Any]:
    stacked = read_array(file, IN_NPY)
    if stacked.ndim < 2 or len(stacked) != 2:
        raise InvalidDistribution(f"{file}: the array has shape {stacked.shape}: give {IN_NPY}")
    return {"p": stacked[0], "q": stacked[1]}


def _read_json(file: Path) -> dict[str, Any]:
    content = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise InvalidDistribution('give one object {"p": [...], "q": [...]}')
    laws = {name: content[name] for name in ("p", "q") if name in content}
    exact = any('"' in json.dumps(masses) for masses in laws.values())
    return content | {name: _numbers(masses, exact) for name, masses in laws.items()}


def _numbers(values: Any, exact: bool) -> Any:
    if isinstance(values, list):
        return [_numbers(value, exact) for value in values]
    if isinstance(values, str):
        return _fraction(values)
    if isinstance(values, bool):
        raise InvalidDistribution(f"{str(values).lower()} is no mass: write 1 or 0")
    if exact and isinstance(values, float):
        raise InvalidDistribution(f"{values} stands among exact fractions: write it as a string, too")
    return float(values) if not exact and isinstance(values, int) else values


def _read_csv(file: Path) -> dict[str, Any]:
    with file.open(encoding="utf-8-sig", newline="") as stream:  # spreadsheets begin with a byte order mark
        reader = csv.DictReader(stream)
        rows, header = list(reader), reader.fieldnames or []
    if not rows or not {"p", "q"} <= set(header) or len(set(header)) < len(header):
        raise InvalidDistribution("give a header with the columns p and q (and pair), each once, then one token a row")
    for number, row in enumerate(rows):
        if None in row:
            raise InvalidDistribution(
                f"token row {number} has more cells than the header: write decimals as 0.5 or 1/2"
            )
    pairs: dict[str, dict[str, list[Fraction]]] = {}
    for row in rows:
        pair = pairs.setdefault(row.get("pair") or "", {"p": [], "q": []})
        for name, masses in pair.items():
            masses.append(_fraction(row[name] or ""))
    sizes = {len(pair["p"]) for pair in pairs.values()}
    if len(sizes) > 1:
        raise InvalidDistribution(f"pairs of {sorted(sizes)} tokens in one file: fill the shorter ones up with mass 0")
    stacked = {name: [pair[name] for pair in pairs.values()] for name in ("p", "q")}
    exact = any("/" in (row["p"] or "") + (row["q"] or "") for row in rows)
    return stacked if exact else {name: np.array(masses, dtype=np.float64) for name, masses in stacked.items()}
