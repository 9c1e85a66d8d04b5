"""Logs of emitted tokens and their laws, one JSON object a line, or the arrays of an .npz file: read piece by piece, and written."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...array_files import array_names, read_arrays
from ...arrays import Array
from ...errors import CannotAudit, InvalidDistribution
from .records import ENTRY, Token
from .verdict import LeftOut

LONGEST = 64 * 2**20  # bytes of a line
WHOLE = ("token", "ids", "position", "place")  # arrays that hold whole numbers
WANTED = {"iu": "whole numbers", "iuUS": "names or whole numbers", "b": "truth values", "fiu": "real numbers"}
GZIP = b"\x1f\x8b"
FORMATS = {b"PAR1": "a parquet file", b"PK\x03\x04": "a zip file", b"\x28\xb5\x2f\xfd": "compressed by zstd", b"BZh": "compressed by bzip2",
           b"\xfd7zXZ": "compressed by xz", b"\x93NUMPY": "a single array"}  # by first bytes  # fmt: skip
HOLDS = "the arrays token, and law or ids with probabilities"
PIECE = 4096  # rows of an .npz file that are worked on at once
Entry = dict[str, Any]  # names of ENTRY, and what JSON or an array held


def read_log(
    path: Path, leave_out: Callable[[str, str], None], advance: Callable[[float], None] = lambda share: None
) -> Iterator[Token]:
    """The tokens of a log, in its order, for `Audit.add`. leave_out: called with why one cannot be read, and where it stands.

    A line of a .jsonl file, plain or compressed by gzip:
    {"token": 5, "law": [...]}, or {"token": 5, "ids": [...], "probabilities" or "logprobs": [...]} with the
    heaviest tokens alone and optionally "own", the probability of the emitted one, and "whole": true if no other token can come; beside
    that "request", "position", "batch", "place" and "draft_law" as in `Token`. An .npz file: arrays of the same names, one row
    a token ("ids" with -1 where a row has fewer). advance: called with the share of the file that was read.
    CannotAudit where the file as a whole cannot be read, or nothing in it.
    """
    count, unread = 0, LeftOut()
    for number, (where, entry, share) in enumerate(_rows(path) if path.suffix == ".npz" else _lines(path), 1):
        if number % 1000 == 0:
            advance(share)
        try:
            token = Token.of_entry(entry())
        except CannotAudit as error:
            unread.add(str(error), where)
            leave_out(str(error), where)
            continue
        count += 1
        yield token
    if unread.tokens and not count:
        raise CannotAudit(f"{path}: none of {unread.tokens:,} tokens can be read: {unread}")


def _lines(path: Path) -> Iterator[tuple[str, Callable[[], Entry], float]]:
    """Of every line where it stands, its entry when one asks for it, and the share of the file up to there."""
    number = 0
    try:
        size = max(path.stat().st_size, 1)
        with path.open("rb") as raw, _unpacked(raw, path) as file:
            while line := file.readline(LONGEST):
                number += 1
                if line.strip():
                    yield f"{path.name}, line {number}", partial(_entry_of_line, line), min(1.0, raw.tell() / size)
                while len(line) == LONGEST and not line.endswith(b"\n"):  # the rest of one that is too long
                    line = file.readline(LONGEST)
    except (OSError, EOFError, zlib.error) as error:
        raise CannotAudit(f"{path}: {error}: {number:,} lines could be read") from error


def _unpacked(raw: IO[bytes], path: Path) -> IO[bytes] | gzip.GzipFile:
    """The lines of a file, by its first bytes; CannotAudit where they are those of another format than text or gzip."""
    head = raw.read(6)
    raw.seek(0)
    for mark, name in FORMATS.items():
        if head.startswith(mark):
            raise CannotAudit(f"{path}: is {name}: give JSON lines, plain or by gzip, or an .npz file")
    return gzip.open(raw) if head.startswith(GZIP) else raw


def _entry_of_line(line: bytes) -> Entry:
    if len(line) >= LONGEST:
        raise CannotAudit(f"longer than {LONGEST:,} bytes: write one token a line")
    try:
        entry = json.loads(line, object_pairs_hook=_named_once)
    except (ValueError, RecursionError) as error:
        raise CannotAudit(f"not JSON ({str(error)[:80]}): write one object a line") from error
    if not isinstance(entry, dict):
        raise CannotAudit(f"{str(entry)[:40]} is no object: write one object a line")
    if unknown := sorted(set(entry) - ENTRY - {"drafts", "accepted"}):
        raise CannotAudit(f"{unknown[0]!r:.40} is not known: the names are {', '.join(sorted(ENTRY))}")
    return entry


def _named_once(pairs: list[tuple[str, Any]]) -> Entry:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        raise ValueError("a name stands twice")
    return entry


def _rows(path: Path) -> Iterator[tuple[str, Callable[[], Entry], float]]:
    """The same of every row of arrays."""
    arrays = _arrays(path)
    count = len(arrays["token"])
    for start in range(0, count, PIECE):
        piece = {name: array[start : start + PIECE] for name, array in arrays.items()}
        for row in range(len(piece["token"])):
            yield f"{path.name}, row {start + row}", partial(_entry_of_row, piece, row), (start + row) / count


def _arrays(path: Path) -> dict[str, Array]:
    """The arrays of a file, of the same length; CannotAudit where they are not, or hold what is repaired only by guessing."""
    try:
        arrays = read_arrays(path, array_names(path, HOLDS), HOLDS)
    except InvalidDistribution as error:
        raise CannotAudit(str(error)) from error
    if unknown := sorted(set(arrays) - ENTRY):
        raise CannotAudit(f"{path}: {unknown[0]!r} is not known: the names are {', '.join(sorted(ENTRY))}")
    if "token" not in arrays or not {"law", "ids"} & set(arrays):
        raise CannotAudit(f"{path}: give {HOLDS}; here are {', '.join(arrays) or 'none'}")
    if short := [name for name, array in arrays.items() if array.ndim < 1 or len(array) != arrays["token"].size]:
        name = short[0]
        raise CannotAudit(f"{path}: {name} has shape {arrays[name].shape}, and there are {arrays['token'].size} tokens")
    for name, array in arrays.items():
        kinds = "iu" if name in WHOLE else "b" if name == "whole" else "iuUS" if name in ("request", "batch") else "fiu"
        if array.dtype.kind not in kinds and array.size:
            raise CannotAudit(f"{path}: {name} is of type {array.dtype}: give {WANTED[kinds]}")
    return arrays


def _entry_of_row(piece: dict[str, Array], row: int) -> Entry:
    entry: Entry = {name: array[row] for name, array in piece.items()}
    if "law" not in entry and "ids" in entry:
        listed = entry["ids"] >= 0
        for name in {"ids", "probabilities", "logprobs", "draft_law"} & set(entry):
            if np.shape(entry[name]) != listed.shape:
                raise CannotAudit(f"{name} has shape {np.shape(entry[name])}, ids have {listed.shape}")
            entry[name] = entry[name][listed]
    if "whole" in entry:
        entry["whole"] = bool(entry["whole"])
    return entry


class LogWriter(AbstractContextManager["LogWriter"]):
    """A .jsonl log, one line a token, each law by its heaviest 64 tokens. FileExistsError where the file is there already."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("x", encoding="utf-8")
        self.tokens = 0

    def add(self, token: int, law: Array, *, draft_law: Array | None = None, **known: Any) -> None:
        """Write one emitted token and its whole law (n,); draft_law (n,); known: request, position, batch, place as in `Token.of_law`.

        CannotAudit where the law is none.
        """
        checked = Token.of_law(token, law, draft_law=draft_law)
        ids, mass, rest = checked.law.cut()
        line = {"token": checked.token, "ids": ids.tolist(), "probabilities": mass.tolist(), "own": checked.own}
        line |= known
        if rest == 0:
            line["whole"] = True
        if draft_law is not None:
            line["draft_law"] = np.asarray(draft_law, dtype=np.float64)[ids].tolist()
        self._file.write(json.dumps(line) + "\n")
        self.tokens += 1

    def flush(self) -> None:
        """Hand what was added to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def __exit__(self, *raised: object) -> None:
        self.close()


def emitted_with_laws(step: Any, row: int) -> Iterator[tuple[int, Array, Array | None]]:
    """Token, target's law (n,) and draft model's law (n,) for every token that a step added to one text.

    The law of a token is that at the node it follows: the root, or the accepted draft before it. The draft model's law is None
    behind the last drafted token. No place in the step is given: with a rule that decides on whole paths, a token that is known to
    be the third of its step does not follow the target's law, though the text does. CannotAudit for a step without laws.
    """
    if step.p is None or step.q is None:
        raise CannotAudit(f"step {step.number} has no laws: decode with DecodeOptions(laws=True)")
    p, q = step.p[row].double().cpu().numpy(), step.q[row].double().cpu().numpy()
    nodes = [0, *step.nodes[row].tolist()]
    for token, node in zip(step.tokens(row), nodes, strict=False):
        drafted = q[node] if node < len(q) and abs(q[node].sum() - 1) < 1e-3 else None
        yield token, p[node], drafted
