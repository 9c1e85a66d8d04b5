"""Names of the arrays that are a pair, arrays in memory, and records {p, q} that are stacked to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..array_files import Column
from ..arrays import Array
from ..errors import InvalidDistribution

LAWS = (("p", "q"), ("target", "draft"))  # target first
LOGITS = (("target_logits", "draft_logits"), ("p_logits", "q_logits"))
MASSES = frozenset(name for names in LAWS for name in names)
KNOWN = MASSES | {name for names in LOGITS for name in names}
HOLDS = "p and q, or target_logits and draft_logits, of shape (..., n)"


@dataclass(frozen=True)
class Loaded(Column):
    """An array that is in memory."""

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.array.shape)

    def rows(self, start: int, stop: int) -> Array:
        return np.asarray(self.array).reshape(self.count, self.width)[start:stop]


def check_stacked(shape: tuple[int, ...], file: Path) -> None:
    """Refuse an array that is not p and q stacked."""
    if len(shape) < 2 or shape[0] != 2:
        raise InvalidDistribution(f"{file}: the array has shape {shape}: give p and q stacked, shape (2, ..., n)")


def known_name(name: str) -> str:
    """The name, "P" and " p" read as "p" where they can mean a pair's."""
    plain = name.strip().lower()
    return plain if plain in KNOWN else name


def by_known_name(found: Mapping[str, Any]) -> dict[str, Any]:
    """Values under the names of a pair where "P" or " p" can mean nothing else."""
    plain = [known_name(name) for name in found]
    return {name if plain.count(known) > 1 else known: found[name] for name, known in zip(found, plain, strict=True)}


def stack_records(records: Iterable[tuple[str, Mapping[str, Any]]], file: Path) -> dict[str, Array]:
    """Arrays (m, ..., n) of m records, each with its place in the file ("line 3"); what not all records have is left out."""
    found: dict[str, list[Any]] = {}
    count = 0
    for where, record in records:
        for name, value in by_known_name(record).items():
            found.setdefault(name, []).append(value)
        count += 1
        for name in sorted(KNOWN & found.keys()):
            values = found[name]
            if len(values) < count:
                raise InvalidDistribution(
                    f"{file}, {where}: has no {name}, which others have: it holds {', '.join(record) or 'nothing'}"
                )
            if np.shape(values[-1]) != np.shape(values[0]):
                seen = f"{name} has shape {np.shape(values[-1])}, that of the first has {np.shape(values[0])}"
                raise InvalidDistribution(f"{file}, {where}: {seen}: give all of them one shape")
    return {name: np.array(values) for name, values in found.items() if len(values) == count}
