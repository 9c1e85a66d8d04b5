"""The best shape with equally many children at every node of a level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ot_draft as otd


def best_by_level(acceptance: Sequence[float], budget: int, length: int) -> otd.trees.TreeShape:
    """The tree of at most `budget` nodes with equally many children at each level that has most expected tokens."""
    shapes = [
        otd.trees.TreeShape.by_level(children) for children in _by_level(budget, length, min(len(acceptance), budget))
    ]
    return max(shapes, key=lambda shape: otd.trees.expected_accepted(shape, acceptance))


def _by_level(budget: int, length: int, widest: int, width: int = 1) -> Iterator[tuple[int, ...]]:
    """Numbers of children by level that do not increase, with at most `budget` nodes."""
    for children in range(1, widest + 1):
        nodes = width * children
        if nodes <= budget and length:
            yield (children,)
            for further in _by_level(budget - nodes, length - 1, children, nodes):
                yield (children, *further)
