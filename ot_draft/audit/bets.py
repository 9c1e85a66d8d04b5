"""What is bet on: for every emitted token, numbers y in [0, 1] whose mean m under the reported law is known beforehand.

A bet is a function f_t of the token, with values in [0, 1], chosen from the past alone (the tokens before, their laws, and the
law p_t of this one). y = f_t(emitted token), m = sum over x of p_t(x) f_t(x). Under the null hypothesis, that every token is drawn
from its reported law given the past and apart from other requests, E[y | past] = m: this is all that `wealth` needs. On tokens
outside the heaviest f_t is one constant, since only their mass together is known. Where a bet does not apply y = m = 0.
Requests are read one after the other inside a block: under the hypothesis any order of them is as good.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from .past import Past, Seen
from .records import Tokens

Column = tuple[Array, Array]  # y and m of one bet, (T,) each
RANKS = (1, 2, 3, 5, 8, 16)
MASSES = tuple(2.0**-i for i in (1, 2, 3, 4, 6, 8, 10))
WINDOWS = (8, 32)
PLACES = 5  # of a step; the last stands for all further ones


@dataclass(frozen=True)
class Bet:
    """Name of a bet, the family whose weight it shares, and what a token counted by it is."""

    name: str
    family: str
    event: str


BETS = (
    *(Bet(f"rank {r}", "rank", f"one of the {r} likeliest tokens" if r > 1 else "the likeliest token") for r in RANKS),
    Bet("second", "rank", "the second likeliest token"),
    Bet("third", "rank", "the third likeliest token"),
    Bet("listed", "rank", "one of the tokens that the law lists, not of the rest"),
    *(Bet(f"mass {mass:g}", "mass", f"a token of probability {mass:g} or more") for mass in MASSES),
    Bet("surprise", "mass", "an unlikely token, by the logarithm of its probability"),
    Bet("rank middle", "calibration", "a token far down the list of ranks"),
    Bet("rank last quarter", "calibration", "a token of the lightest quarter of the mass"),
    Bet("rank last sixteenth", "calibration", "a token of the lightest sixteenth of the mass"),
    Bet("id middle", "calibration", "a token of high id"),
    *(Bet(f"id quarter {i}", "calibration", f"a token of quarter {i} of the mass, by token id") for i in range(1, 5)),
    Bet("same token again", "learned", "a token that came too often so far"),
    Bet("same pair again", "learned", "a token that came too often so far after the one before"),
    Bet("common token", "learned", "a token that is likelier on average than here"),
    Bet("repeat of the last", "repeat", "the token before, again"),
    Bet("repeat of the last but one", "repeat", "the token before the last, again"),
    *(Bet(f"repeat within {w}", "repeat", f"one of the last {w} tokens, again") for w in WINDOWS),
    Bet("law before", "neighbours", "a token that the law of the place before prefers"),
    Bet(
        "same number by rank", "neighbours", "the token that the random number of the token before would give, by rank"
    ),
    Bet("same number by id", "neighbours", "the token that the random number of the token before would give, by id"),
    Bet("same side by rank", "neighbours", "a token on the same side of the median as the one before, by rank"),
    Bet("same side by id", "neighbours", "a token on the same side of the median as the one before, by id"),
    Bet("token of another request", "requests", "the token of another request at this position"),
    Bet(
        "number of another request by rank",
        "requests",
        "the token that another request's random number would give, by rank",
    ),
    Bet(
        "number of another request by id",
        "requests",
        "the token that another request's random number would give, by id",
    ),
    *(Bet(f"likeliest at place {i}", "place", f"the likeliest token, at place {i} of a step") for i in range(PLACES)),
    *(
        Bet(f"middle at place {i}", "place", f"a token far down the ranks, at place {i} of a step")
        for i in range(PLACES)
    ),
    Bet("draft law", "draft law", "a token that the draft model prefers"),
)


def outcomes(tokens: Tokens, past: Past, seen: Seen) -> Column:
    """y and m of every bet of BETS for every token: (T, K) each."""
    columns = [*_rank(tokens), *_mass(tokens), *_calibration(tokens), *_learned(tokens, past, seen), *_repeat(tokens, seen),
               *_neighbours(tokens, seen), *_requests(tokens, seen), *_place(tokens), _draft_law(tokens)]  # fmt: skip
    y, m = (np.stack(side, axis=1) for side in zip(*columns, strict=True))
    return y, m


def _of_set(tokens: Tokens, members: Array) -> Column:
    """A set of tokens (T, N) of the heaviest: its mass is their sum."""
    return tokens.at_slot(members, False).astype(float), np.where(members, tokens.mass, 0.0).sum(1)


def _of_scores(tokens: Tokens, scores: Array, rest: Array | float) -> Column:
    """Scores in [0, 1] of the heaviest (T, N), one for the rest (T,): their mean is a sum over the law."""
    rest = np.broadcast_to(rest, len(tokens))
    return tokens.at_slot(scores, rest), (tokens.mass * scores).sum(1) + tokens.rest * rest


def _rank(tokens: Tokens) -> list[Column]:
    before = np.cumsum(tokens.mass, axis=1)
    width, listed = before.shape[1], tokens.slot >= 0
    columns: list[Column] = [((listed & (tokens.slot < r)).astype(float), before[:, min(r, width) - 1]) for r in RANKS]
    for i in (1, 2):
        there = tokens.mass[:, i] if i < width else np.zeros(len(tokens))
        columns.append(((tokens.slot == i).astype(float), there))
    return [*columns, (listed.astype(float), before[:, -1])]


def _mass(tokens: Tokens) -> list[Column]:
    columns = [_of_set(tokens, tokens.mass >= mass) for mass in MASSES]
    surprise = np.clip(-np.log2(np.maximum(tokens.mass, 2.0**-12)) / 12, 0.0, 1.0)
    return [*columns, _of_scores(tokens, surprise, 1.0)]


def overlap(interval: tuple[Array, Array], window: tuple[Array, Array]) -> Column:
    """The part of the token's interval that lies in a window chosen beforehand: (T,) each.

    Its mean is the length of the window: sum over x of p(x) |I_x and W| / p(x) = |W|, since the intervals I_x fill [0, 1].
    """
    (a, b), (start, end) = interval, window
    common = np.maximum(0.0, np.minimum(b, end) - np.maximum(a, start))
    return np.where(b > a, common / np.where(b > a, b - a, 1.0), 0.0), end - start


def _calibration(tokens: Tokens) -> list[Column]:
    """The middle (a + b) / 2 of the interval has mean 1/2: it is the mean of a uniform number in it."""
    half, ones = np.full(len(tokens), 0.5), np.ones(len(tokens))
    columns = [(sum(tokens.by_rank) / 2, half)]
    columns += [overlap(tokens.by_rank, (start * ones, ones)) for start in (0.75, 15 / 16)]
    columns += [(sum(tokens.by_id) / 2, half)]
    return columns + [overlap(tokens.by_id, (i / 4 * ones, (i + 1) / 4 * ones)) for i in range(4)]


def _learned(tokens: Tokens, past: Past, seen: Seen) -> list[Column]:
    columns = [_of_scores(tokens, np.where(tokens.ids >= 0, table.scores(keys), 0.5), 0.5)
               for table, keys in past.tables(tokens, seen)]  # fmt: skip
    average = past.average(tokens)
    return [*columns, _of_scores(tokens, _prefers(average, tokens.mass), 0.5)]


def _prefers(other: Array, mass: Array) -> Array:
    """other / (other + mass): above 1/2 where the other law is larger; 1/2 where both are 0."""
    both = other + mass
    return np.where(both > 0, other / np.where(both > 0, both, 1.0), 0.5)


def _repeat(tokens: Tokens, seen: Seen) -> list[Column]:
    columns = [_of_set(tokens, tokens.ids == seen.before[:, [-i]]) for i in (1, 2)]
    same = (tokens.ids[:, :, None] == seen.before[:, None, :]) & (tokens.ids >= 0)[:, :, None]
    return columns + [_of_set(tokens, same[:, :, -window:].any(2)) for window in WINDOWS]


def _neighbours(tokens: Tokens, seen: Seen) -> list[Column]:
    known = seen.mass_before.sum(1) > 0
    score = _prefers(seen.mass_before, tokens.mass)
    rest = _prefers(np.maximum(0.0, 1 - seen.mass_before.sum(1)), tokens.rest)
    y, m = _of_scores(tokens, score, rest)
    columns = [(np.where(known, y, 0.0), np.where(known, m, 0.0))]
    intervals = ((tokens.by_rank, seen.by_rank), (tokens.by_id, seen.by_id))
    columns += [overlap(interval, window) for interval, window in intervals]
    for interval, (start, end) in intervals:
        low, high = np.where((start + end) < 1, 0.0, 0.5), np.where((start + end) < 1, 0.5, 1.0)
        known = end > start
        columns.append(overlap(interval, (np.where(known, low, 0.0), np.where(known, high, 0.0))))
    return columns


def _requests(tokens: Tokens, seen: Seen) -> list[Column]:
    same = _of_set(tokens, (tokens.ids == seen.other[:, None]) & (tokens.ids >= 0))
    return [same, overlap(tokens.by_rank, seen.other_by_rank), overlap(tokens.by_id, seen.other_by_id)]


def _place(tokens: Tokens) -> list[Column]:
    place = np.minimum(tokens.place, PLACES - 1)
    top, heaviest = (tokens.slot == 0).astype(float), tokens.mass[:, 0]
    middle = sum(tokens.by_rank) / 2
    columns = [((place == i) * top, (place == i) * heaviest) for i in range(PLACES)]
    return columns + [((place == i) * middle, (place == i) * 0.5) for i in range(PLACES)]


def _draft_law(tokens: Tokens) -> Column:
    known = ~np.isnan(tokens.draft_rest)
    draft, rest = np.where(known[:, None], tokens.draft, 0.0), np.where(known, tokens.draft_rest, 0.0)
    y, m = _of_scores(tokens, _prefers(draft, tokens.mass), _prefers(rest, tokens.rest))
    return np.where(known, y, 0.0), np.where(known, m, 0.0)
