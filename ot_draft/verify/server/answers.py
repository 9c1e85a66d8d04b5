"""What an OpenAI-compatible server answers, read with distrust: emitted tokens with the tokens listed for each.

Some name tokens by their texts, and several tokens may have one text. In a list of objects both stand there. Where texts are the keys
of an object one overwrites the other: what is left, and how long the list is, can hang on the emitted token. `reported.Lists` says which
of these laws can be known.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ...arrays import Array
from ...errors import CannotAudit
from .records import LEFT_OUT, OVER, number_of
from .rounding import NOTHING, log_error, step_of

TOKEN_ID = re.compile(r"token_id:(\d{1,9})")
ALL = 1e-4  # a list that misses less than this is the whole law
LOWEST = -1e4  # log-probabilities from here down are 0 (vLLM prints -9999, llama.cpp the lowest float)
UNREPORTED = "unreported"  # how an answer ended whose last token is counted and not shown
PARTIAL, UNCLEAR = "\ufffd", ("",)  # texts that many tokens have: parts of a character, and marks that are not printed
NAMELESS = -10
LONG_NAME = 64  # characters; longer ones are not kept
LARGEST_ID = 2**31  # no vocabulary is larger
NEAR = 1e-2  # two log-probabilities of one text that differ by more are those of two tokens
ABOVE_ONE = 0.1  # by how much a list may sum to more than 1: twenty probabilities of two digits
CONTRADICTS = 0.02  # two reports of one probability in one answer may differ by this, for the same reason
NO_LAW = (
    "no log-probabilities in it: let the server report them (vLLM: --max-logprobs 20; llama.cpp and SGLang do by themselves; a hosted "
    "service may refuse), or write a log inside the engine (docs/audit.md: Audit a log)"
)


class BadAnswer(CannotAudit):
    """An answer of a server that cannot be read."""


class NoLaw(BadAnswer):
    """An answer without log-probabilities."""


@dataclass(frozen=True)
class Emitted:
    """One emitted token: its number, log-probability, and all listed tokens with theirs, heaviest first.

    The number is -3 where its name does not say which token it is, and so are those from NAMELESS down in ids: by_text, named by their
    texts, not by ids. as_mass: given as probabilities, not logarithms. keyed: by_text, and texts are the keys, so that one entry may
    have overwritten another. own_last: the entry of the emitted token's text has the emitted token's mass, and none has less. twice:
    several entries have this text, or it is unknown whether the one is it. apart: it is listed, with other masses than the emitted token's.
    """

    token: int
    log: float
    ids: Array
    logs: Array
    by_text: bool = False
    as_mass: bool = False
    keyed: bool = False
    own_last: bool = False
    twice: bool = False
    apart: bool = False

    @cached_property
    def mass(self) -> Array:
        """Probabilities of the listed tokens, to the digit where they were said as such."""
        return np.round(np.exp(self.logs), 12) if self.as_mass else np.exp(self.logs)

    @cached_property
    def total(self) -> float:
        """Their sum."""
        return float(self.mass.sum())

    @cached_property
    def error(self) -> float:
        """Relative error of the probabilities, from the digits of their logarithms."""
        return 0.0 if self.as_mass else log_error(self.logs)

    @cached_property
    def step(self) -> float:
        """Absolute error of each probability, from the digits that it was said in."""
        return step_of(self.mass) if self.as_mass else 0.0

    @property
    def slack(self) -> float:
        """By how much a sum of the probabilities can be off."""
        return min(1.0, self.error + len(self.mass) * self.step + max(0.0, self.total - 1))

    def named(self, listed: int) -> tuple[Array, Array]:
        """Of the heaviest `listed` tokens those whose names say which they are, with their probabilities."""
        clear = self.ids[:listed] >= 0
        return self.ids[:listed][clear], self.mass[:listed][clear]


@dataclass(frozen=True)
class Answer:
    """The tokens of one answer, how it ended (the server's word, "" if none), and how many more it counts than it reports.

    llama.cpp does not show the tokens of a character that is not whole when an answer ends.
    """

    tokens: tuple[Emitted, ...]
    finish: str
    missing: int = 0


def parsed(body: bytes) -> dict[str, Any]:
    """The body's JSON object; BadAnswer for half a JSON, NaN in it, or anything else."""

    def no_number(text: str) -> float:
        raise ValueError(f"{text} stands in it")

    try:
        found = json.loads(body, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"not JSON: {str(error)[:80]}") from error
    if not isinstance(found, dict):
        raise BadAnswer("JSON, but no object")
    return found


def drafted(answer: dict[str, Any]) -> int | None:
    """Tokens drafted for an answer by the server's own count, as llama.cpp has it, untrusted; None where it counts none of its doings."""
    timings = answer.get("timings")
    count = timings.get("draft_n", 0) if isinstance(timings, dict) else None
    return count if type(count) is int and 0 <= count < LARGEST_ID else None


def read_answer(found: dict[str, Any], most: int) -> Answer:
    """The answer to a request of at most `most` tokens from what was `parsed`; BadAnswer where it is none."""
    if "choices" not in found and "error" in found:
        raise BadAnswer(f"an error instead of an answer: {ascii(found['error'])[:80]}")
    try:
        choice = found["choices"][0]
        if choice.get("logprobs") is None:
            raise NoLaw(NO_LAW)
        entries = list(_entries(choice["logprobs"]))
        finish = str(choice.get("finish_reason") or "")
        said = (found.get("usage") or {}).get("completion_tokens")
        if said is not None and type(said) is not int:
            raise BadAnswer(f"usage.completion_tokens must be an integer, got {_short(said)}")
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError) as error:
        if isinstance(error, CannotAudit):
            raise
        raise BadAnswer(f"not a completion with log-probabilities: {type(error).__name__} {str(error)[:60]}") from error
    if len(entries) > most:
        raise BadAnswer(f"{len(entries)} tokens where at most {most} were asked for")
    missing = 0 if said is None else said - len(entries)
    if finish == "stop" and missing == 1:
        finish, missing = UNREPORTED, 0
    if not 0 <= missing <= most - len(entries):
        raise BadAnswer(f"usage.completion_tokens is {_short(said)[:20]}, but the response has {len(entries)} tokens")
    return Answer(tuple(_emitted(*entry) for entry in entries), finish, missing)


# a token as the server names it, its log-probability, whether that was said as a probability
Named = tuple[Any, float, bool]


def _entries(logprobs: Any) -> Iterator[tuple[Named, list[Named], bool]]:
    """Emitted token, listed tokens, and whether these were keys.

    A list of objects (llama.cpp, chat style), or columns (vLLM, SGLang, OpenAI's completions).
    """
    if "content" in logprobs:
        for i, entry in enumerate(logprobs["content"]):
            field = "top_logprobs" if "top_logprobs" in entry else "top_probs"
            others = [_named(other, i, field, j) for j, other in enumerate(entry[field])]
            yield _named(entry, i), others, False
        return
    tokens, logs, lists = (logprobs[name] for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not len(tokens) == len(logs) == len(lists):
        raise BadAnswer(f"{len(tokens)} tokens, {len(logs)} log-probabilities and {len(lists)} lists of others")
    for i, (token, log, others) in enumerate(zip(tokens, logs, lists, strict=True)):
        if not isinstance(others, dict):
            raise BadAnswer(
                f"top_logprobs[{i}] is {_short(others)}: let the server list the most probable tokens at every position"
            )
        listed = [(name, value if _is_plain(value) else _log(value, f"top_logprobs[{i}][{_short(name)}]"), False)
                  for name, value in others.items()]  # fmt: skip
        yield (token, _log(log, f"token_logprobs[{i}]"), False), listed, True


def _named(entry: Any, i: int, field: str = "", j: int = 0) -> Named:
    """The entry `content[i]`, or the j-th of its field."""
    name = entry["id"] if "id" in entry else entry["token"]
    if "prob" not in entry and _is_plain(value := entry["logprob"]):
        return name, value, False
    where = f"content[{i}].{field}[{j}]" if field else f"content[{i}]"
    if "prob" not in entry:  # null: -inf, which JSON lacks, or unknown
        return name, LOWEST if value is None else _log(value, f"{where}.logprob"), False
    mass = _real(entry["prob"], f"{where}.prob")
    if not mass >= 0:
        raise BadAnswer(f"{where}.prob is {mass:g}: a probability is from 0 to 1")
    return name, _log(math.log(mass), f"{where}.prob, its logarithm") if mass > 0 else LOWEST, True


def _is_plain(value: Any) -> bool:
    """Whether a log-probability is taken as it is: what `_log` leaves alone, as nearly all."""
    return type(value) is float and LOWEST <= value <= 0.0


def _log(value: Any, where: str) -> float:
    number = _real(value, where)
    if math.isnan(number) or number > 1e-2:
        raise BadAnswer(f"{where} is {number:g}: a log-probability is at most 0")
    return max(min(number, 0.0), LOWEST)


def _real(value: Any, where: str) -> float:
    if type(value) not in (int, float):
        raise BadAnswer(
            f"{where} is {_short(value)} where a number belongs: let the server report one for every token, listed or not"
        )
    return float(value)


def _short(value: object) -> str:
    return ascii(value)[:40]


def _number(name: Any) -> int:
    """An id as it is, a text by its digest."""
    if isinstance(name, str):
        return _of_text(name)[0]
    if type(name) is not int or not 0 <= name < LARGEST_ID:
        raise BadAnswer(f"{_short(name)} names a token: no id, no text")
    return name


def _of_text(name: str) -> tuple[int, bool]:
    """The number of a token, and whether its text is the only name that it has. The same few tokens come again and again."""
    return _remembered(name) if len(name) <= LONG_NAME else _remembered.__wrapped__(name)


@lru_cache(maxsize=65_536)
def _remembered(name: str) -> tuple[int, bool]:
    found = TOKEN_ID.fullmatch(name)
    return (int(found[1]), False) if found else (number_of(name), True)


def _emitted(own: Named, others: Sequence[Named], keys: bool) -> Emitted:
    """The list as it came, heaviest first; what was appended because it was emitted is told later, from many lists."""
    if not others:
        raise BadAnswer("no other tokens are listed: the server must report the most probable ones")
    by_text = any(isinstance(name, str) and _of_text(name)[1] for name, *_ in others)
    ids, logs = np.array([_number(name) for name, *_ in others]), np.array([log for _, log, _ in others])
    number, own_last, twice, apart = _number(own[0]), False, False, False
    if by_text:
        named, near = ids == number, abs(logs - own[1]) <= NEAR
        own_last, twice = bool((named & near & (logs <= logs.min())).any()), int(named.sum()) > 1
        twice |= bool(named.any() and own[1] < math.log(NOTHING))  # a number that stands for unknown
        apart = bool(named.any() and not (named & near).any())
        if not named.any() and own[1] > logs.min() + OVER + log_error(logs):
            raise BadAnswer(LEFT_OUT)
        times = Counter(ids.tolist())
        unclear = [name in UNCLEAR or PARTIAL in str(name) or times[number] > 1
                   for (name, *_), number in zip(others, ids.tolist(), strict=True)]  # fmt: skip
        ids = np.where(unclear, NAMELESS - np.arange(len(ids)), ids)
    token = _consistent(number, own[1], ids, logs, by_text)
    certain = not by_text or not (token < 0 or own[0] in UNCLEAR or PARTIAL in str(own[0]))
    order = np.lexsort((ids, -logs))
    return Emitted(
        token if certain else -3,
        own[1],
        ids[order],
        logs[order],
        by_text,
        own[2],
        by_text and keys,
        own_last,
        twice,
        apart,
    )


def _consistent(token: int, log: float, ids: Array, logs: Array, by_text: bool) -> int:
    """The emitted token, -3 where others of its text are listed; BadAnswer where the list contradicts itself or what was emitted."""
    mass, own = np.exp(logs), math.exp(log)
    at = np.flatnonzero(ids == token)
    if not by_text and len(set(ids.tolist())) < len(ids):
        raise BadAnswer("a token is listed twice")
    total = float(mass.sum()) + (0.0 if len(at) or by_text else own)
    if total > 1 + ABOVE_ONE:
        raise BadAnswer(f"the probabilities of a list sum to {total:.4g}")
    if by_text:
        return -3 if len(at) and abs(logs[at[0]] - log) > NEAR else token
    if len(at) and abs(float(mass[at[0]]) - own) > CONTRADICTS:
        raise BadAnswer(f"token {token} has probability {own:.4g}, and {mass[at[0]]:.4g} in the list beside it")
    if not len(at) and own > mass.min() + CONTRADICTS:
        raise BadAnswer(f"token {token} of probability {own:.4g} is not among those listed, which have less")
    return token
