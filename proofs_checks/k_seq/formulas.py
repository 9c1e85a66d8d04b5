"""Formulas of K-SEQ for the statements about it. Names are those of k_seq_valid.py."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, prod
from operator import lt
from typing import Any

import numpy as np

import ot_draft as otd

from ..random_cases import Case
from ..rational_functions import Less, drafts_of

SHORT, PLAIN = "h one term shorter", "residual norm(p - b)"


def covered(p: Any, q: Any, factor: Any) -> Fraction:
    """Return beta, the mass of min(q, p/factor)."""
    return sum((min(b, a / factor) for a, b in zip(p, q, strict=True)), Fraction(0))


def geometric(beta: Any, k: int) -> Any:
    """Return h = 1 + (1 - beta) + ... + (1 - beta)^{k-1}."""
    return sum((prod([1 - beta] * j) for j in range(1, k)), 0 * beta + 1)


def passed(case: Case, factor: Fraction) -> Fraction:
    """Return p_acc, the probability that a draft passes its test."""
    beta = covered(case.p, case.q, factor)
    return beta * geometric(beta, case.k)


def is_valid(case: Case, factor: Fraction) -> bool:
    """Return whether factor >= gamma*."""
    return bool(geometric(covered(case.p, case.q, factor), case.k) <= factor)


def least_ratio(case: Case) -> Fraction | float:
    """Return c, the least p/q among the tokens with p, q > 0."""
    return min((a / b for a, b in zip(case.p, case.q, strict=True) if a and b), default=inf)


def around_the_smallest(case: Case, unit: Fraction = Fraction(1, 64)) -> tuple[Fraction, Fraction]:
    """Return the two adjacent multiples of the unit that enclose gamma*; (1, 1) if gamma* = 1."""
    low, high = -(-1 // unit), case.k // unit + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_valid(case, middle * unit) else (middle + 1, high)
    return max(Fraction(1), (high - 1) * unit), max(Fraction(1), high * unit)


def output(p: Any, q: Any, k: int, less: Less = lt, s: Any = 1, *, error: str = "") -> list[Any] | None:
    """Return the output distribution of K-SEQ with factor 1/s by enumeration of all drafts, for masses of any number type."""
    take = [s * a / b if less(s * a, b) else 1 for a, b in zip(p, q, strict=True)]
    b = [mass * test for mass, test in zip(q, take, strict=True)]
    beta = sum(b[1:], b[0])
    h = geometric(beta, k - (error == SHORT)) if error != PLAIN else 1
    residual = [mass - own * h for mass, own in zip(p, b, strict=True)]
    whole = sum(residual[1:], residual[0])
    if not whole and less is not lt:
        return None  # no token held back, at gamma = 1: p = q only, which the other cases cover
    law = [0 * mass for mass in p]
    for drafts in drafts_of(len(p), k):
        left = prod(q[x] for x in drafts)
        for x in drafts:
            law[x] += left * take[x]
            left = left * (1 - take[x])
        if whole:
            law = [a + left * mass / whole for a, mass in zip(law, residual, strict=True)]
    return law


@dataclass(frozen=True)
class AsPublished(otd.SelectionRule):
    """K-SEQ with a fixed factor as published. The library's differs if it would be valid below gamma*: its h is at most gamma."""

    factor: Fraction
    law = otd.IID()

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        target, draft = p.reshape(-1), q.reshape(-1)
        b = np.minimum(draft, target / self.factor)
        left = np.maximum(target - b * geometric(b.sum(), drafts.shape[-1]), 0)
        take = b[drafts] / draft[drafts]
        refused = np.ones_like(take).cumprod(-1)
        refused[:, 1:] = (1 - take[:, :-1]).cumprod(-1)
        return otd.Selection(take * refused, left / left.sum() if left.sum() else target)


@dataclass(frozen=True)
class Solved(Case):
    """A problem whose gamma* is rational."""

    factor: Fraction


def draw_solved(seed: int) -> Solved:
    """Return a problem from beta, with gamma* = h(beta).

    Tokens held back with p <= gamma* q, one or two others with p >= gamma* q, so that sum b = beta.
    """
    generator = np.random.default_rng(seed)
    k, held, free = int(generator.integers(1, 5)), int(generator.integers(1, 4)), int(generator.integers(1, 3))

    def shares(number: int, whole: Fraction) -> list[Fraction]:
        counts = [int(count) for count in generator.integers(0, 6, number)]
        return [whole * Fraction(count, sum(counts)) if sum(counts) else whole / number for count in counts]

    d = Fraction(int(generator.integers(0, 11)), 12)
    beta = d + (1 - d) * Fraction(int(generator.integers(0, 9)), 8)
    factor = geometric(beta, k)
    q = shares(held, 1 - d), shares(free, d)
    missing = factor * (1 - beta)  # what the tokens held back lack to factor * q
    slack = shares(held, missing)
    if any(lack > factor * mass for lack, mass in zip(slack, q[0], strict=True)):
        slack = [missing * mass / (1 - d) for mass in q[0]]
    low = [factor * mass - lack for mass, lack in zip(q[0], slack, strict=True)]
    high = [factor * mass + more for mass, more in zip(q[1], shares(free, 1 - factor * beta), strict=True)]
    return Solved((*low, *high), (*q[0], *q[1]), k, seed, factor)
