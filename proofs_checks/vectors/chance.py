"""Sources of random numbers: those of a vector, a generator, or all outcomes, which gives the exact output distribution.

A rule has three operations, each with the index of the uniform number or noise row that it uses: `below`, `cumulative`, `race`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from math import exp, prod
from typing import Any, Protocol

Law = dict[tuple[int, ...], Fraction]
Row = Sequence[Any]
ZERO, ONE = Fraction(0), Fraction(1)


class Chance(Protocol):
    """Operations on random numbers. Operations with the same index share their random number."""

    def below(self, number: int, part: Any, whole: Any, closed: bool) -> bool:
        """Whether u whole < part, or, if closed, u whole <= part with part > 0: probability 0 is never accepted."""

    def cumulative(self, number: int, weights: Row) -> int:
        """The first token at which the running sum of the weights is above u times their sum."""

    def race(self, number: int, weights: Row) -> int:
        """The token with the largest weight / E, or the largest log weight + G: exponential or Gumbel noise."""


class Recorded:
    """The uniform numbers and noise rows of a vector.

    margin: smallest relative distance of a decision from its boundary, without decisions by a uniform number equal to `edge`.
    """

    def __init__(self, uniforms: Any, noise: Sequence[Row] = (), gumbel: bool = False, edge: Any = None) -> None:
        self.uniforms, self.noise, self.gumbel, self.edge = uniforms, noise, gumbel, edge
        self.margin = 1.0

    def below(self, number: int, part: Any, whole: Any, closed: bool) -> bool:
        """See Chance."""
        reached = self.uniforms[number] * whole
        self._near(abs(reached - part) / max(reached, part) if part > 0 else 1, self.uniforms[number])
        return part > 0 and (reached <= part if closed else reached < part)

    def cumulative(self, number: int, weights: Row) -> int:
        """See Chance. At u = 1, the last token of positive weight."""
        sums = list(accumulate(weights))
        reached = self.uniforms[number] * sums[-1]
        ends = [end for end, weight in zip(sums, weights, strict=True) if weight > 0]
        nearest = min(abs(end - reached) for end in [0 * reached, *ends])
        self._near(nearest / sums[-1] if sums[-1] > 0 else 0, self.uniforms[number])
        held = [token for token, weight in enumerate(weights) if weight > 0]
        return next((token for token in held if sums[token] > reached), held[-1] if held else len(sums) - 1)

    def race(self, number: int, weights: Row) -> int:
        """See Chance. Equal scores: the first token."""
        noise = self.noise[number]
        if self.gumbel:
            scores = [w * exp(g) if w > 0 else 0.0 for w, g in zip(weights, noise, strict=True)]
        else:
            scores = [w / e if w > 0 else 0.0 for w, e in zip(weights, noise, strict=True)]
        best = max(range(len(scores)), key=scores.__getitem__)
        second = max((score for token, score in enumerate(scores) if token != best), default=0.0)
        self._near(1 - second / scores[best] if scores[best] > 0 else 0, None)
        return best

    def _near(self, margin: Any, uniform: Any) -> None:
        if uniform is None or uniform != self.edge:
            self.margin = min(self.margin, float(margin))


class Generated(Recorded):
    """Numbers of a generator, drawn at first use."""

    def __init__(self, generator: random.Random) -> None:
        super().__init__(Drawn(generator.random), ())
        self.generator = generator
        self.races: dict[int, list[float]] = {}

    def race(self, number: int, weights: Row) -> int:
        """See Chance."""
        if number not in self.races:
            self.races[number] = [self.generator.expovariate(1.0) for _ in weights]
        scores = [weight / e if weight > 0 else 0.0 for weight, e in zip(weights, self.races[number], strict=True)]
        return max(range(len(scores)), key=scores.__getitem__)


class Drawn(dict[int, float]):
    """Uniform numbers by index."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self.draw = draw

    def __missing__(self, number: int) -> float:
        self[number] = self.draw()
        return self[number]


class Branch:
    """One outcome of the random numbers: the first decisions are prescribed, later ones take their first option."""

    def __init__(self, prescribed: Sequence[int]) -> None:
        self.prescribed = prescribed
        self.taken: list[int] = []
        self.open: list[list[int]] = []
        self.factors: list[Fraction] = []
        self.spans: dict[
            int, tuple[Fraction, Fraction]
        ] = {}  # interval of each uniform number, by the decisions so far
        self.races: dict[int, tuple[Row, int]] = {}  # weights and winner of a row's first race

    def below(self, number: int, part: Any, whole: Any, closed: bool) -> bool:
        """See Chance."""
        low, high = self.spans.get(number, (ZERO, ONE))
        cut = min(high, max(low, Fraction(part) / whole)) if whole else (high if part > 0 else low)
        taken = self._choose(((cut - low) / (high - low), (high - cut) / (high - low))) == 0
        self.spans[number] = (low, cut) if taken else (cut, high)
        return taken

    def cumulative(self, number: int, weights: Row) -> int:
        """See Chance."""
        low, high = self.spans.get(number, (ZERO, ONE))
        whole = sum(weights)
        ends = [Fraction(end) / whole for end in accumulate(weights)]
        cells = [(max(low, a), min(high, b)) for a, b in zip([ZERO, *ends[:-1]], ends, strict=True)]
        token = self._choose([max(ZERO, b - a) / (high - low) for a, b in cells])
        self.spans[number] = cells[token]
        return token

    def race(self, number: int, weights: Row) -> int:
        """See Chance. A row's second race is conditional on the first; a third race is not supported."""
        if number not in self.races:
            token = self._choose([Fraction(weight) / sum(weights) for weight in weights])
            self.races[number] = (weights, token)
            return token
        before, winner = self.races[number]
        return self._choose(second_race(normalised(before), normalised(weights), winner))

    def _choose(self, masses: Row) -> int:
        options = [option for option, mass in enumerate(masses) if mass]
        step = len(self.taken)
        option = self.prescribed[step] if step < len(self.prescribed) else options[0]
        self.taken.append(option)
        self.open.append([other for other in options if other > option])
        self.factors.append(masses[option])
        return option


def law_of(program: Callable[[Any], Sequence[int]]) -> Law:
    """The exact distribution of program(chance)."""
    law: Law = {}
    for outcome, mass in _branches(program):
        law[outcome] = law.get(outcome, ZERO) + mass
    return dict(sorted(law.items()))


def _branches(program: Callable[[Any], Sequence[int]]) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    waiting: list[list[int]] = [[]]
    while waiting:
        branch = Branch(waiting.pop())
        outcome = tuple(program(branch))
        for step in range(len(branch.prescribed), len(branch.taken)):
            waiting += [[*branch.taken[:step], other] for other in branch.open[step]]
        yield outcome, prod(branch.factors, start=ONE)


def normalised(weights: Row) -> tuple[Fraction, ...]:
    """The weights divided by their sum."""
    whole = sum(weights)
    return tuple(Fraction(weight) / whole for weight in weights)


def second_race(q: Row, r: Row, winner: int) -> list[Fraction]:
    """Distribution of argmin E/r given the winner argmin E/q, for one row of exponentials E; q, r: distributions.

    With E_x = t q_x and E_y = s r_y for the two winners x and y, z = s/t runs through [q_y/r_y, q_x/r_x]; what remains after t
    is the integral of q_x r_y / D(z)^2 with D(z) = sum of max(q_i, z r_i), which is linear between the points z = q_i/r_i.
    """
    x, law = winner, []
    for y, mass in enumerate(r):
        total = ZERO
        if y != x and mass and q[x]:
            low, high = q[y] / mass, (q[x] / r[x] if r[x] else None)
            if high is None or low < high:
                cuts = sorted({a / b for a, b in zip(q, r, strict=True) if b and a / b > low})
                inner = [cut for cut in cuts if high is None or cut < high]
                for start, end in zip([low, *inner], [*inner, high], strict=True):
                    total += q[x] * mass * _piece(q, r, start, end)
        law.append(total / q[x])
    law[x] = 1 - sum(law)
    return law


def _piece(q: Row, r: Row, start: Fraction, end: Fraction | None) -> Fraction:
    """The integral of 1 / (a + b z)^2 from start to end (None: infinity), where each max(q_i, z r_i) keeps its larger side."""
    rising = [bool(b) and a / b <= start for a, b in zip(q, r, strict=True)]
    a = sum((mass for mass, up in zip(q, rising, strict=True) if not up), ZERO)
    b = sum((mass for mass, up in zip(r, rising, strict=True) if up), ZERO)
    return (1 / (a + b * start) - (1 / (a + b * end) if end is not None else ZERO)) / b
