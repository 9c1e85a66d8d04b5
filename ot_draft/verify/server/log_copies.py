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
    counted. false_alarm: bound on the probability that a log without copies is said to have some (Chernoff). names: hashes of the names
    that lines have, such as the id of a response.
    """

    max_lines: int = 1 << 16
    false_alarm: float = 2.0**-32
    counts: Counter[int] = field(default_factory=Counter)
    step: int = 1
    names: dict[int, int] = field(default_factory=dict)  # by the hash of the line

    def add(self, line: bytes, name: object = None) -> None:
        """Count one line, and its name if it has one."""
        number = hash(line)
        if number % self.step:
            return
        self.counts[number] += 1
        if name is not None:
            self.names[number] = hash(str(name))
        if len(self.counts) > self.max_lines:
            self.step *= 2
            self.counts = Counter({number: times for number, times in self.counts.items() if number % self.step == 0})
            self.names = {number: name for number, name in self.names.items() if number % self.step == 0}

    def named_copies(self) -> int:
        """Return the number of lines that occur again although all different lines have different names."""
        unique = len(self.names) == len(self.counts) == len(set(self.names.values()))
        return sum(times > 1 for times in self.counts.values()) if unique else 0

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
        if copied := self.named_copies():
            return f"{copied:,} lines occur again with the same id. Copies of a token are not independent of it. Keep one copy of each line"
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
