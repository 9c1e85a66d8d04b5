"""With what arrays a rule was called: the largest sizes that occurred together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import prod
from operator import le
from typing import Any, cast

# n; tokens of positive mass in q; k; different tokens in one draft tuple; decades down to the smallest mass of p and q.
Size = tuple[int, int, int, int, int]


def _within(size: Size, other: Size) -> bool:
    """Whether a size is no larger in anything than one that was tried."""
    return all(map(le, size, other))


@dataclass
class Range:
    """With what arrays of one kind a rule was called: for every shape of a batch the largest sizes that occurred together.

    sizes: by the axes before the last that are longer than 1, as "8 x 8", "" for none; those that lie within no other. calls: all.
    """

    sizes: dict[str, list[Size]] = field(default_factory=dict)
    calls: int = 0

    def add(self, other: Range) -> Range:
        """Widen it by another one, and give it."""
        for shape, sizes in other.sizes.items():
            for size in (cast(Size, tuple(each)) for each in sizes):  # lists, where they were read from JSON
                here = self.sizes.setdefault(shape, [])
                if not any(_within(size, each) for each in here):
                    here[:] = sorted([size, *(each for each in here if not _within(each, size))])
        self.calls += other.calls
        return self

    def and_in(self, other: Range) -> Range:
        """The range within both."""
        found = Range(calls=self.calls + other.calls)
        for shape in self.sizes.keys() & other.sizes.keys():
            for one, two in product(self.sizes[shape], other.sizes[shape]):
                found.add(Range({shape: [tuple(map(min, one, two))]}))  # type: ignore[list-item]  # of five numbers
        return found

    def __str__(self) -> str:
        return "; ".join(self.parts())

    def parts(self) -> list[str]:
        """Ranges that were tried together: of single pairs, of the largest batches in one, two and three axes; and the number of calls."""
        alone = self.sizes.get("", [])
        told = dict.fromkeys(
            [max(alone, key=_extent), *(max(alone, key=partial(_by, i)) for i in (0, 2, 3, 4))] if alone else ()
        )
        parts = [" or ".join(map(_said, sorted(told, reverse=True)))] if told else []
        rows = {shape: prod(map(int, shape.split(" x "))) for shape in self.sizes if shape}
        most: dict[int, int] = {}
        for shape, number in rows.items():
            most[shape.count(" x ")] = max(number, most.get(shape.count(" x "), 0))
        alike: dict[Size, list[str]] = {}
        for shape in sorted(rows, key=lambda shape: (shape.count(" x "), shape)):
            if rows[shape] == most[shape.count(" x ")]:
                alike.setdefault(max(self.sizes[shape], key=_extent), []).append(shape)
        max_batch_parts = 2
        largest = sorted(alike, key=lambda size: -_extent(size))[:max_batch_parts]
        parts += [f"batches of {', '.join(alike[size])} with {_said(size)}" for size in largest]
        return [*parts, f"{self.calls:,} calls"]


def _by(axis: int, size: Size) -> Any:
    return size[axis], _extent(size)


def _extent(size: Size) -> int:
    """The extent of a size: the product of its numbers."""
    return prod((*size[:-1], 1 + size[-1]))


def _said(size: Size) -> str:
    n, held, k, different, decades = size
    masses = f", probabilities >= 1e-{decades}" if decades else ""
    return f"n <= {n} (q > 0: {held}), k <= {k} (distinct: {different}){masses}"
