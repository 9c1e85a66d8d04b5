"""Names of the arrays that are a pair, arrays in memory, and records {p, q} that are stacked to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..array_files import Column
from ..arrays import Array
from ..errors import InvalidDistribution

LAWS = (("p", "q"), ("target", "draft"), ("target_probs", "draft_probs"))  # target first
LOGPROBS = (("target_logprobs", "draft_logprobs"), ("p_logprobs", "q_logprobs"))
LOGITS = (("target_logits", "draft_logits"), ("p_logits", "q_logits"), *LOGPROBS)
LABELS = ("text", "kind", "origin", "position")  # arrays that say what a context is
COLUMN_IDS = (
    "token",
    "tokens",
    "slots",
)  # (..., n): the token of each column of both distributions, negative for a class of tokens
WITH_PROVENANCE = (
    "drafts",
    "full_optimum",
    "setting",
    "value",
)  # in the project's own measurements, together with `provenance`
MASSES = frozenset(name for names in LAWS for name in names)
KNOWN = MASSES | {name for names in LOGITS for name in names}
READ = KNOWN | {"temperatures", *LABELS, *COLUMN_IDS, "pair", "provenance", *WITH_PROVENANCE}
HOLDS = "p and q, or target_logits and draft_logits, of shape (..., n). Convert other formats as in examples/convert.md"


@dataclass(frozen=True)
class Loaded(Column):
    """An array that is in memory."""

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.array.shape)

    def rows(self, start: int, stop: int) -> Array:
        return np.asarray(self.array).reshape(self.count, self.width)[start:stop]


def known_name(name: str) -> str:
    """The name, "P" and " p" read as "p"."""
    plain = name.strip().lower()
    return plain if plain in READ else name


def known_names(names: Sequence[str], where: str, allowed: Iterable[str] = READ) -> list[str]:
    """Return the names of a file's arrays, keys or columns as they are read. This is the only check of names."""
    plain, allowed = [known_name(name) for name in names], set(allowed)
    if "provenance" not in plain:
        allowed -= set(WITH_PROVENANCE)
    wrong = [name for name, known in zip(names, plain, strict=True) if known not in allowed or plain.count(known) > 1]
    if wrong:
        others = [name for name in ("pair", "temperatures", *LABELS) if name in allowed]
        said = ", ".join(wrong[:5]) + ", ..." * (len(wrong) > 5)
        raise InvalidDistribution(
            f"{where}: names must be p and q, target and draft, target_probs and draft_probs, or the first four with _logits or _logprobs,"
            f" each once, and {', '.join(others)}, got {said}. Rename or remove it; columns are paired by their order, not by token ids."
        )
    return plain


def by_known_name(found: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Values under the names by which they are read."""
    return dict(zip(known_names(list(found), where), found.values(), strict=True))


def stack_records(records: Iterable[tuple[str, Mapping[str, Any]]], file: Path) -> dict[str, Array]:
    """Arrays (m, ..., n) of m records, each with its place in the file ("line 3"); what not all records have is left out."""
    found: dict[str, list[Any]] = {}
    count = 0
    for where, record in records:
        for name, value in by_known_name(record, f"{file}, {where}").items():
            found.setdefault(name, []).append(value)
        count += 1
        for name in sorted(KNOWN & found.keys()):
            values = found[name]
            if len(values) < count:
                raise InvalidDistribution(
                    f"{file}, {where} must hold {name}, as other pairs do, got {', '.join(record) or 'nothing'}. Add it."
                )
            if np.shape(values[-1]) != np.shape(values[0]):
                raise InvalidDistribution(
                    f"{file}, {where}: {name} must have the shape of the first, {np.shape(values[0])}, got {np.shape(values[-1])}."
                    " Save all pairs in one shape."
                )
    return {name: np.array(values) for name, values in found.items() if len(values) == count}
