"""Rows of a comparison in pairs.csv, written as they are computed, so that an interrupted comparison can be resumed."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any

from ..array_files import differences, write_json
from ..errors import InvalidArgument
from ..version import __version__
from .pairs import PairsFound
from .study import Row, Study, chunk_of
from .tables import as_records, csv_text

RESULT = "compare.json"


class Journal:
    """The folder of a comparison. known: number of chunks of pairs (see `compare_parts`) whose rows the folder holds.

    A folder of other settings is overwritten if its comparison is complete (it holds compare.json). An interrupted comparison of other
    settings raises InvalidArgument, since it may be hours of work.
    """

    def __init__(self, folder: Path, pairs: PairsFound, study: Study) -> None:
        self._file, self._index, self._each = folder / "pairs.csv", pairs.index, study.rows_a_pair
        self._chunk = chunk_of(pairs.n)
        manifest, result = folder / "_compare.json", folder / RESULT
        settings = {
            "made_by": f"ot_draft {__version__}",
            "pairs": pairs.digest(),
            **study.settings,
            "lp_limit": study.lp_limit,
        }
        different = differences(manifest, settings) if manifest.exists() else "all"
        if different and manifest.exists() and not result.exists():
            raise InvalidArgument(
                f"{folder} must not hold an interrupted comparison with other settings ({different} differs). Use another folder, use the"
                f" old settings to resume it, or remove {manifest}."
            )
        result.unlink(missing_ok=True)
        if different:
            self._file.write_bytes(b"")
            write_json(manifest, settings)
        self._file.touch()
        ends = [end for _, end in self._chunks()]
        self.known = len(ends)
        with self._file.open("rb+") as stream:
            stream.truncate(ends[-1] if ends else 0)

    def add(self, pairs: PairsFound, rows: list[Row]) -> None:
        """The rows of the next chunk."""
        with self._file.open("ab") as stream:
            stream.write(csv_text(as_records(rows, pairs), header=not stream.tell()).encode())

    def chunks(self) -> Iterator[list[Row]]:
        """Rows of the known chunks."""
        return (rows for rows, _ in self._chunks())

    def rows(self) -> Iterator[Row]:
        """Rows of all known chunks."""
        return (row for rows, _ in self._chunks() for row in rows)

    def _chunks(self) -> Iterator[tuple[list[Row], int]]:
        """Rows of every complete chunk and the position of the byte after them; ends before incomplete or unordered rows."""
        found: list[Row] = []
        places, last = iter(self._index), len(self._index)
        for number, (pair, group) in enumerate(groupby(_rows(self._file), lambda row: row[0].pair), 1):
            rows = list(group)
            if len(rows) != self._each or pair != next(places, None):
                return
            found += [row for row, _ in rows]
            if number % self._chunk == 0 or number == last:
                yield found, rows[-1][1]
                found = []


def _rows(file: Path) -> Iterator[tuple[Row, int]]:
    """Every row and the position of the byte after it, up to the first line that is not a row."""
    place = 0

    def lines() -> Iterator[str]:
        nonlocal place
        with file.open("rb") as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                place += len(line)
                yield line.decode()

    try:
        for record in csv.DictReader(lines()):
            yield _row(record), place
    except (
        csv.Error,
        ValueError,
        KeyError,
        TypeError,
        ZeroDivisionError,
    ):  # of a file that something else has written to
        return


def _row(record: dict[str, Any]) -> Row:
    def number(name: str) -> Any:
        exact, text = record[f"{name}_exact"], record[name]
        return Fraction(exact) if exact else float(text) if text else None

    accepted, taken, optimum = (number(name) for name in ("accepted", "taken", "optimum"))
    about = (int(record["pair"]), int(record["k"]), record["rule"], record["law"])
    return Row(*about, accepted, taken, float(record["error"]), optimum, record["method"])
