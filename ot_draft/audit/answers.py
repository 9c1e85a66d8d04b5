"""What an OpenAI-compatible server answers, read with distrust: emitted tokens with the tokens listed for each."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit
from .rows import number_of

TOKEN_ID = re.compile(r"token_id:(\d{1,9})")
ALL = 1e-4  # a list that misses less than this is the whole law
LOWEST = -1e4  # log-probabilities from here down are 0 (vLLM prints -9999, llama.cpp the lowest float)


class BadAnswer(CannotAudit):
    """An answer of a server that cannot be read."""


@dataclass(frozen=True)
class Emitted:
    """One emitted token: its number, log-probability, and the listed tokens with theirs, heaviest first."""

    token: int
    log: float
    ids: Array
    logs: Array


@dataclass(frozen=True)
class Answer:
    """The tokens of one answer, and how it ended (the server's word, "" if none)."""

    tokens: tuple[Emitted, ...]
    finish: str


def parsed(body: bytes) -> dict[str, Any]:
    """The body's JSON object; BadAnswer for half a JSON, NaN in it, or anything else."""
    try:
        found = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"not JSON: {str(error)[:80]}") from error
    if not isinstance(found, dict):
        raise BadAnswer("JSON, but no object")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} stands in it")


def read_answer(body: bytes, listed: int, most: int) -> Answer:
    """The answer to a request of at most `most` tokens, each with `listed` others; BadAnswer where it is none."""
    found = parsed(body)
    try:
        choice = found["choices"][0]
        logprobs = choice["logprobs"]
        if logprobs is None:
            raise BadAnswer("no log-probabilities in it: the server must be allowed to report them")
        entries = list(_entries(logprobs))
        finish = str(choice.get("finish_reason") or "")
        said = (found.get("usage") or {}).get("completion_tokens")
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, CannotAudit):
            raise
        raise BadAnswer(f"not a completion with log-probabilities: {type(error).__name__} {str(error)[:60]}") from error
    if len(entries) > most:
        raise BadAnswer(f"{len(entries)} tokens where at most {most} were asked for")
    if said is not None and said != len(entries):
        if finish == "stop" and said == len(entries) + 1:
            raise CannotAudit(
                "answers end with a token that is not reported; left out, it would bias the others: add --ignore-eos"
            )
        raise BadAnswer(f"it says that it has {str(said)[:20]} tokens, and reports {len(entries)}")
    return Answer(tuple(_emitted(*entry, listed) for entry in entries), finish)


Named = tuple[Any, float]  # a token as the server names it, and its log-probability


def _entries(logprobs: Any) -> Iterator[tuple[Named, list[Named]]]:
    """Emitted token and listed tokens: a list of objects (llama.cpp, chat style), or columns (vLLM, SGLang, OpenAI's completions)."""
    if "content" in logprobs:
        for entry in logprobs["content"]:
            others = entry["top_logprobs"] if "top_logprobs" in entry else entry["top_probs"]
            yield _named(entry), [_named(other) for other in others]
        return
    tokens, logs, lists = (logprobs[name] for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not len(tokens) == len(logs) == len(lists):
        raise BadAnswer(f"{len(tokens)} tokens, {len(logs)} log-probabilities and {len(lists)} lists of others")
    for token, log, others in zip(tokens, logs, lists, strict=True):
        yield (token, _log(log)), [(name, _log(value)) for name, value in others.items()]


def _named(entry: Any) -> Named:
    name = entry["id"] if "id" in entry else entry["token"]
    if "prob" in entry:
        value = float(entry["prob"])
        return name, math.log(value) if value > 0 else LOWEST
    return name, _log(entry["logprob"])


def _log(value: Any) -> float:
    number = float(value)
    if math.isnan(number) or number > 1e-2:
        raise BadAnswer(f"a log-probability is {number:g}")
    return min(number, 0.0)


def _number(name: Any) -> int:
    if isinstance(name, str) and (found := TOKEN_ID.fullmatch(name)):
        return int(found[1])
    return number_of(name)


def _emitted(own: Named, others: Sequence[Named], listed: int) -> Emitted:
    """The list without what was appended because it was emitted: which tokens stand in it must depend on the law alone."""
    if not others:
        raise BadAnswer("no other tokens are listed: the server must report the likeliest ones")
    token = _number(own[0])
    ids, logs = np.array([_number(name) for name, _ in others]), np.array([log for _, log in others])
    if len(np.unique(ids)) < len(ids):
        raise BadAnswer("a token is listed twice")
    order = np.lexsort((ids, -logs))
    ids, logs = ids[order], logs[order]
    at = np.flatnonzero(ids == token)
    if len(at) and abs(logs[at[0]] - own[1]) > 1e-2:  # another token of the same text
        token = -3
    if np.exp(logs).sum() < 1 - ALL:
        # By text two tokens can fall together; the list is then shorter, and an appended token not told by its length.
        named = not any(isinstance(name, str) and not TOKEN_ID.fullmatch(name) for name, _ in others)
        kept = min(listed if named else listed - 2, len(ids))
        ids, logs = ids[: max(kept, 1)], logs[: max(kept, 1)]
    return Emitted(token, own[1], ids, logs)
