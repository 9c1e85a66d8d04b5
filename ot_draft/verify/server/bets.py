"""Bets of the audit: for every emitted token, numbers y in [0, 1] whose mean m under the reported distribution is known beforehand.

A bet is a function f_t of the token with values in [0, 1], chosen from the past alone (the tokens before, their distributions, and the
distribution p_t of this one). y = f_t(emitted token), m = sum over x of p_t(x) f_t(x). Under the null hypothesis, that every token is
sampled from its reported distribution given the past and independently of other requests, E[y | past] = m: `wealth` needs no more. On
tokens outside the list f_t is one constant, since only their total probability is known. A bet that does not apply has y = m = 0.
Requests are read one after the other inside a block: under the hypothesis every order of them is valid.

There are two kinds. Scores f_t(x) are computed for every listed token and for the rest, so that `wealth` can combine them. Overlaps
compare the token's interval of the unit interval with a window. To add a bet, add it to a group of `scored_groups` or
`overlap_groups`, with its column in the function of the group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import Array
from .blocks import Tokens
from .past import NO_PREDECESSOR, Past, Seen

Column = tuple[Array, Array]  # y and m of one bet, (T,) each
Score = tuple[Array, Array | float]  # of the listed tokens (T, N), and of the rest (T,)


@dataclass(frozen=True)
class BetSettings:
    """Parameters of the bets. Probabilities and ratios have no unit; entropies are in nats."""

    ranks: tuple[int, ...] = (1, 2, 3, 5, 8, 16)
    min_probabilities: tuple[float, ...] = tuple(2.0**-i for i in (1, 2, 3, 4, 6, 8, 10))
    entropies: tuple[tuple[float, float], ...] = ((0.0, 0.6), (0.6, 1.4), (1.4, np.inf))  # of a distribution
    # a token is typical from the smaller of the first, and the second times exp(-entropy)
    typical: tuple[float, float] = (0.09, 0.3)
    uniform_bits: int = 8  # of a uniform random number in bfloat16
    repeat_windows: tuple[int, ...] = (8, 16)  # tokens before
    # draws from the distribution in a Polya urn, and the number of last tokens of other requests that are added to it, about
    urns: tuple[tuple[int, float], ...] = ((2, 6.0), (8, 32.0))
    step_offsets: int = 5  # the last one stands for all further ones
    max_draft_ratio: float = 4.0  # q / p above counts as this
    lenient_factor: float = 1.2  # of p / q, with which drafts are accepted too easily
    draft_ratios: tuple[tuple[float, float], ...] = ((0.5, 1.0), (1.0, 2.0), (2.0, 4.0))  # of q / p
    min_likely: float = 1 / 16  # probability of a token that is likely and drafted
    max_likelihood_ratio: float = 8.0  # of an alternative with shared random numbers to the reported distribution


@dataclass(frozen=True)
class Bet:
    """Name of a bet, the family whose weight it shares, and the event that it is about."""

    name: str
    family: str
    event: str


@dataclass(frozen=True)
class BetGroup:
    """Bets that one function computes: their columns in this order, or None where none of them applies."""

    compute: Callable[..., list[Any] | None]
    bets: tuple[Bet, ...]


@dataclass(frozen=True)
class Scores:
    """Scores of the listed tokens and of the rest, for J bets: listed float32 or float64 (J, T, N), rest (J, T)."""

    listed: Array
    rest: Array

    def outcomes(self, tokens: Tokens) -> Column:
        """Return y, the score of the emitted token, and m, the mean under the distribution: (T, J) each."""
        there = self.listed[:, np.arange(len(tokens)), tokens.slot]
        y = np.where(tokens.slot >= 0, there, self.rest)
        m = np.einsum("jtn,tn->jt", self.listed, tokens.mass) + tokens.residual_mass * self.rest
        return y.T, m.T

    def spread(self, tokens: Tokens) -> Array:
        """Return means of absolute scores (T, J). Relative errors t of probabilities move m by at most t times these."""
        return Scores(np.abs(self.listed), np.abs(self.rest)).outcomes(tokens)[1]


class Bets:
    """The bets of an audit with these settings.

    scored: bets with scores, in the order of `scores`. placed: all bets, those of `scores` before those of `overlaps`.
    """

    def __init__(self, settings: BetSettings | None = None) -> None:
        self._settings = settings or BetSettings()
        self._scored, self._overlaps = scored_groups(self._settings), overlap_groups(self._settings)
        self.scored = tuple(bet for group in self._scored for bet in group.bets)
        self.placed = (*self.scored, *(bet for group in self._overlaps for bet in group.bets))

    def scores(self, tokens: Tokens, past: Past, seen: Seen) -> Scores:
        """Return the scores of the bets of `scored`, which depend on the past and the distribution alone."""
        # Single precision: a score rounded beforehand is as good a bet, and `outcomes` takes its mean in double precision.
        listed = np.zeros((len(self.scored), *tokens.mass.shape), dtype=np.float32)
        rest = np.zeros((len(self.scored), len(tokens)))
        row = 0
        for group in self._scored:
            for j, column in enumerate(group.compute(tokens, past, seen, self._settings) or ()):
                listed[row + j], rest[row + j] = column
            row += len(group.bets)
        return Scores(listed, rest)

    def overlaps(self, tokens: Tokens, seen: Seen) -> Column:
        """Return y and m of the other bets: (T, K) each."""
        columns = [column for group in self._overlaps for column in group.compute(tokens, seen, self._settings) or ()]
        y, m = (np.stack(side, axis=1) for side in zip(*columns, strict=True))
        return y, m


# Scores of the distribution.


def _rank(tokens: Tokens, past: Past, seen: Seen, settings: BetSettings) -> list[Score]:
    rank = _ranks(tokens)
    return [*((rank < r, 0.0) for r in settings.ranks), *((rank == i, 0.0) for i in (1, 2)), (rank >= 0, 0.0)]


def _probability(tokens: Tokens, past: Past, seen: Seen, settings: BetSettings) -> list[Score]:
    return [*((tokens.mass >= least, 0.0) for least in settings.min_probabilities), (_surprise(tokens), 1.0)]


def _entropy(tokens: Tokens, past: Past, seen: Seen, settings: BetSettings) -> list[Score]:
    """Scores by the entropy of the distribution; all tokens beyond the list count as one."""
    parts = np.column_stack([tokens.mass, tokens.residual_mass])
    entropy = -(parts * np.log(np.maximum(parts, 1e-300))).sum(1)
    within = [(entropy >= low) & (entropy < high) for low, high in settings.entropies]
    least, factor = settings.typical
    typical = tokens.mass >= np.minimum(least, factor * np.exp(-entropy))[:, None]
    first, surprise = _ranks(tokens) == 0, _surprise(tokens)
    return [*((here[:, None] & first, 0.0) for here in within),
            *((here[:, None] * surprise, here.astype(float)) for here in within), (typical, 0.0)]  # fmt: skip


def _calibration(tokens: Tokens, past: Past, seen: Seen, settings: BetSettings) -> list[Score]:
    """Scores by the centers of the tokens' intervals, and by the distribution from uniform numbers of few bits."""
    by_rank, by_id = np.cumsum(tokens.mass, axis=1), tokens.along_ids(tokens.mass)
    return [(by_rank - tokens.mass / 2, 1 - tokens.residual_mass / 2), (by_id, 1 - tokens.residual_mass / 2),
            *(_few_bits(tokens, ends, settings.uniform_bits) for ends in (by_rank, by_id + tokens.mass / 2))]  # fmt: skip


def _few_bits(tokens: Tokens, ends: Array, bits: int) -> Score:
    """Distribution of tokens from inversion of a uniform number of few bits; ends (T, N): of the tokens' intervals."""
    p, steps = tokens.with_rest[0], 2.0**bits
    last, first = (
        np.ceil(steps * side - 1e-6) for side in (ends, ends - tokens.mass)
    )  # 1e-6: sums may miss a multiple by rounding
    listed = (last - first) / steps
    return _likelihood_ratio(np.column_stack([listed, np.maximum(1 - listed.sum(1), 0.0)]), p)


def _ranks(tokens: Tokens) -> Array:
    return np.broadcast_to(np.arange(tokens.mass.shape[1]), tokens.mass.shape)


def _surprise(tokens: Tokens) -> Array:
    """Minus the logarithm of the probability, over 12 bits, up to 1."""
    return np.clip(-np.log2(np.maximum(tokens.mass, 2.0**-12)) / 12, 0.0, 1.0)


# Scores of the past.


def _learned(tokens: Tokens, past: Past, seen: Seen, settings: BetSettings) -> list[Score]:
    """Scores by what was too frequent so far; the rest has 1/2, as it is in no table."""
    tables = ((np.where(tokens.ids >= 0, table.scores(keys), 0.5), 0.5) for table, keys in past.tables(seen))
    return [*tables, (_prefers(past.average(seen), tokens.mass), 0.5)]


def _repeats(tokens: Tokens, past: Past, seen: Seen, settings: BetSettings) -> list[Score]:
    same = tokens.ids[:, :, None] == seen.before[:, None, :]
    windows = ((same[:, :, -window:].any(2), 0.0) for window in settings.repeat_windows)
    return [*((same[:, :, -i], 0.0) for i in (1, 2)), *windows]


def _distribution_before(tokens: Tokens, past: Past, seen: Seen, settings: BetSettings) -> list[Score]:
    known = seen.mass_before.sum(1)
    rest = _prefers(np.maximum(0.0, 1 - known), tokens.residual_mass)
    before = np.where(known[:, None] > 0, _prefers(seen.mass_before, tokens.mass), 0.0)
    return [(before, np.where(known > 0, rest, 0.0))]


def _urns(tokens: Tokens, past: Past, seen: Seen, settings: BetSettings) -> list[Score]:
    """Polya's urns: draws from the distribution, and the tokens of other requests at this position under it. No bet without those.

    Correct requests are independent, so that the tokens of others carry no information. The alternative is a draw from the urn, the
    distribution of requests whose common random numbers favour one token or another, or of copied responses.
    """
    p, others = tokens.with_rest[0], seen.same != NO_PREDECESSOR
    same, columns = tokens.ids[:, :, None] == seen.same[:, None, :], list[Score]()
    for urn, last in settings.urns:
        weight = np.exp(-np.arange(others.shape[1])[::-1] / last)
        listed, every = same @ weight, (others @ weight)[:, None]
        came = np.column_stack([listed, np.maximum(every[:, 0] - listed.sum(1), 0.0)])
        score, of_rest = _likelihood_ratio((urn * p + came) / (urn + every), p, settings.max_likelihood_ratio)
        columns.append((np.where(every > 0, score, 0.0), np.where(every[:, 0] > 0, of_rest, 0.0)))
    return columns


def _prefers(other: Array, mass: Array) -> Array:
    """Return other / (other + mass): above 1/2 where the other distribution is larger; 1/2 where both are 0."""
    both = other + mass
    return np.where(both > 0, other / np.where(both > 0, both, 1.0), 0.5)


# Scores of the draft distribution.


def _draft(tokens: Tokens, past: Past, seen: Seen, settings: BetSettings) -> list[Score] | None:
    """Scores if the draft distribution q is known: the ways in which the output of wrong samplers depends on q."""
    known = ~np.isnan(tokens.draft_residual_mass)
    if not known.any():
        return None
    q, rest = np.where(known[:, None], tokens.draft, 0.0), np.where(known, tokens.draft_residual_mass, 0.0)
    ratio, most = q / np.maximum(tokens.mass, 1e-300), settings.max_draft_ratio
    ratio_of_rest = rest / np.maximum(tokens.residual_mass, 1e-300)
    left = np.maximum(tokens.mass - q, 0.0)
    left /= np.maximum(left.sum(1, keepdims=True), 1e-300)
    shared = np.einsum("tbn,tb->tn", tokens.by_uniform, seen.uniform)
    columns: list[Score] = [
        (_prefers(q, tokens.mass), _prefers(rest, tokens.residual_mass)),
        (np.minimum(ratio, 1.0), np.minimum(ratio_of_rest, 1.0)),
        (np.minimum(ratio / most, 1.0), np.minimum(ratio_of_rest / most, 1.0)),
        (np.arange(q.shape[1]) == q.argmax(1)[:, None], 0.0),
        (np.where(tokens.mass >= settings.min_likely, np.minimum(ratio / most, 1.0), 0.0), 0.0),
        *(((ratio > low) & (ratio <= high), 0.0) for low, high in settings.draft_ratios),
        _noise_used_twice(tokens, q, rest),
        (np.where(left > 0, np.clip(tokens.along_ids(left), 0.0, 1.0), 0.0), 0.0),
        _accepted_too_easily(tokens, q, rest, settings.lenient_factor),
        _likelihood_ratio(shared, tokens.with_rest[0], settings.max_likelihood_ratio),
    ]
    return [(np.where(known[:, None], listed, 0.0), np.where(known, of_rest, 0.0)) for listed, of_rest in columns]


def _noise_used_twice(tokens: Tokens, q: Array, rest: Array) -> Score:
    """Distribution if the draft token and its replacement are sampled with the same exponential noise, compared with the reported one.

    The draft token has the smallest E / q, an exponential number M, and E = q M + F with fresh exponential F: in the race of E / r, r the
    residual, token x starts at M q(x) / r(x) and then wins at the rate r(x). With R, Q the sums of r, q over the tokens that started
    before s, P(x) is the integral of r(x) / (1 + R s - Q)^2 over s from q(x) / r(x) on. The rest counts as one token.
    """
    p, q = np.column_stack([tokens.mass, tokens.residual_mass]), np.column_stack([q, rest])
    excess = np.maximum(p - q, 0.0)
    rejected = excess.sum(1, keepdims=True)
    r = excess / np.maximum(rejected, 1e-300)
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
    return _likelihood_ratio(np.minimum(p, q) + rejected * law, p)


def _accepted_too_easily(tokens: Tokens, q: Array, rest: Array, lenient_factor: float) -> Score:
    """Distribution if draft tokens are accepted with probability min(1, lenient_factor p / q), and replaced from the residual.

    The rest counts as one token that is accepted correctly: lenient_factor times its total probability is more than its tokens get.
    """
    p, q = np.column_stack([tokens.mass, tokens.residual_mass]), np.column_stack([q, rest])
    taken, residual = np.minimum(p, q), np.maximum(p - q, 0.0)
    taken[:, :-1] = np.minimum(lenient_factor * p, q)[:, :-1]
    left = np.maximum(1 - taken.sum(1, keepdims=True), 0.0)
    return _likelihood_ratio(taken + left * residual / np.maximum(residual.sum(1, keepdims=True), 1e-300), p)


def _likelihood_ratio(alternative: Array, p: Array, most: float = 2.0) -> Score:
    """Ratio of an alternative to the reported distribution p, (T, N + 1) with the rest last, divided by `most`, up to 1.

    Its mean is 1 / most, except for what is clipped. So a stake c pays (1 + c y) / (1 + c m) = 1 - w + w alternative / p with w =
    c / (most + c): nearly the likelihood ratio for the largest tilt, bets on mixtures of the two for the others.
    """
    score = np.clip(alternative / np.maximum(most * p, 1e-300), 0.0, 1.0)
    return score[:, :-1], score[:, -1]


# Overlaps.


def overlap(interval: tuple[Array, Array], window: tuple[Array, Array]) -> Column:
    """Return the part of the token's interval in a window that was chosen beforehand: (T,) each.

    Its mean is the length of the window: sum over x of p(x) |I_x and W| / p(x) = |W|, since the intervals I_x fill [0, 1].
    """
    (a, b), (start, end) = interval, window
    common = np.maximum(0.0, np.minimum(b, end) - np.maximum(a, start))
    return np.where(b > a, common / np.where(b > a, b - a, 1.0), 0.0), end - start


def _intervals_and_windows(tokens: Tokens, windows: Array) -> tuple[tuple[Column, Column], ...]:
    """The tokens' intervals by rank and by id, each with its window from windows (T, 4)."""
    return (tokens.by_rank, (windows[:, 0], windows[:, 1])), (tokens.by_id, (windows[:, 2], windows[:, 3]))


def _quarters(tokens: Tokens, seen: Seen, settings: BetSettings) -> list[Column]:
    ones = np.ones(len(tokens))
    return [*(overlap(tokens.by_rank, (start * ones, ones)) for start in (0.75, 15 / 16)),
            *(overlap(tokens.by_id, (i / 4 * ones, (i + 1) / 4 * ones)) for i in range(4))]  # fmt: skip


def _token_before(tokens: Tokens, seen: Seen, settings: BetSettings) -> list[Column]:
    intervals = _intervals_and_windows(tokens, seen.previous)
    columns = [overlap(interval, window) for interval, window in intervals]
    for interval, (start, end) in intervals:
        low = np.where((start + end) < 1, 0.0, 0.5)
        known = end > start
        columns.append(overlap(interval, (np.where(known, low, 0.0), np.where(known, low + 0.5, 0.0))))
    return columns


def _other_requests(tokens: Tokens, seen: Seen, settings: BetSettings) -> list[Column]:
    """The mean of a function of the unit interval over the token's interval has the function's own mean, as in `overlap`."""
    pairs = (*_intervals_and_windows(tokens, seen.other), *_intervals_and_windows(tokens, seen.earlier))
    columns = [overlap(interval, window) for interval, window in pairs]
    halves = zip(np.hsplit(tokens.shares, 2), np.hsplit(seen.density, 2), strict=True)
    return columns + [((shares * density).sum(1), density.mean(1)) for shares, density in halves]


def _step_offsets(tokens: Tokens, seen: Seen, settings: BetSettings) -> list[Column]:
    """The center (a + b) / 2 of the interval has mean 1/2: it is the mean of a uniform number in it."""
    count = settings.step_offsets
    offset = np.minimum(tokens.step_offset, count - 1)
    top, largest = (tokens.slot == 0).astype(float), tokens.mass[:, 0]
    center = sum(tokens.by_rank) / 2
    columns = [((offset == i) * top, (offset == i) * largest) for i in range(count)]
    return columns + [((offset == i) * center, (offset == i) * 0.5) for i in range(count)]


def _bets(family: str, *events: tuple[str, str]) -> tuple[Bet, ...]:
    return tuple(Bet(name, family, event) for name, event in events)


def _by_rank_and_id(family: str, *events: tuple[str, str]) -> tuple[Bet, ...]:
    return _bets(
        family,
        *((f"{name} by {how}", f"{event}, tokens sorted by {how}") for name, event in events for how in ("rank", "id")),
    )


def scored_groups(settings: BetSettings) -> tuple[BetGroup, ...]:
    """Return the groups of bets with scores."""
    unlikely = "an unlikely token, weighted by minus the logarithm of its probability"
    p_and_q = "p reported, q of the draft model"
    by_ratio = f"weighted by min(1, q / ({settings.max_draft_ratio:g} p)), {p_and_q}"
    return (
        BetGroup(_rank, _bets(
            "rank",
            *((f"rank {r}", f"one of the {r} most probable tokens" if r > 1 else "the most probable token") for r in settings.ranks),
            ("second", "the second most probable token"),
            ("third", "the third most probable token"),
            ("listed", "one of the listed tokens"),
        )),
        BetGroup(_probability, _bets(
            "mass",
            *((f"mass {least:g}", f"a token of probability {least:g} or more") for least in settings.min_probabilities),
            ("surprise", unlikely),
        )),
        BetGroup(_entropy, _bets(
            "entropy",
            *((f"{name}, entropy from {low:g}", f"{event}, where the entropy is {low:g} to {high:g}")
              for name, event in (("most probable", "the most probable token"), ("surprise", unlikely))
              for low, high in settings.entropies),
            ("typical", "a token that typical acceptance would accept"),
        )),
        BetGroup(_calibration, _bets(
            "calibration",
            ("rank middle", "a high quantile of the distribution, tokens sorted by rank"),
            ("id middle", "a high quantile of the distribution, tokens sorted by id"),
            *((f"uniform of {settings.uniform_bits} bits by {how}",
               f"a token that a uniform random number of {settings.uniform_bits} bits gives too often, tokens sorted by {how}")
              for how in ("rank", "id")),
        )),
        BetGroup(_learned, _bets(
            "learned",
            ("same token again", "a token that was too frequent so far"),
            ("same pair again", "a token that was too frequent so far after the one before"),
            ("same three again", "a token that was too frequent so far after the two before"),
            ("same distribution again", "a token that was too frequent so far under the same distribution"),
            ("common token", "a token that was more probable on average so far than here"),
        )),
        BetGroup(_repeats, _bets(
            "repeat",
            ("repeat of the last", "the same token as one position before"),
            ("repeat of the last but one", "the same token as two positions before"),
            *((f"repeat within {w}", f"one of the last {w} tokens") for w in settings.repeat_windows),
        )),
        BetGroup(_distribution_before, _bets(
            "neighbours", ("distribution before", "a token that was more probable at the position before")
        )),
        BetGroup(_urns, _bets(
            "requests",
            *((f"tokens of {last:g} other requests", "a token that other requests emitted at this position under the same distribution")
              for _, last in settings.urns),
        )),
        BetGroup(_draft, _bets(
            "draft distribution",
            ("draft distribution", f"a token weighted by q / (p + q), {p_and_q}"),
            ("overlap with the draft distribution", f"a token weighted by min(1, q / p), {p_and_q}"),
            ("ratio to the draft distribution", f"a token {by_ratio}"),
            ("most probable draft token", "the draft model's most probable token"),
            ("likely and drafted",
             f"a token of probability {settings.min_likely:g} or more, {by_ratio}"),
            *((f"drafted {low:g} to {high:g} times", f"a token with q / p from {low:g} to {high:g}, {p_and_q}")
              for low, high in settings.draft_ratios),
            ("noise of the draft", "a token that is too frequent if the draft's random noise is used again for the residual"),
            ("drafted too rarely", "a high quantile of the residual distribution, tokens sorted by id"),
            ("accepted too easily", f"a token that is too frequent if draft tokens are accepted with {settings.lenient_factor:g} p/q"),
            ("uniform of other requests",
             "a token that is too frequent if requests share the uniform random number of their acceptance tests"),
        )),
    )  # fmt: skip


def overlap_groups(settings: BetSettings) -> tuple[BetGroup, ...]:
    """Return the groups of bets that compare the token's interval with a window."""
    return (
        BetGroup(_quarters, _bets(
            "calibration",
            ("rank last quarter", "a token of the least probable quarter of the distribution"),
            ("rank last sixteenth", "a token of the least probable sixteenth of the distribution"),
            *((f"id quarter {i}", f"a token in quarter {i} of the distribution, tokens sorted by id") for i in range(1, 5)),
        )),
        BetGroup(_token_before, _by_rank_and_id(
            "neighbours",
            ("same number", "the token that the uniform random number of the token before gives"),
            ("same side", "a token on the same side of the median as the one before"),
        )),
        BetGroup(_other_requests, _by_rank_and_id(
            "requests",
            ("number of another request", "the token that the uniform random number of another request gives"),
            ("number of an earlier batch", "the token that the uniform random number of an earlier batch gives"),
            ("numbers of the batch", "a token that the uniform random numbers of the batch's other requests often give"),
        )),
        BetGroup(_step_offsets, _bets(
            "step offset",
            *((f"most probable at step offset {i}", f"the most probable token at step offset {i}") for i in range(settings.step_offsets)),
            *((f"middle at step offset {i}", f"a high quantile of the distribution at step offset {i}, tokens sorted by rank")
              for i in range(settings.step_offsets)),
        )),
    )  # fmt: skip
