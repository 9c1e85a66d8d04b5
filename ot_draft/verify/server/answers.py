"""Parser of completions of OpenAI-compatible servers: emitted tokens with their listed log-probabilities, or texts.

Responses are not trusted: whatever contradicts the request or itself raises BadAnswer.

Some servers name tokens by their texts, and several tokens may have the same text. A list of objects then has an entry for each of
them. If texts are the keys of an object, one entry overwrites the other: the remaining entries, and their number, may depend on the
emitted token. `reported.Lists` decides which of these distributions are known.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Array
from ...errors import CannotAudit
from .records import LEFT_OUT, OVER, number_of
from .rounding import NOTHING, log_error, step_of

UNREPORTED = "unreported"  # finish reason of a response whose last token is counted and not reported
PARTIAL = "\ufffd"  # text of a part of a character: many tokens have it
LARGEST_ID = 2**31  # bound on token ids and counts; no vocabulary is larger
AMBIGUOUS = -3  # id of an emitted token whose name does not identify it


@dataclass(frozen=True)
class ListTolerances:
    """Tolerances of the checks of reported lists, for servers that round to two digits."""

    missing_mass: float = 1e-4  # probability that a list may lack and still be the whole distribution
    same_token: float = 1e-2  # difference of log-probabilities of one text, above which they belong to two tokens
    lowest_log: float = (
        -1e4
    )  # log-probabilities below are probability 0 (vLLM prints -9999, llama.cpp the lowest float)
    above_zero: float = 1e-2  # log-probability above 0 that counts as 0
    excess_mass: float = 0.1  # excess of the sum of a list over 1
    contradiction: float = 0.02  # difference of two reports of one probability in one response


TOLERANCES = ListTolerances()


class BadAnswer(CannotAudit):
    """A response of a server that cannot be read."""


class NoLogprobs(BadAnswer):
    """A response without log-probabilities."""

    def __init__(self) -> None:
        super().__init__(
            'no log-probabilities in the response: request them ("logprobs": true, "top_logprobs": 20) from a server that reports them '
            "(vLLM: --max-logprobs 20; llama.cpp and SGLang do by default; a hosted service may not), or write a log inside the engine "
            "(docs/audit.md: Audit a log)"
        )


@dataclass(frozen=True)
class Emitted:
    """One emitted token: its id, its log-probability, and ids and log-probabilities of all listed tokens, most probable first.

    Attributes
    ----------
    token : int
        Id, or AMBIGUOUS if its name does not identify it. Ambiguous entries of `ids` have distinct negative ids.
    by_text : bool
        Whether tokens are identified by their texts instead of ids.
    as_mass : bool
        Whether the response has probabilities instead of logarithms.
    keyed : bool
        Whether texts are the keys of the list, so that one entry may have overwritten another.
    own_last : bool
        Whether the entry with the emitted token's text has its probability, and none has less.
    twice : bool
        Whether several entries have the emitted token's text, or it is unknown whether that entry is this token.
    other_probability : bool
        Whether the emitted token's text is listed with other probabilities only.
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
    other_probability: bool = False

    @cached_property
    def mass(self) -> Array:
        """Probabilities of the listed tokens, as reported if the response has probabilities."""
        return np.round(np.exp(self.logs), 12) if self.as_mass else np.exp(self.logs)

    @cached_property
    def total(self) -> float:
        """Sum of these probabilities."""
        return float(self.mass.sum())

    @cached_property
    def error(self) -> float:
        """Relative error of the probabilities, from the digits of their logarithms."""
        return 0.0 if self.as_mass else log_error(self.logs)

    @cached_property
    def step(self) -> float:
        """Absolute error of each probability, from its digits."""
        return step_of(self.mass) if self.as_mass else 0.0

    @property
    def slack(self) -> float:
        """Largest error of a sum of the probabilities."""
        return min(1.0, self.error + len(self.mass) * self.step + max(0.0, self.total - 1))

    def named(self, listed: int) -> tuple[Array, Array]:
        """Ids and probabilities of the unambiguous tokens among the `listed` most probable ones."""
        clear = self.ids[:listed] >= 0
        return self.ids[:listed][clear], self.mass[:listed][clear]


@dataclass(frozen=True)
class Answer:
    """Tokens of one response, its finish reason ("" if there is none), and how many more tokens it counts than it reports.

    llama.cpp does not report the tokens of an incomplete character at the end of a response.
    """

    tokens: tuple[Emitted, ...]
    finish: str
    missing: int = 0


@dataclass(frozen=True)
class TextAnswer:
    """One completion without log-probabilities: its text and token ids, None if absent, and whether it ended before max_tokens."""

    text: str | None
    token_ids: list[int] | None
    ended: bool


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a response. Raises BadAnswer for incomplete JSON, NaN, or another type."""

    def no_constant(text: str) -> float:
        raise ValueError(f"{text} is not JSON")

    try:
        found = json.loads(body, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"the response must be JSON: {str(error)[:80]}") from error
    if not isinstance(found, dict):
        raise BadAnswer("the response must be a JSON object")
    return found


def draft_count(answer: dict[str, Any]) -> int | None:
    """Return the number of draft tokens that the server (llama.cpp) counts for a response; None if it counts none."""
    timings = answer.get("timings")
    count = timings.get("draft_n", 0) if isinstance(timings, dict) else None
    return count if type(count) is int and 0 <= count < LARGEST_ID else None


def read_texts(found: dict[str, Any], count: int, most: int) -> list[TextAnswer]:
    """Return the `count` completions of at most `most` tokens. Raises BadAnswer if the response has others."""
    choices = found.get("choices")
    if not isinstance(choices, list) or len(choices) != count or not all(isinstance(each, dict) for each in choices):
        raise BadAnswer(f"choices must be a list of {count} objects, as many as were asked for, got {_short(choices)}")
    return [_text_answer(choice, most) for choice in choices]


def _text_answer(choice: dict[str, Any], most: int) -> TextAnswer:
    text, ids = choice.get("text"), choice.get("token_ids")
    if text is not None and not isinstance(text, str):
        raise BadAnswer(f"text must be a string, got {_short(text)}")
    if ids is not None:
        if not isinstance(ids, list) or not all(type(each) is int and 0 <= each < LARGEST_ID - 1 for each in ids):
            raise BadAnswer(f"token_ids must be a list of ids, got {_short(ids)}")
        if len(ids) > most:
            raise BadAnswer(f"token_ids must have at most {most} tokens, as many as were asked for, got {len(ids)}")
    return TextAnswer(text, ids, choice.get("finish_reason") not in (None, "length"))


def read_answer(found: dict[str, Any], most: int) -> Answer:
    """Return the first completion, of at most `most` tokens, with its log-probabilities. Raises BadAnswer if it is invalid."""
    if "choices" not in found and "error" in found:
        raise BadAnswer(f"the response has an error: {ascii(found['error'])[:80]}")
    try:
        choice = found["choices"][0]
        if choice.get("logprobs") is None:
            raise NoLogprobs
        entries = list(_entries(choice["logprobs"]))
        finish = str(choice.get("finish_reason") or "")
        counted = (found.get("usage") or {}).get("completion_tokens")
        if counted is not None and type(counted) is not int:
            raise BadAnswer(f"usage.completion_tokens must be an integer, got {_short(counted)}")
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError) as error:
        if isinstance(error, CannotAudit):
            raise
        shown = f"{type(error).__name__} {str(error)[:60]}"
        raise BadAnswer(f"the response must be a completion with log-probabilities: {shown}") from error
    if len(entries) > most:
        raise BadAnswer(f"the response must have at most {most} tokens, as many as were asked for, got {len(entries)}")
    missing = 0 if counted is None else counted - len(entries)
    if finish == "stop" and missing == 1:
        finish, missing = UNREPORTED, 0
    if not 0 <= missing <= most - len(entries):
        raise BadAnswer(
            f"usage.completion_tokens is {_short(counted)[:20]}, but the response has {len(entries)} tokens"
        )
    return Answer(tuple(_emitted(*entry) for entry in entries), finish, missing)


class Listed(NamedTuple):
    """An entry of a list: the token as the server names it, its log-probability, and whether that was a probability."""

    name: Any
    log: float
    as_mass: bool = False


def _entries(logprobs: Any) -> Iterator[tuple[Listed, list[Listed], bool]]:
    """Emitted token, listed tokens, and whether their names are keys.

    A list of objects (llama.cpp, chat completions), or columns (vLLM, SGLang, OpenAI's completions).
    """
    if "content" in logprobs:
        for i, entry in enumerate(logprobs["content"]):
            field = "top_logprobs" if "top_logprobs" in entry else "top_probs"
            others = [_listed(other, "content[{}].{}[{}]", i, field, j) for j, other in enumerate(entry[field])]
            yield _listed(entry, "content[{}]", i), others, False
        return
    tokens, logs, lists = (logprobs[name] for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not len(tokens) == len(logs) == len(lists):
        raise BadAnswer(
            f"tokens, token_logprobs and top_logprobs must have the same length, got {len(tokens)}, {len(logs)} and {len(lists)}"
        )
    for i, (token, log, others) in enumerate(zip(tokens, logs, lists, strict=True)):
        if not isinstance(others, dict):
            raise BadAnswer(
                f"top_logprobs[{i}] must be an object, got {_short(others)}: let the server list the most probable tokens at every position"
            )
        listed = [Listed(name, _log(value, "top_logprobs[{}][{!a:.40}]", i, name)) for name, value in others.items()]
        yield Listed(token, _log(log, "token_logprobs[{}]", i)), listed, True


def _listed(entry: Any, where: str, *at: object) -> Listed:
    """An entry of a list of objects; `where.format(*at)` names it in messages."""
    name = entry["id"] if "id" in entry else entry["token"]
    if "prob" in entry:
        mass = _number(entry["prob"], f"{where}.prob", *at)
        if not mass >= 0:
            raise BadAnswer(f"{where.format(*at)}.prob must be from 0 to 1, got {mass:g}")
        log = _log(math.log(mass), f"the logarithm of {where}.prob", *at) if mass > 0 else TOLERANCES.lowest_log
        return Listed(name, log, True)
    value = entry["logprob"]
    # null: -inf, which JSON lacks, or unknown
    return Listed(name, TOLERANCES.lowest_log if value is None else _log(value, f"{where}.logprob", *at))


def _log(value: Any, where: str, *at: object, lowest: float = TOLERANCES.lowest_log) -> float:
    if type(value) is float and lowest <= value <= 0.0:  # nearly all
        return value
    number = _number(value, where, *at)
    if math.isnan(number) or number > TOLERANCES.above_zero:
        raise BadAnswer(f"{where.format(*at)} must be a log-probability, at most 0, got {number:g}")
    return max(min(number, 0.0), lowest)


def _number(value: Any, where: str, *at: object) -> float:
    if type(value) not in (int, float):
        raise BadAnswer(
            f"{where.format(*at)} must be a number, got {_short(value)}: let the server report one for every token, listed or not"
        )
    return float(value)


def _short(value: object) -> str:
    return ascii(value)[:40]


def _id(name: Any) -> int:
    """Return an id as it is, and the digest of a text."""
    if isinstance(name, str):
        return _id_of_text(name)[0]
    if type(name) is not int or not 0 <= name < LARGEST_ID:
        raise BadAnswer(f"a token must be an id or a text, got {_short(name)}")
    return name


def _id_of_text(text: str, longest_kept: int = 64) -> tuple[int, bool]:
    """Return the id of a token, and whether its text is its only name. Most of the texts occur many times; long ones are not kept."""
    return _kept_id(text) if len(text) <= longest_kept else _kept_id.__wrapped__(text)


@lru_cache(maxsize=65_536)
def _kept_id(text: str) -> tuple[int, bool]:
    found = re.fullmatch(r"token_id:(\d{1,9})", text)  # vLLM with return_tokens_as_token_ids
    return (int(found[1]), False) if found else (number_of(text), True)


def _emitted(own: Listed, others: Sequence[Listed], keys: bool, first_ambiguous: int = -10) -> Emitted:
    """Return the record of one token. Whether it is listed only because it was emitted shows in many lists, see `reported.Lists`."""
    if not others:
        raise BadAnswer("no other tokens are listed: the server must report the most probable tokens")
    by_text = any(isinstance(name, str) and _id_of_text(name)[1] for name, *_ in others)
    numbers = [_id(name) for name, *_ in others]
    ids, logs = np.array(numbers), np.array([log for _, log, _ in others])
    number, own_last, twice, other_probability = _id(own.name), False, False, False
    if by_text:
        named, lowest = [log for each, (_, log, _) in zip(numbers, others, strict=True) if each == number], logs.min()
        near = [log for log in named if abs(log - own.log) <= TOLERANCES.same_token]
        own_last = bool(near and min(near) <= lowest)
        twice = len(named) > 1 or (bool(named) and own.log < math.log(NOTHING))  # a value that stands for unknown
        other_probability = bool(named) and not near
        if not named and own.log > lowest + OVER + log_error(logs):
            raise BadAnswer(LEFT_OUT)
        times = Counter(numbers)
        unclear = [times[each] > 1 or _of_many_tokens(name)
                   for (name, *_), each in zip(others, numbers, strict=True)]  # fmt: skip
        ids = np.where(unclear, first_ambiguous - np.arange(len(ids)), ids)
    token = _consistent(number, own.log, ids, logs, by_text)
    clear = not by_text or not (token < 0 or _of_many_tokens(own.name))
    order = np.lexsort((ids, -logs))
    return Emitted(
        token if clear else AMBIGUOUS,
        own.log,
        ids[order],
        logs[order],
        by_text,
        own.as_mass,
        by_text and keys,
        own_last,
        twice,
        other_probability,
    )


def _of_many_tokens(name: Any) -> bool:
    """Whether many tokens have this text: marks that are not printed, and parts of a character."""
    return name == "" or PARTIAL in str(name)


def _consistent(token: int, log: float, ids: Array, logs: Array, by_text: bool) -> int:
    """The emitted token, AMBIGUOUS if another token of its text is listed. Raises BadAnswer if the list contradicts itself."""
    mass, own = np.exp(logs), math.exp(log)
    at = np.flatnonzero(ids == token)
    if not by_text and len(set(ids.tolist())) < len(ids):
        raise BadAnswer("a token is listed twice")
    total = float(mass.sum()) + (0.0 if len(at) or by_text else own)
    if total > 1 + TOLERANCES.excess_mass:
        raise BadAnswer(f"the probabilities of a list must sum to at most 1, got {total:.4g}")
    if by_text:
        return AMBIGUOUS if len(at) and abs(logs[at[0]] - log) > TOLERANCES.same_token else token
    if len(at) and abs(float(mass[at[0]]) - own) > TOLERANCES.contradiction:
        raise BadAnswer(f"token {token} has probability {own:.4g}, but {mass[at[0]]:.4g} in the list at its position")
    if not len(at) and own > mass.min() + TOLERANCES.contradiction:
        raise BadAnswer(f"token {token} of probability {own:.4g} is not listed, although listed tokens have less")
    return token
