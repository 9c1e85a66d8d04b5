"""How far drafts are accepted: counted by source and depth, with forgetting, because texts change."""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

DECAY, SLOW_DECAY = 0.95, 0.995  # what a step leaves of the counts before it
PRIOR = 4.0  # drafts that what is expected beforehand weighs
COUNTED = 24.0  # the same, where it was counted for these models: their texts differ by a tenth or so in it
# Drafts that the long memory weighs against those of just now. The acceptance of a draft model changes less from place to place than
# twenty steps would have it, unless they are so many deviations off; that of tokens looked up goes from nothing to everything.
STEADY_MODEL, STEADY_LOOKUP, OFF = 24.0, 12.0, 1.5
OTHER_TEXTS = 4.0  # drafts that all texts before weigh when a new one begins
MODEL = 0.4  # of one draft of the model, before anything was seen
# Of a token looked up, by how many tokens before it stood as they stand here, those looked up and right among them: 1, 2, ..., and more.
# Counted along 80 texts of the embedded pair of four kinds, half of them at temperature 1 (.14, .41, .54, .55, .62, .68), half at .6
# (.19, .47, .68, .75, .79, .81).
MATCHED = 0.16, 0.43, 0.6, 0.64, 0.7, 0.74, 0.75
MOST = 0.95  # of a draft that the model is right about, whatever was seen
GROWS = 0.3  # with K drafts the chance to go on is 1 - (1 - a)^(K^GROWS), as on the pairs of the README
Key = tuple[str, int]  # ("model", number of paths) or ("lookup", tokens matched)
Expected = tuple[list[float], list[float]]  # tokens of a step with drafts of 0, 1, ...: on average, and the upper bound


class _Count:
    """Discounted numbers of accepted drafts and of all, short and long memory, as they were after step `at`."""

    def __init__(self) -> None:
        self.hits = self.tries = self.hits_long = self.tries_long = 0.0
        self.at = 0

    def bring(self, now: int) -> None:
        """Forget what the steps since then leave no trace of."""
        if now > self.at:
            short, long = DECAY ** (now - self.at), SLOW_DECAY ** (now - self.at)
            self.hits, self.tries = short * self.hits, short * self.tries
            self.hits_long, self.tries_long = long * self.hits_long, long * self.tries_long
            self.at = now

    def add(self, hit: float, tries: float) -> None:
        self.hits, self.tries = self.hits + hit, self.tries + tries
        self.hits_long, self.tries_long = self.hits_long + hit, self.tries_long + tries

    def mean(self, before: float, steady: float, prior: float = PRIOR) -> tuple[float, float]:
        """Chance of acceptance and its standard deviation. before: what was expected, with the weight of `prior` drafts."""
        long = (self.hits_long + prior * before) / (self.tries_long + prior)
        if (self.hits - self.tries * long) ** 2 > OFF**2 * self.tries * long * (1 - long):
            steady = PRIOR
        steady = min(steady, self.tries_long + prior)  # what is said of long ago is worth no more than what was seen
        weight = self.tries + steady
        mean = (self.hits + steady * long) / weight
        return mean, sqrt(mean * (1 - mean) / (weight + 1))


class _Others(NamedTuple):
    """So many paths, their counts, and what is expected of them beforehand weighs."""

    paths: int
    counts: list[_Count]
    prior: float

    def of_one(self, depth: int, reached: float, before: float, now: int) -> float:
        """The chance of one path that goes with theirs, given what was expected of it before."""
        power, count = _power(self.paths, reached), self.counts[depth]
        count.bring(now)
        return 1 - (1 - count.mean(1 - (1 - before) ** power, STEADY_MODEL, self.prior)[0]) ** (1 / power)


def _power(paths: int, reached: float) -> float:
    """k of 1 - (1 - a)^k, the chance that one of the paths goes on: of those that start, about this share gets here."""
    return float((1 + (paths - 1) * reached) ** GROWS)


def _of_matched(number: int) -> float:
    return MATCHED[min(number, len(MATCHED)) - 1]


def _odds(chance: float) -> float:
    return chance / max(1 - chance, 1 - MOST)


class AcceptanceCounts:
    """P(a draft at a depth is accepted | those above it were), by source. step: number of steps so far.

    of_path: what was counted of one path of the draft model before, by depth; empty where nothing was.
    """

    def __init__(self) -> None:
        self.step = 0
        self.of_path: tuple[float, ...] = ()
        self._counts: dict[Key, list[_Count]] = {}

    def learn(self, drafted: Sequence[tuple[Key, int, int]]) -> None:
        """One step. drafted: for each text the source, the length of its draft and how much of it was accepted."""
        self.step += 1
        share = 1 / max(len(drafted), 1)  # a batch counts as one text: what it holds is alike, or it is not
        for key, length, accepted in drafted:
            counts = self._known(key, length)
            for depth in range(min(accepted + 1, length)):
                counts[depth].bring(self.step)
                counts[depth].add(share * (depth < accepted), share)

    def begin(self, of_path: Sequence[float] = ()) -> None:
        """A new text: what was seen before counts for little."""
        self.of_path = tuple(of_path)
        for counts in self._counts.values():
            for count in counts:
                count.bring(self.step)
                much = min(1.0, OTHER_TEXTS / max(count.tries, 1e-9))
                count.hits, count.tries = much * count.hits, much * count.tries

    def expected(self, key: Key, length: int, width: float) -> Expected:
        """Expected tokens of drafts up to a length; `upper_bound`: so many standard deviations of acceptance more."""
        source, number = key
        counts, others = self._known(key, length), self._others(key, length)
        steady = STEADY_MODEL if source == "model" else STEADY_LOOKUP
        counted = self.of_path if source == "model" else ()
        prior = COUNTED if counted else PRIOR
        one = MODEL if source == "model" else _of_matched(number)
        one = counted[0] if counted else one
        means, upper_bound, reached, bound = [1.0], [1.0], 1.0, 1.0
        for depth, count in enumerate(counts[:length]):
            power = _power(number, reached) if source == "model" else 1.0
            if 0 < depth < len(counted) and counted[depth - 1]:  # as far from what was counted as the place above is
                one = min(one * counted[depth] / counted[depth - 1], MOST)
            if others is not None:
                one = others.of_one(depth, reached, one, self.step)
            count.bring(self.step)
            mean, spread = count.mean(1 - (1 - one) ** power, steady, prior)
            if others is None or count.tries >= others.counts[depth].tries:
                one = 1 - (1 - mean) ** (1 / power)
            reached, bound = reached * mean, bound * min(mean + width * spread, 1.0)
            means.append(means[-1] + reached)
            upper_bound.append(upper_bound[-1] + bound)
            if source != "model":  # where the looked-up tokens before were right, the next is likelier right than they
                odds = _odds(one) * _odds(_of_matched(number + depth + 1)) / _odds(_of_matched(number + depth))
                one = min(odds / (1 + odds), MOST)
        return means, upper_bound

    def _others(self, key: Key, length: int) -> _Others | None:
        """Counts of another number of paths of the model, the one that was tried most; None where there is none."""
        models = [other for other, counts in self._counts.items() if other[0] == "model" and other != key and counts]
        if key[0] != "model" or not models:
            return None
        most = max(models, key=lambda other: self._counts[other][0].tries_long)
        return _Others(most[1], self._known(most, length), COUNTED if self.of_path else PRIOR)

    def _known(self, key: Key, length: int) -> list[_Count]:
        counts = self._counts.setdefault(key, [])
        while len(counts) < length:
            counts.append(_Count())
        return counts
