"""Copied lines of a log: a log that holds every line twice shows dependent tokens, whatever the server did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import gcd, log, pi, sqrt

import numpy as np


@dataclass
class Copies:
    """Number of occurrences of each line of a log.

    max_lines: number of different lines that are counted at a time. Of longer logs, only lines whose hash is divisible by `step` are
    counted. false_alarm: bound on the probability that a log without copies is said to have some (Chernoff).
    """

    max_lines: int = 1 << 16
    false_alarm: float = 2.0**-32
    counts: Counter[int] = field(default_factory=Counter)
    step: int = 1

    def add(self, line: bytes) -> None:
        """Count one line."""
        number = hash(line)
        if number % self.step:
            return
        self.counts[number] += 1
        if len(self.counts) > self.max_lines:
            self.step *= 2
            self.counts = Counter({number: times for number, times in self.counts.items() if number % self.step == 0})

    def found(self) -> tuple[int, float] | None:
        """Return a number that divides more counts than it would by chance, and the share of these counts; None without copies.

        Without copies, counts of different lines are nearly independent and Poisson distributed. A number c divides such a count with
        probability at most 1/c, or the probability of the count c, whichever is larger.
        """
        counts = np.array(list(self.counts.values()))
        if not len(counts):
            return None
        best, evidence = None, -log(self.false_alarm)
        for times in {*range(2, 64), gcd(*counts.tolist())} - {1}:
            share, chance = float((counts % times == 0).mean()), max(1 / times, 1 / sqrt(2 * pi * times))
            if share > chance and (nats := len(counts) * _divergence(share, chance)) >= evidence:
                best, evidence = (times, share), nats
        return best

    def reason(self) -> str:
        """Return why a log with copies allows no verdict; "" for a log without copies."""
        if (found := self.found()) is None:
            return ""
        times, share = found
        return (
            f"{share:.0%} of the different lines occur {times} times or a multiple of it. Copies of a token are not independent of it. "
            "Keep one copy of each line. If every prompt was sent several times, name the request on each line"
        )


def _divergence(share: float, chance: float) -> float:
    """KL divergence of Bernoulli distributions, in nats."""
    return share * log(share / chance) + (0.0 if share == 1 else (1 - share) * log((1 - share) / (1 - chance)))
