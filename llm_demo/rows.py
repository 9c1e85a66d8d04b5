"""CSV files of measurements."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def write(rows: Sequence[Row], file: Path) -> None:
    """Write rows with the same columns."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def append(row: Row, file: Path, columns: Sequence[str] = ()) -> None:
    """Append a row, after a header if the file is new; columns: all columns, if the row may lack some."""
    new = not file.exists()
    with file.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns or list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def read(file: Path) -> list[dict[str, str]]:
    """Return the rows, with values as strings."""
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
