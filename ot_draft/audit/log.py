"""Logs of emitted tokens and their laws: one JSON object a line, or the arrays of an .npz file; read piece by piece."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO
from zipfile import BadZipFile

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit
from .audit import Audit

LONGEST = 64 * 2**20  # characters of a line
KNOWN = ("request", "position", "batch", "place")
KEYS = {*KNOWN, "token", "law", "ids", "probabilities", "logprobs", "own", "whole", "draft_law"}
PIECE = 4096  # rows of an .npz file that are worked on at once
Advance = Callable[[float], None]


def audit_log(path: Path, audit: Audit, advance: Advance = lambda share: None) -> None:
    """Add every token of a log to the audit.

    A line of a .jsonl file: {"token": 5, "law": [...]}, or {"token": 5, "ids": [...], "probabilities" or "logprobs": [...]} with the
    heaviest tokens alone and optionally "own", the probability of the emitted one, and "whole": true if no other token can come; beside
    that "request", "position", "batch", "place" and "draft_law" as in `Audit.add`. An .npz file: arrays of the same names, one row
    a token ("ids" with -1 where a row has fewer). CannotAudit names the line and what is wrong in it.
    """
    if path.suffix == ".npz":
        _read_arrays(path, audit, advance)
        return
    try:
        with path.open(encoding="utf-8") as file:
            size = max(path.stat().st_size, 1)
            read = 0
            for number, line in _lines(file, path):
                read += len(line)
                if line.strip():
                    add_line(audit, line, f"{path.name}, line {number}")
                if number % 1000 == 0:
                    advance(min(1.0, read / size))
    except (OSError, UnicodeDecodeError) as error:
        raise CannotAudit(f"{path}: {error}") from error


def _lines(file: TextIO, path: Path) -> Iterator[tuple[int, str]]:
    number = 0
    while line := file.readline(LONGEST):
        number += 1
        if len(line) >= LONGEST:
            raise CannotAudit(f"{path.name}, line {number}: longer than {LONGEST:,} characters: write one token a line")
        yield number, line


def add_line(audit: Audit, line: str, where: str) -> None:
    """Add the token of one line of a log; `where` names it in errors."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CannotAudit(f"{where}: not JSON ({str(error)[:80]}): write one object a line") from error
    if not isinstance(entry, dict):
        raise CannotAudit(f"{where}: {str(entry)[:40]} is no object: write one object a line")
    if unknown := sorted(set(entry) - KEYS - {"drafts", "accepted"}):
        raise CannotAudit(f"{where}: {unknown[0]!r} is not known: the names are {', '.join(sorted(KEYS))}")
    try:
        _add(audit, entry)
    except CannotAudit as error:
        raise CannotAudit(f"{where}: {str(error).partition(': ')[2]}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise CannotAudit(f"{where}: {error}") from error


def _add(audit: Audit, entry: dict[str, Any]) -> None:
    if "token" not in entry or type(entry["token"]) is not int:
        raise CannotAudit('line: the token is missing, or no whole number: write "token": 5')
    known: dict[str, Any] = {name: entry[name] for name in KNOWN if name in entry}
    for name in ("position", "place"):
        if type(known.get(name, 0)) is not int:
            raise CannotAudit(f"line: {name} is {known[name]!r}: give a whole number")
    if "draft_law" in entry:
        known["draft_law"] = _numbers(entry, "draft_law")
    if "law" in entry:
        audit.add(entry["token"], _numbers(entry, "law"), **known)
        return
    if "ids" not in entry or ("probabilities" in entry) == ("logprobs" in entry):
        raise CannotAudit("line: no law: give law, or ids with either probabilities or logprobs")
    if not all(type(token) is int for token in entry["ids"]):
        raise CannotAudit("line: ids are not whole numbers")
    mass = _numbers(entry, "probabilities") if "probabilities" in entry else _exponentials(_numbers(entry, "logprobs"))
    own = float(entry.get("own", "nan"))
    audit.add_top(entry["token"], np.array(entry["ids"]), mass, own, whole=bool(entry.get("whole")), **known)


def _exponentials(logs: Array) -> Array:
    if np.isnan(logs).any() or logs.max(initial=0.0) > 1e-2:
        raise CannotAudit(f"line: logprobs hold {logs.max():g}: give logarithms of probabilities")
    return np.exp(np.minimum(logs, 0.0))


def _numbers(entry: dict[str, Any], name: str) -> Array:
    found = np.array(entry[name], dtype=np.float64)
    if found.ndim != 1 or np.isnan(found).any():
        raise CannotAudit(f"line: {name} is no list of numbers")
    return found


def _read_arrays(path: Path, audit: Audit, advance: Advance) -> None:
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise CannotAudit(f"{path}: no readable .npz file: {error}") from error
    if unknown := sorted(set(arrays) - KEYS):
        raise CannotAudit(f"{path}: {unknown[0]!r} is not known: the names are {', '.join(sorted(KEYS))}")
    if "token" not in arrays or not {"law", "ids"} & set(arrays):
        raise CannotAudit(
            f"{path}: give the arrays token, and law or ids with probabilities; here are {', '.join(arrays) or 'none'}"
        )
    count = len(arrays["token"])
    if short := [name for name, array in arrays.items() if array.ndim < 1 or len(array) != count]:
        raise CannotAudit(f"{path}: {short[0]} has shape {arrays[short[0]].shape}, and there are {count} tokens")
    for start in range(0, count, PIECE):
        piece = {name: array[start : start + PIECE] for name, array in arrays.items()}
        if "law" in arrays:
            known = {name: piece[name] for name in KNOWN if name in piece}
            known |= {"draft": piece["draft_law"]} if "draft_law" in piece else {}
            audit.add_many(piece["token"], piece["law"], **known)
        else:
            for row in range(len(piece["token"])):
                _add_row(audit, piece, row, f"{path.name}, row {start + row}")
        advance(min(1.0, (start + PIECE) / count))


def _add_row(audit: Audit, piece: dict[str, Array], row: int, where: str) -> None:
    listed = piece["ids"][row] >= 0
    entry: dict[str, Any] = {name: piece[name][row][listed] for name in ("probabilities", "logprobs") if name in piece}
    known = {name: int(piece[name][row]) for name in KNOWN if name in piece}
    known |= {"draft_law": piece["draft_law"][row][listed]} if "draft_law" in piece else {}
    try:
        if len(entry) != 1:
            raise CannotAudit("row: give either probabilities or logprobs")
        mass = entry["probabilities"] if "probabilities" in entry else _exponentials(entry["logprobs"])
        own = float(piece["own"][row]) if "own" in piece else float("nan")
        whole = bool(piece["whole"][row]) if "whole" in piece else False
        audit.add_top(int(piece["token"][row]), piece["ids"][row][listed], mass, own, whole=whole, **known)
    except CannotAudit as error:
        raise CannotAudit(f"{where}: {str(error).partition(': ')[2]}") from error
