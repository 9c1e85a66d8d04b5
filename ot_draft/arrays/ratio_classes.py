"""Classes of tokens of nearly equal ratio p/q, found without a sort."""

from fractions import Fraction
from functools import cache
from math import log2
from typing import NamedTuple

import numpy as np

from ..dispatch import accelerated
from .kinds import floats

OFFSET = 2.0**-5  # classes are of equal width below this ratio, of equal relative width above it
LARGE = 1e30  # max. ratio


class ClassLayout(NamedTuple):
    """Layout of the classes: float32 bits of the first one, number of dropped fraction bits, number of classes."""

    first: int
    shift: int
    number: int


@cache
def layout(classes: int, k: int) -> ClassLayout:
    """A layout of about `classes` classes, for at most k draft tokens.

    Ratios in a class have the same leading bits of (ratio + OFFSET). Ratios >= k are in one class without loss: the distribution m of the
    selected token is at most k q, so that such tokens are always accepted.
    """
    octaves = log2((k + OFFSET) / OFFSET)
    shift = 23 - max(0, round(log2(classes / octaves)))  # of the 23 fraction bits of a float32
    first, last = (int(np.float32(x).view(np.int32)) >> shift for x in (OFFSET, k + OFFSET))
    return ClassLayout(first, shift, last - first + 1)


def edges(classes: ClassLayout) -> np.ndarray:
    """Edges (C + 1,) of the classes in float64: p/q of class c is in [edge c, edge c + 1], up to rounding."""
    bits = (classes.first + np.arange(classes.number)) << classes.shift
    lowest = bits.astype(np.int32).view(np.float32).astype(np.float64) - OFFSET
    lowest[0] = 0.0
    return np.append(lowest, np.inf)


def classify(p: np.ndarray, q: np.ndarray, classes: ClassLayout, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Write the class of each token of a row into `rank`. Return the masses of p and q by class, (C + 1,) each.

    p, q: (n,), rank: int (n,). Tokens with q = 0, which are never drafted, are in class C.
    """
    if p.dtype != object:
        return by_ratio(p, q, classes, OFFSET, 0, rank)
    first, shift, count = classes
    support = np.flatnonzero(q > 0)
    key = np.minimum(floats(p[support] / q[support]), LARGE).astype(np.float32) + np.float32(OFFSET)
    rank[:] = count
    rank[support] = np.minimum((key.view(np.int32) >> shift) - first, count - 1)
    masses = np.full((2, count + 1), Fraction(0), dtype=object)
    np.add.at(masses[0], rank, p)
    np.add.at(masses[1], rank, q)
    return masses[0], masses[1]


@accelerated("ratio_classes")
def by_ratio(
    p: np.ndarray, q: np.ndarray, classes: ClassLayout, offset: float, lowest: int, rank: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`classify` for floats, by the bits of p/q + offset, without a sort. Tokens with p = 0 are in class 0, others in `lowest` or above."""
    first, shift, count = classes
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        key = np.minimum(p / q, LARGE).astype(np.float32) + np.float32(offset)
    inner = np.where(p > 0, np.clip((key.view(np.int32) >> shift) - first, lowest, count - 1), 0)
    rank[:] = np.where(q > 0, inner, count)
    return np.bincount(rank, p, count + 1), np.bincount(rank, q, count + 1)
