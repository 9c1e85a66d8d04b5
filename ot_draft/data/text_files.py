"""Pairs in text: .json, lines of it (.jsonl), tables (.csv, .tsv), each also compressed by gzip (.gz).

Numbers become float64 as they are read. Where a mass is written as a text "1/3" (in tables: where one holds a /), all are Fractions.
"""

from __future__ import annotations

import csv
import gzip
import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from ..arrays import Array
from ..errors import InvalidDistribution
from .records import KNOWN, LAWS, LOGITS, MASSES, by_known_name, known_name, known_names, stack_records

EXPONENT = 1000  # decimals beyond 1e-1000 would be Fractions of millions of digits
WANTED = 'one object {"p": [...], "q": [...]}, a list of such objects, or one a line'
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def open_text(file: Path) -> IO[str]:
    """The text of a file, unpacked where its name ends in .gz."""
    opened = gzip.open if file.suffix.lower() == ".gz" else open
    return cast(
        IO[str], opened(file, "rt", encoding="utf-8-sig", newline="")
    )  # spreadsheets begin with a byte order mark


def read_json(file: Path) -> dict[str, Array]:
    """One object of nested lists, or a list of objects; what holds an object a line is read as such."""
    with open_text(file) as stream:
        try:
            content = json.load(stream, object_pairs_hook=_once)
        except json.JSONDecodeError as error:
            if not error.doc.strip():
                raise InvalidDistribution(f"{file}: it is empty: give {WANTED}") from None
            if error.msg != "Extra data":
                raise
            return read_json_lines(file)
    if isinstance(content, list) and content and all(isinstance(entry, dict) for entry in content):
        return _of_records(lambda: ((f"object {number}", entry) for number, entry in enumerate(content)), file)
    if not isinstance(content, dict):
        kinds = {type(entry).__name__ for entry in content} if isinstance(content, list) else set()
        seen = (
            f"a list of {', '.join(sorted(kinds)) or 'nothing'}"
            if isinstance(content, list)
            else f"a {type(content).__name__}"
        )
        raise InvalidDistribution(f"{file}: it holds {seen}: give {WANTED}")
    laws = by_known_name(content, str(file))
    exact = any(_has_text(value) for name, value in laws.items() if name in MASSES)
    return {name: _array(name, value, exact, str(file)) for name, value in laws.items()}


def read_json_lines(file: Path) -> dict[str, Array]:
    """One object a line: pairs of one shape, and labels beside them."""

    def records() -> Iterator[tuple[str, dict[str, Any]]]:
        with open_text(file) as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield f"line {number}", _entry(line, f"{file}, line {number}")

    return _of_records(records, file)


def _once(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; ValueError where a name of a pair stands in it twice: which is meant nobody can say."""
    found = dict(entries)
    if len(found) < len(entries):
        names = [name for name, _ in entries]
        twice = [name for name in found if known_name(name) in KNOWN and names.count(name) > 1]
        if twice:
            raise ValueError(f"{twice[0]} stands twice in one object: give it once")
    return found


def _entry(line: str, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise InvalidDistribution(f"{where}: not JSON ({error.msg}, column {error.colno}): give {WANTED}") from None
    if not isinstance(entry, dict):
        raise InvalidDistribution(f"{where}: it holds a {type(entry).__name__}: give {WANTED}")
    return entry


def _of_records(records: Callable[[], Iterable[tuple[str, dict[str, Any]]]], file: Path) -> dict[str, Array]:
    """Read twice: whether the masses are exact is known at the end, and floats are kept as such from the first on."""
    exact = any(
        _has_text(value) for _, entry in records() for name, value in entry.items() if known_name(name) in MASSES
    )

    def arrays() -> Iterator[tuple[str, dict[str, Any]]]:
        for where, entry in records():
            at = f"{file}, {where}"
            yield where, {name: _array(name, x, exact, at) for name, x in by_known_name(entry, at).items()}

    return stack_records(arrays(), file)


def _array(name: str, values: Any, exact: bool, where: str) -> Array:
    """Masses or logits of a name that is a pair's; other values as they are."""
    if name not in KNOWN:
        return np.asarray(values)
    exact = exact and name in MASSES
    try:
        numbers = _numbers(values, exact)
    except _NoNumber as error:
        at = "".join(f"[{place}]" for place in error.at)
        raise InvalidDistribution(f"{where}: {name}{at}: {error}") from None
    try:
        return np.array(numbers, object if exact else None)
    except ValueError:
        raise InvalidDistribution(f"{where}: {name} holds lists of different lengths: give all rows n masses") from None


def _has_text(values: Any) -> bool:
    return any(map(_has_text, values)) if isinstance(values, list) else isinstance(values, str)


class _NoNumber(Exception):
    """A text that stands where a number belongs. at: its places in the lists, the outermost first."""

    def __init__(self, seen: str) -> None:
        super().__init__(seen)
        self.at: list[int] = []


def _numbers(values: Any, exact: bool) -> Any:
    """Lists of numbers, as they are nested; texts as Fractions where masses are exact. Raises _NoNumber."""
    if isinstance(values, list):
        numbers: list[Any] = []
        try:
            for value in values:
                numbers.append(_numbers(value, exact))  # noqa: PERF401  # its length tells the place
        except _NoNumber as error:
            error.at.insert(0, len(numbers))
            raise
        return numbers
    if isinstance(values, str):
        if not exact:
            raise _NoNumber(f"{values!r} is no logit: write -1.5 or -Infinity")
        try:
            return as_fraction(values)
        except InvalidDistribution as error:
            raise _NoNumber(str(error)) from None
    if isinstance(values, bool):
        raise _NoNumber(f"{str(values).lower()} is no mass: write 1 or 0")
    if values is None or isinstance(values, dict):
        raise _NoNumber(f"{'null' if values is None else 'an object'} stands where a number belongs")
    if exact and isinstance(values, float):
        raise _NoNumber(f"{values} stands among masses that are texts: write all of them as texts, or none")
    return float(values) if not exact and isinstance(values, int) else values


def as_fraction(text: str, where: str = "") -> Fraction:
    """A mass as it is written: 1/3, 0.25, 1e-9. where: of the file, or the option, for the error."""
    where, text = f"{where}: " if where else "", text.strip()
    try:
        exponent = text.lower().partition("e")[2]
        if exponent and abs(int(exponent)) > EXPONENT:
            raise InvalidDistribution(f"{where}{text!r} is beyond 1e-{EXPONENT}: write 0, or a larger mass")
        return Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        if isinstance(error, InvalidDistribution):
            raise
        raise InvalidDistribution(f"{where}{text!r} is no mass: write 1/3 or 0.25") from None


Cells = tuple[int, str, tuple[str, str]]  # line, pair, and what stands for target and draft


def read_table(file: Path) -> dict[str, Array]:
    """One token a row, in two columns of a pair's names; pairs by the column `pair`. Read twice, see `_of_records`."""
    delimiter, names, places = _header(file)
    exact, commas, points = False, 0, 0
    for line, _, cells in _rows(file, delimiter, names, places):
        exact |= any("/" in cell for cell in cells)
        commas = commas or line * any("," in cell for cell in cells)
        points = points or line * any("." in cell for cell in cells)
    if commas and points:
        seen = f"decimal commas in line {commas}, decimal points in line {points}"
        raise InvalidDistribution(f"{file}: {seen}: write all numbers in one way")
    pairs: dict[str, tuple[Any, Any]] = {}
    for line, pair, cells in _rows(file, delimiter, names, places):
        if pair not in pairs:
            pairs[pair] = ([], []) if exact else (array("d"), array("d"))
        for name, values, cell in zip(names, pairs[pair], cells, strict=True):
            values.append(_mass(cell.replace(",", "."), name, exact, f"{file}, line {line}, column {name}"))
    if not pairs:
        raise InvalidDistribution(f"{file}: a header and no row: give one token a row")
    sizes = {len(target) for target, _ in pairs.values()}
    if len(sizes) > 1:
        seen = f"pairs of {sorted(sizes)} tokens in one file"
        raise InvalidDistribution(f"{file}: {seen}: fill the shorter ones up with mass 0")
    return {
        name: np.array([pair[side] for pair in pairs.values()], object if exact else float)
        for side, name in enumerate(names)
    }


def _mass(text: str, name: str, exact: bool, where: str) -> Fraction | float:
    if name in MASSES:
        mass = as_fraction(text, where)
        return mass if exact else float(mass)
    try:
        return float(text)
    except ValueError:
        raise InvalidDistribution(f"{where}: {text!r} is no logit: write -1.5 or -inf") from None


def _header(file: Path) -> tuple[str, tuple[str, str], tuple[int | None, int, int]]:
    """Delimiter, names of target and draft, and the columns of pair, target and draft."""
    with open_text(file) as stream:
        first = next((line for line in stream if line.strip() and not line.lower().startswith("sep=")), "").rstrip(
            "\r\n"
        )
    for delimiter in DELIMITERS:
        columns = [known_name(cell.strip()) for cell in next(csv.reader([first], delimiter=delimiter), [])]
        for names in (*LAWS, *LOGITS):
            if set(names) <= set(columns):
                known_names([name for name in columns if name], str(file), (*names, "pair"))
                pair = columns.index("pair") if "pair" in columns else None
                return delimiter, names, (pair, columns.index(names[0]), columns.index(names[1]))
    seen = f"its first row is {first[:80]!r}" if first else "it is empty"
    raise InvalidDistribution(
        f"{file}: {seen}: give a header with the columns p and q (and pair), each once, then one token a row"
    )


def _rows(
    file: Path, delimiter: str, names: tuple[str, str], places: tuple[int | None, int, int]
) -> Iterator[Cells]:  # fmt: skip
    """The rows below the header. Lines without anything are passed over, rows of empty cells at the end."""
    empty, width = 0, 0
    with open_text(file) as stream:
        reader = csv.reader(stream, delimiter=delimiter)
        try:
            for row in reader:
                cells = [cell.strip() for cell in row]
                line = reader.line_num
                if not row or (not width and (not any(cells) or cells[0].lower().startswith("sep="))):
                    continue
                if not width:
                    width = len(cells)
                elif not any(cells):
                    empty = empty or line
                elif empty:
                    raise InvalidDistribution(
                        f"{file}, line {empty}: the row is empty, and others follow: give it its masses, or remove it"
                    )
                else:
                    yield line, *_cells(cells, width, names, places, f"{file}, line {line}")
        except csv.Error as error:
            raise InvalidDistribution(f"{file} cannot be read: line {reader.line_num}: {error}") from error


def _cells(
    cells: list[str], width: int, names: tuple[str, str], places: tuple[int | None, int, int], where: str
) -> tuple[str, tuple[str, str]]:  # fmt: skip
    if any(cells[width:]):
        raise InvalidDistribution(
            f"{where}: it has more cells than the header: write decimals as 0.5 or 1/2, or part cells by semicolons"
        )
    pair, *sides = places
    for name, place in zip(names, sides, strict=True):
        if len(cells) <= place or not cells[place]:
            raise InvalidDistribution(f"{where}: nothing stands in column {name}: write 0 where there is no mass")
        if cells[place].startswith(("[", "(")):
            raise InvalidDistribution(
                f"{where}, column {name}: a cell must be one number, got {cells[place][:40]!r}. Write one token per row, or .jsonl."
            )
    return cells[pair] if pair is not None and pair < len(cells) else "", (cells[sides[0]], cells[sides[1]])
