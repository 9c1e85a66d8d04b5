"""Random problems in Fractions: zeros, ties and one-hot laws come up often, because masses are small whole counts."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft.laws import check_defined

Array = Any


LAWS = [
    otd.IID(),
    otd.WithoutReplacement(),
    *(otd.Hybrid(top) for top in (0, 1, 2, -1, "auto")),
    otd.SpecHubLaw(),
    otd.Fixed((0,)),
]
SIZES = [(1, 3), (2, 1), (2, 3), (2, 9), (3, 2), (3, 4), (3, 6), (4, 1), (4, 3), (5, 2), (5, 4), (10, 3), (31, 2)]
WHOLES = (1, 2, 3, 7, 12, 60, 1000)  # 1 makes one-hot laws, 2 and 3 make zeros and ties
SMALL_SIZES = [(n, k) for n, k in SIZES if n**k <= 64]


def fractions(counts: Any) -> Array:
    """Counts (..., n) divided by their sum, as Fractions."""
    counts = np.asarray(np.vectorize(Fraction, otypes=[object])(counts), dtype=object)
    return counts / counts.sum(-1, keepdims=True)


def random_masses(generator: np.random.Generator, n: int, whole: int = 0, shape: tuple[int, ...] = ()) -> Array:
    """Distributions (*shape, n) whose masses are multiples of 1 / whole; 0 takes some small whole."""
    whole = whole or int(generator.choice(WHOLES))
    shares = generator.dirichlet(np.full(n, generator.choice([0.3, 1.0, 10.0])), shape)
    return fractions(generator.multinomial(whole, shares))


def random_pair(generator: np.random.Generator, n: int) -> tuple[Array, Array]:
    """p and q; now and then q is p, or p in reverse, so that ratios repeat."""
    p = random_masses(generator, n)
    choice = int(generator.integers(8))
    q = p if choice == 0 else p[::-1].copy() if choice == 1 else random_masses(generator, n)
    return p, q


def random_problems(seed: int, n: int, k: int, law: otd.DraftLaw, number: int = 6) -> list[otd.Problem]:
    generator = np.random.default_rng([seed, n, k])
    return [otd.Problem(*random_pair(generator, n), k, law) for _ in range(number)]


def fits(law: otd.DraftLaw, k: int) -> bool:
    """Whether the law is defined for k drafts."""
    try:
        check_defined(law, k)
    except otd.InvalidDrafts:
        return False
    return True


def all_tuples(n: int, k: int) -> Array:
    """Every draft tuple, absent drafts (-1) included: int ((n + 1)^k, k)."""
    return np.array(list(product(range(-1, n), repeat=k)), dtype=np.int64).reshape((n + 1) ** k, k)


def all_token_sets(n: int) -> Array:
    """Every token set: bool (2^n, n)."""
    return np.array(list(product((False, True), repeat=n))).reshape(2**n, n)


class Everywhere:
    """The same two distributions after every prefix."""

    def __init__(self, p: Any, q: Any) -> None:
        self.p, self.q = p, q

    def target(self, prefix: tuple[int, ...]) -> Any:
        return self.p

    def draft(self, prefix: tuple[int, ...]) -> Any:
        return self.q
