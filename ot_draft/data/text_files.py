"""Pairs in text: .json, lines of it (.jsonl), tables (.csv, .tsv), each also compressed by gzip (.gz).

Numbers become float64 as they are read. Where a mass is written as a text "1/3" (in tables: where one holds a /), all are Fractions.
"""

from __future__ import annotations

import csv
import gzip
import json
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from ..arrays import Array
from ..errors import InvalidDistribution
from .records import KNOWN, LAWS, LOGITS, MASSES, by_known_name, known_name, known_names, stack_records

WANTED = 'one object {"p": [...], "q": [...]}, a list of such objects, or one per line'


def open_text(file: Path) -> IO[str]:
    """The text of a file, unpacked where its name ends in .gz."""
    opened = gzip.open if file.suffix.lower() == ".gz" else open
    return cast(
        IO[str], opened(file, "rt", encoding="utf-8-sig", newline="")
    )  # spreadsheets begin with a byte order mark


def read_json(file: Path) -> dict[str, Array]:
    """One object of nested lists, or a list of objects; a file with one object per line is read as such."""
    with open_text(file) as stream:
        try:
            content = json.load(stream, object_pairs_hook=_once)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data":
                raise
            return read_json_lines(file)
    entries = content if type(content) is list else [content]
    if not entries or {type(entry) for entry in entries} != {dict}:
        seen = ", ".join(sorted({type(entry).__name__ for entry in entries}))
        raise InvalidDistribution(f"{file} must hold {WANTED}, got {seen or 'an empty list'}.")
    if content is not entries:
        ((_, arrays),) = _exact_if_any([(str(file), content)])
        return arrays
    return _stacked(((f"object {number}", entry) for number, entry in enumerate(entries)), file)


def read_json_lines(file: Path) -> dict[str, Array]:
    """One object per line: pairs of one shape, with their labels."""
    with open_text(file) as stream:
        lines = ((f"line {number}", line) for number, line in enumerate(stream, 1) if line.strip())
        return _stacked(((where, _entry(line, f"{file}, {where}")) for where, line in lines), file)


def _once(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; ValueError for a name of a distribution that it has twice."""
    found = dict(entries)
    if len(found) < len(entries):
        names = [name for name, _ in entries]
        twice = [name for name in found if known_name(name) in KNOWN and names.count(name) > 1]
        if twice:
            raise ValueError(f"{twice[0]} occurs twice in one object. Remove one of them.")
    return found


def _entry(line: str, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise InvalidDistribution(
            f"{where} must be JSON, got an error at column {error.colno} ({error.msg}). Give {WANTED}."
        ) from None
    if type(entry) is not dict:
        raise InvalidDistribution(f"{where} must be an object, got {type(entry).__name__}. Give {WANTED}.")
    return entry


Records = Iterable[tuple[str, dict[str, Any]]]  # each with its place in the file


def _stacked(records: Records, file: Path) -> dict[str, Array]:
    arrays = _exact_if_any((f"{file}, {where}", entry) for where, entry in records)
    return stack_records(((where.removeprefix(f"{file}, "), entry) for where, entry in arrays), file)


def _exact_if_any(records: Records) -> list[tuple[str, dict[str, Array]]]:
    """The arrays of records; where one mass of the file is a string, all are Fractions."""
    found = [
        (where, {name: _array(name, x, f"{where}: {name}") for name, x in by_known_name(entry, where).items()})
        for where, entry in records
    ]
    masses = [(where, name, entry) for where, entry in found for name in entry.keys() & MASSES]
    if any(entry[name].dtype.hasobject for _, name, entry in masses):
        for where, name, entry in masses:
            if not entry[name].dtype.hasobject:
                if (entry[name] % 1).any():
                    raise InvalidDistribution(
                        f"{where}: {name} must hold strings as other masses do, got numbers. Write all masses as strings, or none."
                    )
                entry[name] = as_exact(entry[name])
    return found


def _array(name: str, values: Any, where: str) -> Array:
    """Masses or logits as float64, masses with a string among them as Fractions; other values as they are."""
    if name not in KNOWN:
        return np.asarray(values)
    cells = np.array(values, object)  # in lists of different lengths, the inner ones are cells
    kinds = set(map(type, cells.flat))
    exact = name in MASSES and str in kinds
    if not kinds <= ({int, str} if exact else {int, float}):
        index, cell = next(
            (index, cell)
            for index, cell in np.ndenumerate(cells)
            if type(cell) not in ((int, str) if exact else (int, float))
        )
        wanted = "a string, as another mass is," if exact else "a number"
        raise InvalidDistribution(
            f"{where}{_at(index)} must be {wanted} in lists of one length, got {json.dumps(cell)[:40]}."
            f" Write {'all masses as strings, or none' if exact else '0.5 or -Infinity'}."
        )
    if not exact:
        return cells.astype(np.float64)
    return np.array(
        [as_fraction(str(cell), f"{where}{_at(index)}") for index, cell in np.ndenumerate(cells)], object
    ).reshape(cells.shape)


def _at(index: tuple[int, ...]) -> str:
    return "".join(f"[{place}]" for place in index)


as_exact = np.frompyfunc(Fraction, 1, 1)


def as_fraction(text: str, where: str, max_exponent: int = 1000) -> Fraction:
    """A mass as it is written: 1/3, 0.25, 1e-9. where: of the file, or the option, for the error.

    max_exponent: of ten; decimals beyond would be Fractions of millions of digits.
    """
    text = text.strip()
    with suppress(ValueError, ZeroDivisionError):
        if abs(int(text.lower().partition("e")[2] or 0)) <= max_exponent:
            return Fraction(text)
    raise InvalidDistribution(
        f"{where} must be a fraction or a decimal of at most {max_exponent} digits, got {text[:40]!r}. Write it as 1/3 or 0.25."
    )


Cells = tuple[int, str, tuple[str, str]]  # line, pair, and what stands for target and draft


def read_table(file: Path) -> dict[str, Array]:
    """One token a row, in two columns of a pair's names; pairs by the column `pair`. Read twice: the last mass may be exact."""
    delimiter, names, places = _header(file)
    exact, commas, points = False, 0, 0
    for line, _, cells in _rows(file, delimiter, names, places):
        exact |= any("/" in cell for cell in cells)
        commas = commas or line * any("," in cell for cell in cells)
        points = points or line * any("." in cell for cell in cells)
    if commas and points:
        raise InvalidDistribution(
            f"{file} must have one decimal separator, got commas in line {commas} and points in line {points}. Use points."
        )
    pairs: dict[str, tuple[Any, Any]] = {}
    for line, pair, cells in _rows(file, delimiter, names, places):
        if pair not in pairs:
            pairs[pair] = ([], []) if exact else (array("d"), array("d"))
        for name, values, cell in zip(names, pairs[pair], cells, strict=True):
            values.append(_mass(cell.replace(",", "."), name, exact, f"{file}, line {line}, column {name}"))
    if not pairs:
        raise InvalidDistribution(f"{file} must have one row per token, got a header only. Add rows.")
    sizes = {len(target) for target, _ in pairs.values()}
    if len(sizes) > 1:
        raise InvalidDistribution(
            f"{file} must hold pairs of one number of tokens, got {sorted(sizes)}. Append rows with probability 0 to the shorter ones."
        )
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
        raise InvalidDistribution(f"{where} must be a number, got {text!r}. Write -1.5 or -inf.") from None


def _header(file: Path) -> tuple[str, tuple[str, str], tuple[int | None, int, int]]:
    """Delimiter, names of target and draft, and the columns of pair, target and draft."""
    with open_text(file) as stream:
        first = next((line for line in stream if line.strip() and not line.lower().startswith("sep=")), "").rstrip(
            "\r\n"
        )
    for delimiter in ",;\t|":
        columns = [known_name(cell.strip()) for cell in next(csv.reader([first], delimiter=delimiter), [])]
        for names in (*LAWS, *LOGITS):
            if set(names) <= set(columns):
                known_names([name for name in columns if name], str(file), (*names, "pair"))
                pair = columns.index("pair") if "pair" in columns else None
                return delimiter, names, (pair, columns.index(names[0]), columns.index(names[1]))
    raise InvalidDistribution(
        f"{file} must begin with a header of the columns p and q (and pair), each once, got {first[:80]!r}. Add it above one row per token."
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
                        f"{file}, line {empty} must hold two probabilities, got an empty row before others. Fill or remove it."
                    )
                else:
                    yield line, *_cells(cells, width, names, places, f"{file}, line {line}")
        except csv.Error as error:
            raise InvalidDistribution(
                f"{file}, line {reader.line_num} must be valid CSV, got an error: {error}. Correct it."
            ) from error


def _cells(
    cells: list[str], width: int, names: tuple[str, str], places: tuple[int | None, int, int], where: str
) -> tuple[str, tuple[str, str]]:  # fmt: skip
    if any(cells[width:]):
        raise InvalidDistribution(
            f"{where} must have as many cells as the header, got more. Write decimals as 0.5 or 1/2, or separate cells by semicolons."
        )
    pair, *sides = places
    for name, place in zip(names, sides, strict=True):
        if len(cells) <= place or not cells[place]:
            raise InvalidDistribution(f"{where}: column {name} must hold a number, got ''. Write 0 for probability 0.")
        if cells[place].startswith(("[", "(")):
            raise InvalidDistribution(
                f"{where}, column {name}: a cell must be one number, got {cells[place][:40]!r}. Write one token per row, or .jsonl."
            )
    return cells[pair] if pair is not None and pair < len(cells) else "", (cells[sides[0]], cells[sides[1]])
