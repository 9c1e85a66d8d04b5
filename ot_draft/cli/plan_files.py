"""What `ot-draft plan` reads: costs and traces, with clear refusals."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..paths.evaluation.wall_clock import Costs, Efficiency
from .refused import Refused


def read_costs(file: Path) -> Costs:
    """Costs from .json or .csv; Refused where they cannot be read."""
    tables: dict[str, dict[Any, float]] = {"verify": {}, "draft": {}, "select": {}}
    for what, at, cost in _entries(file):
        if what not in tables:
            raise Refused(f"{file}: {what!r} is no cost: give verify, draft and select")
        try:
            if isinstance(cost, bool):
                raise TypeError
            tables[what][at if what == "select" else int(at)] = float(cost)
        except (TypeError, ValueError, OverflowError):
            raise Refused(
                f"{file}: cost {cost!r} of {what} at {at!r}: give numbers, at whole numbers of tokens"
            ) from None
    return Costs(**tables)


def _entries(file: Path) -> list[tuple[str, str, Any]]:
    if file.suffix == ".csv":
        return [
            (row["what"].strip(), (row["at"] or "").strip(), row["cost"])
            for row in _records(file, ("what", "at", "cost"))
        ]
    if file.suffix != ".json":
        raise Refused(f"{file} ends in {file.suffix or 'nothing'}: give costs as .json or .csv")
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # of json, of characters, of too many digits
        raise Refused(f"{file} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise Refused(f"{file}: give one object with verify, draft and select")
    if isinstance(found.get("costs"), dict):  # the whole of what `ot-draft decode --compare --json` prints
        found = found["costs"]
    return [
        (what, at, cost)
        for what, table in found.items()
        for at, cost in (table if isinstance(table, dict) else {"": table}).items()
    ]


def read_traces(file: Path) -> list[Efficiency]:
    """Block efficiencies by rule, K and L."""
    found = []
    for number, row in enumerate(_records(file, ("rule", "K", "L", "block_efficiency")), 2):
        try:
            error = float(row.get("error") or "nan")
            found.append(Efficiency(row["rule"], int(row["K"]), int(row["L"]), float(row["block_efficiency"]), error))
        except (TypeError, ValueError) as problem:
            raise Refused(f"{file}, line {number}: {problem}") from None
    return found


def _records(file: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (csv.Error, UnicodeDecodeError) as error:
        raise Refused(f"{file} cannot be read: {error}") from error
    if not rows or not set(columns) <= rows[0].keys():
        raise Refused(f"{file}: give a CSV with the columns {','.join(columns)} and at least one row")
    return rows
