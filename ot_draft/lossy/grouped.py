"""Groups of tokens of nearly equal p/q, without a sort on the host."""

import numpy as np

from ..arrays.ratio_classes import ClassLayout, by_ratio
from ..dispatch import accelerated

SHIFT = 15  # bits of a float32's fraction that are dropped: 2^8 groups an octave of p/q
WIDTH = 2.0 ** (SHIFT - 23)  # largest p/q over the smallest in a group, less 1
LOWEST_RATIO, HIGHEST_RATIO = (
    2.0**-24,
    2.0**24,
)  # ratios beyond are one group each: r clips them, at 1 and above, and at the floor
FIRST = int(np.float32(LOWEST_RATIO).view(np.int32)) >> SHIFT
GROUPS = (int(np.float32(HIGHEST_RATIO).view(np.int32)) >> SHIFT) - FIRST + 3


def groups_of(p: np.ndarray, q: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Writes the group of every token of one row, and returns the masses of p and q in every group: (n,), (n,), int (n,) -> (G,), (G,).

    Group 0 holds the tokens with p = 0, the last those with q = 0.
    """
    return by_ratio(p, q, ClassLayout(FIRST - 1, SHIFT, GROUPS - 1), 0.0, 1, group)


@accelerated("envelope")
def mixture(p: np.ndarray, q: np.ndarray, group: np.ndarray, by_p: np.ndarray, by_q: np.ndarray, m: np.ndarray) -> None:
    """Writes m = by_p p + by_q q with the factors of every token's group, for one row."""
    m[:] = by_p[group] * p + by_q[group] * q
