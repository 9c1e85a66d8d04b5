"""Two-sample test of completions: bets on which side a response came from. No reported probability is used.

A block is the responses of both sides to one list of requests. The bettor does not see which responses are from which side. From past
blocks it learns a score S of a list of responses, and is paid e = 2 sigma(S(X) - S(Y)), sigma(z) = 1 / (1 + exp(-z)).

Lemma. Let F be everything seen before a block, X and Y the responses of the two sides in it. If (X, Y) and (Y, X) have the same
distribution given F, then e has mean 1 given F. Proof: with the sides exchanged it is e' = 2 sigma(S(Y) - S(X)); e + e' = 2, and both
have the same mean. So the product over blocks is a martingale, and so is a mean of such products with weights fixed beforehand. By
Ville's inequality it ever reaches 1 / level with probability at most level, for every stopping time.

Not assumed: independence within a block (responses of one batch may share random numbers: the bet is on all of them together), and
requests that are fixed beforehand (they may be chosen from the past). Assumed: both sides get the same requests in batches of the same
composition, the next responses of a side do not depend on its own past ones, and every block that was begun is counted.

For small differences a block earns about a quarter of the mean square of S(X) - S(Y): to first order as much as the likelihoods. It
never earns more than log 2, so that blocks are small at first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...arrays import Array

ENDED = -1  # instead of tokens after the end of a response
CONTEXTS = {  # counted pairs of a context and an outcome -> share of the stake
    "prefix": 0.25,  # the token after a request and all tokens of the response before it
    "place": 0.20,  # the token at a position of the responses to one request
    "last token": 0.10,  # the token after another, whatever the request
    "token": 0.05,  # the token alone
    "share after prefix": 0.10,  # how large a share the token had after this prefix so far, on both sides
    "share after last token": 0.10,  # the same after the token before it
    "repetition": 0.10,  # how far back the same token is
    "equal answers": 0.10,  # how many responses of a block have the same prefix, and how many of them the same token
}


@dataclass(frozen=True)
class SideBetting:
    """Settings of the bets on the sides of responses."""

    # counts that a score is shrunk by: standard deviations of log odds from 2 to 0.03
    shrinkages: tuple[float, ...] = (0.5, 2.0, 8.0, 32.0, 128.0, 512.0, 2048.0)
    shrinkage_weights: tuple[float, ...] = (0.05, 0.05, 0.1, 0.15, 0.2, 0.25, 0.2)
    combined_stake: float = 0.15  # share of the stake on the weighted sum of scores
    combined_shrinkages: tuple[int, ...] = (1, 3, 5)  # indices of the shrinkages whose scores are in that sum
    combined_precisions: tuple[float, ...] = (1.0, 8.0, 64.0)  # of the prior of its weights
    max_combined_score: float = 3.0
    table_cells: int = 1 << 20  # a power of two; two contexts in one cell reduce power, and cause no false alarms
    refit_always_until: int = 32  # blocks after which the weights of the sum are fitted for each block
    refit_every: int = 16  # blocks, afterwards


def mix(*keys: object) -> Array:
    """Return a hash of integer arrays, by the finalizer of SplitMix64."""
    made: Array = np.uint64(0)
    with np.errstate(over="ignore"):
        for key in keys:
            made = (made ^ np.asarray(key).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            made = (made ^ (made >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            made = made ^ (made >> np.uint64(32))
    return made


def stacked(keys: Sequence[Array]) -> Array:
    """Return integer arrays of one shape in one array: numpy would make floats of int64 and uint64."""
    return np.stack([key.astype(np.uint64) for key in keys])


def gain(score: Array | float, max_log_odds: float = 6.0) -> Array:
    """Return log(2 sigma(score)), the logarithm of the payout; -inf gives the largest loss."""
    return np.log(2) - np.logaddexp(0, -np.clip(score, -max_log_odds, max_log_odds))


class Shares:
    """Counts of tokens in contexts, on both sides together."""

    def __init__(self, cells: int) -> None:
        self.pairs, self.visits, self.most = (np.zeros(cells, np.float32) for _ in range(3))

    def bins(self, context: Array, outcome: Array) -> Array:
        """Bins of the token's share by powers of two, one for the most frequent token, times bins of the number of visits."""
        count, visits, most = self.pairs[outcome], self.visits[context], self.most[context]
        share = np.minimum(-np.log2((count + 0.5) / (visits + 1)), 9).astype(int)
        known = np.minimum(np.log2(visits + 1).astype(int) // 2, 4)
        return np.where(visits == 0, 99, np.where(count >= np.maximum(most, 1), 20, share) + 30 * known)

    def learn(self, context: Array, outcome: Array) -> None:
        """Count outcomes in contexts."""
        np.add.at(self.pairs, outcome, 1)
        np.add.at(self.visits, context, 1)
        np.maximum.at(self.most, context, self.pairs[outcome])


@dataclass(frozen=True)
class BlockFeatures:
    """One side of a block.

    contexts, outcomes: cells of the tables (L, m, T). present: whether there is a token (m, T). shares: cells of the tables of shares.
    """

    contexts: Array
    outcomes: Array
    present: Array
    shares: tuple[tuple[Array, Array], ...]


class SideBets:
    """Wealth of all bets, from 1: a mean over contexts, shrinkages and the weighted sum. Constant memory."""

    def __init__(self, settings: SideBetting | None = None) -> None:
        self._settings = settings = settings or SideBetting()
        kinds, scores = len(CONTEXTS), len(CONTEXTS) * len(settings.combined_shrinkages)
        self._outcomes, self._contexts = (np.zeros((2, settings.table_cells), np.float32) for _ in range(2))
        self._shares = (Shares(settings.table_cells), Shares(settings.table_cells))
        self._single = np.zeros((kinds, len(settings.shrinkages)))
        self._sum = np.zeros(len(settings.combined_precisions))
        shares = np.array(list(CONTEXTS.values()))[:, None]
        self._stakes = (1 - settings.combined_stake) * shares * np.array(settings.shrinkage_weights)
        self._covariance, self._excess = np.zeros((scores, scores)), np.zeros(scores)
        self._weights: Array = np.zeros((len(self._sum), scores))
        self.blocks = self.tokens = 0
        self.log_e = self.largest = 0.0

    def add(self, requests: Array, first: Array, second: Array) -> float:
        """Bet on a block and learn from it. Return the logarithm of the wealth.

        Parameters
        ----------
        requests : int array of shape (m,)
            Numbers of the requests.
        first, second : int array of shape (m, T)
            Tokens of the responses of each side, ENDED after their ends.
        """
        sides = [self._features(np.asarray(requests), np.asarray(side)) for side in (first, second)]
        scores = self._scores(sides[0]) - self._scores(sides[1])  # from the blocks before this one
        self._single += gain(scores)
        largest = self._settings.max_combined_score
        self._bet_on_sum(np.clip(scores[:, self._settings.combined_shrinkages], -largest, largest).ravel())
        for side, features in enumerate(sides):
            np.add.at(self._outcomes[side], features.outcomes[:, features.present].ravel(), 1)
            np.add.at(self._contexts[side], features.contexts[:, features.present].ravel(), 1)
            for table, (context, outcome) in zip(self._shares, features.shares, strict=True):
                table.learn(context[features.present], outcome[features.present])
            self.tokens += int(features.present.sum())
        share = self._settings.combined_stake / len(self._sum)
        parts = [self._single + np.log(self._stakes), self._sum + np.log(share)]
        self.log_e = float(np.logaddexp.reduce(np.concatenate([part.ravel() for part in parts])))
        self.largest = max(self.largest, self.log_e)
        return self.log_e

    def charge(self) -> None:
        """Reduce every bet by its largest loss: for a block with a lost response, possibly because of its tokens, possibly on one side."""
        self._single += gain(-np.inf)
        self._sum += gain(-np.inf)

    @property
    def strongest(self) -> str:
        """The kind of context with the largest wealth, or the weighted sum."""
        weights = np.log(self._settings.shrinkage_weights)
        alone = dict(zip(CONTEXTS, np.logaddexp.reduce(self._single + weights, axis=1), strict=True))
        alone["all together"] = np.logaddexp.reduce(self._sum) - np.log(len(self._sum))
        return max(alone, key=lambda kind: alone[kind])

    def _cell(self, keys: Array) -> Array:
        return (keys & np.uint64(self._settings.table_cells - 1)).astype(np.int64)

    def _features(self, requests: Array, x: Array) -> BlockFeatures:
        rows, length = x.shape
        none = np.zeros((rows, length), np.int64)
        position = np.broadcast_to(np.arange(length), (rows, length))
        before = np.empty((rows, length), np.uint64)
        before[:, 0] = mix(requests, 7)
        for t in range(1, length):
            before[:, t] = mix(before[:, t - 1], x[:, t - 1] + 1)
        last = np.concatenate([none[:, :1] - 2, x[:, :-1]], axis=1) + 5
        both, numbers = stacked([before, last]), np.array([11, 12])[:, None, None]
        cells = self._cell(mix(both, numbers)), self._cell(mix(both, numbers, x + 1))
        shares = tuple(zip(*cells, strict=True))
        alike = before[:, None] == before[None]
        equal = (alike & (x[:, None] == x[None])).sum(1) - 1
        counted = {
            "prefix": (before, x), "place": (mix(requests[:, None], position, 3), x), "last token": (last, x), "token": (none, x),
            "share after prefix": (none, self._shares[0].bins(*shares[0])),
            "share after last token": (none, self._shares[1].bins(*shares[1])),
            "repetition": (np.minimum(position, 8), _distance_back(x)), "equal answers": (np.minimum(alike.sum(1) - 1, 8), equal),
        }  # fmt: skip
        numbers = 100 + np.arange(len(CONTEXTS))[:, None, None]
        contexts = mix(stacked([counted[kind][0] for kind in CONTEXTS]), numbers)
        outcomes = mix(contexts, np.stack([counted[kind][1] for kind in CONTEXTS]) + 3)
        return BlockFeatures(self._cell(contexts), self._cell(outcomes), x >= 0, shares)

    def _scores(self, features: BlockFeatures) -> Array:
        """Log odds of the sides from the tokens of a block, minus those of the contexts, which carry no information: (L, J)."""
        rho = np.array(self._settings.shrinkages)[:, None, None, None]
        (came, came_other), (seen, seen_other) = self._outcomes, self._contexts
        odds = (came[features.outcomes] + rho) * (seen_other[features.contexts] + rho)
        odds = odds / ((came_other[features.outcomes] + rho) * (seen[features.contexts] + rho))
        return (np.log(odds) * features.present).sum((2, 3)).T

    def _bet_on_sum(self, scores: Array) -> None:
        """Bet on the weighted sum. Its weights are one Newton step of a logistic regression of the sides on past scores."""
        settings = self._settings
        self._sum += gain(self._weights @ scores)
        self._covariance += np.outer(scores, scores) / 4
        self._excess += scores / 2
        self.blocks += 1
        if self.blocks < settings.refit_always_until or self.blocks % settings.refit_every == 0:
            prior = np.array(settings.combined_precisions)[:, None, None] * np.eye(len(scores))
            self._weights = np.linalg.solve(self._covariance + prior, self._excess[:, None])[..., 0]


def _distance_back(x: Array) -> Array:
    """Distance to the previous occurrence of each token in its response: 1, 2, or 3 for three to eight; 0 if there is none."""
    back = np.zeros(x.shape, np.int64)
    for distance in range(min(x.shape[1] - 1, 8), 0, -1):
        same = x[:, distance:] == x[:, :-distance]
        back[:, distance:] = np.where(same, min(distance, 3), back[:, distance:])
    return back


class RequestChooser:
    """Chooses the prompt and the response length ("arm") with the largest expected evidence per token.

    The log odds of a token's sides have a normal prior with one of the standard deviations `spreads`; the weights of these are fitted for
    all arms by expectation maximisation. After n blocks about sqrt(n) arms were tried: large differences are found on few arms soon, small
    ones where they are largest. Every choice that depends on the past alone keeps the test valid.

    Parameters
    ----------
    arms : sequence of (int, int)
        Number of a prompt and tokens per response, in the order of trial.
    spreads : tuple of float
        Standard deviations of log odds.
    every : int, default=4
        Blocks of one arm before the next choice.
    """

    def __init__(
        self,
        arms: Sequence[tuple[int, int]],
        spreads: tuple[float, ...] = (0.01, 0.03, 0.06, 0.12, 0.25, 0.6),
        every: int = 4,
    ) -> None:
        self._arms, self._tried, self._blocks, self._now = arms, 0, 0, 0
        self._spreads, self._every = np.array(spreads), every
        self._seen: list[dict[tuple[int, ...], list[int]]] = [{} for _ in arms]
        self._tokens = np.zeros(len(arms))
        self._evidence = np.zeros((len(arms), len(spreads)))
        self._rate = np.zeros((len(arms), len(spreads)))  # nats per token

    def next(self) -> tuple[int, int]:
        """Return the arm to ask."""
        self._blocks += 1
        if self._tried < min(len(self._arms), self._blocks**0.5):
            self._tried += 1
            return self._arms[self._tried - 1]
        if self._blocks % self._every == 0:
            evidence, weights = self._evidence[: self._tried], np.full(len(self._spreads), 1 / len(self._spreads))
            for _ in range(5):
                share = np.exp(evidence - evidence.max(1, keepdims=True)) * weights
                share /= share.sum(1, keepdims=True)
                weights = (share.sum(0) + 0.5) / (share.sum() + 0.5 * len(weights))
            self._now = int(np.argmax((share * self._rate[: self._tried]).sum(1)))
        return self._arms[self._now]

    def best(self) -> int:
        """Return the prompt that is asked most now."""
        return self._arms[self._now][0]

    def learn(self, arm: tuple[int, int], first: Array, second: Array) -> None:
        """Count the responses of a block to one arm."""
        at = self._arms.index(arm)
        seen = self._seen[at]
        for side, answers in enumerate((first, second)):
            for answer in answers.tolist():
                for t in range(sum(token >= 0 for token in answer)):
                    seen.setdefault(tuple(answer[: t + 1]), [0, 0])[side] += 1
            self._tokens[at] += int((answers >= 0).sum())
        counts = np.array(list(seen.values()), float).reshape(-1, 2)
        total = counts.sum(1, keepdims=True)
        odds, variance = 2 * (counts[:, :1] - counts[:, 1:]) / total, total / 4 * self._spreads**2
        self._evidence[at] = (-np.log1p(variance) / 2 + odds**2 * total / 8 * variance / (1 + variance)).sum(0)
        mean = odds * variance / (1 + variance)
        nats = (total * (mean**2 + self._spreads**2 / (1 + variance))).sum(0) / 8
        # Little is learned from responses that hardly ever have the same beginning.
        positions = np.array([len(answer) - 1 for answer in seen], dtype=int)
        asked = np.bincount(positions, total[:, 0])[positions]
        alike = (total[:, 0] * (total[:, 0] - 1) / np.maximum(asked * (asked - 1), 1)).sum() / arm[1]
        self._rate[at] = nats / max(self._tokens[at], 1) * (alike + 1 / max(asked.max(initial=0), 1)) ** 0.5
