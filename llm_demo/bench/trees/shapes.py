"""Best tree shape among those whose nodes of a level have equally many children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ot_draft as otd


def best_by_level(acceptance: Sequence[float], budget: int, length: int) -> otd.trees.TreeShape:
    """Return the shape of at most `budget` nodes with the most expected tokens, if all nodes of a level have equally many children."""
    shapes = [
        otd.trees.TreeShape.by_level(children) for children in _by_level(budget, length, min(len(acceptance), budget))
    ]
    return max(shapes, key=lambda shape: otd.trees.expected_accepted(shape, acceptance))


def _by_level(budget: int, length: int, widest: int, width: int = 1) -> Iterator[tuple[int, ...]]:
    """Yield non-increasing numbers of children by level, for at most `budget` nodes in total."""
    for children in range(1, widest + 1):
        nodes = width * children
        if nodes <= budget and length:
            yield (children,)
            for further in _by_level(budget - nodes, length - 1, children, nodes):
                yield (children, *further)
