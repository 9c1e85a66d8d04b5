"""Groups of tokens of nearly equal p/q, without a sort on the host."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays.ratio_classes import ClassLayout, by_ratio
from ..dispatch import accelerated


@dataclass(frozen=True)
class RatioGroups:
    """Groups by the leading bits of p/q in float32: by default 2^8 groups per factor 2.

    Ratios below lowest_ratio and above highest_ratio are in one group each.
    """

    dropped_bits: int = 15  # of the 23 fraction bits of a float32
    lowest_ratio: float = 2.0**-24
    highest_ratio: float = 2.0**24

    @property
    def width(self) -> float:
        """Relative width of a group: max p/q = (1 + width) min p/q."""
        return 2.0 ** (self.dropped_bits - 23)

    @cached_property
    def number(self) -> int:
        """Number of groups."""
        return self._leading_bits(self.highest_ratio) - self._leading_bits(self.lowest_ratio) + 3

    def masses(self, p: np.ndarray, q: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Write the group of each token of a row into `group`, int (n,). Return the masses of p and q by group, (G,) each.

        Group 0 has the tokens with p = 0, the last group those with q = 0.
        """
        classes = ClassLayout(self._leading_bits(self.lowest_ratio) - 1, self.dropped_bits, self.number - 1)
        return by_ratio(p, q, classes, 0.0, 1, group)

    def _leading_bits(self, ratio: float) -> int:
        return int(np.float32(ratio).view(np.int32)) >> self.dropped_bits


@accelerated("envelope")
def mixture(p: np.ndarray, q: np.ndarray, group: np.ndarray, by_p: np.ndarray, by_q: np.ndarray, m: np.ndarray) -> None:
    """Write m = by_p p + by_q q for one row, with the factors of each token's group."""
    m[:] = by_p[group] * p + by_q[group] * q
