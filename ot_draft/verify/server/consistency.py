"""Whether what a server reports can be judged at all: is its law a function of the context, and does it report every token?

Equal contexts. The law of the next token is a function of the prompt and of the tokens before: two reports for one context must agree,
up to the rounding of another batch (SAME). Prompts are sent more than once, so contexts come again: at the start of an answer, and as
far as two answers agree; where they part, the context is the same and the emitted tokens differ (a parting).

A report that leans on the emitted token may differ by less than rounding does. So there is a bet too: A = the tokens that this report
gives more than the last report for this context did. If the reported law is true, the token falls into A with the reported mass of A,
whatever moved the reports apart, and (1 + c y) / (1 + c m) is fair (the lemma of `e_values`). A server that moves mass to its own
token puts it into A every time.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from math import log

import numpy as np

from ...arrays import Array
from ..e_values import e_value_text, log_bet
from .answers import UNREPORTED, Answer, Emitted
from .records import number_of

CONTEXTS = 32_768  # remembered
SAME = 0.1  # mean total variation up to which reports for one context may differ: bfloat16 in batches of other sizes
FAR = 0.5  # no rounding moves a law that far,
FAR_SHARE = 0.01  # but for this share of the comparisons,
FEWEST_FAR = 3  # and so many in any case
FEWEST = 8  # comparisons from which on their mean counts
PARTINGS = 32  # after which a report that leans on its token has shown it
STAKES = np.array([1.0, 10.0, 100.0, 1000.0])  # c of the lemma
APART, ALIKE = 0.05, 0.01  # log-probabilities of one token that are two tokens', and of all others that are the same
SURE = 1e-4  # a law is sure of a token where all others have less
SURE_SHARE = 0.9
LIKELIEST = 3  # tokens of a law that are shown
ENDS = 8  # tokens that end a text: no model has more
FEWEST_ENDS = 3  # ends without a reported token; fewer bias nothing


class Contexts:
    """Reports for equal contexts, compared. level: probability of calling a right report one that leans on its token.

    own_alone: of lists keyed by texts, how many differ in an emitted token's text alone, of which there are several tokens then.
    """

    def __init__(self, level: float) -> None:
        self.compared, self.partings, self.largest, self.own_alone = 0, 0, 0.0, 0
        self._enough = -log(level)
        self._apart, self._apart_at_partings, self._far = 0.0, 0.0, 0
        self._wealth, self._highest = np.zeros(len(STAKES)), 0.0
        self._last: OrderedDict[int, tuple[Array, Array, int]] = OrderedDict()
        self._places, self._sure = 0, 0
        self._farthest: tuple[str | Sequence[int], list[int], tuple[Array, Array], tuple[Array, Array]] | None = None

    def add(self, prompt: str | Sequence[int], answer: Answer, heavy: Callable[[Emitted], int]) -> None:
        """Compare an answer with what was reported before. heavy: how many tokens of each list count."""
        key = hash((number_of(prompt) if isinstance(prompt, str) else tuple(prompt),))
        for place, emitted in enumerate(answer.tokens):
            ids, mass = emitted.named(heavy(emitted))
            if not len(ids):
                break
            self._places += 1
            self._sure += bool(mass[0] > 1 - SURE)
            before = self._last.pop(key, None)
            if before is not None:
                farthest = self.largest
                self._compare((ids, mass, emitted.token), before, emitted.slack)
                if self.largest > farthest:
                    self._farthest = (prompt, [each.token for each in answer.tokens[:place]], (ids, mass), before[:2])
                self.own_alone += emitted.keyed and _own_alone((ids, mass, emitted.token), before)
            self._last[key] = (ids, mass, emitted.token)
            if emitted.token < 0:  # any of several tokens
                break
            key = hash((key, emitted.token))
        while len(self._last) > CONTEXTS:
            self._last.popitem(last=False)

    def _compare(self, now: tuple[Array, Array, int], before: tuple[Array, Array, int], slack: float) -> None:
        count = min(len(now[0]), len(before[0]))
        (ids, mass, token), (other_ids, other_mass, other) = ((i[:count], m[:count], t) for i, m, t in (now, before))
        there, here = _at_most(ids, other_ids, other_mass), _at_most(other_ids, ids, mass)
        apart = float(max(np.maximum(mass - there, 0).sum(), np.maximum(other_mass - here, 0).sum()))
        self.compared += 1
        self.largest = max(self.largest, apart)
        self._apart += apart
        self._far += apart > FAR
        if token != other:
            self.partings += 1
            self._apart_at_partings += apart
        more = mass > there * (1 + 1e-6)
        asked = float(mass[more].sum()) * (1 + SURE) + slack
        if 0 < asked < 1:
            came = float(token in ids[more])
            self._wealth += log_bet(came, asked, STAKES)
            self._highest = max(self._highest, float(np.logaddexp.reduce(self._wealth) - log(len(STAKES))))

    def refusal(self, leaves_to_chance: bool) -> str:
        """Why nothing can be concluded from these reports, "" if nothing speaks against them.

        leaves_to_chance: whether a law under this temperature, top-k and top-p has more than one token.
        """
        if self._highest >= self._enough:
            return (
                "the reported law is no function of the context: it leans on the emitted token, which has more mass than in other "
                f"reports for the same context (e-value {e_value_text(self._highest)}, {self.partings:,} places)"
            )
        means = [(self._apart, self.compared), (self._apart_at_partings, self.partings)]
        apart = max((total / count for total, count in means if count >= FEWEST), default=0.0)
        if apart > SAME or self._far > max(FEWEST_FAR - 1, FAR_SHARE * self.compared):
            return (
                f"the reported law is no function of the context: {self.compared:,} contexts came again, {self._far:,} with laws over "
                f"{FAR} apart in total variation; mean {apart:.3g}, where rounding in other batches makes up to {SAME}{self._two_laws()}"
            )
        if leaves_to_chance and not self.partings and self._sure > SURE_SHARE * self._places:
            return (
                f"the reported law is sure of its token at {self._sure:,} of {self._places:,} places, and equal prompts were answered "
                "alike: either nothing is drawn here, or the list holds the emitted token alone"
            )
        return ""

    def _two_laws(self) -> str:
        """The text whose two laws are farthest apart, both of them, and what does such a thing."""
        if self._farthest is None:
            return ""
        prompt, tokens, *laws = self._farthest
        shown = [", ".join(f"{i}: {x:.3g}" for i, x in zip(ids.tolist(), mass[:LIKELIEST].tolist(), strict=False))
                 for ids, mass in laws]  # fmt: skip
        last = f" ({', '.join(map(str, tokens[-LIKELIEST:]))})" if tokens else ""
        return (
            f". Two laws for one text, {self.largest:.2g} apart: {len(tokens)} tokens{last} behind the prompt {prompt!a:.60}, token "
            f"and probability are {' and then '.join(shown)}. So it is where a request goes on from other tokens than its text has, where "
            "several models answer, and where what is reported is not what was drawn from"
        )

    def __str__(self) -> str:
        mean = self._apart / max(self.compared, 1)
        return (
            f"{self.compared:,} compared, {self.partings:,} of them where answers part; total variation {mean:.2g} on average, "
            f"{self.largest:.2g} at most (up to {SAME} on average is rounding)"
        )


def _own_alone(now: tuple[Array, Array, int], before: tuple[Array, Array, int]) -> bool:
    """Whether two reports differ in the mass of one token alone, which one of them emitted: no noise does that."""
    at, there = np.nonzero(now[0][:, None] == before[0])
    apart = abs(np.log(np.maximum(now[1][at], 1e-300) / np.maximum(before[1][there], 1e-300)))
    far = np.flatnonzero(apart > APART)
    return (
        len(at) > 2
        and len(far) == 1
        and (apart <= ALIKE).sum() == len(at) - 1
        and now[0][at[far[0]]] in (now[2], before[2])
    )


def _at_most(ids: Array, other_ids: Array, other_mass: Array) -> Array:
    """The most that the other report gives these tokens: a token that it does not list has no more than its lightest, or than its rest."""
    same = ids[:, None] == other_ids
    unlisted = min(float(other_mass[-1]), max(0.0, 1 - float(other_mass.sum())))
    return np.where(same.any(1), (same * other_mass).sum(1), unlisted)


class Ends:
    """Whether the token that ends a text is among the reported ones.

    If it is, early answers end with one of a few tokens, which stand nowhere else. If not, their last tokens are ordinary ones.
    """

    def __init__(self) -> None:
        self._last: Counter[int] = Counter()
        self._inside: set[int] = set()
        self._empty = 0  # ends that show at once: nothing before them, or one token more counted than shown
        self._lengths: dict[object, int] = {}  # of answers that are said to be cut for their length, by prompt

    def add(self, prompt: str | Sequence[int], answer: Answer, asked: int) -> None:
        """Count an answer to a request of `asked` tokens."""
        tokens = [emitted.token for emitted in answer.tokens]
        self._inside.update(token for token in tokens[:-1] if token >= 0)
        if answer.finish == UNREPORTED:
            self._empty += 1
            return
        if len(tokens) >= asked:
            return
        if answer.finish == "length":  # a context that is full: for one prompt always after as many tokens
            key = prompt if isinstance(prompt, str) else tuple(prompt)
            if self._lengths.setdefault(key, len(tokens)) == len(tokens):
                return
        if tokens:
            self._last[tokens[-1]] += 1
        else:
            self._empty += 1

    def refusal(self) -> str:
        """Why the tokens would look biased although they are not, "" if nothing speaks for it."""
        ordinary = sum(times for token, times in self._last.items() if token in self._inside)
        ended = self._last.total() + self._empty
        unreported = ended if len(self._last) > ENDS else ordinary + self._empty
        if unreported < FEWEST_ENDS or 2 * unreported < ended:
            return ""
        return (
            f"{ended:,} answers end early, and not with a token of their own: the token that ends a text is not reported; left out, it "
            "makes the others look biased: let the server report or log it, or send requests with --ignore-eos"
        )


class HiddenEnds:
    """Numbers of tokens that the bets of a log are charged for, because responses may end with a token that is not in the log.

    At a position that ends the response with probability e, let F be the factor of a bet, with E F <= 1 and w <= F <= 1/w. If the
    response ends there, the bet pays w <= F instead. After a token that no token has followed so far, the first end pays w^2, further
    ends pay 1, and the next response that goes on wins F <= 1/w once: the mean is (1 - e) E[F | no end] + e w^2 / w <= E F <= 1.

    So a token that stands only at ends, as a reported end-of-sequence token does, costs two tokens in all, and every end after another
    token costs one. The end-of-sequence token and its probability need not be known. F <= 1/w holds for all bets but the one on tokens
    of no mass, which therefore pays w at every end (`Audit.charge`).
    """

    cut = ("length", "max_tokens", "limit", "abort")  # finish reasons of responses that do not end by a token

    def __init__(self) -> None:
        self.responses = self.ends = 0
        self._followed: set[int | None] = set()  # tokens that another token has followed; None: the start of a response
        self._only_last: Counter[int | None] = Counter()  # ends after each token that no token had followed

    @property
    def hidden(self) -> int:
        """Ends after tokens that are also followed by others."""
        return self.ends - sum(ends for token, ends in self._only_last.items() if token not in self._followed)

    def add(self, answer: Answer, knows_last: bool = True) -> tuple[int, int]:
        """Count a response; numbers of tokens to charge all bets for, and of ends to charge the bet on tokens of no mass for.

        knows_last: whether the last token of the answer is the last one of the response, apart from a hidden end.
        """
        *followed, last = (None, *(emitted.token for emitted in answer.tokens))
        self._followed.update(followed)
        self.responses += 1
        if any(word in answer.finish for word in self.cut):
            return 0, 0
        self.ends += 1
        known = knows_last and (last is None or last >= 0)
        if not known or last in self._followed or answer.finish == UNREPORTED:
            return 1, 0
        self._only_last[last] += 1
        return (2, 0) if self._only_last[last] == 1 else (0, 1)
