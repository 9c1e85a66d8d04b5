"""Optimal selection: kernels for the selection, and the residual by classes in one pass over the tokens."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..arrays.masses import BLOCK_TOKENS, MIN_INVERTIBLE
from ..rules.optimal.classes import CLASSES
from ..selection import Selection
from .kernels import wanted
from .loops import REORDERED, installed, loop


def _kernels_take(p: Array, drafts: Array, classes: int | None, max_classes: int = 512) -> bool:
    """Whether the kernels support these arrays and number of classes, in which their work is quadratic."""
    return (classes or CLASSES) <= max_classes and wanted(p, drafts)


def selection(p: Array, q: Array, drafts: Array, classes: int | None) -> Selection:
    """`rules.optimal.rule.selection`, by Triton kernels."""
    if not _kernels_take(p, drafts, classes):
        return NotImplemented
    from .kernels import optimal

    return optimal.selection(p, q, drafts, classes)


def selection_probabilities(p: Array, q: Array, drafts: Array, classes: int | None = None) -> tuple[Array, Array]:
    """`rules.optimal.rule.selection_probabilities`, by Triton kernels."""
    if not _kernels_take(p, drafts, classes):
        return NotImplemented
    from .kernels import optimal

    return optimal.selection_probabilities(p, q, drafts, classes)


def residual_by_classes(p, q, rank, by_p, by_q, slope, left):
    """`rules.optimal.host._residual_by_classes`."""
    return NotImplemented if xp.is_exact(p) or not installed() else _left(p, q, rank, by_p, by_q, slope, left)


@loop(REORDERED)
def _left(p, q, rank, by_p, by_q, slope, left):
    """Write norm((r - m)+) for one row, or r if that is 0; by block, as `xp.residual`."""
    below, alone, total = by_q - slope, (by_p == 1).all(), 0.0
    of_p = np.ones(BLOCK_TOKENS, p.dtype)
    for start in range(0, len(p), BLOCK_TOKENS):
        p_in, q_in, own = (
            p[start : start + BLOCK_TOKENS],
            q[start : start + BLOCK_TOKENS],
            rank[start : start + BLOCK_TOKENS],
        )
        into, part = left[start : start + BLOCK_TOKENS], slope[0] - slope[0]
        for y in range(len(own)):
            into[y] = below[np.uint64(own[y])]  # unsigned: no check for negative indices
        if not alone:
            for y in range(len(own)):
                of_p[y] = by_p[np.uint64(own[y])]
        for y in range(len(own)):
            into[y] = max(of_p[y] * p_in[y] + into[y] * q_in[y], slope[0] - slope[0])
            part += into[y]
        total += part
    if total > MIN_INVERTIBLE:
        share = p.dtype.type(1 / total)
        for y in range(len(p)):
            left[y] *= share
        return
    for y in range(len(p)):
        left[y] = left[y] / total if total > 0 else by_p[rank[y]] * p[y] + by_q[rank[y]] * q[y]
