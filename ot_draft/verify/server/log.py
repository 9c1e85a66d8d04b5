"""Logs of emitted tokens and their laws, one JSON object a line, or the arrays of an .npz file: read piece by piece, and written.

A line may also be what an API returned: an entry of OpenAI's `logprobs.content`, a whole response with log-probabilities, or vLLM's
`RequestOutput`. These are read by `answers`, as a server's answers are.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from math import gcd, log, pi, sqrt
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...array_files import array_names, read_arrays
from ...arrays import Array
from ...errors import CannotAudit, InvalidDistribution
from ..boundary import unique_keys
from .answers import LARGEST_ID, BadAnswer, Emitted, read_answer
from .consistency import HiddenEnds
from .evidence import LeftOut
from .records import ENTRY, NUMBERS, UNNAMED_TOKEN, ListedMasses, Token, names
from .reported import DOUBTFUL, Lists, Reported

LONGEST = 64 * 2**20  # bytes of a line
WHOLE = ("token", "ids", "position", "step_offset")  # arrays that hold whole numbers
WANTED = {"iu": "whole numbers", "iuUS": "names or whole numbers", "b": "truth values", "fiu": "real numbers"}
API = {
    "choices",
    "outputs",
    "token_ids",
    "content",
    "top_logprobs",
}  # keys by which API responses and parts of them are recognised
WRAPPERS = ("response", "body")  # keys that hold a response in the output of OpenAI's Batch API
GZIP = b"\x1f\x8b"
FORMATS = {b"PAR1": "a parquet file", b"PK\x03\x04": "a zip file", b"\x28\xb5\x2f\xfd": "compressed by zstd", b"BZh": "compressed by bzip2",
           b"\xfd7zXZ": "compressed by xz", b"\x93NUMPY": "a single array"}  # by first bytes  # fmt: skip
HOLDS = "the arrays token, and target_probs or ids with probabilities"
PIECE = 4096  # rows of an .npz file that are worked on at once
TEXT_KEYS = (
    "the keys of top_logprobs are texts, of which several tokens may have one: let the server name tokens by ids "
    "(vLLM: return_tokens_as_token_ids), or use its chat endpoint"
)
SAME_TEXT = "several listed tokens have the text of the emitted one: log token ids"
FROM_API = (
    "the tokens do not follow the reported probabilities, but the log does not say how they were sampled: another temperature, top-p, a "
    "penalty, a seed or cached answers explain it as well. If all tokens were sampled independently from all tokens, state the "
    "temperature: --temperature 1, or for example --temperature 0.7 --logprobs raw"
)
COPIES = (
    "{share:.0%} of the different lines occur {times} times or a multiple of it: copies of a token are not further tokens, and were not "
    "drawn independently. Keep one copy of each line. If every prompt was sent several times, name the request on each line"
)
COINCIDENCE = 2.0**-32  # max. probability of these counts in a log without copies, by Chernoff's bound
MOST_LINES = 1 << 16  # different lines that are counted at the same time
HIDDEN_ENDS = (
    "{hidden:,} of {responses:,} responses end without a reported end-of-sequence token. The bound counts each missing token as biased. "
    "Whether responses end as often as the reported distributions say is not tested"
)
NO_LIST = "logprobs[{position}] has no log-probability of the emitted token: this token is skipped"
ALL = range(LARGEST_ID)  # positions of tokens of which none was skipped
Entry = dict[str, Any]  # names of ENTRY, and what JSON or an array held


@dataclass
class Copies:
    """How many times each line of a log occurs. Of long logs, only lines with a hash divisible by `step` are counted."""

    counts: Counter[int] = field(default_factory=Counter)
    step: int = 1

    def add(self, line: bytes) -> None:
        """Count one line."""
        number = hash(line)
        if number % self.step:
            return
        self.counts[number] += 1
        if len(self.counts) > MOST_LINES:
            self.step *= 2
            self.counts = Counter({number: times for number, times in self.counts.items() if number % self.step == 0})

    def found(self) -> tuple[int, float] | None:
        """A number that divides the counts of more lines than chance explains, and the share of these lines; None without copies.

        Without copies, counts of different lines are nearly independent and Poisson distributed. A number c divides such a count with
        probability at most 1/c, or that of the count c itself, whichever is larger.
        """
        counts = np.array(list(self.counts.values()))
        if not len(counts):
            return None
        best, evidence = None, -log(COINCIDENCE)
        for times in {*range(2, 64), gcd(*counts.tolist())} - {1}:
            share, chance = float((counts % times == 0).mean()), max(1 / times, 1 / sqrt(2 * pi * times))
            if share > chance and (bits := len(counts) * _divergence(share, chance)) >= evidence:
                best, evidence = (times, share), bits
        return best


def _divergence(share: float, chance: float) -> float:
    """KL divergence of Bernoulli distributions, in nats."""
    return share * log(share / chance) + (0.0 if share == 1 else (1 - share) * log((1 - share) / (1 - chance)))


@dataclass
class ResponseNotes:
    """Facts about a log in addition to its tokens: copies of lines, API responses or entries, and ends of responses.

    charge: function of the number of tokens that all bets are charged for, and of further ends, as `Audit.charge`.
    """

    charge: Callable[[int, int], None] = lambda tokens, ends: None
    responses: int = 0
    ends: HiddenEnds = field(default_factory=HiddenEnds)
    copies: Copies = field(default_factory=Copies)

    def undecided(self, biased: bool, stated: bool) -> str:
        """Why no verdict is possible, "" if one is; stated: whether the user says that tokens were drawn as reported."""
        if (copies := self.copies.found()) is not None:
            times, share = copies
            return COPIES.format(times=times, share=share)
        return FROM_API if self.responses and biased and not stated else ""

    def remarks(self) -> tuple[str, ...]:
        """Limits of the result that the tokens do not show."""
        hidden = self.ends.hidden
        return (HIDDEN_ENDS.format(hidden=hidden, responses=self.ends.responses),) if hidden else ()


def read_log(
    path: Path, leave_out: Callable[[str, str, int], None], advance: Callable[[float], None] = lambda share: None,
    notes: ResponseNotes | None = None
) -> Iterator[Token]:  # fmt: skip
    """Yield the tokens of a log in its order, for `Audit.add`.

    Parameters
    ----------
    path : Path
        JSON lines, plain or compressed by gzip, or an `.npz` file.
    leave_out : callable
        Function `leave_out(reason, where, tokens)` that is called for tokens that cannot be read: the reason, the line or row
        and the number of tokens. `Audit.leave_out` is one.
    advance : callable, optional
        Function of one float in [0, 1] that is called once per 1,000 entries with the fraction of the file read.
    notes : ResponseNotes, optional
        Record of copied lines and of API responses in the log, updated during reading.

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
    ...     audit.add(*read_log(log, audit.leave_out))
    >>> evidence = audit.report().evidence
    >>> evidence.tokens, evidence.unreadable
    (1, 1)
    """
    count, unread, notes = 0, LeftOut(), notes or ResponseNotes()

    def lost(reason: str, where: str, tokens: int = 1) -> None:
        unread.add(reason, where, tokens)
        leave_out(reason, where, tokens)

    for number, (where, entry, share, content) in enumerate(_rows(path) if path.suffix == ".npz" else _lines(path), 1):
        if number % 1000 == 0:
            advance(share)
        notes.copies.add(content)
        try:
            read = entry()
            tokens = _of_api(read, where, number, lost, notes) if _is_api(read) else iter([Token.of_entry(read)])
            for token in tokens:
                count += 1
                yield token
        except CannotAudit as error:
            lost(str(error), where)
    if unread.tokens and not count:
        raise CannotAudit(f"{path}: none of {unread.tokens:,} tokens can be read: {unread}")


Line = tuple[str, Callable[[], Entry], float, bytes]


def _lines(path: Path, max_whole: int = 2**30) -> Iterator[Line]:
    """Where each line stands, a function that reads its entry, the share of the file up to there, and its bytes.

    A file of at most `max_whole` bytes may be one JSON list or object, whose first line is not an object.
    """
    number = 0
    try:
        size = max(path.stat().st_size, 1)
        with path.open("rb") as raw, _unpacked(raw, path) as file:
            if (items := _items(file, max_whole)) is not None:
                for number, item in enumerate(items):
                    yield (
                        f"{path.name}, item {number}",
                        partial(_entry, item),
                        number / len(items),
                        json.dumps(item).encode(),
                    )
                return
            file.seek(0)
            while line := file.readline(LONGEST):
                number += 1
                if line.strip():
                    share = min(1.0, raw.tell() / size)
                    yield f"{path.name}, line {number}", partial(_entry_of_line, line), share, line.strip()
                while len(line) == LONGEST and not line.endswith(b"\n"):  # the rest of one that is too long
                    line = file.readline(LONGEST)
    except (OSError, EOFError, zlib.error) as error:
        raise CannotAudit(f"{path}: {error}: {number:,} lines could be read") from error


def _items(file: IO[bytes] | gzip.GzipFile, max_whole: int) -> list[Any] | None:
    """The items of a file that is one JSON value; None for other files, such as JSON lines."""
    first = file.readline(LONGEST)
    if isinstance(_parsed(first), dict) or not first.lstrip().startswith((b"[", b"{")):
        return None
    whole = _parsed(first + file.read(max_whole))
    return whole if isinstance(whole, list) else None if whole is None else [whole]


def _parsed(text: bytes) -> Any:
    """A JSON value; None if the text is not JSON."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError):
        return None


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
        entry = json.loads(line, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise CannotAudit(f"not JSON ({str(error)[:80]}): write one object a line") from error
    return _entry(entry)


def _is_api(entry: Entry) -> bool:
    return bool(entry.keys() & API) or type(entry.get("logprobs")) is dict


def _entry(entry: Any) -> Entry:
    """A parsed line or item: a response or a part of one, or the optional values of a token that are not null."""
    if not isinstance(entry, dict):
        raise CannotAudit(f"{str(entry)[:40]} is not an object: write one object per line")
    for wrapper in WRAPPERS:
        inner = entry.get(wrapper)
        entry = inner if type(inner) is dict else entry
    if _is_api(entry):
        return entry
    entry = {name: value for name, value in entry.items() if value is not None and name not in ("drafts", "accepted")}
    if unknown := sorted(set(entry) - ENTRY):
        raise CannotAudit(
            f"{unknown[0]!r:.40} is not known: the names are {', '.join(sorted(ENTRY))}; or one of {', '.join(sorted(API))}"
        )
    return entry


def _of_api(
    entry: Entry, where: str, number: int, lost: Callable[[str, str, int], None], notes: ResponseNotes
) -> Iterator[Token]:
    """The tokens of one line of an API: each choice is a request of its own; an entry alone has the names that it gives."""
    alone = "top_logprobs" in entry and "tokens" not in entry
    choices = [(_choice_of_entry(entry), ALL, 0)] if alone else _choices(entry)
    usage = entry.get("usage") if len(choices) == 1 else None  # it counts the tokens of all choices
    for index, (choice, positions, skipped) in enumerate(choices):
        notes.responses += 1
        if skipped:
            first = next(i for i, position in enumerate([*positions, -1]) if i != position)
            lost(NO_LIST.format(position=first), where, skipped)
        try:
            answer = read_answer({"choices": [choice], "usage": usage}, LARGEST_ID)
        except BadAnswer as error:
            lost(str(error), where, max(1, str(choice).count("'top_logprobs'")))
            continue
        if not alone:
            notes.charge(*notes.ends.add(answer))
        if answer.missing:
            lost("counted, and not reported", where, answer.missing)
        known = {name: entry[name] for name in NUMBERS if alone and name in entry}
        request = known.get("request") if alone else f"{number} {index}"
        for position, emitted in zip(positions, answer.tokens, strict=False):
            if emitted.keyed or Lists(Reported()).state(emitted) == DOUBTFUL:
                lost(TEXT_KEYS if emitted.keyed else SAME_TEXT, where, 1)
                continue
            at = known.get("position", -1) if alone else position
            yield _of_emitted(emitted, names(request, at, known.get("batch", 0), known.get("step_offset", -1)))


def _choice_of_entry(entry: Entry) -> Entry:
    if type(entry["top_logprobs"]) is not dict:
        return {"logprobs": {"content": [entry]}}
    columns = {"tokens": "token", "token_logprobs": "logprob", "top_logprobs": "top_logprobs"}
    return {"logprobs": {name: [entry.get(one)] for name, one in columns.items()}}


Choice = tuple[Entry, Sequence[int], int]


def _choices(entry: Entry) -> list[Choice]:
    """The choices of a response in the form of OpenAI's, positions of their tokens, and how many tokens of each were skipped."""
    if "token_ids" in entry or type(entry.get("logprobs")) is dict:  # a choice
        entry = {"choices": [entry]}
    elif type(entry.get("content")) is list or "tokens" in entry:  # its log-probabilities
        entry = {"choices": [{"logprobs": entry}]}
    found = entry.get("choices", entry.get("outputs"))
    if type(found) is not list or not all(type(each) is dict for each in found):
        raise CannotAudit("choices must be a list of objects: write whole responses, one JSON object per line")
    return [_of_vllm(each) if "token_ids" in each else (each, ALL, 0) for each in found]


def _of_vllm(output: Entry) -> Choice:
    ids, lists = output["token_ids"], output.get("logprobs")
    if lists is None:
        return {}, ALL, 0
    try:
        known = {i: (token, listed) for i, (token, listed) in enumerate(zip(ids, lists, strict=True))
                 if listed is not None and listed.get(str(token)) is not None}  # fmt: skip
        content = [{"id": token, "logprob": _logprob(listed[str(token)]),
                    "top_logprobs": [{"id": int(name), "logprob": _logprob(value)} for name, value in listed.items()]}
                   for token, listed in known.values()]  # fmt: skip
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise CannotAudit(
            f"not a RequestOutput with log-probabilities: {type(error).__name__} {str(error)[:60]}"
        ) from error
    choice = {"logprobs": {"content": content}, "finish_reason": output.get("finish_reason")}
    return choice, [*known], len(ids) - len(known)


def _logprob(value: Any) -> Any:
    return value["logprob"] if type(value) is dict else value


def _of_emitted(emitted: Emitted, known: tuple[int, int, int, int]) -> Token:
    """A token of an API, its list as it came, without those whose texts do not tell them from others."""
    clear = emitted.ids >= 0
    ids, mass = emitted.ids[clear], emitted.mass[clear]
    error = max(emitted.error, emitted.total - 1)
    row = ListedMasses.of_top(ids, mass, False, error, completed=True)
    token = emitted.token if emitted.token >= 0 else UNNAMED_TOKEN
    return Token(token, row, np.nan, *known, None)


def _rows(path: Path) -> Iterator[Line]:
    """The same of every row of arrays."""
    arrays = _arrays(path)
    count = len(arrays["token"])
    for start in range(0, count, PIECE):
        piece = {name: array[start : start + PIECE] for name, array in arrays.items()}
        for row in range(len(piece["token"])):
            content = b"".join(array[row].tobytes() for array in piece.values())
            yield f"{path.name}, row {start + row}", partial(_entry_of_row, piece, row), (start + row) / count, content


def _arrays(path: Path) -> dict[str, Array]:
    """The arrays of a file, of the same length; CannotAudit where they are not, or hold what is repaired only by guessing."""
    try:
        arrays = read_arrays(path, array_names(path, HOLDS), HOLDS)
    except InvalidDistribution as error:
        raise CannotAudit(str(error)) from error
    if unknown := sorted(set(arrays) - ENTRY):
        raise CannotAudit(f"{path}: {unknown[0]!r} is not known: the names are {', '.join(sorted(ENTRY))}")
    if "token" not in arrays or not {"target_probs", "ids"} & set(arrays):
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
    if "target_probs" not in entry and "ids" in entry:
        listed = entry["ids"] >= 0
        for name in {"ids", "probabilities", "logprobs", "draft_probs"} & set(entry):
            if np.shape(entry[name]) != listed.shape:
                raise CannotAudit(f"{name} has shape {np.shape(entry[name])}, ids have {listed.shape}")
            entry[name] = entry[name][listed]
    if "whole" in entry:
        entry["whole"] = bool(entry["whole"])
    return entry


class LogWriter(AbstractContextManager["LogWriter"]):
    """Writer of a `.jsonl` log, one line per token, with the 64 most probable tokens of each distribution.

    Parameters
    ----------
    path : Path
        File to create.

    Raises
    ------
    FileExistsError
        If the file exists.

    See Also
    --------
    read_log : Reads the log.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from ot_draft.verify.server import LogWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with LogWriter(Path(folder, "log.jsonl")) as log:
    ...         log.add(1, np.array([0.5, 0.25, 0.25]), request="first", position=0)
    ...     print(Path(folder, "log.jsonl").read_text().strip())
    {"token": 1, "ids": [0, 1, 2], "probabilities": [0.5, 0.25, 0.25], "own": 0.25, "request": "first", "position": 0, "whole": true}
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("x", encoding="utf-8")
        self.tokens = 0

    def add(self, token: int, target_probs: Array, *, draft_probs: Array | None = None, **known: Any) -> None:
        """Write one emitted token with its distribution.

        Parameters
        ----------
        token : int
            Id of the emitted token.
        target_probs : array of shape (n,)
            Target distribution.
        draft_probs : array of shape (n,), optional
            Distribution of the draft model.
        **known : object
            `request`, `position`, `batch` and `step_offset` as in `Token.of_law`. They are written as given, as JSON.

        Raises
        ------
        CannotAudit
            If a distribution is not a probability vector, or `token` is not an id below n.
        """
        checked = Token.of_law(token, target_probs, draft_probs=draft_probs)
        ids, mass, rest = checked.law.cut()
        line = {"token": checked.token, "ids": ids.tolist(), "probabilities": mass.tolist(), "own": checked.own}
        line |= known
        if rest == 0:
            line["whole"] = True
        if draft_probs is not None:
            line["draft_probs"] = np.asarray(draft_probs, dtype=np.float64)[ids].tolist()
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
    """Yield every token that a step added to one sequence, with its target and draft distributions.

    Parameters
    ----------
    step : Step
        Step of `ot_draft.decoding`, decoded with `DecodeOptions(laws=True)`.
    row : int
        Index of the sequence in the batch.

    Yields
    ------
    token : int
        Id of the emitted token.
    target_probs : float64 array of shape (n,)
        Target distribution at the node that the token follows: the root, or the accepted draft token before it.
    draft_probs : float64 array of shape (n,) or None
        Distribution of the draft model at this node. None if the step has none there, for example after the last draft token.

    Raises
    ------
    CannotAudit
        If the step has no distributions. Raised during the iteration.

    See Also
    --------
    LogWriter : Writes the tokens to a log.
    Token.of_law : Token of an `Audit`.

    Notes
    -----
    The index of the token in its step is not given. Do not pass it to an audit as `step_offset` if the rule decides on whole
    paths: given its index, a token then does not follow the target distribution, although the sequence does.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import torch
    >>> from ot_draft.verify.server import emitted_with_laws
    >>> step = SimpleNamespace(  # the attributes of a Step that are read; its one draft token is accepted
    ...     p=torch.tensor([[[0.5, 0.5], [0.25, 0.75]]]), q=torch.tensor([[[0.75, 0.25]]]),
    ...     nodes=torch.tensor([[1]]), tokens=lambda row: [0, 1],
    ... )
    >>> for token, target_probs, draft_probs in emitted_with_laws(step, 0):
    ...     print(token, target_probs, draft_probs)
    0 [0.5 0.5] [0.75 0.25]
    1 [0.25 0.75] None
    """
    if step.p is None or step.q is None:
        raise CannotAudit(f"step {step.number} has no laws: decode with DecodeOptions(laws=True)")
    p, q = step.p[row].double().cpu().numpy(), step.q[row].double().cpu().numpy()
    nodes = [0, *step.nodes[row].tolist()]
    for token, node in zip(step.tokens(row), nodes, strict=False):
        drafted = q[node] if node < len(q) and abs(q[node].sum() - 1) < 1e-3 else None
        yield token, p[node], drafted
