"""What a model is to a path rule, and random Markov models with rational tables for exact work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Protocol

import numpy as np

from ..arrays import Array
from ..errors import InvalidDistribution

Path = tuple[int, ...]

WHOLES = (1, 2, 3, 7, 12, 60)  # masses are multiples of 1 / whole: 1 makes one-hot laws, 2 and 3 make zeros and ties
SPREADS = (0.3, 1.0, 10.0)  # of the Dirichlet law: a few heavy tokens, anything, nearly equal tokens


class Model(Protocol):
    """A target and a draft model over one vocabulary; the prefix is the tuple of the tokens before, () at the root."""

    def target(self, prefix: Path) -> Array:
        """Distribution p (n,) of the target's next token."""

    def draft(self, prefix: Path) -> Array:
        """Distribution q (n,) of the draft's next token."""


@dataclass(frozen=True)
class MarkovModel:
    """Next-token distributions that depend on the last `order` tokens.

    targets, drafts: (n,) for every context, a tuple of at most `order` tokens; the shorter ones stand at the beginning of
    the text.
    """

    targets: Mapping[Path, Array]
    drafts: Mapping[Path, Array]
    order: int

    def target(self, prefix: Path) -> Array:
        return self.targets[self._context(prefix)]

    def draft(self, prefix: Path) -> Array:
        return self.drafts[self._context(prefix)]

    def in_floats(self) -> MarkovModel:
        """The same model in float64."""
        targets, drafts = (
            {context: row.astype(np.float64) for context, row in table.items()} for table in (self.targets, self.drafts)
        )
        return MarkovModel(targets, drafts, self.order)

    @classmethod
    def random(cls, generator: np.random.Generator, n: int, order: int = 1) -> MarkovModel:
        """Tables of Fractions for a vocabulary of n tokens. Zeros, ties, one-hot laws and rows with p == q occur."""
        if n < 1 or order < 0:
            raise InvalidDistribution(f"n is {n}, order is {order}: a Markov model has n >= 1 tokens and an order >= 0")
        contexts = [context for length in range(order + 1) for context in product(range(n), repeat=length)]
        targets = {context: _random_row(generator, n) for context in contexts}
        drafts = {
            context: targets[context] if generator.integers(8) == 0 else _random_row(generator, n)
            for context in contexts
        }
        return cls(targets, drafts, order)

    def _context(self, prefix: Path) -> Path:
        return prefix[max(len(prefix) - self.order, 0) :]


def _random_row(generator: np.random.Generator, n: int) -> Array:
    whole = int(generator.choice(WHOLES))
    counts = generator.multinomial(whole, generator.dirichlet(np.full(n, generator.choice(SPREADS))))
    return np.array([Fraction(int(count), whole) for count in counts], dtype=object)
