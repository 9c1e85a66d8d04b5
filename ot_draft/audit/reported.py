"""What reported log-probabilities mean: under temperature, top-k and top-p, the law that tokens are drawn from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit
from .answers import ALL, Answer, Emitted

MODES = ("raw", "tempered", "processed")
TIE = 1e-3  # log-probabilities so near each other may change places between the server's sampler and its report
EDGE = 1e-4  # and so may tokens whose mass before them is so near top_p
ROUGHEST = 0.25  # relative error from which on a law that was cut or tempered is not computed


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
        if not 0 <= self.temperature < math.inf or not 0 < self.top_p <= 1 or self.top_k < 0 or self.listed < 1:
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
            seen = f"the law under top-k {self.top_k} cannot be known from {self.listed} tokens"
            raise CannotAudit(f"{seen}: ask for a smaller top-k")

    @property
    def leaves_to_chance(self) -> bool:
        """Whether the law of a language model has more than one token that counts, at most places."""
        return self.temperature >= 0.5 and self.top_k != 1 and self.top_p >= 0.5

    @property
    def whole(self) -> bool:
        """Whether the tokens that are listed are all that can be drawn."""
        return self.mode != "processed" and (self.temperature == 0 or self.top_k > 0 or self.top_p < 1)

    def law(self, logs: Array, slack: float = 0.0) -> Array | None:
        """Probabilities of the listed tokens, from their log-probabilities (N,) in descending order; slack: error of a sum of these.

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
            near = np.abs(before - self.top_p).min() < EDGE + slack
            last = int((before < self.top_p).sum())
            tie = last < len(cut) and cut[last] > 0 and np.log(cut[last - 1] / cut[last]) < TIE
            if near or tie or cut.sum() < self.top_p:
                return None
            logs = np.where(before < self.top_p, logs, -np.inf)
        mass = np.exp(logs / temperature)
        return mass / mass.sum()

    def error(self, mass: Array, emitted: Emitted) -> float:
        """Relative error of the probabilities of `law` for tokens of these masses (N,): at a low temperature an error grows."""
        off = emitted.error + emitted.step / max(float(mass.min()), 1e-300)
        temperature = self.temperature if self.mode == "raw" and self.temperature > 0 else 1.0
        return float(np.expm1(min(np.log1p(off) / temperature, 1.0)))


class Lists:
    """How many tokens a server lists for their mass alone, as far as its answers show.

    It only ever shrinks, and is learned from a whole wave before any token of it is bet on.
    """

    def __init__(self, reported: Reported) -> None:
        self._reported, self._shortest, self._by_text = reported, reported.listed, False

    def learn(self, answers: Iterable[Answer]) -> None:
        """From the answers of a wave."""
        for emitted in (each for answer in answers for each in answer.tokens):
            if emitted.mass.sum() < 1 - ALL:
                self._shortest = min(self._shortest, len(emitted.logs))
            self._by_text |= emitted.by_text

    def heavy(self, emitted: Emitted) -> int:
        """How many of the listed tokens, the heaviest, are listed whatever was emitted.

        One more may stand there because it was emitted, or in the place of the last. So the last is left away, and what weighs the same:
        of tokens of one mass a server lists some, and the emitted one. By text two tokens can fall together, and the list is shorter.
        """
        logs, kept = emitted.logs, max(1, self._shortest - 2 * self._by_text - (not self._reported.whole))
        if self._reported.whole or len(logs) < kept:
            return min(kept, len(logs))
        edge = kept - 1 if kept > 1 else 1
        return int(np.searchsorted(-logs[:kept], -logs[edge])) if edge < len(logs) else kept

    def law(self, emitted: Emitted) -> tuple[Array, Array, float] | None:
        """Tokens, their masses, and the relative error of these; None where the law cannot be known, which is seen by the law alone."""
        kept = self.heavy(emitted)
        ids, logs = emitted.ids[:kept], emitted.logs[:kept]
        if self._reported.whole:
            mass = self._reported.law(logs, emitted.slack)
            if mass is None or (emitted.by_text and (ids < 0).any()):
                return None
            error = self._reported.error(emitted.mass[:kept][mass > 0], emitted)
            return (ids, mass, error) if error <= ROUGHEST else None
        known = ids >= 0
        over = max(0.0, float(emitted.mass[:kept].sum()) - 1)
        return (ids[known], emitted.mass[:kept][known], max(emitted.error, over)) if known.any() else None

    def outside(self, emitted: Emitted) -> bool:
        """Whether nobody can say if the emitted token is one of a law that was cut: by its name, or since it weighs what the last does."""
        kept = self.heavy(emitted)
        tied = emitted.log > emitted.logs[kept - 1] - TIE and emitted.token not in emitted.ids[:kept]
        return self._reported.whole and (emitted.token < 0 or tied)
