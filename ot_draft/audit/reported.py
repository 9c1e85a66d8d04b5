"""What reported log-probabilities mean: how exact they are, and, under temperature, top-k and top-p, the law that tokens are drawn from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit
from .answers import ALL, Answer, Emitted

MODES = ("raw", "tempered", "processed")
TIE = 1e-3  # log-probabilities so near each other may change places between the server's sampler and its report
EDGE = 1e-4  # and so may tokens whose mass before them is so near top_p
DIGITS = (1, 2, 3, 4)  # after the point, of numbers that are called rounded; what has more is as good as exact
VARIETY = 16  # different numbers of so few digits are no chance
EXACT = 1e-6  # by how much a sum may exceed 1 in single precision
SIGNIFICANT = 20.0  # nothing is bet on a rounded probability below so many times its error,
SIGNIFICANT_REST = 5.0  # nor on what a list leaves over, below so many times the error of its sum
ROUGHEST = 0.25  # where nothing could be bet on masses up to this, nothing can be concluded


@dataclass(frozen=True)
class Reported:
    """How the reported log-probabilities come to be the law that tokens are drawn from.

    mode: `raw`: of the model's logits (vLLM's default, llama.cpp's default, OpenAI); `tempered`: after the temperature (SGLang);
    `processed`: of the law that is drawn from (vLLM's logprobs_mode=processed_logprobs, llama.cpp's post_sampling_probs). listed: how
    many of the heaviest tokens the server lists. temperature_last: top-p before the temperature, as llama.cpp has it. CannotAudit
    where that law cannot be known from so many tokens.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    mode: str = "raw"
    listed: int = 20
    temperature_last: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise CannotAudit(f"log-probabilities are {self.mode!r}: give one of {', '.join(MODES)}")
        if not self.temperature >= 0 or not 0 < self.top_p <= 1 or self.top_k < 0 or self.listed < 1:
            raise CannotAudit(
                f"temperature {self.temperature}, top-k {self.top_k}, top-p {self.top_p}, {self.listed} listed: give a temperature "
                "from 0 on, top-k from 0 on (0: all), top-p above 0 and up to 1, and at least one listed token"
            )
        inside = 0 < self.top_k <= self.listed
        if self.mode == "raw" and self.temperature not in (0, 1) and not inside:
            raise CannotAudit(
                f"the law at temperature {self.temperature:g} cannot be known from raw log-probabilities of {self.listed} tokens: the "
                "rest has another mass then. Ask at temperature 1, or with top-k up to the number listed, or let the server report "
                "the processed law (vLLM: --logprobs-mode processed_logprobs) and say --logprobs processed"
            )
        if self.mode != "processed" and self.top_k > self.listed:
            raise CannotAudit(
                f"the law under top-k {self.top_k} cannot be known from {self.listed} tokens: ask for a smaller top-k"
            )

    @property
    def leaves_to_chance(self) -> bool:
        """Whether the law of a language model has more than one token that counts, at most places."""
        return self.temperature >= 0.5 and self.top_k != 1 and self.top_p >= 0.5

    @property
    def whole(self) -> bool:
        """Whether the tokens that are listed are all that can be drawn."""
        return self.mode != "processed" and (self.temperature == 0 or self.top_k > 0 or self.top_p < 1)

    def law(self, logs: Array) -> Array | None:
        """Probabilities of the listed tokens, from their log-probabilities (N,) in descending order.

        None where two tokens at the edge of what is cut off are too near each other to say which of them stays, or the list ends
        before top-k or top-p does. That depends on the law alone: tokens left out for it bias nothing.
        """
        if not self.whole:
            return np.exp(logs)
        top_k = 1 if self.temperature == 0 else self.top_k
        if top_k > len(logs) and np.exp(logs).sum() < 1 - EDGE:
            return None
        if 0 < top_k < len(logs) and logs[top_k - 1] - logs[top_k] < TIE:
            return None
        logs = np.where(np.arange(len(logs)) < (top_k or len(logs)), logs, -np.inf)
        temperature = self.temperature if self.mode == "raw" and self.temperature > 0 else 1.0
        cut = np.exp(logs) if self.temperature_last else np.exp(logs / temperature)
        if top_k:
            cut /= cut.sum()
        if self.top_p < 1:
            before = np.cumsum(cut) - cut
            if cut.sum() < self.top_p or np.abs(before - self.top_p).min() < EDGE or _tie(cut, before < self.top_p):
                return None
            logs = np.where(before < self.top_p, logs, -np.inf)
        mass = np.exp(logs / temperature)
        return mass / mass.sum()


def _tie(mass: Array, kept: Array) -> bool:
    last = int(kept.sum())
    return last < len(mass) and bool(mass[last] > 0) and bool(np.log(mass[last - 1] / mass[last]) < TIE)


class Lists:
    """How a server lists tokens: how many of them, and how exact their probabilities are, as far as its answers show.

    What is learned only ever tightens, and is learned from a whole wave before any token of it is bet on.
    """

    def __init__(self, reported: Reported) -> None:
        self._reported, self._shortest, self._by_text = reported, reported.listed, False
        self._digits: tuple[int, ...] = DIGITS  # that fit all numbers so far
        self._as_mass = False
        self._values: set[float] = set()
        self._zero, self._over = False, 0.0

    def learn(self, answers: Iterable[Answer]) -> None:
        """From the answers of a wave."""
        for emitted in (each for answer in answers for each in answer.tokens):
            mass = np.exp(emitted.logs)
            if mass.sum() < 1 - ALL:
                self._shortest = min(self._shortest, len(mass))
            self._by_text |= emitted.by_text
            self._as_mass |= emitted.as_mass
            self._over = max(self._over, float(mass[: self._reported.listed].sum()) - 1)
            self._zero |= bool(mass[-1] == 0)
            if self._digits:
                numbers = (mass if emitted.as_mass else emitted.logs)[(mass > 0) & (mass < 1)]
                self._digits = tuple(d for d in self._digits if (np.abs(numbers - np.round(numbers, d)) < 1e-9).all())
                self._values.update(np.round(numbers[: VARIETY - len(self._values)], 9).tolist())

    @property
    def listed(self) -> int:
        """Tokens of a list that stand there for their mass.

        One more may be there because it was emitted, or stand in the place of the last, so that one is left away unless it can be told
        by its mass. By text two tokens can fall together, and the list is shorter then.
        """
        spare = 2 * self._by_text + (not self._reported.whole)
        return max(1, self._shortest - spare)

    @property
    def rounding(self) -> float:
        """Half a unit of the last digit that is printed; 0 where the numbers are as exact as floats are."""
        rounded = self._digits and (
            len(self._values) >= VARIETY or self._over > EXACT or (self._zero and self._as_mass)
        )
        return 0.5 * 10.0 ** -min(self._digits) if rounded and self._values else 0.0

    @property
    def error(self) -> float:
        """Error of a sum of masses."""
        return max(self.rounding, self._over if self._over > EXACT else 0.0)

    @property
    def least(self) -> float:
        """The least mass that anything is bet on."""
        return max(SIGNIFICANT * self.rounding if self._as_mass else 0.0, SIGNIFICANT_REST * self.error)

    def law(self, emitted: Emitted) -> tuple[Array, Array] | None:
        """Tokens and their masses, those that are too light for their error left to the rest; None where nothing remains.

        It is seen by the law alone which these are.
        """
        ids, mass = emitted.ids[: self.listed], self._reported.law(emitted.logs[: self.listed])
        if mass is None or not mass.sum() > 0 or (emitted.by_text and self._reported.whole and (ids < 0).any()):
            return None
        ids, mass = ids[ids >= 0], mass[ids >= 0]
        if not len(ids):
            return None
        if not self.error:
            return ids, mass
        mass = mass / max(1.0, mass.sum())
        if self._reported.whole:
            return None if (mass[mass > 0] < self.least).any() else (ids, mass)
        heavy = np.ones(len(mass), bool) if not self._as_mass else mass >= self.least
        kept = int(np.count_nonzero(heavy & (1 - np.cumsum(mass) >= self.least)))
        return (ids[:kept], mass[:kept]) if kept else None
