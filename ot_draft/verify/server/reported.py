"""What reported log-probabilities mean: under temperature, top-k and top-p, the law that tokens are drawn from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ...arrays import Array
from ...errors import CannotAudit
from .answers import ALL, NEAR, Answer, Emitted
from .rounding import VOCABULARY

MODES = ("raw", "tempered", "processed")
TIE = 1e-3  # log-probabilities so near each other may change places between the server's sampler and its report
EDGE = 1e-4  # and so may tokens whose mass before them is so near top_p
ROUGHEST = 0.25  # relative error from which on a law that was cut or tempered is not computed


@dataclass(frozen=True)
class Reported:
    """The way from reported log-probabilities to the law that tokens are drawn from.

    mode: `raw`: of the model's logits (vLLM's default, llama.cpp's default, OpenAI); `tempered`: after the temperature (SGLang);
    `processed`: of the law that is drawn from (vLLM's logprobs_mode=processed_logprobs, llama.cpp's post_sampling_probs). listed: how
    many of the heaviest tokens the server lists. temperature_last: whether top-p comes before the temperature, as in
    llama.cpp, and applies to the top-k tokens alone; None where neither is known: then only contexts count in which every order of
    temperature, top-k and top-p keeps the same tokens. CannotAudit where that law cannot be known from so many tokens.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    mode: str = "raw"
    listed: int = 20
    temperature_last: bool | None = False

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
                f"the distribution at temperature {self.temperature:g} cannot be computed from raw log-probabilities of "
                f"{self.listed} tokens, because the mass of the others is then unknown. Ask at temperature 1, or with top-k up to the "
                "number listed, or let the server report the processed distribution (vLLM: --logprobs-mode processed_logprobs) and pass "
                "--logprobs processed"
            )
        if self.mode != "processed" and self.top_k > self.listed:
            seen = f"the distribution under top-k {self.top_k} cannot be computed from {self.listed} tokens"
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
        """The masses that top-p may apply to (N,): before or after the temperature, relative to the top-k tokens or to all tokens.

        listed: as reported; logs: the same, -inf beyond top-k; temperature: what leads from them to the sampled distribution. On the
        other side of the temperature the mass of the tokens beyond the list has an upper bound only: both ends are tried.
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
        """How many of the tokens of masses cut (N,) top-p keeps, 0 where that is not known."""
        before, there = np.cumsum(cut) - cut, int(np.count_nonzero(cut))
        near = np.abs(before - self.top_p).min() < EDGE + slack
        last = min(int((before < self.top_p).sum()), there)
        tie = last < there and np.log(cut[last - 1] / cut[last]) < TIE
        ends = cut.sum() < self.top_p and not 0 < self.top_k <= len(cut)
        return 0 if near or tie or ends else last

    def error(self, mass: Array, emitted: Emitted) -> float:
        """Relative error of the probabilities of `law` for tokens of these masses (N,): at a low temperature an error grows."""
        off = emitted.error + emitted.step / max(float(mass.min()), 1e-300)
        temperature = self.temperature if self.mode == "raw" and self.temperature > 0 else 1.0
        return float(np.expm1(min(np.log1p(off) / temperature, 1.0)))


KNOWN, SHORT, DOUBTFUL = "known", "short", "doubtful"


class Lists:
    """The number of tokens that a server lists for their mass alone, as far as its answers show, and which of its laws can be known.

    It only ever shrinks, and is learned from a whole wave before any token of it is bet on.

    **Texts as keys.** Let p be the law, T the K tokens that are listed for their mass, D* the object of their texts, and D the object
    that is shown. Several tokens may have one text; then one of their probabilities stays, by whatever rule of the server's, and it may
    hang on the emitted token e. So only the entry of e's text can differ between D and D*, or be added. Let L be the length of D, less
    one where the entry of e's text shows p(e) and is the last. If D* has K entries, then L = K; or L = K - 1 in K entries with e last: e
    is the last of T, or overwrote another token of its text, from beyond T. If D* has fewer, then L < K; and L = K - 1 in K entries
    with e last where D* has K - 1 and e was added. Hence three states:

    * L >= K: *known*. Each token of T has a text of its own, and D is D* in all that `heavy` keeps: every bet is a function of the law
      alone. e is the listed token of its text where their probabilities agree. (Another token of this text is beyond T, no heavier than
      its last, and `heavy` keeps what is heavier by more than two agreeing numbers may differ.) Where its text is listed with another
      probability, that may be the sum of several tokens: every bet is charged, of which nothing can go wrong. Else e is of the rest.
    * L = K - 1, e last in K entries: *doubtful*, one of three cases. Every bet is charged: no token takes more from it.
    * Less: *short*. Nothing is bet, the factor is 1: D* has fewer than K entries, whatever e is.

    So the factor at a place is at most that of a fair bet where D* has K entries, and at most 1 where it has fewer: its mean is at
    most 1 under every right server that lists K tokens, whichever texts these share and whichever of them it shows.

    **Lists of K texts.** A server may fill its list up to K texts. Where an entry is the sum of its tokens, or the heaviest of them,
    whichever was emitted, the mean is at most 1, too: a token whose own probability is not the entry's is charged, all others are those
    of the law or of the rest. It is more where the entry follows the emitted token, and where two tokens of one text have the same
    probability, within NEAR. The first are seen: such a server lists an emitted token of T with another probability, which no list of K
    tokens does (`of_texts`), or another probability of its text where it was emitted and where it was not (`consistency.Contexts`); then
    nothing is decided. The last, twins of one text everywhere, are not seen. Where lists are of texts, a verdict against a server says so.

    A small vocabulary has fewer than K tokens. Where the masses of all lists so far sum to 1 or were K, such lists are known as well,
    and the short ones doubtful; after the first short one they are short. (With all the mass in D nothing is hidden there; where e
    brought its own mass to light, D without it is short, and charged.) In a list of objects nothing is overwritten, but an emitted token
    that was added makes the text of another one unclear: doubtful.
    """

    def __init__(self, reported: Reported) -> None:
        self._reported, self._shortest, self._longest, self.by_text = reported, reported.listed, reported.listed, False
        self.of_texts = 0  # emitted tokens that a list of K tokens would have listed with their own probability
        # Of lists with fewer tokens than asked: whether any had all the mass, any had not, and whether the former are known ones.
        self._whole, self._short, self._small = False, False, False

    def learn(self, answers: Iterable[Answer]) -> None:
        """From the answers of a wave."""
        self._small = self._whole and not self._short  # by the waves before: not by what was emitted in this one
        wave = [each for answer in answers for each in answer.tokens]
        self._longest = max([self._longest, *(_length(each) for each in wave if each.keyed)])
        for emitted in wave:
            self.by_text |= emitted.keyed
            full = not emitted.keyed or _length(emitted) >= self._longest
            self.of_texts += full and emitted.apart and emitted.log > emitted.logs[-1] + NEAR
            self._whole |= not full and _is_whole(emitted)
            self._short |= not full and not _is_whole(emitted) and len(emitted.logs) < self._longest
            if full and not _is_whole(emitted):
                self._shortest = min(self._shortest, len(emitted.logs))

    def state(self, emitted: Emitted) -> str:
        """Whether the law is KNOWN whichever texts tokens share; SHORT, by the law alone; or DOUBTFUL, maybe by what was emitted."""
        known = not emitted.keyed or _length(emitted) >= self._longest or (self._small and _is_whole(emitted))
        if known:
            # Keyed: maybe the sum of several tokens. In a list of objects: it would be listed itself.
            contradicts = emitted.apart and (emitted.keyed or emitted.log > emitted.logs[-1] + NEAR)
            unclear = not emitted.keyed and emitted.twice
            return DOUBTFUL if contradicts or unclear else KNOWN
        return DOUBTFUL if self._small or (emitted.own_last and len(emitted.logs) == self._longest) else SHORT

    def compared(self, emitted: Emitted) -> int:
        """Number of the listed tokens that another report for this context must have, too: 0 where texts may be hidden."""
        whole = emitted.keyed and _is_whole(emitted)
        return self.heavy(emitted) if whole or self.state(emitted) == KNOWN else 0

    def heavy(self, emitted: Emitted) -> int:
        """Number of the listed tokens, the heaviest, that are listed whatever was emitted.

        One more may stand there because it was emitted, or in the place of the last. So the last is left away, and what weighs the same:
        of tokens of one mass a server lists some, and the emitted one.
        """
        logs, kept = emitted.logs, max(1, self._shortest - (not self._reported.whole))
        if self._reported.whole or len(logs) < kept:
            return min(kept, len(logs))
        edge = kept - 1 if kept > 1 else 1
        near = NEAR if emitted.by_text else 0.0
        return int(np.count_nonzero(logs[:kept] > logs[edge] + near)) if edge < len(logs) else kept

    def law(self, emitted: Emitted) -> tuple[Array, Array, float] | None:
        """Tokens, their masses, and the relative error of these; None where the law cannot be known, which is seen by the law alone."""
        kept = self.heavy(emitted)
        ids, logs = emitted.ids[:kept], emitted.logs[:kept]
        if self.state(emitted) != KNOWN:
            return None
        if self._reported.whole:
            mass = self._reported.law(logs, emitted.slack)
            if mass is None or (emitted.by_text and (ids < 0).any()):
                return None
            error = self._reported.error(emitted.mass[:kept][mass > 0], emitted)
            return (ids, mass, error) if error <= ROUGHEST else None
        known = ids >= 0
        over = max(0.0, float(emitted.mass[:kept].sum()) - 1)
        hidden = 2 * max(0.0, 1 - emitted.total) if emitted.keyed and _is_whole(emitted) else 0.0
        return (ids[known], emitted.mass[:kept][known], max(emitted.error, over, hidden)) if known.any() else None

    def outside(self, emitted: Emitted) -> bool:
        """Whether nobody can say if the emitted token is one of a law that was cut: by its name, or since it weighs what the last does."""
        kept = self.heavy(emitted)
        tied = emitted.log > emitted.logs[kept - 1] - TIE and emitted.token not in emitted.ids[:kept]
        return self._reported.whole and (emitted.token < 0 or tied)


def _length(emitted: Emitted) -> int:
    """Entries of a list, without the last one if it may be there because it was emitted."""
    return len(emitted.logs) - emitted.own_last


def _is_whole(emitted: Emitted) -> bool:
    """Whether the list has all the mass, up to its rounding: what a text may hide is no more than that."""
    return emitted.total >= 1 - ALL - (emitted.error if emitted.keyed else 0.0)
