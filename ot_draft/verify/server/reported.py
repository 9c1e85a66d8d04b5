"""Distributions that tokens are sampled from, computed from reported log-probabilities: temperature, top-k, top-p, and unclear lists."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ...arrays import Array
from ...errors import CannotAudit
from .answers import TOLERANCES, Answer, Emitted
from .rounding import VOCABULARY

MODES = ("raw", "tempered", "processed")


@dataclass(frozen=True)
class Reported:
    """Conversion of reported log-probabilities to the distribution that tokens are sampled from.

    mode: `raw`: of the model's logits (default of vLLM, llama.cpp and OpenAI); `tempered`: after the temperature (SGLang); `processed`: of
    the sampled distribution (vLLM with logprobs_mode=processed_logprobs, llama.cpp with post_sampling_probs). listed: number of most
    probable tokens in a list. temperature_last: whether top-p precedes the temperature and applies to the top-k tokens alone, as in
    llama.cpp; None if unknown: only contexts in which every order of temperature, top-k and top-p keeps the same tokens are used.
    tie: difference of log-probabilities up to which the sampler and the report may order two tokens differently. margin: distance of a
    cumulative probability from top_p up to which rounding may decide. Raises CannotAudit if the distribution cannot be computed.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    mode: str = "raw"
    listed: int = 20
    temperature_last: bool | None = False
    tie: float = 1e-3
    margin: float = 1e-4

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise CannotAudit(f"--logprobs must be one of {', '.join(MODES)}, got {self.mode!r}. Choose one.")
        if not 0 <= self.temperature < math.inf or not 0 < self.top_p <= 1 or self.top_k < 0 or self.listed < 1:
            raise CannotAudit(
                "temperature and top-k must be at least 0, top-p above 0 and at most 1, top-logprobs at least 1, got temperature "
                f"{self.temperature}, top-k {self.top_k}, top-p {self.top_p}, top-logprobs {self.listed}. Correct the invalid one."
            )
        cut_by_all = self.top_k > self.listed or (self.top_k == 0 and self.top_p < 1)
        if self.mode == "raw" and self.temperature not in (0, 1) and cut_by_all:
            raise CannotAudit(
                f"the distribution at temperature {self.temperature:g} with top-k or top-p cannot be computed from raw log-probabilities "
                f"of {self.listed} tokens, because the probability of the others is then unknown. Request temperature 1, or top-k up to "
                "the number listed, or let the server report the processed distribution (vLLM: --logprobs-mode processed_logprobs) and "
                "pass --logprobs processed"
            )
        if self.mode != "processed" and self.top_k > self.listed:
            seen = f"the distribution under top-k {self.top_k} cannot be computed from {self.listed} tokens"
            raise CannotAudit(f"{seen}. Request a smaller top-k.")

    @property
    def remaining_temperature(self) -> float:
        """Temperature that `distribution` does not include, for `Audit`: without top-k and top-p, unlisted tokens leave an error."""
        included = self.mode != "raw" or self.whole or self.temperature == 0
        return 1.0 if included else self.temperature

    @property
    def leaves_to_chance(self) -> bool:
        """Whether a language model has more than one token of notable probability at most positions."""
        return self.temperature >= 0.5 and self.top_k != 1 and self.top_p >= 0.5

    @property
    def whole(self) -> bool:
        """Whether no token beyond the list can be sampled."""
        return self.mode != "processed" and (self.temperature == 0 or self.top_k > 0 or self.top_p < 1)

    def distribution(self, logs: Array, slack: float = 0.0) -> Array | None:
        """Return the probabilities of the listed tokens, without `remaining_temperature`, from their log-probabilities (N,), sorted.

        slack: error of a sum of reported probabilities. None if rounding decides which tokens are kept, or if the list ends before top-k
        or top-p does. This depends on the distribution alone, so that skipping its tokens biases nothing.
        """
        if not self.whole:
            return np.exp(logs)
        top_k = 1 if self.temperature == 0 else self.top_k
        if top_k > len(logs) and np.exp(logs).sum() < 1 - self.margin:
            return None
        if 0 < top_k < len(logs) and logs[top_k - 1] - logs[top_k] < self.tie:
            return None
        listed, logs = logs, np.where(np.arange(len(logs)) < (top_k or len(logs)), logs, -np.inf)
        temperature = self.temperature if self.mode == "raw" and self.temperature > 0 else 1.0
        if self.top_p < 1:
            kept = {self._nucleus(cut, slack) for cut in self._orders(listed, logs, temperature)}
            if len(kept) > 1 or 0 in kept:
                return None
            logs = np.where(np.arange(len(logs)) < kept.pop(), logs, -np.inf)
        mass = np.exp(logs / temperature)
        return mass / mass.sum()

    def _orders(self, listed: Array, logs: Array, temperature: float) -> list[Array]:
        """The probabilities (N,) that top-p may apply to: before or after the temperature, relative to the top-k tokens or to all.

        listed: as reported. logs: the same, -inf beyond top-k. temperature: leads from them to the sampled distribution. After the
        temperature, the probability of unlisted tokens has only an upper bound: both ends are tried.
        """
        reported = np.exp(logs)
        if self.temperature_last is not None:
            cut = reported if self.temperature_last else np.exp(logs / temperature)
            return [cut / cut.sum() if self.top_k else cut]
        known = [reported, reported / reported.sum()] if self.top_k else [reported]
        if self.temperature in (0, 1):
            return known
        power = 1 / self.temperature if self.mode == "raw" else self.temperature
        rest = max(0.0, 1 - float(np.exp(listed).sum()))
        beyond = rest * np.exp(listed[-1]) ** (power - 1) if power > 1 else VOCABULARY ** (1 - power) * rest**power
        other = np.exp(power * logs)
        return [*known, other / other.sum(), other / (np.exp(power * listed).sum() + beyond)]

    def _nucleus(self, cut: Array, slack: float) -> int:
        """Number of the tokens with probabilities cut (N,) that top-p keeps; 0 if unknown."""
        before, there = np.cumsum(cut) - cut, int(np.count_nonzero(cut))
        near = np.abs(before - self.top_p).min() < self.margin + slack
        last = min(int((before < self.top_p).sum()), there)
        tie = last < there and np.log(cut[last - 1] / cut[last]) < self.tie
        ends = cut.sum() < self.top_p and not 0 < self.top_k <= len(cut)
        return 0 if near or tie or ends else last

    def error(self, mass: Array, emitted: Emitted) -> float:
        """Return the relative error of `distribution` for tokens of these probabilities (N,). It grows at low temperatures."""
        off = emitted.error + emitted.step / max(float(mass.min()), 1e-300)
        temperature = self.temperature if self.mode == "raw" and self.temperature > 0 else 1.0
        return float(np.expm1(min(np.log1p(off) / temperature, 1.0)))


class ListState(StrEnum):
    """State of knowledge of the distribution of a list, see `Lists`. SHORT is a function of the distribution, DOUBTFUL may not be."""

    KNOWN = "known"
    SHORT = "short"
    DOUBTFUL = "doubtful"


class Lists:
    """The number of tokens that a server lists for their probability alone, as its answers show it, and which lists can be used.

    The number never grows, and is learned from a whole batch of responses before a bet on any of its tokens.

    **Strings as keys.** Let p be the distribution, T the K tokens that are listed for their probability, D* the object of their strings,
    and D the object in the answer. If several tokens have one string, one of their probabilities remains, by an unknown rule that may
    depend on the emitted token e. Hence D and D* differ at most in the entry of e's string, or D has it in addition. Let L be the length
    of D, minus one if the entry of e's string has the value p(e) and is the least. If D* has K entries, then L = K; or L = K - 1 with K
    entries and e last: e is the least of T, or replaced another token of its string, from beyond T. If D* has fewer entries, then L < K;
    or L = K - 1 with K entries and e last, where D* has K - 1 and e was added. Three states follow:

    * L >= K: *known*. Each token of T has a string of its own, and D equals D* in everything that `unconditional` keeps: every bet is a
      function of p alone. e is the listed token of its string if their probabilities agree. (Another token of this string is beyond T,
      hence at most as probable as the last entry, and `unconditional` keeps what is more probable by more than the tolerance.) If its
      string is listed with another probability, the entry may be the sum of several tokens: every bet is charged, which is always valid.
      Otherwise e is one of the unlisted tokens.
    * L = K - 1, e last of K entries: *doubtful*, one of three cases. Every bet is charged its largest loss.
    * Less: *short*. No bet is placed, the factor is 1. D* then has fewer than K entries, whatever e is.

    So the factor at a position is at most that of a fair bet if D* has K entries, and at most 1 if it has fewer. Its mean is at most 1
    for every correct server that lists K tokens, whichever strings these share and whichever of them it shows.

    **Lists of K strings.** A server may fill its list up to K strings. If an entry is the sum of its tokens, or the most probable of them,
    whichever was emitted, the mean is at most 1, too: a token whose own probability is not that of the entry is charged, and all others
    are listed or unlisted ones. The mean is larger if the entry follows the emitted token, and if two tokens of one string have the same
    probability. The former is detected: such a server lists an emitted token of T with another probability, which no list
    of K tokens does (`of_texts`), or another probability of its string when it was emitted than otherwise (`consistency.Contexts`); then
    nothing is decided. The latter is not detected: a verdict against a server with lists of strings says so.

    **Small vocabularies** have fewer than K tokens. If the probabilities of all lists so far sum to 1 or were K, such lists are known as
    well, and the short ones doubtful; after the first short one they are short. (If all probability is in D, nothing is hidden there; if
    e revealed its own, D without it is short, and charged.) A list of objects has no overwritten entries, but an added emitted token
    makes the string of another one unclear: doubtful.

    max_error: relative error from which a computed distribution is not used.
    """

    def __init__(self, reported: Reported, max_error: float = 0.25) -> None:
        self._max_error = max_error
        self._reported, self._shortest, self._longest, self.by_text = reported, reported.listed, reported.listed, False
        self.of_texts = (
            0  # number of emitted tokens that a list of K tokens would have listed with their own probability
        )
        # Lists with fewer tokens than requested: whether any had all probability, any had not, and whether the former are known.
        self._whole, self._short, self._small = False, False, False

    def learn(self, answers: Iterable[Answer]) -> None:
        """Learn from the responses of a batch."""
        self._small = (
            self._whole and not self._short
        )  # from earlier batches only: independent of the tokens of this batch
        batch = [each for answer in answers for each in answer.tokens]
        self._longest = max([self._longest, *(_length(each) for each in batch if each.keyed)])
        for emitted in batch:
            self.by_text |= emitted.keyed
            full = not emitted.keyed or _length(emitted) >= self._longest
            self.of_texts += (
                full and emitted.other_probability and emitted.log > emitted.logs[-1] + TOLERANCES.same_token
            )
            self._whole |= not full and _is_whole(emitted)
            self._short |= not full and not _is_whole(emitted) and len(emitted.logs) < self._longest
            if full and not _is_whole(emitted):
                self._shortest = min(self._shortest, len(emitted.logs))

    def state(self, emitted: Emitted) -> ListState:
        """Return the state of the list of a token."""
        known = not emitted.keyed or _length(emitted) >= self._longest or (self._small and _is_whole(emitted))
        if known:
            # With strings as keys, the entry may be a sum of several tokens. A list of objects would have the token itself.
            contradicts = emitted.other_probability and (
                emitted.keyed or emitted.log > emitted.logs[-1] + TOLERANCES.same_token
            )
            unclear = not emitted.keyed and emitted.twice
            return ListState.DOUBTFUL if contradicts or unclear else ListState.KNOWN
        doubtful = self._small or (emitted.own_last and len(emitted.logs) == self._longest)
        return ListState.DOUBTFUL if doubtful else ListState.SHORT

    def compared(self, emitted: Emitted) -> int:
        """Return the number of entries that another report for this context must have, too: 0 if strings may be hidden."""
        whole = emitted.keyed and _is_whole(emitted)
        return self.unconditional(emitted) if whole or self.state(emitted) == ListState.KNOWN else 0

    def unconditional(self, emitted: Emitted) -> int:
        """Return the number of entries, the most probable ones, that are listed whatever was emitted.

        The emitted token may have been added, or may replace the last entry. So the last entry is dropped with all entries of the same
        probability: a server lists some of several equally probable tokens, and the emitted one.
        """
        logs, kept = emitted.logs, max(1, self._shortest - (not self._reported.whole))
        if self._reported.whole or len(logs) < kept:
            return min(kept, len(logs))
        edge = kept - 1 if kept > 1 else 1
        near = TOLERANCES.same_token if emitted.by_text else 0.0
        return int(np.count_nonzero(logs[:kept] > logs[edge] + near)) if edge < len(logs) else kept

    def distribution(self, emitted: Emitted) -> tuple[Array, Array, float] | None:
        """Return tokens, their probabilities and the relative error of these; None if unknown, which depends on the distribution alone."""
        kept = self.unconditional(emitted)
        ids, logs = emitted.ids[:kept], emitted.logs[:kept]
        if self.state(emitted) != ListState.KNOWN:
            return None
        if self._reported.whole:
            mass = self._reported.distribution(logs, emitted.slack)
            if mass is None or (emitted.by_text and (ids < 0).any()):
                return None
            error = self._reported.error(emitted.mass[:kept][mass > 0], emitted)
            return (ids, mass, error) if error <= self._max_error else None
        known = ids >= 0
        if (
            self._reported.remaining_temperature != 1 and not known.all()
        ):  # the others could be more probable than the listed tokens
            return None
        over = max(0.0, float(emitted.mass[:kept].sum()) - 1)
        hidden = 2 * max(0.0, 1 - emitted.total) if emitted.keyed and _is_whole(emitted) else 0.0
        return (ids[known], emitted.mass[:kept][known], max(emitted.error, over, hidden)) if known.any() else None

    def outside(self, emitted: Emitted) -> bool:
        """Return whether it is unknown if top-k or top-p keeps the emitted token: by its string, or as it ties with the last one."""
        kept = self.unconditional(emitted)
        tied = emitted.log > emitted.logs[kept - 1] - self._reported.tie and emitted.token not in emitted.ids[:kept]
        return self._reported.whole and (emitted.token < 0 or tied)


def _length(emitted: Emitted) -> int:
    """Number of entries, without the last one if it may be listed because it was emitted."""
    return len(emitted.logs) - emitted.own_last


def _is_whole(emitted: Emitted) -> bool:
    """Whether the list has all probability, up to rounding: no string hides more than that."""
    return emitted.total >= 1 - TOLERANCES.missing_mass - (emitted.error if emitted.keyed else 0.0)
