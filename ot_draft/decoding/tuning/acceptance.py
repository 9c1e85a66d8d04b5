"""How far draft tokens are accepted: counted by source and depth, with forgetting, because sequences change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

Key = tuple[str, int]  # ("model", number of paths) or ("lookup", tokens matched)
Expected = tuple[
    list[float], list[float]
]  # tokens of a step with 0, 1, ... draft tokens: on average, and the upper bound


@dataclass
class _Count:
    """Discounted numbers of accepted draft tokens and of all, and the weight of what was expected beforehand, after step `at`."""

    trust: float
    at: int
    hits: float = 0.0
    tries: float = 0.0

    def keep(self, share: float, trust: float = 0.0) -> None:
        """Forget all but a share, and trust what was expected beforehand more or less."""
        self.hits, self.tries = share * self.hits, share * self.tries
        self.trust = trust + share * (self.trust - trust)

    def mean(self, before: float) -> tuple[float, float]:
        """Acceptance probability and its standard deviation. before: what was expected."""
        weight = self.tries + self.trust
        mean = (self.hits + self.trust * before) / weight
        return mean, sqrt(mean * (1 - mean) / (weight + 1))


@dataclass
class AcceptanceCounts:
    """P(the draft token at a depth is accepted | those above it were), by source.

    Parameters
    ----------
    of_path : tuple of float
        Acceptance of one path of the draft model by depth, as counted on other prompts; empty if it was not.
    decay, idle : float
        Share of the counts of a source that a step of it keeps, and a step of another source.
    prior, prior_counted : float
        Weight in draft tokens of what is expected beforehand, and of `of_path`.
    other_sequences : float
        Maximum weight in draft tokens of all sequences before, when a new one begins.
    model : float
        Acceptance of a token of the draft model before anything is known.
    matched : tuple of float
        Acceptance of a looked-up token, by the number of tokens before it that matched, those looked up among them: 1, 2, ... and more.
        Counted along 80 texts of the bundled pair.
    largest : float
        Largest expected acceptance.
    growth : float
        With K paths the probability to go on is 1 - (1 - a)^(K^growth).
    """

    of_path: tuple[float, ...] = ()
    decay: float = 0.95
    idle: float = 0.995
    prior: float = 4.0
    prior_counted: float = 24.0
    other_sequences: float = 4.0
    model: float = 0.4
    matched: tuple[float, ...] = (0.16, 0.43, 0.6, 0.64, 0.7, 0.74, 0.75)
    largest: float = 0.95
    growth: float = 0.3
    step: int = 0  # number of steps so far
    _counts: dict[Key, list[_Count]] = field(default_factory=dict)

    def begin(self, of_path: Sequence[float] = ()) -> None:
        """Begin new sequences: what was seen before counts for little."""
        self.of_path = tuple(of_path)
        for key in self._counts:
            for count in self._known(key):
                count.keep(min(1.0, self.other_sequences / max(count.tries, 1e-9)))
                count.trust = self._prior(key)

    def learn(self, drafted: Sequence[tuple[Key, int, int]]) -> None:
        """Take in a step. drafted: for each sequence the source, the length of its draft and how much of it was accepted."""
        share = 1 / max(len(drafted), 1)  # a batch counts as one sequence
        known = [self._known(key, length)[: min(accepted + 1, length)] for key, length, accepted in drafted]
        self.step += 1
        for (_, _, accepted), counts in zip(drafted, known, strict=True):
            for depth, count in enumerate(counts):
                if count.at < self.step:
                    count.keep(self.decay)
                    count.at = self.step
                count.hits += share * (depth < accepted)
                count.tries += share

    def expected(self, key: Key, length: int, width: float) -> Expected:
        """Expected tokens with drafts of up to a length; the upper bound is by `width` standard deviations of acceptance more."""
        looked_up, number = key[0] == "lookup", key[1]
        counted = () if looked_up else self.of_path
        one = self._of_matched(number) if looked_up else counted[0] if counted else self.model  # acceptance of one path
        means, upper_bounds, reached, bound = [1.0], [1.0], 1.0, 1.0
        for depth, (own, others) in enumerate(self._own_and_others(key, length)):
            if 0 < depth < len(counted) and counted[depth - 1]:
                one = min(one * counted[depth] / counted[depth - 1], self.largest)
            if others is not None:  # another number of paths was tried more
                paths, count = others
                one = self._of_one(count.mean(self._of_paths(one, paths, reached))[0], paths, reached)
            paths = 1 if looked_up else number
            mean, deviation = own.mean(self._of_paths(one, paths, reached))
            if others is None or own.tries >= others[1].tries:
                one = self._of_one(mean, paths, reached)
            reached, bound = reached * mean, bound * min(mean + width * deviation, 1.0)
            means.append(means[-1] + reached)
            upper_bounds.append(upper_bounds[-1] + bound)
            if looked_up:  # the more tokens matched, the likelier the next one
                one = self._with_odds(one, number + depth)
        return means, upper_bounds

    def _of_paths(self, one: float, paths: int, reached: float) -> float:
        """Probability that one of the paths goes on, by that of one path: of those that start, about this share gets here."""
        return 1 - (1 - one) ** ((1 + (paths - 1) * reached) ** self.growth)

    def _of_one(self, mean: float, paths: int, reached: float) -> float:
        return 1 - (1 - mean) ** (1 / (1 + (paths - 1) * reached) ** self.growth)

    def _of_matched(self, number: int) -> float:
        return self.matched[min(number, len(self.matched)) - 1]

    def _with_odds(self, one: float, number: int) -> float:
        """Acceptance after one more token matched than this number: its odds grow as those of `matched` do."""
        odds = [
            chance / max(1 - chance, 1 - self.largest) for chance in (one, *map(self._of_matched, (number, number + 1)))
        ]
        grown = odds[0] * odds[2] / odds[1]
        return min(grown / (1 + grown), self.largest)

    def _own_and_others(self, key: Key, length: int) -> list[tuple[_Count, tuple[int, _Count] | None]]:
        """Counts by depth, and those of the number of paths of the model that was tried most, if that is another one."""
        own = self._known(key, length)[:length]
        models = [
            other for other, counts in self._counts.items() if counts and other[0] == key[0] == "model" and other != key
        ]
        if not models:
            return [(count, None) for count in own]
        most = max(models, key=lambda other: self._counts[other][0].tries)
        return [(count, (most[1], other)) for count, other in zip(own, self._known(most, length), strict=False)]

    def _known(self, key: Key, length: int = 0) -> list[_Count]:
        """Counts by depth, as they are now: at least `length`."""
        counts, prior = self._counts.setdefault(key, []), self._prior(key)
        counts += [_Count(prior, self.step) for _ in range(length - len(counts))]
        for count in counts:
            count.keep(self.idle ** (self.step - count.at), prior)
            count.at = self.step
        return counts

    def _prior(self, key: Key) -> float:
        return self.prior_counted if self.of_path and key[0] == "model" else self.prior
