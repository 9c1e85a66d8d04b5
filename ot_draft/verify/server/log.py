"""Read logs of emitted tokens and their distributions: JSON lines, a JSON list, or the arrays of an .npz file.

A line is a token in the log's own format, or what an API returned (`log_responses`).
"""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ...array_files import array_names, read_arrays
from ...arrays import Array
from ...boundary import unique_keys
from ...errors import CannotAudit, InvalidDistribution
from .evidence import LeftOut
from .log_responses import RESPONSE_KEYS, Entry, ResponseNotes, is_response, tokens_of_response
from .records import ENTRY, Token


def read_log(
    path: Path, leave_out: Callable[[str, str, int], None], advance: Callable[[float], None] = lambda share: None,
    notes: ResponseNotes | None = None
) -> Iterator[Token]:  # fmt: skip
    """Yield the tokens of a log in its order, for `Audit.add`.

    Parameters
    ----------
    path : Path
        JSON lines or one JSON list, plain or compressed by gzip, or an `.npz` file.
    leave_out : callable
        Function `leave_out(reason, where, tokens)` that is called for tokens that cannot be read: the reason, the line or row
        and the number of tokens. `Audit.leave_out` is one.
    advance : callable, optional
        Function of one float in [0, 1] that is called once per 1,000 entries with the fraction of the file read.
    notes : ResponseNotes, optional
        Record of copied lines and of API responses in the log, updated during reading. It charges an audit for ends of responses.

    Yields
    ------
    token : Token
        One emitted token with its distribution.

    Raises
    ------
    CannotAudit
        If the file cannot be read, or if it has tokens and none of them can be read. Raised during the iteration.

    See Also
    --------
    LogWriter : Writes a log.

    Notes
    -----
    Add each token to the audit before the next one is read: the loss for an unreadable token depends on the bets at its position.

    A line is a JSON object with the id `token` and one of these descriptions of its distribution:

    * `target_probs`: probabilities of all n tokens.
    * `ids`, and `probabilities` or `logprobs`: the most probable tokens. `own` may give the probability of the emitted token,
      and `"whole": true` says that no other token can be sampled.

    `request`, `position`, `batch`, `step_offset` and `draft_probs` are optional, see `Token`. An `.npz` file has arrays of these names,
    one row per token, with -1 in `ids` where a row has fewer entries. A line may also be an API response with log-probabilities.
    Each of its choices is a sequence of its own.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ot_draft.verify.server import Audit, read_log
    >>> audit = Audit()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder, "log.jsonl")
    ...     size = log.write_text('{"token": 1, "target_probs": [0.5, 0.3, 0.2]}\\n{"token": 1}\\n')
    ...     for token in read_log(log, audit.leave_out):
    ...         audit.add(token)
    >>> evidence = audit.report().evidence
    >>> evidence.tokens, evidence.unreadable
    (1, 1)
    """
    count, unread, notes = 0, LeftOut(), notes or ResponseNotes()

    def lost(reason: str, where: str, tokens: int = 1) -> None:
        unread.add(reason, where, tokens)
        leave_out(reason, where, tokens)

    for number, (where, read, share, content) in enumerate(_rows(path) if path.suffix == ".npz" else _items(path), 1):
        if number % 1000 == 0:
            advance(share)
        try:
            entry = read()
            notes.copies.add(content, entry.get("id", entry.get("request_id")) if is_response(entry) else None)
            tokens = (
                tokens_of_response(entry, where, number, lost, notes)
                if is_response(entry)
                else iter([Token.of_entry(entry)])
            )
            for token in tokens:
                count += 1
                yield token
        except CannotAudit as error:
            lost(str(error), where, max(1, content.count(b'"top_logprobs"')))
    if unread.tokens and not count:
        raise CannotAudit(f"{path}: none of {unread.tokens:,} tokens can be read: {unread}")


class _Item(NamedTuple):
    """A line, row or list item: where it is, a function that reads it, the fraction of the file before it, and its bytes."""

    where: str
    read: Callable[[], Entry]
    share: float
    content: bytes


def _items(path: Path, max_whole: int = 2**30, max_line: int = 64 * 2**20) -> Iterator[_Item]:
    """Yield the lines of a file, or the items of one that is a single JSON value.

    max_whole, max_line: largest size of a single JSON value and of a line, in bytes.
    """
    number = 0
    try:
        size = max(path.stat().st_size, 1)
        with path.open("rb") as raw, _unpacked(raw, path) as file:
            first = file.readline(max_line)
            if (items := _single_value(first, file, max_whole)) is not None:
                for i, item in enumerate(items):
                    read = partial(_checked, item)
                    yield _Item(f"{path.name}, item {i}", read, i / len(items), json.dumps(item).encode())
                return
            file.seek(0)
            while line := file.readline(max_line):
                number += 1
                if line.strip():
                    share = min(1.0, raw.tell() / size)
                    read = partial(_entry_of_line, line, max_line)
                    yield _Item(f"{path.name}, line {number}", read, share, line.strip())
                while len(line) == max_line and not line.endswith(b"\n"):  # the rest of a line that is too long
                    line = file.readline(max_line)
    except (OSError, EOFError, zlib.error) as error:
        raise CannotAudit(f"{path}: {error}: {number:,} lines could be read") from error


def _single_value(first: bytes, file: IO[bytes] | gzip.GzipFile, max_whole: int) -> list[Any] | None:
    """The items of a file that is one JSON list, or one object on several lines; None for other files. first: its first line."""
    if not first.removeprefix(codecs.BOM_UTF8).lstrip().startswith((b"[", b"{")) or isinstance(_value(first), dict):
        return None
    whole = _value(first + file.read(max_whole))
    return whole if isinstance(whole, list) else None if whole is None else [whole]


def _value(text: bytes) -> Any:
    """A JSON value; None if the text is not JSON."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError):
        return None


def _unpacked(raw: IO[bytes], path: Path) -> IO[bytes] | gzip.GzipFile:
    head = raw.read(6)
    raw.seek(0)
    unsupported = {b"PAR1": "a Parquet file", b"PK\x03\x04": "a zip file", b"\x28\xb5\x2f\xfd": "compressed by zstd",
                   b"BZh": "compressed by bzip2", b"\xfd7zXZ": "compressed by xz", b"\x93NUMPY": "a single array"}  # fmt: skip
    for mark, name in unsupported.items():
        if head.startswith(mark):
            raise CannotAudit(f"{path} is {name}. Write JSON lines, plain or compressed by gzip, or an .npz file.")
    return gzip.open(raw) if head.startswith(b"\x1f\x8b") else raw


def _entry_of_line(line: bytes, max_line: int) -> Entry:
    if len(line) >= max_line:
        raise CannotAudit(f"longer than {max_line:,} bytes. Write one token or response per line.")
    try:
        entry = json.loads(line, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise CannotAudit(f"not JSON ({str(error)[:80]}). Write one object per line.") from error
    return _checked(entry)


def _checked(entry: Any) -> Entry:
    """A parsed line: a response or a part of one, or the values of a token that are not null."""
    if not isinstance(entry, dict):
        raise CannotAudit(f"{str(entry)[:40]} is not an object. Write one object per line.")
    for wrapper in ("response", "body"):  # of a response in the output of OpenAI's Batch API
        inner = entry.get(wrapper)
        entry = inner if type(inner) is dict else entry
    if is_response(entry):
        return entry
    of_plugins = ("drafts", "accepted")  # keys that the engines' plugins add
    entry = {name: value for name, value in entry.items() if value is not None and name not in of_plugins}
    if unknown := sorted(set(entry) - ENTRY):
        keys = f"{', '.join(sorted(ENTRY))}; or one of {', '.join(sorted(RESPONSE_KEYS))} for a response"
        raise CannotAudit(f"{unknown[0]!r:.40} is not a key of a log. Use {keys}.")
    return entry


def _rows(path: Path, rows_at_once: int = 4096) -> Iterator[_Item]:
    arrays = _arrays(path)
    count = len(arrays["token"])
    for start in range(0, count, rows_at_once):
        piece = {name: array[start : start + rows_at_once] for name, array in arrays.items()}
        for row in range(len(piece["token"])):
            content = b"".join(array[row].tobytes() for array in piece.values())
            yield _Item(
                f"{path.name}, row {start + row}", partial(_entry_of_row, piece, row), (start + row) / count, content
            )


def _arrays(path: Path) -> dict[str, Array]:
    """The arrays of a file; CannotAudit unless they have the same length. `Token.of_entry` checks their types."""
    wanted = "the arrays token, and target_probs or ids with probabilities"
    try:
        arrays = read_arrays(path, array_names(path, wanted), wanted)
    except InvalidDistribution as error:
        raise CannotAudit(str(error)) from error
    if unknown := sorted(set(arrays) - ENTRY):
        raise CannotAudit(f"{path}: {unknown[0]!r} is not an array of a log. Use {', '.join(sorted(ENTRY))}.")
    if "token" not in arrays or not {"target_probs", "ids"} & set(arrays):
        raise CannotAudit(f"{path} must hold {wanted}, got {', '.join(arrays) or 'none'}.")
    if short := [name for name, array in arrays.items() if array.ndim < 1 or len(array) != arrays["token"].size]:
        name = short[0]
        raise CannotAudit(
            f"{path}: {name} must have one row per token, got shape {arrays[name].shape} for {arrays['token'].size} tokens."
        )
    return arrays


def _entry_of_row(piece: dict[str, Array], row: int) -> Entry:
    entry: Entry = {name: array[row] for name, array in piece.items()}
    if "target_probs" not in entry and "ids" in entry:
        listed = entry["ids"] >= 0
        for name in {"ids", "probabilities", "logprobs", "draft_probs"} & set(entry):
            if np.shape(entry[name]) != listed.shape:
                raise CannotAudit(f"{name} must have the shape of ids, {listed.shape}, got {np.shape(entry[name])}.")
            entry[name] = entry[name][listed]
    if isinstance(entry.get("whole"), np.bool_):
        entry["whole"] = bool(entry["whole"])
    return entry
