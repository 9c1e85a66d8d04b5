"""Whether the reports of a server allow a verdict: they must be a function of the context, and every token must be reported.

Equal contexts. The distribution of the next token is a function of the prompt and of the tokens before. Two reports for one context
must agree, up to rounding in batches of other sizes. Prompts are sent more than once, so contexts occur again at the start of an answer
and as far as two answers agree. Where they diverge, the context is the same and the emitted tokens differ.

A report that depends on the emitted token may differ by less than rounding does. Therefore there is also a bet. Let A be the tokens to
which this report gives more than the last report for this context did. If the reported distribution is true, the token falls into A
with the reported probability m of A, whatever made the reports differ, and (1 + c y) / (1 + c m) is fair (the lemma of `e_values`).
A server that moves probability to its emitted token puts it into A every time.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np

from ...arrays import Array
from ..e_values import e_value_text, log_bet
from .answers import UNREPORTED, Answer, Emitted
from .records import number_of

Prompt = str | Sequence[int]


@dataclass(frozen=True)
class ContextLimits:
    """Limits of the comparison of reports for equal contexts. Distances are in total variation."""

    remembered: int = 32_768  # contexts in memory
    mean_distance: float = 0.1  # max. mean distance: bfloat16 in batches of other sizes makes some hundredths
    far: float = 0.5  # distance that rounding does not make
    far_share: float = 0.01  # max. share of the comparisons that are far
    far_count: int = 2  # number of far comparisons that are allowed in any case
    min_comparisons: int = 8  # number of comparisons from which the mean counts
    min_divergences: int = 32  # number of divergences after which a report that depends on its token has shown it
    stakes: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0)  # c of the lemma
    certain: float = 1e-4  # a distribution is certain of a token if all others have less
    certain_share: float = 0.9  # share of positions with certain distributions from which equal answers are suspicious


class _Report(NamedTuple):
    """Tokens with their probabilities in descending order, and the emitted token."""

    ids: Array
    mass: Array
    token: int


class _Farthest(NamedTuple):
    """The two reports for one context that are farthest apart: the prompt, the tokens after it, and the reports."""

    prompt: Prompt
    tokens: list[int]
    reports: tuple[_Report, _Report]


class Contexts:
    """Comparison of reports for equal contexts.

    level: bound on the probability that a correct report is said to depend on its token. own_alone: number of pairs of lists keyed by
    strings that differ in the entry of an emitted token alone. divergences: number of comparisons whose emitted tokens differ.
    """

    def __init__(self, level: float, limits: ContextLimits | None = None) -> None:
        self.compared, self.divergences, self.largest, self.own_alone = 0, 0, 0.0, 0
        self._limits, self._enough = limits or ContextLimits(), -log(level)
        self._distance, self._distance_at_divergences, self._far = 0.0, 0.0, 0
        self._stakes, self._highest = np.array(self._limits.stakes), 0.0
        self._wealth = np.zeros(len(self._stakes))
        self._last: OrderedDict[int, _Report] = OrderedDict()
        self._positions, self._certain = 0, 0
        self._farthest: _Farthest | None = None

    @property
    def seen_enough(self) -> bool:
        """Whether a report that depends on the emitted token would have shown it."""
        return self.divergences >= self._limits.min_divergences

    def add(self, prompt: Prompt, answer: Answer, comparable: Callable[[Emitted], int]) -> None:
        """Compare an answer with earlier reports. comparable: number of entries of each list that another report must have, too."""
        key = hash((number_of(prompt) if isinstance(prompt, str) else tuple(prompt),))
        for position, emitted in enumerate(answer.tokens):
            report = _Report(*emitted.named(comparable(emitted)), emitted.token)
            if not len(report.ids):
                break
            self._positions += 1
            self._certain += bool(report.mass[0] > 1 - self._limits.certain)
            before = self._last.pop(key, None)
            if before is not None:
                largest = self.largest
                self._compare(report, before, emitted.slack)
                if self.largest > largest:
                    tokens = [each.token for each in answer.tokens[:position]]
                    self._farthest = _Farthest(prompt, tokens, (report, before))
                self.own_alone += emitted.keyed and _own_alone(report, before)
            self._last[key] = report
            if emitted.token < 0:  # one of several tokens
                break
            key = hash((key, emitted.token))
        while len(self._last) > self._limits.remembered:
            self._last.popitem(last=False)

    def _compare(self, now: _Report, before: _Report, slack: float) -> None:
        count = min(len(now.ids), len(before.ids))
        (ids, mass, token), (other_ids, other_mass, other) = (
            (r.ids[:count], r.mass[:count], r.token) for r in (now, before)
        )
        there, here = _upper_bound(ids, other_ids, other_mass), _upper_bound(other_ids, ids, mass)
        distance = float(max(np.maximum(mass - there, 0).sum(), np.maximum(other_mass - here, 0).sum()))
        self.compared += 1
        self.largest = max(self.largest, distance)
        self._distance += distance
        self._far += distance > self._limits.far
        if token != other:
            self.divergences += 1
            self._distance_at_divergences += distance
        more = mass > there * (1 + 1e-6)
        mean = float(mass[more].sum()) * (1 + self._limits.certain) + slack
        if 0 < mean < 1:
            self._wealth += log_bet(float(token in ids[more]), mean, self._stakes)
            self._highest = max(self._highest, float(np.logaddexp.reduce(self._wealth) - log(len(self._stakes))))

    def refusal(self, leaves_to_chance: bool) -> str:
        """Return why nothing can be concluded from these reports, or "".

        leaves_to_chance: whether a distribution under this temperature, top-k and top-p has more than one token.
        """
        limits = self._limits
        if self._highest >= self._enough:
            return (
                "the reported distribution is not a function of the context: it depends on the emitted token, which has more probability "
                f"than in other reports for the same context (e-value {e_value_text(self._highest)}, {self.divergences:,} positions)"
            )
        sums = [(self._distance, self.compared), (self._distance_at_divergences, self.divergences)]
        mean = max((total / count for total, count in sums if count >= limits.min_comparisons), default=0.0)
        if mean > limits.mean_distance or self._far > max(limits.far_count, limits.far_share * self.compared):
            return (
                f"the reported distribution is not a function of the context: {self.compared:,} contexts occurred again, {self._far:,} "
                f"with distributions over {limits.far} apart in total variation. The mean distance is {mean:.3g}; rounding in other "
                f"batches makes up to {limits.mean_distance}{self._example()}"
            )
        if leaves_to_chance and not self.divergences and self._certain > limits.certain_share * self._positions:
            return (
                f"the reported distribution has only one token at {self._certain:,} of {self._positions:,} positions, and equal prompts "
                "got equal answers: either nothing is sampled here, or the list holds the emitted token alone"
            )
        return ""

    def _example(self, shown: int = 3) -> str:
        """The context whose two reports are farthest apart, and possible causes. shown: number of tokens of each distribution."""
        if self._farthest is None:
            return ""
        prompt, tokens, reports = self._farthest
        listed = [
            ", ".join(f"{i}: {x:.3g}" for i, x in zip(r.ids.tolist(), r.mass[:shown].tolist(), strict=False))
            for r in reports
        ]
        last = f" ({', '.join(map(str, tokens[-shown:]))})" if tokens else ""
        return (
            f". Two distributions for one context, {self.largest:.2g} apart: {len(tokens)} tokens{last} after the prompt {prompt!a:.60}, "
            f"token and probability are {' and then '.join(listed)}. Possible causes: a request continues from other tokens than it "
            "reports, several models answer, or the reported distribution is not the sampled one"
        )

    def __str__(self) -> str:
        mean = self._distance / max(self.compared, 1)
        return (
            f"{self.compared:,} compared, {self.divergences:,} of them where answers diverge; total variation {mean:.2g} on average, "
            f"{self.largest:.2g} at most (rounding makes up to {self._limits.mean_distance} on average)"
        )


def _own_alone(now: _Report, before: _Report, different: float = 0.05, equal: float = 0.01) -> bool:
    """Whether two reports differ in the probability of one token alone, which one of them emitted; noise does not do that.

    different, equal: differences of log-probabilities from which, and up to which, two entries count as different and as equal.
    """
    at, there = np.nonzero(now.ids[:, None] == before.ids)
    apart = abs(np.log(np.maximum(now.mass[at], 1e-300) / np.maximum(before.mass[there], 1e-300)))
    far = np.flatnonzero(apart > different)
    return (
        len(at) > 2
        and len(far) == 1
        and (apart <= equal).sum() == len(at) - 1
        and now.ids[at[far[0]]] in (now.token, before.token)
    )


def _upper_bound(ids: Array, other_ids: Array, other_mass: Array) -> Array:
    """Largest probabilities of these tokens in another report: of an unlisted one, that of its last entry or of all unlisted ones."""
    same = ids[:, None] == other_ids
    unlisted = min(float(other_mass[-1]), max(0.0, 1 - float(other_mass.sum())))
    return np.where(same.any(1), (same * other_mass).sum(1), unlisted)


class Ends:
    """Ends of responses, counted by the token before them; a hidden end has an end-of-sequence token that is not reported.

    A token that another token follows elsewhere is not an end-of-sequence token: an end after it is hidden.

    The bets of a log are charged for hidden ends (`add`), since the distribution of an unreported token is unknown. At a position that
    ends the response with probability e, let F be the factor of a bet, with E F <= 1 and w <= F <= 1/w. If the response ends there, the
    bet pays w <= F instead. After a token that no token has followed so far, the first end pays w^2, further ends pay 1, and the next
    response that goes on wins F <= 1/w once: the mean is (1 - e) E[F | no end] + e w^2 / w <= E F <= 1.

    So a token that stands only at ends, as a reported end-of-sequence token does, costs two tokens in all, and every end after another
    token costs one. The end-of-sequence token and its probability need not be known. Two kinds of bets need more (`Audit.charge`). If w
    falls to v, as learned stakes grow, w^2 is lowered to v^2 (`Wealth.charge`): with U(w) = 1/w, the mean
    e (v/w)^2 U(v) + (1 - e) E[F | no end] is at most U(w), since (1 - e) E[F | no end] <= min(1 - e v, (1 - e) / v). The bet on tokens of
    no mass, with F > 1/w, pays w at every end.

    A server can be asked again with other settings: the audit ends without a verdict if most ends are hidden (`refusal`).
    """

    cut = ("length", "max_tokens", "limit", "abort")  # finish reasons of responses that do not end by a token

    def __init__(self) -> None:
        self.responses = self.ends = 0
        self._followed: set[int | None] = set()  # tokens that another token has followed; None: the start of a response
        self._last: set[int | None] = set()  # known tokens before ends
        self._only_last: Counter[int | None] = Counter()  # ends after each token that no token had followed
        self._lengths: dict[object, int] = {}  # of answers that are cut for their length, by prompt

    @property
    def hidden(self) -> int:
        """Ends after tokens that are also followed by others."""
        return self.ends - sum(ends for token, ends in self._only_last.items() if token not in self._followed)

    @property
    def uncharged(self) -> int:
        """Hidden ends for which no token was charged: all but two after each token that was followed later."""
        return sum(max(0, ends - 2) for token, ends in self._only_last.items() if token in self._followed)

    def add(self, answer: Answer, knows_last: bool = True) -> tuple[int, int]:
        """Count a response of a log; numbers of tokens and of further ends, the arguments of `Audit.charge`.

        knows_last: whether the last token of the answer is the last one of the response, apart from a hidden end.
        """
        ended = not any(word in answer.finish.lower() for word in self.cut)
        named = not answer.tokens or answer.tokens[-1].token >= 0
        return self._count(answer, ended, knows_last and named)

    def add_requested(self, prompt: Prompt, answer: Answer, requested: int) -> None:
        """Count a server's answer to a request for `requested` tokens."""
        length = len(answer.tokens)
        ended = length < requested
        if ended and answer.finish == "length":  # a full context: always after the same number of tokens of a prompt
            key = prompt if isinstance(prompt, str) else tuple(prompt)
            ended = self._lengths.setdefault(key, length) != length
        self._count(answer, ended or answer.finish == UNREPORTED, knows_last=length > 0)

    def _count(self, answer: Answer, ended: bool, knows_last: bool) -> tuple[int, int]:
        *followed, last = (None, *(emitted.token for emitted in answer.tokens))
        self._followed.update(token for token in followed if token is None or token >= 0)
        self.responses += 1
        if not ended:
            return 0, 0
        self.ends += 1
        if not knows_last or answer.finish == UNREPORTED:
            return 1, 0
        self._last.add(last)
        if last in self._followed:
            return 1, 0
        self._only_last[last] += 1
        return (2, 0) if self._only_last[last] == 1 else (0, 1)

    def refusal(self, max_end_tokens: int = 8, allowed: int = 2) -> str:
        """Return why the tokens of a server would look biased although they are not, or "".

        A server that reports its end-of-sequence token ends answers with one of at most `max_end_tokens` tokens, which occur nowhere else.
        Up to `allowed` unreported ends bias nothing.
        """
        unreported = self.ends if len(self._last) > max_end_tokens else self.hidden
        if unreported <= allowed or 2 * unreported < self.ends:
            return ""
        return (
            f"{self.ends:,} answers end early, and not with a token of their own: the end-of-sequence token is not reported, and without "
            "it the other tokens look biased. Let the server report it, or pass --ignore-eos"
        )
