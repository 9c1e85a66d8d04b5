"""Do two sources of texts have one law? Bets on which side an answer came from; no probability that anybody reports is used.

A block is the answers of both sides to one list of requests. The bettor does not see which answers are whose. He names a score S
of a list of answers, learned from the past, and is paid e = 2 sigma(S(X) - S(Y)), sigma(z) = 1 / (1 + exp(-z)).

Lemma. Let F be all that was seen before a block, X and Y the answers of the two sides in it. If (X, Y) and (Y, X) have the same law
given F, then e has mean 1 given F. Proof: with the sides exchanged it is e' = 2 sigma(S(Y) - S(X)); e + e' = 2, and both have the
same mean. So the product over blocks is a martingale, and so is a mean of such products with weights fixed beforehand. By Ville's
inequality it ever reaches 1 / level with probability at most level, whenever one looks or stops.

Not needed: independence within a block (answers of one batch may share random numbers: the bet is on all of them together), requests
that are fixed beforehand (they may be chosen from the past). Needed: both sides get the same requests in batches of the same make-up,
neither side's next answers depend on its own past ones, and a block that was begun is counted.

For small differences a block earns about a quarter of the mean square of S(X) - S(Y): to first order what the likelihoods themselves
would earn. It never earns more than log 2, so that blocks are small at first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...arrays import Array

ENDED = -1  # in the place of tokens after an answer's end
# counts that a score is shrunk by: spreads of log-odds from 2 to .03
RHOS = np.array([0.5, 2.0, 8.0, 32.0, 128.0, 512.0, 2048.0])
RHO_WEIGHTS = np.array([0.05, 0.05, 0.1, 0.15, 0.2, 0.25, 0.2])
CONTEXTS = {  # what is counted -> its share of the stake
    "prefix": 0.25,  # the token after a request and all tokens of the answer before it
    "place": 0.20,  # the token at a place of the answers to one request
    "last token": 0.10,  # the token after another, whatever the request
    "token": 0.05,  # the token alone
    "share after prefix": 0.10,  # how large a share the token had after this prefix so far, on both sides
    "share after last token": 0.10,  # the same after the token before it
    "repetition": 0.10,  # how far back the same token stands
    "equal answers": 0.10,  # how many of a block have the same prefix, and how many of them the same token
}
STAKE_TOGETHER = 0.15  # on the weighted sum of all scores
TOGETHER = np.array([1, 3, 5])  # of RHOS: the scores in that sum
PRECISIONS = np.array([1.0, 8.0, 64.0])  # of the prior of its weights
FARTHEST = 6.0  # log-odds that are bet on at most
CELLS = 1 << 20  # of the tables; two contexts in one cell cost power, never fairness
GOLDEN, MIXED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


def mix(*keys: object) -> Array:
    """A hash of integer arrays."""
    made: Array = np.uint64(0)
    with np.errstate(over="ignore"):
        for key in keys:
            made = (made ^ np.asarray(key).astype(np.uint64)) * GOLDEN
            made = (made ^ (made >> np.uint64(29))) * MIXED
            made = made ^ (made >> np.uint64(32))
    return made


def cell(keys: Array) -> Array:
    return (keys & np.uint64(CELLS - 1)).astype(np.int64)


def gain(score: Array) -> Array:
    """log 2 sigma(score)."""
    return np.log(2) - np.logaddexp(0, -np.clip(score, -FARTHEST, FARTHEST))


class Shares:
    """Counts of tokens in contexts, on both sides together."""

    def __init__(self) -> None:
        self.pairs, self.visits, self.most = (np.zeros(CELLS, np.float32) for _ in range(3))

    def bins(self, context: Array, outcome: Array) -> Array:
        """The token's share in powers of two, or that it was the most frequent one, by how well the context is known."""
        count, visits, most = self.pairs[outcome], self.visits[context], self.most[context]
        share = np.minimum(-np.log2((count + 0.5) / (visits + 1)), 9).astype(int)
        known = np.minimum(np.log2(visits + 1).astype(int) // 2, 4)
        return np.where(visits == 0, 99, np.where(count >= np.maximum(most, 1), 20, share) + 30 * known)

    def learn(self, context: Array, outcome: Array) -> None:
        np.add.at(self.pairs, outcome, 1)
        np.add.at(self.visits, context, 1)
        np.maximum.at(self.most, context, self.pairs[outcome])


@dataclass(frozen=True)
class BlockFeatures:
    """One side of a block: cells of contexts and outcomes (L, m, T), which tokens there are (m, T), cells of the tables of shares."""

    contexts: Array
    outcomes: Array
    there: Array
    shares: tuple[tuple[Array, Array], ...]


class TwoSided:
    """The wealth of all bets, from 1: a mean over contexts, shrinkages and the weighted sum. Constant memory."""

    def __init__(self) -> None:
        kinds, scores = len(CONTEXTS), len(CONTEXTS) * len(TOGETHER)
        self._outcomes, self._contexts = (np.zeros((2, CELLS), np.float32) for _ in range(2))
        self._shares = (Shares(), Shares())
        self._single, self._sum = np.zeros((kinds, len(RHOS))), np.zeros(len(PRECISIONS))
        self._stakes = (1 - STAKE_TOGETHER) * np.array(list(CONTEXTS.values()))[:, None] * RHO_WEIGHTS
        self._covariance, self._excess = np.zeros((scores, scores)), np.zeros(scores)
        self._weights: Array = np.zeros((len(PRECISIONS), scores))
        self.blocks = self.tokens = 0
        self.log_e = self.largest = 0.0

    def add(self, requests: Array, first: Array, second: Array) -> float:
        """Bet on a block and learn from it; the logarithm of the wealth.

        requests: (m,) integers. first, second: (m, T), the tokens of the answers of either side, ENDED after their ends.
        """
        sides = [self._features(np.asarray(requests), np.asarray(side)) for side in (first, second)]
        scores = self._scores(sides[0]) - self._scores(sides[1])  # by what came before this block
        self._single += gain(scores)
        self._bet_together(np.clip(scores[:, TOGETHER], -3, 3).ravel())
        for side, features in enumerate(sides):
            np.add.at(self._outcomes[side], features.outcomes[:, features.there].ravel(), 1)
            np.add.at(self._contexts[side], features.contexts[:, features.there].ravel(), 1)
            for table, (context, outcome) in zip(self._shares, features.shares, strict=True):
                table.learn(context[features.there], outcome[features.there])
            self.tokens += int(features.there.sum())
        parts = [self._single + np.log(self._stakes), self._sum + np.log(STAKE_TOGETHER / len(PRECISIONS))]
        self.log_e = float(np.logaddexp.reduce(np.concatenate([part.ravel() for part in parts])))
        self.largest = max(self.largest, self.log_e)
        return self.log_e

    def charge(self) -> None:
        """Take from every bet what it loses at most: for a block of which an answer was lost, maybe by its tokens, maybe on one side."""
        self._single += gain(np.array(-FARTHEST))
        self._sum += gain(np.array(-FARTHEST))

    @property
    def strongest(self) -> str:
        """The kind of context, or the weighted sum, whose bets won most."""
        alone = dict(zip(CONTEXTS, np.logaddexp.reduce(self._single + np.log(RHO_WEIGHTS), axis=1), strict=True))
        alone["all together"] = np.logaddexp.reduce(self._sum) - np.log(len(PRECISIONS))
        return max(alone, key=lambda kind: alone[kind])

    def _features(self, requests: Array, x: Array) -> BlockFeatures:
        rows, length = x.shape
        none = np.zeros((rows, length), np.int64)
        place = np.broadcast_to(np.arange(length), (rows, length))
        before = np.empty((rows, length), np.uint64)
        before[:, 0] = mix(requests, 7)
        for t in range(1, length):
            before[:, t] = mix(before[:, t - 1], x[:, t - 1] + 1)
        last = np.concatenate([none[:, :1] - 2, x[:, :-1]], axis=1) + 5
        shares = tuple((cell(mix(c, i)), cell(mix(c, i, x + 1))) for i, c in ((11, before), (12, last)))
        alike = before[:, None] == before[None]
        equal = (alike & (x[:, None] == x[None])).sum(1) - 1
        counted = {
            "prefix": (before, x), "place": (mix(requests[:, None], place, 3), x), "last token": (last, x), "token": (none, x),
            "share after prefix": (none, self._shares[0].bins(*shares[0])),
            "share after last token": (none, self._shares[1].bins(*shares[1])),
            "repetition": (np.minimum(place, 8), _back(x)), "equal answers": (np.minimum(alike.sum(1) - 1, 8), equal),
        }  # fmt: skip
        contexts = np.stack([mix(counted[kind][0], 100 + i) for i, kind in enumerate(CONTEXTS)])
        outcomes = mix(contexts, np.stack([counted[kind][1] for kind in CONTEXTS]) + 3)
        return BlockFeatures(cell(contexts), cell(outcomes), x >= 0, shares)

    def _scores(self, features: BlockFeatures) -> Array:
        """Log-odds of the sides by the tokens of a whole block, less those of the contexts, which are no news: (L, J)."""
        rho = RHOS[:, None, None, None]
        (came, came_other), (seen, seen_other) = self._outcomes, self._contexts
        odds = (came[features.outcomes] + rho) * (seen_other[features.contexts] + rho)
        odds = odds / ((came_other[features.outcomes] + rho) * (seen[features.contexts] + rho))
        return (np.log(odds) * features.there).sum((2, 3)).T

    def _bet_together(self, scores: Array) -> None:
        """The weighted sum; its weights are one Newton step of a logistic regression of the sides on the past blocks' scores."""
        self._sum += gain(self._weights @ scores)
        self._covariance += np.outer(scores, scores) / 4
        self._excess += scores / 2
        self.blocks += 1
        if self.blocks < 32 or self.blocks % 16 == 0:
            prior = PRECISIONS[:, None, None] * np.eye(len(scores))
            self._weights = np.linalg.solve(self._covariance + prior, self._excess[:, None])[..., 0]


def _back(x: Array) -> Array:
    """Distance back to the same token in its answer: 1, 2, 3 for three to eight; 0 where it does not."""
    back = np.zeros(x.shape, np.int64)
    for distance in range(min(x.shape[1] - 1, 8), 0, -1):
        same = x[:, distance:] == x[:, :-distance]
        back[:, distance:] = np.where(same, min(distance, 3), back[:, distance:])
    return back


class Race:
    """Chooses the next request and the length of its answers: an arm, of which the one whose sides differ most a token is asked.

    The log-odds of a token's sides have a normal prior whose spread is one of SPREADS, with weights for all arms in common, by
    expectation maximisation. After n blocks about sqrt(n) arms were tried, so that gross faults are seen on few arms soon, and fine
    ones where they show. Any choice that depends on the past alone is fair.

    arms: a request's number and tokens an answer, in the order in which they are tried.
    """

    SPREADS = np.array([0.01, 0.03, 0.06, 0.12, 0.25, 0.6])
    EVERY = 4  # blocks of one arm before another is chosen

    def __init__(self, arms: Sequence[tuple[int, int]]) -> None:
        self._arms, self._tried, self._blocks, self._now = arms, 0, 0, 0
        self._seen: list[dict[tuple[int, ...], list[int]]] = [{} for _ in arms]
        self._tokens = np.zeros(len(arms))
        self._evidence = np.zeros((len(arms), len(self.SPREADS)))
        self._rate = np.zeros((len(arms), len(self.SPREADS)))  # nats a token

    def next(self) -> tuple[int, int]:
        """The arm to ask."""
        self._blocks += 1
        if self._tried < min(len(self._arms), self._blocks**0.5):
            self._tried += 1
            return self._arms[self._tried - 1]
        if self._blocks % self.EVERY == 0:
            evidence, weights = self._evidence[: self._tried], np.full(len(self.SPREADS), 1 / len(self.SPREADS))
            for _ in range(5):
                share = np.exp(evidence - evidence.max(1, keepdims=True)) * weights
                share /= share.sum(1, keepdims=True)
                weights = (share.sum(0) + 0.5) / (share.sum() + 0.5 * len(weights))
            self._now = int(np.argmax((share * self._rate[: self._tried]).sum(1)))
        return self._arms[self._now]

    def best(self) -> int:
        """The request that is asked most now."""
        return self._arms[self._now][0]

    def learn(self, arm: tuple[int, int], first: Array, second: Array) -> None:
        """Count the answers of a block to one arm."""
        at = self._arms.index(arm)
        seen = self._seen[at]
        for side, answers in enumerate((first, second)):
            for answer in answers.tolist():
                for t in range(sum(token >= 0 for token in answer)):
                    seen.setdefault(tuple(answer[: t + 1]), [0, 0])[side] += 1
            self._tokens[at] += int((answers >= 0).sum())
        counts = np.array(list(seen.values()), float).reshape(-1, 2)
        total = counts.sum(1, keepdims=True)
        odds, variance = 2 * (counts[:, :1] - counts[:, 1:]) / total, total / 4 * self.SPREADS**2
        self._evidence[at] = (-np.log1p(variance) / 2 + odds**2 * total / 8 * variance / (1 + variance)).sum(0)
        mean = odds * variance / (1 + variance)
        nats = (total * (mean**2 + self.SPREADS**2 / (1 + variance))).sum(0) / 8
        # Of answers that hardly ever begin alike little is learned.
        places = np.array([len(answer) - 1 for answer in seen], dtype=int)
        asked = np.bincount(places, total[:, 0])[places]
        alike = (total[:, 0] * (total[:, 0] - 1) / np.maximum(asked * (asked - 1), 1)).sum() / arm[1]
        self._rate[at] = nats / max(self._tokens[at], 1) * (alike + 1 / max(asked.max(initial=0), 1)) ** 0.5
