"""API responses in a log: chat completions, completions, vLLM's `RequestOutput`, and parts of them.

They are read by `answers`, as the answers of a server are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import CannotAudit
from .answers import LARGEST_ID, BadAnswer, Emitted, read_answer
from .consistency import Ends
from .log_copies import Copies
from .records import NUMBERS, UNNAMED_TOKEN, ListedMasses, Token, names
from .reported import Lists, ListState, Reported

RESPONSE_KEYS = {"choices", "outputs", "token_ids", "content", "top_logprobs"}
Entry = dict[str, Any]  # parsed JSON object


@dataclass
class ResponseNotes:
    """Facts about a log in addition to its tokens: copies of lines, number of API responses, and their ends.

    charge: function that takes the numbers of `Ends.add`, such as `Audit.charge`.
    """

    charge: Callable[[int, int], None] = lambda tokens, ends: None
    responses: int = 0
    ends: Ends = field(default_factory=Ends)
    copies: Copies = field(default_factory=Copies)

    def undecided(self, biased: bool, stated: bool) -> str:
        """Return why no verdict is possible, or "".

        stated: whether the user states that the tokens were sampled from the reported distributions.
        """
        if (reason := self.copies.reason()) or not self.responses or not biased or stated:
            return reason
        return (
            "the tokens do not follow the reported probabilities, but the log does not say how they were sampled: another temperature, "
            "top-p, a penalty, a seed or cached answers explain it as well. If all tokens were sampled independently from all tokens, "
            "state the temperature: --temperature 1, or for example --temperature 0.7 --logprobs raw"
        )

    def remarks(self) -> tuple[str, ...]:
        """Return limits of the result that the tokens do not show."""
        hidden, responses = self.ends.hidden, self.ends.responses
        remark = (
            f"at least {hidden:,} of {responses:,} responses end without a reported end-of-sequence token. The bound counts each missing "
            "token as biased. Whether responses end as often as the reported distributions say is not tested"
        )
        return (remark,) if hidden else ()


def is_response(entry: Entry) -> bool:
    """Return whether a parsed line is an API response or a part of one, and not a token in the log's own format."""
    return bool(entry.keys() & RESPONSE_KEYS) or type(entry.get("logprobs")) is dict


def tokens_of_response(
    entry: Entry, where: str, number: int, lost: Callable[[str, str, int], None], notes: ResponseNotes
) -> Iterator[Token]:
    """Yield the tokens of a response or of a part of one. Each choice is a sequence of its own.

    A single entry of `logprobs.content` may have a name of its sequence. number: of the line, which names the other sequences.
    """
    single = "top_logprobs" in entry and "tokens" not in entry
    choices = [_Choice(_choice_of_entry(entry))] if single else _choices(entry)
    usage = entry.get("usage") if len(choices) == 1 else None  # counts the tokens of all choices
    for index, choice in enumerate(choices):
        notes.responses += 1
        if choice.skipped:
            first = next(i for i, position in enumerate([*choice.positions, -1]) if i != position)
            lost(
                f"logprobs[{first}] has no log-probability of the emitted token: this token is skipped",
                where,
                choice.skipped,
            )
        try:
            if choice.error:
                raise BadAnswer(choice.error)
            answer = read_answer({"choices": [choice.fields], "usage": usage}, LARGEST_ID)
        except BadAnswer as error:
            lost(str(error), where, _length(choice.fields, usage))
            continue
        part = "delta" in choice.fields and choice.fields.get("finish_reason") is None  # of a stream
        if not single and not part:
            notes.charge(*notes.ends.add(answer, knows_last=not choice.skipped and not answer.missing))
        if answer.missing:
            lost("counted in usage.completion_tokens, and not reported", where, answer.missing)
        known = {name: entry[name] for name in NUMBERS if single and name in entry}
        request = known.get("request") if single else f"{number} {index}"
        for position, emitted in zip(choice.positions, answer.tokens, strict=False):
            if reason := _ambiguous(emitted):
                lost(reason, where, 1)
                continue
            at = known.get("position", -1) if single else position
            yield _token(emitted, names(request, at, known.get("batch", 0), known.get("step_offset", -1)))


@dataclass(frozen=True)
class _Choice:
    """A choice with the fields of OpenAI's API, the positions of its tokens, the number of its skipped tokens, and why it is unreadable."""

    fields: Entry
    positions: Sequence[int] = range(LARGEST_ID)
    skipped: int = 0
    error: str = ""


def _choice_of_entry(entry: Entry) -> Entry:
    if type(entry["top_logprobs"]) is not dict:
        return {"logprobs": {"content": [entry]}}
    columns = {"tokens": "token", "token_logprobs": "logprob", "top_logprobs": "top_logprobs"}
    return {"logprobs": {name: [entry.get(one)] for name, one in columns.items()}}


def _choices(entry: Entry) -> list[_Choice]:
    if "token_ids" in entry or type(entry.get("logprobs")) is dict:
        found: Any = [entry]
    elif type(entry.get("content")) is list or "tokens" in entry:
        found = [{"logprobs": entry}]
    else:
        found = entry.get("choices", entry.get("outputs"))
    if type(found) is not list or not all(type(each) is dict for each in found):
        raise CannotAudit("choices must be a list of objects. Write whole responses, one JSON object per line.")
    return [_Choice(each) if type(each.get("logprobs")) is dict else _choice_of_vllm(each) for each in found]


def _choice_of_vllm(output: Entry) -> _Choice:
    ids, lists = output.get("token_ids"), output.get("logprobs")
    if ids is None or lists is None:
        return _Choice(output)
    try:
        known = {i: (token, listed) for i, (token, listed) in enumerate(zip(ids, lists, strict=True))
                 if listed is not None and listed.get(str(token)) is not None}  # fmt: skip
        content = [{"id": token, "logprob": _logprob(listed[str(token)]),
                    "top_logprobs": [{"id": int(name), "logprob": _logprob(value)} for name, value in listed.items()]}
                   for token, listed in known.values()]  # fmt: skip
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        return _Choice(
            output, error=f"not a RequestOutput with log-probabilities: {type(error).__name__} {str(error)[:60]}"
        )
    choice = {"logprobs": {"content": content}, "finish_reason": output.get("finish_reason")}
    return _Choice(choice, [*known], len(ids) - len(known))


def _length(fields: Entry, usage: Any) -> int:
    """Number of tokens of a choice that cannot be read, at least 1."""
    logprobs, said = fields.get("logprobs"), usage.get("completion_tokens") if type(usage) is dict else None
    columns = [fields.get("token_ids"), logprobs, *(logprobs.values() if type(logprobs) is dict else ())]
    lengths = [len(column) for column in columns if type(column) is list]
    return max([1, *lengths, *([said] if type(said) is int and said < LARGEST_ID else [])])


def _logprob(value: Any) -> Any:
    return value["logprob"] if type(value) is dict else value


def _ambiguous(emitted: Emitted) -> str:
    """Why the emitted token cannot be found in its list; "" if it can."""
    if emitted.keyed:
        return (
            "the keys of top_logprobs are strings, and several tokens may have the same one. Let the server name tokens by ids "
            "(vLLM: return_tokens_as_token_ids), or use its chat endpoint"
        )
    if Lists(Reported()).state(emitted) == ListState.DOUBTFUL:
        return "several listed tokens have the string of the emitted one. Log token ids"
    return ""


def _token(emitted: Emitted, known: tuple[int, int, int, int]) -> Token:
    """The token with its list as reported, without tokens whose strings do not identify them."""
    clear = emitted.ids >= 0
    ids, mass = emitted.ids[clear], emitted.mass[clear]
    error = max(emitted.error, emitted.total - 1)
    row = ListedMasses.of_top(ids, mass, False, error, completed=True, gaps=not clear.all())
    token = emitted.token if emitted.token >= 0 else UNNAMED_TOKEN
    return Token(token, row, np.nan, *known, None)
