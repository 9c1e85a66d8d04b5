"""What reported log-probabilities mean under temperature, top-k and top-p: the law that tokens are drawn from, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit

MODES = ("raw", "tempered", "processed")
TIE = 1e-3  # log-probabilities so near each other may change places between the server's sampler and its report
EDGE = 1e-4  # and so may tokens whose mass before them is so near top_p


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
    def whole(self) -> bool:
        """Whether the tokens that are listed are all that can be drawn."""
        return self.mode != "processed" and (self.temperature == 0 or self.top_k > 0 or self.top_p < 1)

    def law(self, logs: Array) -> Array | None:
        """Probabilities of the listed tokens, from their log-probabilities (N,) in descending order.

        None where two tokens at the edge of what is cut off are too near each other to say which of them stays, or the list ends
        before top-p does. That depends on the law alone: tokens left out for it bias nothing.
        """
        if not self.whole:
            return np.exp(logs)
        top_k = 1 if self.temperature == 0 else self.top_k
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
