"""Logs of emitted tokens and their laws, one JSON object a line, or the arrays of an .npz file: read piece by piece, and written."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit
from .audit import Audit
from .records import dense, real_numbers
from .rounding import log_error

LONGEST = 64 * 2**20  # bytes of a line
KNOWN = ("request", "position", "batch", "place")
KEYS = {*KNOWN, "token", "law", "ids", "probabilities", "logprobs", "own", "whole", "draft_law"}
WHOLE = ("token", "ids", "position", "place")  # arrays that hold whole numbers
WANTED = {"iu": "whole numbers", "iuUS": "names or whole numbers", "b": "truth values", "fiu": "real numbers"}
GZIP = b"\x1f\x8b"
FORMATS = {b"PAR1": "a parquet file", b"PK\x03\x04": "a zip file", b"\x28\xb5\x2f\xfd": "compressed by zstd", b"BZh": "compressed by bzip2",
           b"\xfd7zXZ": "compressed by xz", b"\x93NUMPY": "a single array"}  # by first bytes  # fmt: skip
PIECE = 4096  # rows of an .npz file that are worked on at once
Advance = Callable[[float], None]


def audit_log(path: Path, audit: Audit, advance: Advance = lambda share: None) -> None:
    """Add every token of a log to the audit.

    A line of a .jsonl file, plain or compressed by gzip:
    {"token": 5, "law": [...]}, or {"token": 5, "ids": [...], "probabilities" or "logprobs": [...]} with the
    heaviest tokens alone and optionally "own", the probability of the emitted one, and "whole": true if no other token can come; beside
    that "request", "position", "batch", "place" and "draft_law" as in `Audit.add`. An .npz file: arrays of the same names, one row
    a token ("ids" with -1 where a row has fewer). A line or row that cannot be read is left out and counted (`Audit.leave_out`).
    CannotAudit where the file as a whole cannot be read, or nothing in it.
    """
    if path.suffix == ".npz":
        _read_arrays(path, audit, advance)
    else:
        _read_lines(path, audit, advance)
    if audit.left_out.tokens and not audit.tokens:
        raise CannotAudit(f"{path}: none of {audit.left_out.tokens:,} tokens can be read: {audit.left_out}")


def _read_lines(path: Path, audit: Audit, advance: Advance) -> None:
    try:
        size, number = max(path.stat().st_size, 1), 0
        with path.open("rb") as raw, _unpacked(raw, path) as file:
            while line := file.readline(LONGEST):
                number += 1
                if line.strip():
                    try:
                        add_line(audit, line)
                    except CannotAudit as error:
                        audit.leave_out(_reason(error), f"{path.name}, line {number}")
                while len(line) == LONGEST and not line.endswith(b"\n"):  # the rest of one that is too long
                    line = file.readline(LONGEST)
                if number % 1000 == 0:
                    advance(min(1.0, raw.tell() / size))
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


def _reason(error: CannotAudit) -> str:
    """Without "token 17" in front, which counts those that were read."""
    return str(error).partition(": ")[2]


def add_line(audit: Audit, line: bytes) -> None:
    """Add the token of one line of a log; CannotAudit where it cannot be read."""
    if len(line) >= LONGEST:
        raise CannotAudit(f"line: longer than {LONGEST:,} bytes: write one token a line")
    try:
        entry = json.loads(line, object_pairs_hook=_named_once)
    except (ValueError, RecursionError) as error:
        raise CannotAudit(f"line: not JSON ({str(error)[:80]}): write one object a line") from error
    if not isinstance(entry, dict):
        raise CannotAudit(f"line: {str(entry)[:40]} is no object: write one object a line")
    if unknown := sorted(set(entry) - KEYS - {"drafts", "accepted"}):
        raise CannotAudit(f"line: {unknown[0]!r:.40} is not known: the names are {', '.join(sorted(KEYS))}")
    _add(audit, entry)


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        raise ValueError("a name stands twice")
    return entry


def _add(audit: Audit, entry: dict[str, Any]) -> None:
    """An entry has the names of KEYS, with what JSON or an array held."""
    if not isinstance(entry.get("token"), int | np.integer) or isinstance(entry["token"], bool):
        raise CannotAudit('line: the token is missing, or no whole number: write "token": 5')
    known: dict[str, Any] = {name: entry[name] for name in KNOWN if name in entry}
    if "draft_law" in entry:
        known["draft_law"] = _numbers(entry, "draft_law")
    if "law" in entry:
        audit.add(entry["token"], _numbers(entry, "law"), **known)
        return
    if "ids" not in entry or ("probabilities" in entry) == ("logprobs" in entry):
        raise CannotAudit("line: no law: give law, or ids with either probabilities or logprobs")
    whole = entry.get("whole", False)
    if type(whole) is not bool:
        raise CannotAudit(f"line: whole is {whole!r:.40}: give true or false")
    if "logprobs" in entry:
        logs = _numbers(entry, "logprobs")
        if logs.max(initial=0.0) > 1e-2:
            raise CannotAudit(f"line: logprobs hold {logs.max():g}: give logarithms of probabilities")
        mass, known["error"] = np.exp(np.minimum(logs, 0.0)), log_error(logs)
    else:
        mass = _numbers(entry, "probabilities")
    audit.add_top(entry["token"], entry["ids"], mass, entry.get("own", np.nan), whole=whole, **known)


def _numbers(entry: dict[str, Any], name: str) -> Array:
    found = real_numbers(entry[name], f"line: {name}")
    if found.ndim != 1 or np.isnan(found).any():
        raise CannotAudit(f"line: {name} is no list of numbers: give real numbers")
    return found


def _read_arrays(path: Path, audit: Audit, advance: Advance) -> None:
    arrays = _arrays(path)
    count = len(arrays["token"])
    for start in range(0, count, PIECE):
        piece = {name: array[start : start + PIECE] for name, array in arrays.items()}
        for row in range(len(piece["token"])):
            try:
                _add(audit, _entry(piece, row))
            except CannotAudit as error:
                audit.leave_out(_reason(error), f"{path.name}, row {start + row}")
        advance(min(1.0, (start + PIECE) / count))


def _arrays(path: Path) -> dict[str, Array]:
    """The arrays of a file, of the same length; CannotAudit where they are not, or hold what is repaired only by guessing."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays: dict[str, Array] = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error, MemoryError, NotImplementedError, RuntimeError,
            AttributeError, TypeError, OverflowError, KeyError, SyntaxError) as error:  # fmt: skip
        raise CannotAudit(f"{path}: no readable .npz file: {str(error)[:200]}") from error
    if unknown := sorted(set(arrays) - KEYS):
        raise CannotAudit(f"{path}: {unknown[0]!r} is not known: the names are {', '.join(sorted(KEYS))}")
    if "token" not in arrays or not {"law", "ids"} & set(arrays):
        wanted = "give the arrays token, and law or ids with probabilities"
        raise CannotAudit(f"{path}: {wanted}; here are {', '.join(arrays) or 'none'}")
    if short := [name for name, array in arrays.items() if array.ndim < 1 or len(array) != arrays["token"].size]:
        name = short[0]
        raise CannotAudit(f"{path}: {name} has shape {arrays[name].shape}, and there are {arrays['token'].size} tokens")
    for name, array in arrays.items():
        kinds = "iu" if name in WHOLE else "b" if name == "whole" else "iuUS" if name in ("request", "batch") else "fiu"
        if array.dtype.kind not in kinds and array.size:
            raise CannotAudit(f"{path}: {name} is of type {array.dtype}: give {WANTED[kinds]}")
    return arrays


def _entry(piece: dict[str, Array], row: int) -> dict[str, Any]:
    entry: dict[str, Any] = {name: array[row] for name, array in piece.items()}
    if "law" not in entry and "ids" in entry:
        listed = entry["ids"] >= 0
        for name in {"ids", "probabilities", "logprobs", "draft_law"} & set(entry):
            if np.shape(entry[name]) != listed.shape:
                raise CannotAudit(f"row: {name} has shape {np.shape(entry[name])}, ids have {listed.shape}")
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
        """One emitted token and its whole law (n,); draft_law (n,); known: request, position, batch, place as in `Audit.add`.

        CannotAudit where the law is none.
        """
        where = f"token {self.tokens}"
        added = dense(token, law, draft_law, (0, 0, 0, 0), where)
        ids, mass, rest = added.law.cut()
        line = {"token": added.token, "ids": ids.tolist(), "probabilities": mass.tolist(), "own": added.own}
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
