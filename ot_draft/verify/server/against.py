"""Two servers, side by side: the same law? From texts alone: no log-probabilities are asked for.

Every setting has a `TwoSided` of its own; the verdict's wealth is their mean, half of it on the plain setting. A wave asks both sides
for the same requests, in an order that a coin decides: many copies of one request, and one of every setting together, in turn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import cycle
from math import log
from typing import Any, Protocol

import numpy as np

from ...arrays import Array
from ...errors import CannotAudit
from ..outcome import Outcome, ServerEvidence, Status
from .answers import PARTIAL, BadAnswer, drafted, parsed
from .bound import CELLS, Apart
from .client import DIALECTS, Client, RefusedRequest
from .evidence import DecisionLimits, LeftOut
from .report import SAME_SERVERS, ServerOutcome, ServerReport
from .server import PROMPTS as USUAL
from .server import Prompt, RequestPlan
from .two_sided import ENDED, Race, TwoSided

END = 2**31 - 1  # stands for the end that an answer came to by itself
PIECE = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")  # of a text whose tokens are not known
LENGTHS = (2, 2, 8, 2, 2, 16)  # tokens an answer where settings are asked together, in turn
# Tokens of many answers to one request, the long ones tried last. The first token may not be drafted for.
SHORT, LONG = (1, 2), (5,)
TOGETHER = 16  # of so many tokens one is of a wave of all settings
SMALL, SMALL_UNTIL, LARGE = (
    1,
    600,
    8,
)  # copies of a request per block: SMALL until a setting has SMALL_UNTIL tokens, then LARGE
MORE = (3, 3, 28)  # requests of the first setting in a wave of all settings, in turn
PLACES = 2  # of an answer, that the bound is about
EMPTY = 20  # waves in a row without a token, after which there is no more to come
# A side draws nothing where this share of its answers are what it said to the request before, of so many at least.
ALIKE, FEWEST = 0.99, 8
PROMPTS_A_SETTING = 4  # but for the plain one, that has them all
BIAS = {str(token): 4.0 for token in range(5, 400, 7)}
REPEATED = {  # texts, and how much of them comes a fourth time
    "The cat sat on the red mat and the dog sat on the blue mat near the old door of the house. ": 30,
    "one apple, two pears, three plums, four figs, five limes, six nuts, seven dates, ": 45,
    "for i in range(10):\n    print(i, i * i, i * i * i)\n    total = total + i\n": 40,
}
# The first token is nearly sure, the second is not: where the first is never drafted for, the second shows most then. Texts that
# repeat themselves are for drafts by lookup.
PROMPTS = ("Once upon a", "Ladies and", "Thank you very", "On the other", "as soon as", "The United States of", "from time to",
         "Happy birthday to", *(3 * text + text[:length] for text, length in REPEATED.items()), *USUAL[:5])  # fmt: skip

FRESH = object()  # in the place of a seed: another for every request
LEAST = {"at least 3 tokens": 5}  # tokens that an answer must be asked for, by setting
DRAFTED_FROM = {"llamacpp": 5}  # and by engine: it drafts for no answer of one or two tokens, as most would have
LONG_PROMPTS = "long prompts"
CERTAIN = "temperature 0"  # nothing is drawn: where sides differ, rounding may do it
# Fields of every setting, by engine; "*": of those that are not named. None: the engine has no such field.
Fields = Mapping[str, Any]
SETTINGS: dict[str, dict[str, Fields | None]] = {
    "plain": {"*": {}},
    "temperature 0.6": {"*": {"temperature": 0.6}},
    CERTAIN: {"*": {"temperature": 0.0}},
    "top-p 0.8": {"*": {"top_p": 0.8}},
    "top-k 5": {"*": {"top_k": 5}, "openai": None},
    "min-p 0.1": {"*": {"min_p": 0.1}, "openai": None},
    "repetition penalty 1.3": {"*": {"repeat_penalty": 1.3}, "vllm": {"repetition_penalty": 1.3},
                               "sglang": {"repetition_penalty": 1.3}, "openai": None},
    "presence penalty 1": {"*": {"presence_penalty": 1.0}},
    "frequency penalty 1": {"*": {"frequency_penalty": 1.0}},
    "logit bias": {"*": {"logit_bias": BIAS}},
    "at least 3 tokens": {"*": None, "vllm": {"min_tokens": 3}, "sglang": {"min_tokens": 3}},
    "seeds": {"*": {"seed": FRESH}},
    "two answers": {"*": {"n": 2}},
    LONG_PROMPTS: {"*": {}},
    "cached prompts": {"*": None, "llamacpp": {"cache_prompt": True}},
    "stop at a comma": {"*": {"stop": [","]}},
    "a grammar": {"*": None, "vllm": {"structured_outputs": {"regex": "( [a-z]+)+"}}, "sglang": {"regex": "( [a-z]+)+"},
                  "llamacpp": {"grammar": 'root ::= (" " [a-z]+)+'}},
}  # fmt: skip


class Side(Protocol):
    """A source of answers."""

    def ask(self, requests: Sequence[tuple[str, Prompt]], tokens: int) -> list[Array | BadAnswer]:
        """An answer to each request, a setting and a prompt, all together: its tokens, ENDED after them, (tokens,) integers."""


@dataclass
class Server:
    """One side: a server, and what it was introduced as."""

    client: Client
    plan: RequestPlan
    ids: bool = False  # whether tokens are compared, not pieces of text
    seeds: np.random.Generator = field(default_factory=np.random.default_rng)
    drafted: int | None = None  # tokens, if the server counts them: untrusted

    def ask(self, requests: Sequence[tuple[str, Prompt]], tokens: int) -> list[Array | BadAnswer]:
        asked = [{**self._fields(setting), "prompt": prompt, "max_tokens": tokens} for setting, prompt in requests]
        answers = self.client.complete(asked, self._read)
        if self.client.lost():  # it may have failed by its tokens; which answer came in its place is not known
            answers[0] = BadAnswer("an answer was drawn, lost and asked for again")
        return answers

    def gives_ids(self) -> bool:
        """Whether it names the tokens of its answers by their ids where it is asked to."""
        asked = [{**self._fields("plain"), "prompt": PROMPTS[0], "max_tokens": 1}]
        (ids,) = self.client.complete(asked, lambda body, _: _choices(parsed(body), 1)[0].get("token_ids"))
        return isinstance(ids, list)

    def of(self, setting: str) -> Fields | None:
        """Fields of a setting; None where the engine has no such setting."""
        by_engine = SETTINGS[setting]
        return by_engine.get(self.plan.engine, by_engine["*"])

    def _fields(self, setting: str) -> dict[str, Any]:
        fields = DIALECTS[self.plan.engine].asked(self.plan.model)
        fields |= {"return_token_ids": True} if self.plan.engine == "vllm" else {}
        fields |= self.of(setting) or {}
        return {name: int(self.seeds.integers(2**31)) if value is FRESH else value for name, value in fields.items()}

    def _read(self, body: bytes, asked: Fields) -> Array:
        """The tokens of an answer, or digests of the pieces of its text; END where it ended by itself, then ENDED.

        Several answers to one request stand one after the other, each at its full length.
        """
        most, tokens, found = int(asked["max_tokens"]), list[int](), parsed(body)
        for choice in _choices(found, int(asked.get("n", 1))):
            own = _ids(choice.get("token_ids"), most) if self.ids else _pieces(choice.get("text"))
            own = [*own, *([] if choice.get("finish_reason") in (None, "length") else [END])][:most]
            tokens += [*own, *[ENDED] * (most - len(own))]
        if (drafts := drafted(found)) is not None:
            self.drafted = (self.drafted or 0) + drafts
        return np.array(tokens, dtype=np.int64)


def _choices(found: dict[str, Any], count: int) -> list[dict[str, Any]]:
    choices = found.get("choices")
    if not isinstance(choices, list) or len(choices) != count or not all(isinstance(each, dict) for each in choices):
        raise BadAnswer(f"not a completion: no choices, or not the {count} that were asked for")
    return choices


def _ids(tokens: Any, most: int) -> list[int]:
    if not isinstance(tokens, list) or not all(type(token) is int and 0 <= token < END for token in tokens):
        raise BadAnswer("no list of token ids, although other answers had one")
    if len(tokens) > most:
        raise BadAnswer(f"{len(tokens)} tokens where at most {most} were asked for")
    return tokens


def _pieces(text: Any) -> list[int]:
    if not isinstance(text, str):
        raise BadAnswer("no text")
    pieces = PIECE.findall(text.rstrip(PARTIAL))  # some engines show the parts of a character, others do not
    digests = (blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=4).digest() for piece in pieces)
    return [int.from_bytes(digest, "big") % END for digest in digests]


class Places:
    """A bound, at any time, of the mean difference between the sides at the first places of an answer.

    Before every block the tokens that came at a place of the answers to its request are ranked; the cells are the seven most frequent
    ones and the rest. The bound is for all unions of cells and both places at once, by the lemma in `bound`: x is the mean difference
    of a block, so that answers of one block may share their random numbers.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, int], Counter[int]] = {}
        self.apart = Apart(PLACES)

    def add(self, request: Any, first: Array, second: Array) -> None:
        """Count a block of answers (m, T) to one request."""
        for place in range(min(PLACES, first.shape[1])):
            seen = self._seen.setdefault((request, place), Counter())
            rank = {token: i for i, (token, _) in enumerate(seen.most_common(CELLS - 1))}
            cells = [np.bincount([rank.get(token, CELLS - 1) for token in side[:, place].tolist()], minlength=CELLS)
                     for side in (first, second)]  # fmt: skip
            self.apart.add(place, (cells[0] - cells[1])[None] / len(first))
            seen.update([*first[:, place].tolist(), *second[:, place].tolist()])


@dataclass
class Setting:
    """One setting: its prompts, its bets, and which prompt comes next. left_out: why it is not asked for, "" if it is.

    least: tokens that an answer is asked for.
    """

    name: str
    prompts: Sequence[Prompt]
    stake: float
    bets: TwoSided = field(default_factory=TwoSided)
    left_out: str = ""
    least: int = 1

    def __post_init__(self) -> None:
        numbers, self.least = range(len(self.prompts)), max(self.least, LEAST.get(self.name, 1))
        arms = [(prompt, length) for lengths in (SHORT, LONG) for prompt in numbers for length in lengths]
        self.race = Race([arm for arm in arms if arm[1] >= self.least])
        self._last: tuple[dict[Any, bytes], dict[Any, bytes]] = ({}, {})  # answers of both sides, by prompt and length
        self._again, self._alike = 0, np.zeros(2)  # how many came after such a one, and were equal to it

    def add(self, prompts: Array, length: int, sides: tuple[Array, Array]) -> None:
        """Bet on a block: prompts (m,), answers of both sides (m, T) of so many tokens each."""
        self.bets.add(prompts, *sides)
        for prompt in np.unique(prompts).tolist():
            if length in SHORT + LONG:
                self.race.learn((prompt, length), *(side[prompts == prompt] for side in sides))
        for prompt, *pair in zip(prompts.tolist(), *sides, strict=True):
            self._again += (prompt, length) in self._last[0]
            for side, (last, answer) in enumerate(zip(self._last, pair, strict=True)):
                self._alike[side] += last.get((prompt, length)) == answer.tobytes()
                last[prompt, length] = answer.tobytes()

    @property
    def certain(self) -> bool:
        """Whether both sides say again what they said: at temperature 0, with a fixed seed, from a cache of answers."""
        return self.name == CERTAIN or (self._again >= FEWEST and bool(self._alike.min() >= ALIKE * self._again))

    @property
    def log_e(self) -> float:
        """Logarithm of the wealth, 0 at most where nothing is drawn."""
        return min(self.bets.log_e, 0.0) if self.certain else self.bets.log_e


class TwoServerTest:
    """Two sides, asked the same until they differ or the tokens are used up."""

    def __init__(
        self, first: Side, second: Side, settings: Sequence[Setting], level: float = 1e-6, confidence: float = 0.999,
        lengths: Sequence[int] = LENGTHS, seed: int | None = None,
    ) -> None:  # fmt: skip
        self._sides, self.settings = (first, second), settings
        self.level, self.confidence = level, confidence
        self._lengths, self._more, self._coin = cycle(lengths), cycle(MORE), np.random.default_rng(seed)
        self._places, self._same = Places(), True
        self._answers, self._empty, self._together, self.unreadable = 0, 0, 0, LeftOut()
        self._largest, self._decided_at = 0.0, None  # type: float, int | None

    @property
    def tokens(self) -> int:
        return sum(each.bets.tokens for each in self.settings)

    @property
    def log_e(self) -> float:
        """Logarithm of the wealth; what was won where nothing is drawn is given away."""
        stakes = np.log(np.array([each.stake for each in self.settings]) / sum(each.stake for each in self.settings))
        return float(np.logaddexp.reduce([each.log_e for each in self.settings] + stakes))

    def run(self, tokens: int, on_wave: Callable[[int], None] = lambda tokens: None) -> ServerReport:
        """Ask until the sides differ, or so many tokens of both were read. CannotAudit if nothing can be read."""
        while self._decided_at is None and self.tokens < tokens:
            if self._empty >= EMPTY or self.unreadable.tokens > max(20, 0.5 * self._answers):
                break
            if all(each.left_out for each in self.settings):
                raise CannotAudit(f"no setting is answered by both sides: {self.settings[0].left_out}")
            self._ask()
            on_wave(self.tokens)
        if not self.tokens:
            raise CannotAudit(f"{self._empty} waves of requests in a row without a token: {self.unreadable}")
        return self.report()

    def _wave(self) -> tuple[list[tuple[Setting, int]], int]:
        """Requests that are sent together and tokens an answer: copies of one, or one of every setting and some more of the first."""
        asked = [each for each in self.settings if not each.left_out]
        if TOGETHER * self._together < self.tokens - SMALL_UNTIL / 2:
            length = max(next(self._lengths), asked[0].least)
            more = self._coin.integers(len(asked[0].prompts), size=next(self._more)).tolist()
            wave = [(each, each.race.best()) for each in asked if each.least <= length] + [(asked[0], x) for x in more]
            self._together += 2 * length * len(wave)
            return wave, length
        setting = asked[0] if self._coin.random() < 0.5 else asked[self._coin.integers(len(asked))]
        prompt, length = setting.race.next()
        return [(setting, prompt)] * (SMALL if setting.bets.tokens < SMALL_UNTIL else LARGE), length

    def _ask(self) -> None:
        (wave, length), before = self._wave(), self.tokens
        requests = [(setting.name, setting.prompts[prompt]) for setting, prompt in wave]
        answers: dict[int, list[Array | BadAnswer]] = {}
        for side in self._coin.permutation(2).tolist():
            answers[side] = self._sides[side].ask(requests, length)
        rows = list(zip(wave, answers[0], answers[1], strict=True))
        lost = {setting.name for (setting, _), *pair in rows if self._unreadable(setting, *pair)}
        for setting in self.settings:
            block = [(prompt, *pair) for (each, prompt), *pair in rows if each is setting]
            if setting.name in lost:
                setting.bets.charge()
            elif block:
                prompts, first, second = (np.array(column) for column in zip(*block, strict=True))
                self._same = self._same and bool((first == second).all())
                setting.add(prompts, length, (first, second))
                for prompt in np.unique(prompts).tolist():
                    self._places.add((setting.name, prompt), first[prompts == prompt], second[prompts == prompt])
        self._empty = self._empty + 1 if self.tokens == before else 0
        self._largest = max(self._largest, self.log_e)
        if self._decided_at is None and self._largest >= -log(self.level):
            self._decided_at = self.tokens

    def _unreadable(self, setting: Setting, *pair: Array | BadAnswer) -> bool:
        """Whether one of two answers cannot be read, on whichever side; a setting that a server refuses is asked for no more."""
        bad = next((x for x in pair if isinstance(x, BadAnswer)), None)
        if isinstance(bad, RefusedRequest) and not setting.bets.tokens:
            setting.left_out = str(bad)
            return True
        self._answers += 1
        if bad is not None:
            self.unreadable.add(str(bad))
        return bad is not None

    def report(self) -> ServerReport:
        """Return the report: an outcome for all tokens, and one for each setting, the largest e-value first."""
        test = self._outcome()
        asked = [self._of_setting(each, test) for each in self.settings if not each.left_out]
        left_out = [
            Outcome(
                check=each.name, status=Status.SKIPPED, evidence=ServerEvidence(reason=each.left_out), decides=False
            )
            for each in self.settings
            if each.left_out
        ]
        asked.sort(key=lambda outcome: -outcome.evidence.log_e_value)
        return ServerReport("two servers", (test, *asked, *left_out), {}, self.level)

    def _outcome(self) -> ServerOutcome:
        """The outcome for the tokens of all settings."""
        unreadable, limit = self.unreadable.tokens, -log(self.level)
        why = "" if self.tokens else "nothing was read"
        apart = [each.name for each in self.settings if each.certain and each.bets.largest >= limit]
        if apart and self._decided_at is None:
            why = (
                f"{apart[0]}: each side repeats its answers, and the two sides differ. The reason may be rounding where the most probable "
                "token is taken, a fixed seed or a cache of answers elsewhere: compare token by token, or let both sample again"
            )
        if unreadable > DecisionLimits.max_unreadable * self._answers:
            why = f"{unreadable} of {self._answers} pairs of answers cannot be read: {self.unreadable}"
        status = Status.FAILED if self._decided_at is not None else Status.UNDECIDED if why else Status.PASSED
        bound = min(1.0, self._places.apart.largest(self.confidence) + unreadable / max(self._answers, 1))
        claim = (
            f"the distributions of the first and of the second token differ by less than {bound:.2g} in total variation on average, between"
            f" the seven most frequent answers to a prompt and all others, with confidence {self.confidence:g}"
        )
        strongest = max(self.settings, key=lambda each: each.log_e)
        reasons = {
            Status.FAILED: f"strongest evidence: {strongest.name}, by {strongest.bets.strongest}",
            Status.UNDECIDED: why,
            Status.PASSED: "All answers are equal" if self._same else "",
        }
        evidence = ServerEvidence(
            reason=reasons[status],
            tokens=self.tokens,
            log_e_value=self.log_e,
            log_largest=self._largest,
            decided_at=self._decided_at,
            bound=bound,
            confidence=self.confidence,
            unreadable=unreadable,
            left_out=self.unreadable.reasons,
        )
        claim = claim if status == Status.PASSED else ""
        return Outcome(check=SAME_SERVERS, status=status, claim=claim, evidence=evidence)

    def _of_setting(self, setting: Setting, test: ServerOutcome) -> ServerOutcome:
        """The outcome of one setting. Only the mean of all e-values decides: a setting fails only if that failed."""
        bets = setting.bets
        # UNDECIDED: the test ended before it was decided for this setting.
        differs = Status.FAILED if setting.log_e >= -log(self.level) else Status.UNDECIDED
        evidence = ServerEvidence(
            reason=bets.strongest, tokens=bets.tokens, log_e_value=bets.log_e, log_largest=bets.largest
        )
        status = differs if test.status == Status.FAILED else test.status
        return Outcome(check=setting.name, status=status, evidence=evidence, decides=False)


def settings_of(first: Server, second: Server, names: Sequence[str], prompts: Sequence[Prompt]) -> list[Setting]:
    """The settings that both engines have, the plain one with all prompts and half of the stake."""
    common = [name for name in names if None not in (first.of(name), second.of(name))]
    if not common:
        raise CannotAudit(f"{', '.join(names)}: no setting that both engines have")
    stake = dict.fromkeys(common, 1.0) | ({"plain": max(1.0, len(common) - 1.0)} if "plain" in common else {})
    few = prompts[:: max(1, len(prompts) // PROMPTS_A_SETTING)][:PROMPTS_A_SETTING]
    asked = {"plain": prompts, LONG_PROMPTS: [_behind(prompts, prompt) for prompt in few]}
    least = max(DRAFTED_FROM.get(side.plan.engine, 1) for side in (first, second))
    return [Setting(name, asked.get(name, few), stake[name], least=least) for name in common]


def _behind(prompts: Sequence[Prompt], prompt: Prompt) -> Prompt:
    """A prompt with all others before it, as text or as token ids."""
    if isinstance(prompt, str):
        return "\n".join([each for each in prompts if isinstance(each, str)] + [prompt])
    return [token for each in [*prompts, prompt] if not isinstance(each, str) for token in each]
