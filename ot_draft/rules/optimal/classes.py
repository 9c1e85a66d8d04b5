"""Classes of tokens of nearly equal ratio p/q, found without a sort; and which draft is selected at the levels between them."""

from fractions import Fraction
from functools import cache
from math import log2
from typing import NamedTuple

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ..compiled import REORDERED, compiled

OFFSET = 2.0**-5  # classes are of equal width below this ratio, of equal relative width above it
LARGE = 1e30  # ratios are cut here, so that all are finite
CLASSES = 256  # on an accelerator, where the caller leaves the number open
KERNEL_CLASSES = 512  # classes that the GPU's kernels take at most: their work grows with the square
STEPS = 8  # of Newton's method for the levels
MANTISSA = 23  # bits of a float32's fraction


class ClassLayout(NamedTuple):
    """Places of the classes: the first as float32 bits, the number of fraction bits dropped, the number of classes."""

    first: int
    shift: int
    number: int


@cache
def layout(classes: int, k: int) -> ClassLayout:
    """About so many classes, for at most k drafts.

    A class is what (ratio + OFFSET) shares in its leading bits. All ratios from k on are one class at no loss: the selected
    law m is at most k q, so such tokens are always taken.
    """
    octaves = log2((k + OFFSET) / OFFSET)
    shift = MANTISSA - max(0, round(log2(classes / octaves)))
    first, last = (int(np.float32(x).view(np.int32)) >> shift for x in (OFFSET, k + OFFSET))
    return ClassLayout(first, shift, last - first + 1)


def classify(p: np.ndarray, q: np.ndarray, classes: ClassLayout, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Writes the class of every token of a row into rank, and returns the masses p and q of every class: (C + 1,) each.

    p, q: (n,), rank: int (n,). Tokens with q = 0, which are never drafted, are a class behind the others.
    """
    if p.dtype != object:
        return by_ratio(p, q, classes, OFFSET, 0, rank)
    first, shift, count = classes
    support = np.flatnonzero(q > 0)
    key = np.minimum((p[support] / q[support]).astype(np.float64), LARGE).astype(np.float32) + np.float32(OFFSET)
    rank[:] = count
    rank[support] = np.minimum((key.view(np.int32) >> shift) - first, count - 1)
    masses = np.full((2, count + 1), Fraction(0), dtype=object)
    np.add.at(masses[0], rank, p)
    np.add.at(masses[1], rank, q)
    return masses[0], masses[1]


def by_ratio(
    p: np.ndarray, q: np.ndarray, classes: ClassLayout, offset: float, lowest: int, rank: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`classify` of floats, without a sort, by the bits of p/q + offset; p = 0 is class 0, the others begin with the lowest."""
    ways = compiled(_by_ratio, REORDERED, "numpy") or _by_ratio_without_numba
    p_mass, q_mass = ways(p, q, np.float32(offset), *classes, lowest, rank)
    return p_mass, q_mass


def _by_ratio(p, q, offset, first, shift, count, lowest, rank):  # type: ignore[no-untyped-def]  # numba compiles this very function
    p_mass, q_mass, large = np.zeros(count + 1), np.zeros(count + 1), np.float32(LARGE)
    for y in range(len(p)):
        if q[y] > 0:
            key = min(np.float32(p[y] / q[y]), large) + offset
            c = min(max((np.float32(key).view(np.int32) >> shift) - first, lowest), count - 1)
            c = c if p[y] > 0 else 0
        else:
            c = count
        rank[y] = c
        p_mass[np.uint64(c)] += p[y]  # without a sign there is nothing to be counted from the end
        q_mass[np.uint64(c)] += q[y]
    return p_mass, q_mass


def _by_ratio_without_numba(p, q, offset, first, shift, count, lowest, rank):  # type: ignore[no-untyped-def]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        key = np.minimum(p / q, LARGE).astype(np.float32) + offset
    inner = np.where(p > 0, np.clip((key.view(np.int32) >> shift) - first, lowest, count - 1), 0)
    rank[:] = np.where(q > 0, inner, count)
    return np.bincount(rank, p, count + 1), np.bincount(rank, q, count + 1)


def choose(level: Array, rank: Array, drafts: Array) -> Array:
    """Probability (..., k) that each draft is selected: level (..., C), class of every token int (..., n), drafts (..., k)."""
    return xp.from_view(
        at_levels(xp.host_view(level), xp.host_view(xp.gather(rank, drafts)), xp.host_view(drafts >= 0)), level
    )


def at_levels(level: Array, rank: Array, present: Array) -> Array:
    """At level lambda the classes form intervals, cut where level > lambda: the highest that holds a draft wins, its first draft.

    level: (..., C) of the boundary above each class; rank: int (..., k) class of each draft.
    """
    if not rank.shape[-1]:
        return level[..., :0]
    highest = xp.max(xp.where(present, rank, -1), axis=-1, keepdims=True)
    cuts = xp.where(xp.arange(level.shape[-1], like=rank) < highest, level, 0)
    cut = xp.where(present, xp.gather(xp.suffix_maximum(cuts), rank), 1)
    left = xp.prefix_minimum(cut)
    before = xp.concat((1 + 0 * left[..., :1], left[..., :-1]), axis=-1)
    return before - left
