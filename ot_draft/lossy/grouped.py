"""Groups of tokens of nearly equal p/q, without a sort on the host."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays.ratio_classes import ClassLayout, by_ratio
from ..dispatch import accelerated


@dataclass(frozen=True)
class RatioGroups:
    """Groups by the leading bits of p/q as float32: 2^8 per octave by default.

    Ratios below lowest_ratio or above highest_ratio are one group each: r clips them, at the floor, or at 1 and above.
    """

    dropped_bits: int = 15  # of the 23 fraction bits of a float32
    lowest_ratio: float = 2.0**-24
    highest_ratio: float = 2.0**24

    @property
    def width(self) -> float:
        """Largest p/q over the smallest in a group, less 1."""
        return 2.0 ** (self.dropped_bits - 23)

    @cached_property
    def number(self) -> int:
        """Number of groups."""
        return self._leading_bits(self.highest_ratio) - self._leading_bits(self.lowest_ratio) + 3

    def masses(self, p: np.ndarray, q: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Write the group of every token of one row, and return the masses of p and q: (n,), (n,), int (n,) -> (G,), (G,).

        Group 0 holds the tokens with p = 0, the last those with q = 0.
        """
        classes = ClassLayout(self._leading_bits(self.lowest_ratio) - 1, self.dropped_bits, self.number - 1)
        return by_ratio(p, q, classes, 0.0, 1, group)

    def _leading_bits(self, ratio: float) -> int:
        return int(np.float32(ratio).view(np.int32)) >> self.dropped_bits


@accelerated("envelope")
def mixture(p: np.ndarray, q: np.ndarray, group: np.ndarray, by_p: np.ndarray, by_q: np.ndarray, m: np.ndarray) -> None:
    """Writes m = by_p p + by_q q with the factors of every token's group, for one row."""
    m[:] = by_p[group] * p + by_q[group] * q
