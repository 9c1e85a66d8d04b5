"""What is bet on: for every emitted token, numbers y in [0, 1] whose mean m under the reported law is known beforehand.

A bet is a function f_t of the token, with values in [0, 1], chosen from the past alone (the tokens before, their laws, and the
law p_t of this one). y = f_t(emitted token), m = sum over x of p_t(x) f_t(x). Under the null hypothesis, that every token is drawn
from its reported law given the past and apart from other requests, E[y | past] = m: this is all that `wealth` needs. On tokens
outside the heaviest f_t is one constant, since only their mass together is known. Where a bet does not apply y = m = 0.
Requests are read one after the other inside a block: under the hypothesis any order of them is as good.

Two kinds. Scores f_t(x) are written down for every listed token and the rest; `wealth` combines them too. Overlaps compare the
token's interval of the unit interval with a window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import Array
from .past import NOBODY, Past, Seen
from .records import Tokens

Column = tuple[Array, Array]  # y and m of one bet, (T,) each
RANKS = (1, 2, 3, 5, 8, 16)
MASSES = tuple(2.0**-i for i in (1, 2, 3, 4, 6, 8, 10))
WINDOWS = (8, 16)
OFFSETS = 5  # in a step; the last stands for all further ones
HEAD = 4.0  # q / p from here on counts alike
LENIENT = 1.2  # times p / q, at which a draft is accepted too easily
RATIOS = ((0.5, 1.0), (1.0, 2.0), (2.0, 4.0))  # of q / p
LIKELY = 1 / 16
URNS = (
    (2, 6.0),
    (8, 32.0),
)  # draws from the law, and how many of the last tokens of other requests are added to them, about
BITS = 8  # of a uniform random number in bfloat16
MOST = 8.0  # times its mass, up to which a token under suspicion counts
ENTROPIES = ((0.0, 0.6), (0.6, 1.4), (1.4, np.inf))  # of a law, in nats
TYPICAL = (0.09, 0.3)  # a token is typical from the lesser of the first, and the second times exp(-entropy) on


@dataclass(frozen=True)
class Bet:
    """Name of a bet, the family whose weight it shares, and what a token counted by it is."""

    name: str
    family: str
    event: str


def _bets(family: str, events: dict[str, str]) -> list[Bet]:
    return [Bet(name, family, event) for name, event in events.items()]


SCORED = (
    *_bets("rank", {f"rank {r}": f"one of the {r} most probable tokens" if r > 1 else "the most probable token" for r in RANKS}),
    Bet("second", "rank", "the second most probable token"),
    Bet("third", "rank", "the third most probable token"),
    Bet("listed", "rank", "one of the listed tokens"),
    *_bets("mass", {f"mass {mass:g}": f"a token of probability {mass:g} or more" for mass in MASSES}),
    Bet("surprise", "mass", "an unlikely token, by the logarithm of its probability"),
    *(
        Bet(f"{name}, entropy from {low:g}", "entropy", f"{event}, where the entropy is {low:g} to {high:g}")
        for name, event in (("most probable", "the most probable token"), ("surprise", "an unlikely token"))
        for low, high in ENTROPIES
    ),
    Bet("typical", "entropy", "a token that typical acceptance would take"),
    Bet("rank middle", "calibration", "a token far down the list of ranks"),
    Bet("id middle", "calibration", "a token of high id"),
    *_bets("calibration", {f"uniform of {BITS} bits by {how}": f"a token that uniform random numbers of {BITS} bits favour, by {how}"
                           for how in ("rank", "id")}),
    Bet("same token again", "learned", "a token that was too frequent so far"),
    Bet("same pair again", "learned", "a token that was too frequent so far after the one before"),
    Bet("same three again", "learned", "a token that was too frequent so far after the two before"),
    Bet("same distribution again", "learned", "a token that was too frequent so far under the same distribution"),
    Bet("common token", "learned", "a token that is more probable on average than here"),
    Bet("repeat of the last", "repeat", "the token before, again"),
    Bet("repeat of the last but one", "repeat", "the token before the last, again"),
    *_bets("repeat", {f"repeat within {w}": f"one of the last {w} tokens, again" for w in WINDOWS}),
    Bet("distribution before", "neighbours", "a token that the distribution of the position before prefers"),
    *_bets("requests", {f"tokens of {last:g} other requests": "a token of other requests at this position, under the same distribution"
                        for _, last in URNS}),
    Bet("draft distribution", "draft distribution", "a token that the draft model prefers"),
    Bet("overlap with the draft distribution", "draft distribution", "a token that is drafted as often as it should come"),
    Bet("ratio to the draft distribution", "draft distribution", "a token that the draft model much prefers"),
    Bet("most probable draft token", "draft distribution", "the draft model's most probable token"),
    Bet("likely and drafted", "draft distribution", "a token of probability 0.0625 or more that the draft model prefers"),
    *_bets("draft distribution", {f"drafted {low:g} to {high:g} times": f"a token with q / p from {low:g} to {high:g}"
                         for low, high in RATIOS}),
    Bet("noise of the draft", "draft distribution", "a token that the draft's noise, used again, would give"),
    Bet("drafted too rarely", "draft distribution", "a token of the residual of high id"),
    Bet("accepted too easily", "draft distribution", f"a token that comes more often where drafts are accepted at {LENIENT:g} p/q"),
    Bet("uniform of other requests", "draft distribution", "a token of other requests' draft tests, had all one uniform number"),
)  # fmt: skip
COMPARED = {  # by rank and by id
    ("same number", "neighbours"): "the token that the random number of the token before would give",
    ("same side", "neighbours"): "a token on the same side of the median as the one before",
    ("number of another request", "requests"): "the token that another request's random number would give",
    ("number of an earlier batch", "requests"): "the token that an earlier batch's random number would give",
    ("numbers of the batch", "requests"): "a token where the random numbers of the batch's other requests lie",
}
OVERLAPS = (
    Bet("rank last quarter", "calibration", "a token of the lightest quarter of the mass"),
    Bet("rank last sixteenth", "calibration", "a token of the lightest sixteenth of the mass"),
    *_bets("calibration", {f"id quarter {i}": f"a token of quarter {i} of the mass, by token id" for i in range(1, 5)}),
    *(Bet(f"{name} by {how}", family, f"{event}, by {how}")
      for (name, family), event in COMPARED.items() for how in ("rank", "id")),
    *_bets("step offset", {f"most probable at step offset {i}": f"the most probable token at step offset {i}" for i in range(OFFSETS)}),
    *_bets("step offset", {f"middle at step offset {i}": f"a token far down the ranks at step offset {i}" for i in range(OFFSETS)}),
)  # fmt: skip
BETS = SCORED + OVERLAPS


@dataclass(frozen=True)
class Scores:
    """Scores of the listed tokens and of the rest, for J bets: listed float32 or float64 (J, T, N), rest (J, T)."""

    listed: Array
    rest: Array

    def outcomes(self, tokens: Tokens) -> Column:
        """y, the score of the emitted token, and m, the mean under the law: (T, J) each."""
        there = self.listed[:, np.arange(len(tokens)), tokens.slot]
        y = np.where(tokens.slot >= 0, there, self.rest)
        m = np.einsum("jtn,tn->jt", self.listed, tokens.mass) + tokens.residual_mass * self.rest
        return y.T, m.T

    def spread(self, tokens: Tokens) -> Array:
        """Mean of the scores without their signs: (T, J). Probabilities off by a relative t move m by at most t times this."""
        return Scores(np.abs(self.listed), np.abs(self.rest)).outcomes(tokens)[1]


def scores(tokens: Tokens, past: Past, seen: Seen) -> Scores:
    """The scores of the bets of SCORED, which depend on the past and the law alone."""
    columns = [*_of_the_law(tokens), *_of_the_past(tokens, past, seen), *_draft_law(tokens, seen)]
    # Single precision: a score rounded beforehand is as good a bet, and `outcomes` takes its mean in double precision.
    listed = np.empty((len(columns), *tokens.mass.shape), dtype=np.float32)
    rest = np.empty((len(columns), len(tokens)))
    for j, column in enumerate(columns):
        listed[j], rest[j] = column
    return Scores(listed, rest)


def overlaps(tokens: Tokens, seen: Seen) -> Column:
    """y and m of the bets of OVERLAPS: (T, K) each."""
    ones, last = np.ones(len(tokens)), (0.75, 15 / 16)
    columns = [*(overlap(tokens.by_rank, (start * ones, ones)) for start in last),
               *(overlap(tokens.by_id, (i / 4 * ones, (i + 1) / 4 * ones)) for i in range(4)),
               *_neighbours(tokens, seen), *_requests(tokens, seen), *_step_offset(tokens)]  # fmt: skip
    y, m = (np.stack(side, axis=1) for side in zip(*columns, strict=True))
    return y, m


Score = tuple[Array, Array | float]  # of the listed tokens (T, N), and of the rest (T,)


def _of_the_law(tokens: Tokens) -> list[Score]:
    """By rank, by mass, by how sure the law is (all that is beyond the list counts as one token), and by the middles of intervals."""
    rank = np.broadcast_to(np.arange(tokens.mass.shape[1]), tokens.mass.shape)
    surprise = np.clip(-np.log2(np.maximum(tokens.mass, 2.0**-12)) / 12, 0.0, 1.0)
    parts = np.column_stack([tokens.mass, tokens.residual_mass])
    entropy = -(parts * np.log(np.maximum(parts, 1e-300))).sum(1)
    within = [(entropy >= low) & (entropy < high) for low, high in ENTROPIES]
    id_ends = tokens.along_ids(tokens.mass) + tokens.mass / 2
    typical = tokens.mass >= np.minimum(TYPICAL[0], TYPICAL[1] * np.exp(-entropy))[:, None]
    return [*((rank < r, 0.0) for r in RANKS), *((rank == i, 0.0) for i in (1, 2)), (rank >= 0, 0.0),
            *((tokens.mass >= mass, 0.0) for mass in MASSES), (surprise, 1.0),
            *((here[:, None] & (rank == 0), 0.0) for here in within),
            *((here[:, None] * surprise, here.astype(float)) for here in within), (typical, 0.0),
            (np.cumsum(tokens.mass, axis=1) - tokens.mass / 2, 1 - tokens.residual_mass / 2),
            (tokens.along_ids(tokens.mass), 1 - tokens.residual_mass / 2),
            *(_few_bits(tokens, ends) for ends in (np.cumsum(tokens.mass, axis=1), id_ends))]  # fmt: skip


def _few_bits(tokens: Tokens, ends: Array) -> Score:
    """The distribution of tokens drawn by inversion with a uniform number of BITS bits; ends (T, N): of the tokens' intervals."""
    p, steps = tokens.with_rest[0], 2.0**BITS
    last, first = (
        np.ceil(steps * side - 1e-6) for side in (ends, ends - tokens.mass)
    )  # 1e-6: sums may miss a multiple by rounding
    listed = (last - first) / steps
    return _suspected(np.column_stack([listed, np.maximum(1 - listed.sum(1), 0.0)]), p)


def _of_the_past(tokens: Tokens, past: Past, seen: Seen) -> list[Score]:
    """Scores by what came too often so far (a half for the rest, in no table), the tokens and law before, tokens of other requests."""
    same, known = tokens.ids[:, :, None] == seen.before[:, None, :], seen.mass_before.sum(1)
    rest = _prefers(np.maximum(0.0, 1 - known), tokens.residual_mass)
    before = np.where(known[:, None] > 0, _prefers(seen.mass_before, tokens.mass), 0.0)
    return [*((np.where(tokens.ids >= 0, table.scores(keys), 0.5), 0.5) for table, keys in past.tables(seen)),
            (_prefers(past.average(seen), tokens.mass), 0.5),
            *((same[:, :, -i], 0.0) for i in (1, 2)), *((same[:, :, -window:].any(2), 0.0) for window in WINDOWS),
            (before, np.where(known > 0, rest, 0.0)), *_urns(tokens, seen)]  # fmt: skip


def _urns(tokens: Tokens, seen: Seen) -> list[Score]:
    """Polya's urns: draws from the law, and the tokens of other requests at this position under it. Where there were none, no bet.

    Right requests are apart, so that what others had tells nothing of this one. The law of a draw from the urn is suspected: it is that
    of requests whose common random numbers favour one token or another, or of answers that are copies.
    """
    p, others = tokens.with_rest[0], seen.same != NOBODY
    same, columns = tokens.ids[:, :, None] == seen.same[:, None, :], list[Score]()
    for urn, last in URNS:
        weight = np.exp(-np.arange(others.shape[1])[::-1] / last)
        listed, every = same @ weight, (others @ weight)[:, None]
        came = np.column_stack([listed, np.maximum(every[:, 0] - listed.sum(1), 0.0)])
        score, of_rest = _suspected((urn * p + came) / (urn + every), p, MOST)
        columns.append((np.where(every > 0, score, 0.0), np.where(every[:, 0] > 0, of_rest, 0.0)))
    return columns


def _prefers(other: Array, mass: Array) -> Array:
    """other / (other + mass): above 1/2 where the other law is larger; 1/2 where both are 0."""
    both = other + mass
    return np.where(both > 0, other / np.where(both > 0, both, 1.0), 0.5)


def _draft_law(tokens: Tokens, seen: Seen) -> list[Score]:
    """Scores where the draft model's law q is known: the ways in which the laws of wrong samplers lean on q."""
    known = ~np.isnan(tokens.draft_residual_mass)
    if not known.any():
        return [(np.zeros(tokens.mass.shape), 0.0)] * sum(bet.family == "draft distribution" for bet in SCORED)
    q, rest = np.where(known[:, None], tokens.draft, 0.0), np.where(known, tokens.draft_residual_mass, 0.0)
    ratio = q / np.maximum(tokens.mass, 1e-300)
    ratio_of_rest = rest / np.maximum(tokens.residual_mass, 1e-300)
    left = np.maximum(tokens.mass - q, 0.0)
    left /= np.maximum(left.sum(1, keepdims=True), 1e-300)
    columns: list[Score] = [
        (_prefers(q, tokens.mass), _prefers(rest, tokens.residual_mass)),
        (np.minimum(ratio, 1.0), np.minimum(ratio_of_rest, 1.0)),
        (np.minimum(ratio / HEAD, 1.0), np.minimum(ratio_of_rest / HEAD, 1.0)),
        (np.arange(q.shape[1]) == q.argmax(1)[:, None], 0.0),
        (np.where(tokens.mass >= LIKELY, np.minimum(ratio / HEAD, 1.0), 0.0), 0.0),
        *(((ratio > low) & (ratio <= high), 0.0) for low, high in RATIOS),
        _noise_again(tokens, q, rest),
        (np.where(left > 0, np.clip(tokens.along_ids(left), 0.0, 1.0), 0.0), 0.0),
        _accepted_too_easily(tokens, q, rest),
        _suspected(np.einsum("tbn,tb->tn", tokens.by_uniform, seen.uniform), tokens.with_rest[0], MOST),
    ]
    return [(np.where(known[:, None], listed, 0.0), np.where(known, of_rest, 0.0)) for listed, of_rest in columns]


def _noise_again(tokens: Tokens, q: Array, rest: Array) -> Score:
    """The law emitted where draft and the token in its place are drawn with the same exponential noise, against the reported one.

    The draft has the least E / q, an exponential number M, and E = q M + F with fresh exponential F: in the race of E / r, r the
    residual, token x starts at M q(x) / r(x) and then wins at the rate r(x). With R, Q the sums of r, q over the tokens that started
    before s, P(x) is the integral of r(x) / (1 + R s - Q)^2 over s from q(x) / r(x) on. The rest counts as one token.
    """
    p, q = np.column_stack([tokens.mass, tokens.residual_mass]), np.column_stack([q, rest])
    excess = np.maximum(p - q, 0.0)
    refused = excess.sum(1, keepdims=True)
    r = excess / np.maximum(refused, 1e-300)
    start = np.where(r > 1e-9, q / np.maximum(r, 1e-9), np.inf)
    order = np.argsort(start, axis=1)
    s, r, q_there = (np.take_along_axis(side, order, axis=1) for side in (start, r, q))
    runs = np.isfinite(s)
    s, rate = np.where(runs, s, 0.0), np.cumsum(np.where(runs, r, 0.0), axis=1)
    owed = np.cumsum(np.where(runs, q_there, 0.0), axis=1)
    following = np.column_stack([s[:, 1:], np.zeros(len(s))])
    goes_on = np.column_stack([runs[:, 1:], np.zeros(len(s), dtype=bool)])
    ends = np.where(goes_on, 1 / np.maximum(1 + rate * following - owed, 1e-9), 0.0)
    parts = np.where(runs, (1 / np.maximum(1 + rate * s - owed, 1e-9) - ends) / np.maximum(rate, 1e-300), 0.0)
    law = np.empty_like(p)
    np.put_along_axis(law, order, np.where(runs, r, 0.0) * np.cumsum(parts[:, ::-1], axis=1)[:, ::-1], axis=1)
    return _suspected(np.minimum(p, q) + refused * law, p)


def _accepted_too_easily(tokens: Tokens, q: Array, rest: Array) -> Score:
    """The law emitted where drafts are accepted with min(1, LENIENT p / q), and replaced from the residual.

    The rest counts as one token that is accepted as it should be: LENIENT times all its mass is more than its tokens would get.
    """
    p, q = np.column_stack([tokens.mass, tokens.residual_mass]), np.column_stack([q, rest])
    taken, residual = np.minimum(p, q), np.maximum(p - q, 0.0)
    taken[:, :-1] = np.minimum(LENIENT * p, q)[:, :-1]
    left = np.maximum(1 - taken.sum(1, keepdims=True), 0.0)
    return _suspected(taken + left * residual / np.maximum(residual.sum(1, keepdims=True), 1e-300), p)


def _suspected(law: Array, p: Array, most: float = 2.0) -> Score:
    """The ratio of a suspected law to the reported one p, (T, N + 1) with the rest last, over the most that counts, up to 1.

    Its mean is 1 / most, but for what is cut. So a stake c pays (1 + c y) / (1 + c m) = 1 - w + w law / p with w = c / (most + c):
    nearly the likelihood ratio for the largest tilt, bets on laws between the two for the others.
    """
    score = np.clip(law / np.maximum(most * p, 1e-300), 0.0, 1.0)
    return score[:, :-1], score[:, -1]


def overlap(interval: tuple[Array, Array], window: tuple[Array, Array]) -> Column:
    """The part of the token's interval that lies in a window chosen beforehand: (T,) each.

    Its mean is the length of the window: sum over x of p(x) |I_x and W| / p(x) = |W|, since the intervals I_x fill [0, 1].
    """
    (a, b), (start, end) = interval, window
    common = np.maximum(0.0, np.minimum(b, end) - np.maximum(a, start))
    return np.where(b > a, common / np.where(b > a, b - a, 1.0), 0.0), end - start


def _by_rank_and_id(tokens: Tokens, windows: Array) -> tuple[tuple[Column, Column], ...]:
    """The tokens' intervals, each with its window from windows (T, 4)."""
    return (tokens.by_rank, (windows[:, 0], windows[:, 1])), (tokens.by_id, (windows[:, 2], windows[:, 3]))


def _neighbours(tokens: Tokens, seen: Seen) -> list[Column]:
    intervals = _by_rank_and_id(tokens, seen.previous)
    columns = [overlap(interval, window) for interval, window in intervals]
    for interval, (start, end) in intervals:
        low = np.where((start + end) < 1, 0.0, 0.5)
        known = end > start
        columns.append(overlap(interval, (np.where(known, low, 0.0), np.where(known, low + 0.5, 0.0))))
    return columns


def _requests(tokens: Tokens, seen: Seen) -> list[Column]:
    """The mean of any function of the unit interval over the token's interval has the function's own mean, as `overlap` has."""
    intervals = (*_by_rank_and_id(tokens, seen.other), *_by_rank_and_id(tokens, seen.earlier))
    columns = [overlap(interval, window) for interval, window in intervals]
    halves = zip(np.hsplit(tokens.shares, 2), np.hsplit(seen.crowd, 2), strict=True)
    return columns + [((shares * crowd).sum(1), crowd.mean(1)) for shares, crowd in halves]


def _step_offset(tokens: Tokens) -> list[Column]:
    """The middle (a + b) / 2 of the interval has mean 1/2: it is the mean of a uniform number in it."""
    offset = np.minimum(tokens.step_offset, OFFSETS - 1)
    top, heaviest = (tokens.slot == 0).astype(float), tokens.mass[:, 0]
    middle = sum(tokens.by_rank) / 2
    columns = [((offset == i) * top, (offset == i) * heaviest) for i in range(OFFSETS)]
    return columns + [((offset == i) * middle, (offset == i) * 0.5) for i in range(OFFSETS)]
