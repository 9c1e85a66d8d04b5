"""Means over a sweep's files, read part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

from ..errors import InvalidArgument
from .parts import read_whole
from .plan import MANIFEST


@dataclass(frozen=True)
class Mean:
    """One rule under one law with k drafts: means over all pairs, and the standard error of the mean acceptance.

    target: name of what stood in the place of p, whose acceptance and optimum these are; "" for p itself.
    """

    rule: str
    law: str
    k: int
    pairs: int
    acceptance: float
    error: float
    optimum: float
    target: str = ""


def summarise_sweep(out: Path | str) -> list[Mean]:
    """Means of a sweep, also of one that has not ended, ordered by law, k and rule."""
    out = Path(out)
    if not (out / MANIFEST).is_file():
        raise InvalidArgument(f"{out} holds no {MANIFEST}: give the folder of a sweep")
    sums: dict[tuple[str, str, int, str], list[float]] = {}
    for file in sorted(out.glob("part-*.parquet")):
        for key, numbers in _sums(read_whole(file)):
            old = sums.setdefault(key, [0, 0.0, 0.0, 0.0])
            sums[key] = [a + b for a, b in zip(old, numbers, strict=True)]
    return [_mean(key, *numbers) for key, numbers in sorted(sums.items(), key=lambda item: (item[0][1], item[0][2]))]


def _sums(table: Any) -> Iterator[tuple[tuple[str, str, int, str], list[float]]]:
    """Per rule, law, k and target: pairs, sum and sum of squares of the acceptance, sum of the optimum."""
    from pyarrow import compute

    table = table.append_column("square", compute.multiply(table["acceptance"], table["acceptance"]))
    table = table.set_column(table.schema.get_field_index("rule"), "rule", table["rule"].cast("string"))
    table = table.set_column(table.schema.get_field_index("law"), "law", table["law"].cast("string"))
    target = table["target"][0].as_py() if "target" in table.column_names else ""  # one in all of a sweep
    what = [("row", "count"), ("acceptance", "sum"), ("square", "sum"), ("optimum", "sum")]
    for row in table.group_by(["rule", "law", "k"], use_threads=False).aggregate(what).to_pylist():
        numbers = [row["row_count"], row["acceptance_sum"], row["square_sum"], row["optimum_sum"]]
        yield (row["rule"], row["law"], row["k"], target), numbers


def _mean(key: tuple[str, str, int, str], pairs: float, acceptance: float, square: float, optimum: float) -> Mean:
    rule, law, k, target = key
    mean = acceptance / pairs
    variance = max(square / pairs - mean**2, 0.0)
    return Mean(rule, law, k, int(pairs), mean, sqrt(variance / pairs), optimum / pairs, target)
