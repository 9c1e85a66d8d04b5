"""Rows of numbers as CSV files: the one way in which measurements are written and read."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def write(rows: Sequence[Row], file: Path) -> None:
    """Rows with the same columns."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def append(row: Row, file: Path, columns: Sequence[str] = ()) -> None:
    """One more row, behind a line with the names of the columns where the file is new; columns: all, where the row may lack some."""
    new = not file.exists()
    with file.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns or list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def read(file: Path) -> list[dict[str, str]]:
    """The rows, as text."""
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
