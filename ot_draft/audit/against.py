"""Two servers, or one server in two ways, side by side: the same law? From texts alone: no log-probabilities are asked for.

Every setting has a `TwoSided` of its own; the verdict's wealth is their mean, half of it on the plain setting. A wave asks both sides
for the same requests, in an order that a coin decides: many copies of one request, and one of every setting together, in turn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count, cycle
from math import log
from typing import Any, Protocol

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit
from .answers import BadAnswer, parsed
from .bound import CELLS, most_apart
from .client import DIALECTS, Client, RefusedRequest
from .server import FAILURES, PROMPTS, Plan, Prompt
from .two_sided import ENDED, Race, TwoSided
from .verdict import UNREADABLE

END = 2**31 - 1  # stands for the end that an answer came to by itself
PIECE = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")  # of a text whose tokens are not known
LENGTHS = (2, 2, 8, 2, 2, 16)  # tokens an answer where settings are asked together, in turn
SHORT = (1, 2, 5)  # tokens of many answers to one request, whichever tells most: the first token may not be drafted for
TOGETHER = 4  # every so many waves all settings are asked together
SMALL, SMALL_UNTIL, LARGE = 2, 600, 8  # copies of a request in a block, tokens of a setting until there are more
MORE = 3  # requests of the first setting in a wave of all settings
PLACES = 2  # of an answer, that the bound is about
PROMPTS_A_SETTING = 4  # but for the plain one, that has them all
BIAS = {str(token): 4.0 for token in range(5, 400, 7)}

# Fields of every setting, by engine; "*": of those that are not named. None: the engine has no such field.
Fields = Mapping[str, Any]
SETTINGS: dict[str, dict[str, Fields | None]] = {
    "plain": {"*": {}},
    "temperature 0.6": {"*": {"temperature": 0.6}},
    "temperature 0": {"*": {"temperature": 0.0}},
    "top-p 0.8": {"*": {"top_p": 0.8}},
    "top-k 5": {"*": {"top_k": 5}, "openai": None},
    "min-p 0.1": {"*": {"min_p": 0.1}, "openai": None},
    "repetition penalty 1.3": {"*": {"repeat_penalty": 1.3}, "vllm": {"repetition_penalty": 1.3},
                               "sglang": {"repetition_penalty": 1.3}, "openai": None},
    "presence penalty 1": {"*": {"presence_penalty": 1.0}},
    "frequency penalty 1": {"*": {"frequency_penalty": 1.0}},
    "logit bias": {"*": {"logit_bias": BIAS}},
    "at least 3 tokens": {"*": None, "vllm": {"min_tokens": 3}, "sglang": {"min_tokens": 3}},
    "stop at a comma": {"*": {"stop": [","]}},
    "a grammar": {"*": None, "vllm": {"structured_outputs": {"regex": "( [a-z]+)+"}}, "sglang": {"regex": "( [a-z]+)+"},
                  "llamacpp": {"grammar": 'root ::= (" " [a-z]+)+'}},
}  # fmt: skip
PLAIN = {"llamacpp": {"speculative.n_max": 0}}  # by engine: fields that switch drafts off for one request


class Side(Protocol):
    """A source of answers."""

    def ask(self, requests: Sequence[tuple[str, Prompt]], tokens: int) -> list[Array | BadAnswer]:
        """An answer to each request, a setting and a prompt, all together: its tokens, ENDED after them, (tokens,) integers."""


@dataclass
class Server:
    """One side: a server, what it was introduced as, and fields that are sent with every request."""

    client: Client
    plan: Plan
    ids: bool = False  # whether tokens are compared, not pieces of text
    fields: Fields = field(default_factory=dict)

    def ask(self, requests: Sequence[tuple[str, Prompt]], tokens: int) -> list[Array | BadAnswer]:
        asked = [{**self._fields(setting), "prompt": prompt, "max_tokens": tokens} for setting, prompt in requests]
        return [_read(body, tokens, self.ids) for body in self.client.bodies(asked)]

    def has(self, setting: str) -> bool:
        """Whether the engine has such a setting at all."""
        return self._of(setting) is not None

    def gives_ids(self) -> bool:
        """Whether it names the tokens of its answers by their ids where it is asked to."""
        body = self.client.bodies([{**self._fields("plain"), "prompt": PROMPTS[0], "max_tokens": 1}])[0]
        return not isinstance(body, BadAnswer) and isinstance(_choice(body).get("token_ids"), list)

    def _of(self, setting: str) -> Fields | None:
        by_engine = SETTINGS[setting]
        return by_engine.get(self.plan.engine, by_engine["*"])

    def _fields(self, setting: str) -> dict[str, Any]:
        dialect = DIALECTS[self.plan.engine]
        fields = {"model": self.plan.model, "temperature": 1.0, "top_p": 1.0, **dialect.fields}
        fields |= {"top_k": dialect.all_tokens} if dialect.all_tokens is not None else {}
        fields |= {"return_token_ids": True} if self.plan.engine == "vllm" else {}
        return {**fields, **(self._of(setting) or {}), **self.fields}


def _choice(body: bytes) -> dict[str, Any]:
    try:
        choice = parsed(body)["choices"][0]
    except (KeyError, IndexError, TypeError) as error:
        raise BadAnswer(f"not a completion: {type(error).__name__} {str(error)[:60]}") from error
    if not isinstance(choice, dict):
        raise BadAnswer("not a completion: its choice is no object")
    return choice


def _read(body: bytes | BadAnswer, most: int, ids: bool) -> Array | BadAnswer:
    """The tokens of an answer, or digests of the pieces of its text; END where it ended by itself, then ENDED."""
    try:
        if isinstance(body, BadAnswer):
            raise body
        choice = _choice(body)
        tokens = _ids(choice.get("token_ids"), most) if ids else _pieces(choice.get("text"))
    except BadAnswer as error:
        return error
    tokens = [*tokens, *([END] if choice.get("finish_reason") == "stop" else [])][:most]
    return np.array([*tokens, *[ENDED] * (most - len(tokens))], dtype=np.int64)


def _ids(tokens: Any, most: int) -> list[int]:
    if not isinstance(tokens, list) or not all(type(token) is int and 0 <= token < END for token in tokens):
        raise BadAnswer("no list of token ids, although other answers had one")
    if len(tokens) > most:
        raise BadAnswer(f"{len(tokens)} tokens where at most {most} were asked for")
    return tokens


def _pieces(text: Any) -> list[int]:
    if not isinstance(text, str):
        raise BadAnswer("no text")
    digests = (blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=4).digest() for piece in PIECE.findall(text))
    return [int.from_bytes(digest, "big") % END for digest in digests]


class Places:
    """A bound, at any time, of the mean difference between the sides at the first places of an answer.

    Before every block the tokens that came at a place of the answers to its request are ranked; the cells are the seven most frequent
    ones and the rest. The bound is for all unions of cells and both places at once, by the lemma in `bound`: x is the mean difference
    of a block, so that answers of one block may share their random numbers.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, int], Counter[int]] = {}
        self._count, self._sum, self._square = 0, np.zeros((PLACES, CELLS)), np.zeros((PLACES, CELLS, CELLS))

    def add(self, request: Any, first: Array, second: Array) -> None:
        """Count a block of answers (m, T) to one request."""
        for place in range(min(PLACES, first.shape[1])):
            seen = self._seen.setdefault((request, place), Counter())
            rank = {token: i for i, (token, _) in enumerate(seen.most_common(CELLS - 1))}
            cells = [np.bincount([rank.get(token, CELLS - 1) for token in side[:, place].tolist()], minlength=CELLS)
                     for side in (first, second)]  # fmt: skip
            x = (cells[0] - cells[1]) / len(first)
            self._sum[place] += x
            self._square[place] += np.outer(x, x)
            seen.update([*first[:, place].tolist(), *second[:, place].tolist()])
        self._count += 1

    def largest(self, confidence: float) -> float:
        """The bound; 1 at the start."""
        if not self._count:
            return 1.0
        return min(1.0, float(most_apart(self._sum, self._square, confidence).max()) / self._count)


@dataclass
class Setting:
    """One setting: its prompts, its bets, and which prompt comes next. left_out: why it is not asked for, "" if it is."""

    name: str
    prompts: Sequence[Prompt]
    stake: float
    bets: TwoSided = field(default_factory=TwoSided)
    left_out: str = ""

    def __post_init__(self) -> None:
        self.race = Race(len(self.prompts) * len(SHORT))  # of a prompt with a length

    @property
    def copies(self) -> int:
        return SMALL if self.bets.tokens < SMALL_UNTIL else LARGE


@dataclass(frozen=True)
class Agreement:
    """The verdict on two sides.

    differs: whether the wealth ever reached 1 / level, after decided_at tokens of both sides. settings: logarithm of each one's own
    wealth, with its tokens and the bets that won most. bound: with probability `confidence` the law of the first token, and that of
    the second, sorted into the seven most frequent answers to the prompt so far and all others, differ by less than this in total
    variation, on average over the blocks. undecided: why nothing can be concluded, "" if it can. same: whether all answers were equal.
    """

    tokens: int
    differs: bool
    decided_at: int | None
    level: float
    log_e_value: float
    log_largest: float
    bound: float
    confidence: float
    settings: tuple[tuple[str, int, float, str], ...]
    left_out: tuple[tuple[str, str], ...]
    unreadable: tuple[tuple[str, int], ...]
    undecided: str
    same: bool

    def __str__(self) -> str:
        if self.differs:
            return (
                f"the two sides differ: seen after {self.decided_at:,} tokens of both (largest e-value {_power(self.log_largest)}; "
                f"a false alarm has probability {self.level:g} at most)"
            )
        if self.undecided:
            return f"cannot be decided: {self.undecided}"
        return (
            f"no difference seen in {self.tokens:,} tokens of both sides (e-value {_power(self.log_e_value)}); the laws of the first and "
            f"of the second token differ by less than {self.bound:.2g} with confidence {self.confidence:g}, on average, in so far as the "
            "seven most frequent answers to a prompt and all others show it"
            + (": all answers were equal" if self.same else "")
        )


def _power(log_e: float) -> str:
    return f"10^{log_e / log(10):.1f}"


class Match:
    """Two sides, asked the same until they differ or the tokens are used up."""

    def __init__(
        self, first: Side, second: Side, settings: Sequence[Setting], level: float = 1e-6, confidence: float = 0.999,
        lengths: Sequence[int] = LENGTHS, seed: int | None = None,
    ) -> None:  # fmt: skip
        self._sides, self.settings = (first, second), settings
        self.level, self.confidence = level, confidence
        self._lengths, self._coin = cycle(lengths), np.random.default_rng(seed)
        self._places, self._same = Places(), True
        self._answers, self._empty, self._waves, self.unreadable = 0, 0, count(), Counter[str]()
        self._largest, self._decided_at = 0.0, None  # type: float, int | None

    @property
    def tokens(self) -> int:
        return sum(each.bets.tokens for each in self.settings)

    @property
    def log_e(self) -> float:
        stakes = np.array([each.stake for each in self.settings])
        logs = np.array([each.bets.log_e for each in self.settings])
        return float(np.logaddexp.reduce(logs + np.log(stakes / stakes.sum())))

    def until(self, tokens: int, on_wave: Callable[[int], None] = lambda tokens: None) -> Agreement:
        """Ask until the sides differ, or so many tokens of both were read. CannotAudit if nothing can be read."""
        while self._decided_at is None and self.tokens < tokens and not self._too_many() and self._empty < FAILURES:
            if all(each.left_out for each in self.settings):
                raise CannotAudit(f"no setting is answered by both sides: {self.settings[0].left_out}")
            self._ask()
            on_wave(self.tokens)
        if not self.tokens:
            raise CannotAudit(
                f"{self._empty} waves of requests in a row without an answer that can be read: {self._reasons()}"
            )
        return self.agreement()

    def _wave(self) -> tuple[list[tuple[Setting, int]], int]:
        """Requests that are sent together and tokens an answer: copies of one, or one of every setting and some more of the first."""
        asked = [each for each in self.settings if not each.left_out]
        if next(self._waves) % TOGETHER == TOGETHER - 1:
            more = [(asked[0], int(prompt)) for prompt in self._coin.integers(len(asked[0].prompts), size=MORE)]
            return [(each, each.race.best() // len(SHORT)) for each in asked] + more, next(self._lengths)
        setting = asked[0] if self._coin.random() < 0.5 else asked[self._coin.integers(len(asked))]
        prompt, length = divmod(setting.race.next(), len(SHORT))
        return [(setting, prompt)] * setting.copies, SHORT[length]

    def _ask(self) -> None:
        wave, length = self._wave()
        requests = [(setting.name, setting.prompts[prompt]) for setting, prompt in wave]
        answers: dict[int, list[Array | BadAnswer]] = {}
        for side in self._coin.permutation(2).tolist():
            answers[side] = self._sides[side].ask(requests, length)
        read: dict[str, list[tuple[int, Array, Array]]] = {}
        for (setting, prompt), first, second in zip(wave, answers[0], answers[1], strict=True):
            if not self._unreadable(setting, first, second):
                read.setdefault(setting.name, []).append((prompt, first, second))
        self._empty = 0 if read else self._empty + 1
        for setting in self.settings:
            if rows := read.get(setting.name):
                self._bet(setting, *(np.array(column) for column in zip(*rows, strict=True)))
        self._largest = max(self._largest, self.log_e)
        if self._decided_at is None and self._largest >= -log(self.level):
            self._decided_at = self.tokens

    def _bet(self, setting: Setting, prompts: Array, first: Array, second: Array) -> None:
        self._same = self._same and bool((first == second).all())
        setting.bets.add(prompts, first, second)
        for prompt in np.unique(prompts).tolist():
            one = prompts == prompt
            if first.shape[1] in SHORT:
                setting.race.learn(prompt * len(SHORT) + SHORT.index(first.shape[1]), first[one], second[one])
            self._places.add((setting.name, prompt), first[one], second[one])

    def _unreadable(self, setting: Setting, *pair: Array | BadAnswer) -> bool:
        """Whether one of two answers cannot be read, on whichever side; a setting that a server refuses is asked for no more."""
        bad = next((x for x in pair if isinstance(x, BadAnswer)), None)
        if isinstance(bad, RefusedRequest) and not setting.bets.tokens:
            setting.left_out = str(bad)
            return True
        self._answers += 1
        self.unreadable.update([str(bad)] if bad is not None else [])
        return bad is not None

    def _too_many(self) -> bool:
        return self.unreadable.total() > max(20, 0.5 * self._answers)

    def _reasons(self) -> str:
        return "; ".join(f"{reason} ({times} times)" for reason, times in self.unreadable.most_common(3))

    def agreement(self) -> Agreement:
        """The verdict on what was asked."""
        unreadable = self.unreadable.total()
        why = "" if self.tokens else "nothing was read"
        if unreadable > UNREADABLE * self._answers:
            why = f"{unreadable} of {self._answers} pairs of answers cannot be read: {self._reasons()}"
        asked = [each for each in self.settings if not each.left_out]
        rows = ((each.name, each.bets.tokens, each.bets.log_e, next(iter(each.bets.by_context()))) for each in asked)
        return Agreement(
            self.tokens, self._decided_at is not None, self._decided_at, self.level, self.log_e, self._largest,
            self._places.largest(self.confidence), self.confidence, tuple(sorted(rows, key=lambda row: -row[2])),
            tuple((each.name, each.left_out) for each in self.settings if each.left_out), tuple(self.unreadable.most_common(5)),
            why, self._same,
        )  # fmt: skip


def settings_of(first: Server, second: Server, names: Sequence[str], prompts: Sequence[Prompt]) -> list[Setting]:
    """The settings that both engines have, the plain one with all prompts and half of the stake."""
    common = [name for name in names if first.has(name) and second.has(name)]
    if not common:
        raise CannotAudit(f"{', '.join(names)}: no setting that both engines have")
    stake = dict.fromkeys(common, 1.0) | ({"plain": max(1.0, len(common) - 1.0)} if "plain" in common else {})
    return [Setting(name, prompts if name == "plain" else prompts[:PROMPTS_A_SETTING], stake[name]) for name in common]
