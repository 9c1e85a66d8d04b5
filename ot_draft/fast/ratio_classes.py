"""Classes of tokens of nearly equal ratio p/q, and their masses, in one pass over the tokens."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from ..arrays.masses import BLOCK_TOKENS
from ..arrays.ratio_classes import LARGE, ClassLayout
from .loops import REORDERED, installed, loop


def by_ratio(
    p: np.ndarray, q: np.ndarray, classes: ClassLayout, offset: float, lowest: int, rank: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`arrays.ratio_classes.by_ratio`."""
    if not installed():
        return NotImplemented
    p_mass, q_mass = _by_ratio(p, q, np.float32(offset), *classes, lowest, rank)
    return p_mass, q_mass


@loop(REORDERED, "numpy")
def _by_ratio(p, q, offset, first, shift, count, lowest, rank):
    """`by_ratio` for one row, by block: classes with SIMD, then masses."""
    p_mass, q_mass, large = np.zeros(count + 1), np.zeros(count + 1), np.float32(LARGE)
    for start in range(0, len(p), BLOCK_TOKENS):
        p_in, q_in, own = (
            p[start : start + BLOCK_TOKENS],
            q[start : start + BLOCK_TOKENS],
            rank[start : start + BLOCK_TOKENS],
        )
        for y in range(len(own)):
            drawn = q_in[y] > 0
            key = min(np.float32(p_in[y] / (q_in[y] if drawn else large)), large) + offset
            c = min(max((np.float32(key).view(np.int32) >> shift) - first, lowest), count - 1)
            c = c if p_in[y] > 0 else 0
            own[y] = c if drawn else count
        for y in range(len(own)):
            c = np.uint64(own[y])  # unsigned: no check for negative indices
            p_mass[c] += p_in[y]
            q_mass[c] += q_in[y]
    return p_mass, q_mass
