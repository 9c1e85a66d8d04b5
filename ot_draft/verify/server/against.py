"""Two-sample test of two servers, from their completions of the same requests. No log-probabilities are used.

Each sampling setting has its own `SideBets`. The e-value of the test is the mean of their wealths, half of it on the plain setting. A
batch of requests goes to both servers, in random order: copies of one request, or one request of every setting, in turn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import cycle
from math import log
from typing import Any, Protocol

import numpy as np

from ...arrays import Array
from ...errors import CannotAudit
from ..outcome import Outcome, ServerEvidence, Status
from .answers import PARTIAL, BadAnswer, draft_count, json_object, read_texts
from .bound import CELLS, DeviationSums
from .client import DIALECTS, Client, RefusedRequest
from .evidence import DecisionLimits, LeftOut
from .report import SAME_SERVERS, ServerOutcome, ServerReport
from .server import Prompt, RequestPlan
from .settings import FRESH_SEED, SETTINGS, Fields, SamplingSetting
from .two_sided import ENDED, RequestChooser, SideBets

END_OF_TEXT = 2**31 - 1  # token that stands for the end of a response before max_tokens


@dataclass(frozen=True)
class TwoServerPlan:
    """Sizes of the requests in a comparison of two servers. Lengths are max_tokens; those in turn repeat."""

    prompts_per_setting: int = 4  # except for the plain one, which has all prompts
    lengths: tuple[int, ...] = (2, 2, 8, 2, 2, 16)  # in batches of all settings, in turn
    all_settings_every: int = 16  # one of this number of tokens is in a batch of all settings
    extra_requests: tuple[int, ...] = (3, 3, 28)  # of the first setting in a batch of all settings, in turn
    # of copies of one request, the long ones tried last: the first token of a response may not be drafted
    copy_lengths: tuple[int, ...] = (1, 2)
    long_copy_lengths: tuple[int, ...] = (5,)
    small_block: int = 1  # copies of a request per batch, until a setting has small_block_tokens
    small_block_tokens: int = 600
    large_block: int = 8  # afterwards
    max_empty_batches: int = 20  # batches in a row without a token, after which the test ends
    # A side is deterministic if it repeats its responses to this number of repeated requests, and to this share of them.
    min_repeats: int = 8
    repeated_share: float = 0.99


class Side(Protocol):
    """A source of completions."""

    def ask(self, requests: Sequence[tuple[str, Prompt]], tokens: int) -> list[Array | BadAnswer]:
        """Return the completions of concurrent requests, each a setting and a prompt: int (tokens,), ENDED after the end."""


@dataclass
class ServerSide:
    """A server as one side of the test."""

    client: Client
    plan: RequestPlan
    ids: bool = False  # whether token ids are compared, instead of pieces of text
    seeds: np.random.Generator = field(default_factory=np.random.default_rng)
    drafted: int | None = None  # draft tokens by the server's own count, if it counts them

    def ask(self, requests: Sequence[tuple[str, Prompt]], tokens: int) -> list[Array | BadAnswer]:
        """Return the completions of concurrent requests."""
        asked = [{**self._fields(setting), "prompt": prompt, "max_tokens": tokens} for setting, prompt in requests]
        answers = self.client.complete(asked, self._read)
        if self.client.lost():  # possibly because of its tokens; it is unknown which response replaces it
            answers[0] = BadAnswer("a response was sampled, lost and requested again")
        return answers

    def reports_ids(self, prompt: Prompt) -> bool:
        """Whether the server reports token ids if it is asked to."""
        asked = [{**self._fields("plain"), "prompt": prompt, "max_tokens": 1}]
        (ids,) = self.client.complete(asked, lambda body, _: read_texts(json_object(body), 1, 1)[0].token_ids)
        return isinstance(ids, list)

    def has(self, setting: str) -> bool:
        """Whether the engine has this setting."""
        return SETTINGS[setting].of(self.plan.engine) is not None

    def _fields(self, setting: str) -> dict[str, Any]:
        fields = DIALECTS[self.plan.engine].request(self.plan.model)
        fields |= {"return_token_ids": True} if self.plan.engine == "vllm" else {}
        fields |= SETTINGS[setting].of(self.plan.engine) or {}
        return {
            name: int(self.seeds.integers(2**31)) if value is FRESH_SEED else value for name, value in fields.items()
        }

    def _read(self, body: bytes, asked: Fields) -> Array:
        """Token ids or digests of pieces of text; END_OF_TEXT at an end before max_tokens, then ENDED.

        Several completions of one request are concatenated, each at its full length.
        """
        most, tokens, found = int(asked["max_tokens"]), list[int](), json_object(body)
        for each in read_texts(found, int(asked.get("n", 1)), most):
            own = each.token_ids if self.ids else _pieces(each.text)
            if own is None:
                raise BadAnswer("token_ids must be a list of ids, as in other responses, got null")
            own = [*own, *([END_OF_TEXT] if each.ended else [])][:most]
            tokens += [*own, *[ENDED] * (most - len(own))]
        if (count := draft_count(found)) is not None:
            self.drafted = (self.drafted or 0) + count
        return np.array(tokens, dtype=np.int64)


def _pieces(text: str | None) -> list[int]:
    """Digests of words, marks and spaces."""
    if text is None:
        raise BadAnswer("text must be a string, got null")
    pieces = re.findall(r"\s*\w+|\s*[^\w\s]|\s+", text.rstrip(PARTIAL))  # only some engines send parts of a character
    digests = (blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=4).digest() for piece in pieces)
    return [int.from_bytes(digest, "big") % END_OF_TEXT for digest in digests]


class PositionBound:
    """Confidence bound, at any time, of the mean difference between the sides at the first positions of a response.

    Before every block, the tokens so far at a position of the responses to its request are ranked; the cells are the seven most frequent
    ones and the rest. The bound holds for all unions of cells and all positions at once, by the lemma in `bound`: x is the mean difference
    of a block, so that responses of one block may share their random numbers.
    """

    def __init__(self, positions: int = 2) -> None:
        self._seen: dict[tuple[Any, int], Counter[int]] = {}
        self._positions, self.sums = positions, DeviationSums(positions)

    def add(self, request: Any, first: Array, second: Array) -> None:
        """Count a block of responses (m, T) to one request."""
        for position in range(min(self._positions, first.shape[1])):
            seen = self._seen.setdefault((request, position), Counter())
            rank = {token: i for i, (token, _) in enumerate(seen.most_common(CELLS - 1))}
            cells = [np.bincount([rank.get(token, CELLS - 1) for token in side[:, position].tolist()], minlength=CELLS)
                     for side in (first, second)]  # fmt: skip
            self.sums.add(position, (cells[0] - cells[1])[None] / len(first))
            seen.update([*first[:, position].tolist(), *second[:, position].tolist()])


@dataclass
class Setting:
    """One setting in the test: its prompts, its share of the stake, its bets, and the smallest max_tokens of its requests."""

    name: str
    prompts: Sequence[Prompt]
    stake: float
    bets: SideBets = field(default_factory=SideBets)
    skipped: str = ""  # reason why it is not asked, "" if it is
    min_length: int = 1
    plan: TwoServerPlan = field(default_factory=TwoServerPlan)

    def __post_init__(self) -> None:
        own = SETTINGS.get(self.name, SamplingSetting())
        self.min_length, self._deterministic = max(self.min_length, own.min_length), own.deterministic
        self._copy_lengths = self.plan.copy_lengths + self.plan.long_copy_lengths
        arms = [(prompt, length) for lengths in (self.plan.copy_lengths, self.plan.long_copy_lengths)
                for prompt in range(len(self.prompts)) for length in lengths]  # fmt: skip
        self.chooser = RequestChooser([arm for arm in arms if arm[1] >= self.min_length])
        self._last: tuple[dict[Any, bytes], dict[Any, bytes]] = ({}, {})  # responses of each side, by prompt and length
        self._repeats, self._repeated = 0, np.zeros(2)  # repeated requests, and equal responses to them

    def add(self, prompts: Array, length: int, sides: tuple[Array, Array]) -> None:
        """Bet on a block: prompts (m,), responses of each side (m, T), and their max_tokens."""
        self.bets.add(prompts, *sides)
        for prompt in np.unique(prompts).tolist():
            if length in self._copy_lengths:
                self.chooser.learn((prompt, length), *(side[prompts == prompt] for side in sides))
        for prompt, *pair in zip(prompts.tolist(), *sides, strict=True):
            self._repeats += (prompt, length) in self._last[0]
            for side, (last, answer) in enumerate(zip(self._last, pair, strict=True)):
                self._repeated[side] += last.get((prompt, length)) == answer.tobytes()
                last[prompt, length] = answer.tobytes()

    @property
    def deterministic(self) -> bool:
        """Whether both sides repeat their responses: at temperature 0, with a fixed seed, or from a response cache."""
        alike = bool(self._repeated.min() >= self.plan.repeated_share * self._repeats)
        return self._deterministic or (self._repeats >= self.plan.min_repeats and alike)

    @property
    def log_e(self) -> float:
        """Logarithm of the wealth, at most 0 if nothing is sampled."""
        return min(self.bets.log_e, 0.0) if self.deterministic else self.bets.log_e


class TwoServerTest:
    """Two sides get the same requests until they differ or enough tokens were read."""

    def __init__(
        self, first: Side, second: Side, settings: Sequence[Setting], level: float = 1e-6, confidence: float = 0.999,
        plan: TwoServerPlan | None = None, seed: int | None = None,
    ) -> None:  # fmt: skip
        self._sides, self.settings, self._plan = (first, second), settings, plan or TwoServerPlan()
        self.level, self.confidence = level, confidence
        self._lengths, self._extra = cycle(self._plan.lengths), cycle(self._plan.extra_requests)
        self._generator = np.random.default_rng(seed)
        self._bound, self._all_equal = PositionBound(), True
        self._answers, self._empty_batches, self._tokens_together, self.unreadable = 0, 0, 0, LeftOut()
        self._largest, self._decided_at = 0.0, None  # type: float, int | None

    @property
    def tokens(self) -> int:
        """Tokens of both sides so far."""
        return sum(each.bets.tokens for each in self.settings)

    @property
    def log_e(self) -> float:
        """Logarithm of the wealth, without gains where nothing is sampled."""
        stakes = np.log(np.array([each.stake for each in self.settings]) / sum(each.stake for each in self.settings))
        return float(np.logaddexp.reduce([each.log_e for each in self.settings] + stakes))

    def run(self, tokens: int, on_batch: Callable[[int], None] = lambda tokens: None) -> ServerReport:
        """Ask until the sides differ, or this number of tokens of both was read. Raises CannotAudit if nothing can be read."""
        while self._decided_at is None and self.tokens < tokens:
            mostly_unreadable = self.unreadable.tokens > max(20, 0.5 * self._answers)
            if self._empty_batches >= self._plan.max_empty_batches or mostly_unreadable:
                break
            if all(each.skipped for each in self.settings):
                raise CannotAudit(f"both sides must answer a setting, got none: {self.settings[0].skipped}")
            self._ask()
            on_batch(self.tokens)
        if not self.tokens:
            raise CannotAudit(f"{self._empty_batches} batches of requests in a row without a token: {self.unreadable}")
        return self.report()

    def _next_batch(self) -> tuple[list[tuple[Setting, int]], int]:
        """Return concurrent requests and their max_tokens: copies of one, or one of every setting and some more of the first."""
        plan, asked = self._plan, [each for each in self.settings if not each.skipped]
        if plan.all_settings_every * self._tokens_together < self.tokens - plan.small_block_tokens / 2:
            length = max(next(self._lengths), asked[0].min_length)
            extra = self._generator.integers(len(asked[0].prompts), size=next(self._extra)).tolist()
            batch = [(each, each.chooser.best()) for each in asked if each.min_length <= length]
            batch += [(asked[0], prompt) for prompt in extra]
            self._tokens_together += 2 * length * len(batch)
            return batch, length
        setting = asked[0] if self._generator.random() < 0.5 else asked[self._generator.integers(len(asked))]
        prompt, length = setting.chooser.next()
        copies = plan.small_block if setting.bets.tokens < plan.small_block_tokens else plan.large_block
        return [(setting, prompt)] * copies, length

    def _ask(self) -> None:
        (batch, length), before = self._next_batch(), self.tokens
        requests = [(setting.name, setting.prompts[prompt]) for setting, prompt in batch]
        answers: dict[int, list[Array | BadAnswer]] = {}
        for side in self._generator.permutation(2).tolist():
            answers[side] = self._sides[side].ask(requests, length)
        rows = list(zip(batch, answers[0], answers[1], strict=True))
        lost = {setting.name for (setting, _), *pair in rows if self._unreadable(setting, *pair)}
        for setting in self.settings:
            block = [(prompt, *pair) for (each, prompt), *pair in rows if each is setting]
            if setting.name in lost:
                setting.bets.charge()
            elif block:
                prompts, first, second = (np.array(column) for column in zip(*block, strict=True))
                self._all_equal = self._all_equal and bool((first == second).all())
                setting.add(prompts, length, (first, second))
                for prompt in np.unique(prompts).tolist():
                    rows_of = prompts == prompt
                    self._bound.add((setting.name, prompt), first[rows_of], second[rows_of])
        self._empty_batches = self._empty_batches + 1 if self.tokens == before else 0
        self._largest = max(self._largest, self.log_e)
        if self._decided_at is None and self._largest >= -log(self.level):
            self._decided_at = self.tokens

    def _unreadable(self, setting: Setting, *pair: Array | BadAnswer) -> bool:
        """Whether one of two responses cannot be read. A setting that a server refuses is not asked again."""
        bad = next((x for x in pair if isinstance(x, BadAnswer)), None)
        if isinstance(bad, RefusedRequest) and not setting.bets.tokens:
            setting.skipped = str(bad)
            return True
        self._answers += 1
        if bad is not None:
            self.unreadable.add(str(bad))
        return bad is not None

    def report(self) -> ServerReport:
        """Return the report: an outcome for all tokens, and one for each setting, the largest e-value first."""
        test = self._outcome()
        asked = [self._outcome_of(each, test) for each in self.settings if not each.skipped]
        asked.sort(key=lambda outcome: -outcome.evidence.log_e_value)
        skipped = [
            Outcome(check=each.name, status=Status.SKIPPED, evidence=ServerEvidence(reason=each.skipped), decides=False)
            for each in self.settings
            if each.skipped
        ]
        return ServerReport("two servers", (test, *asked, *skipped), {}, self.level)

    def _outcome(self) -> ServerOutcome:
        """Return the outcome for the tokens of all settings."""
        unreadable, why = self.unreadable.tokens, self._undecided()
        status = Status.FAILED if self._decided_at is not None else Status.UNDECIDED if why else Status.PASSED
        bound = min(1.0, self._bound.sums.largest(self.confidence) + unreadable / max(self._answers, 1))
        claim = (
            f"the distributions of the first and of the second token differ by less than {bound:.2g} in total variation on average, between"
            f" the seven most frequent answers to a prompt and all others, with confidence {self.confidence:g}"
        )
        strongest = max(self.settings, key=lambda each: each.log_e)
        reasons = {
            Status.FAILED: f"strongest evidence: {strongest.name}, by {strongest.bets.strongest}",
            Status.UNDECIDED: why,
            Status.PASSED: "All answers are equal" if self._all_equal else "",
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

    def _undecided(self) -> str:
        """Return the reason why the responses decide nothing, "" if they do."""
        unreadable = self.unreadable.tokens
        if unreadable > DecisionLimits.max_unreadable * self._answers:
            return f"{unreadable} of {self._answers} pairs of answers cannot be read: {self.unreadable}"
        differ = [each.name for each in self.settings if each.deterministic and each.bets.largest >= -log(self.level)]
        if differ and self._decided_at is None:
            return (
                f"{differ[0]}: each side repeats its answers, and the two sides differ. The reason may be rounding where the most probable "
                "token is taken, a fixed seed or a cache of answers elsewhere: compare token by token, or let both sample again"
            )
        return "" if self.tokens else "no token was read"

    def _outcome_of(self, setting: Setting, test: ServerOutcome) -> ServerOutcome:
        """Return the outcome of one setting. Only the mean of all e-values decides: a setting fails only if the test failed."""
        bets = setting.bets
        # UNDECIDED: the test ended before it was decided for this setting.
        differs = Status.FAILED if setting.log_e >= -log(self.level) else Status.UNDECIDED
        evidence = ServerEvidence(
            reason=bets.strongest, tokens=bets.tokens, log_e_value=bets.log_e, log_largest=bets.largest
        )
        status = differs if test.status == Status.FAILED else test.status
        return Outcome(check=setting.name, status=status, evidence=evidence, decides=False)


def settings_of(
    first: ServerSide, second: ServerSide, names: Sequence[str], prompts: Sequence[Prompt], plan: TwoServerPlan
) -> list[Setting]:
    """Return the settings that both engines have: the plain one with all prompts and half of the stake, others with a few prompts."""
    common = [name for name in names if first.has(name) and second.has(name)]
    if not common:
        raise CannotAudit(f"--settings must have one that both engines have, got {', '.join(names)}.")
    stake = dict.fromkeys(common, 1.0) | ({"plain": max(1.0, len(common) - 1.0)} if "plain" in common else {})
    few = prompts[:: max(1, len(prompts) // plan.prompts_per_setting)][: plan.prompts_per_setting]
    long = [_after_others(prompts, prompt) for prompt in few]
    min_length = max(DIALECTS[side.plan.engine].min_drafted_length for side in (first, second))
    return [
        Setting(
            name,
            prompts if name == "plain" else long if SETTINGS[name].long_prompts else few,
            stake[name],
            min_length=min_length,
            plan=plan,
        )
        for name in common
    ]


def _after_others(prompts: Sequence[Prompt], prompt: Prompt) -> Prompt:
    """A prompt with all others before it, as text or as token ids."""
    if isinstance(prompt, str):
        return "\n".join([each for each in prompts if isinstance(each, str)] + [prompt])
    return [token for each in [*prompts, prompt] if not isinstance(each, str) for token in each]
