"""A generator whose uniforms often are the ends of [0, 1): where `<=` for `<`, and sums that fall short of 1, come to light."""

from __future__ import annotations

from typing import Any

import numpy as np

SHARE = 0.25  # of all draws, at each end


class EndUniforms(np.random.Generator):
    """`random` and `uniform` (and `choice`, which calls them) give 0.0 or the largest float below 1 with probability 1/4 each.

    Both are values that a real generator may give: in float32 once in 2^24 uniforms. Of several uniforms that are drawn at
    once, one at most is at an end, since no sampler is asked to stand what happens once in 2^48 times; in batches, one in
    every row.
    """

    asked = False  # whether a uniform was ever drawn
    batched = False  # whether the first axis of an array counts rows

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """As numpy's, with the ends often."""
        self.asked = True
        values = np.array(super().random(size if out is None else out.shape, dtype))
        if values.size:
            rows = len(values) if self.batched and values.ndim else 1
            table, row = values.reshape(rows, -1), np.arange(rows)
            place, kind = self.integers(table.shape[1], size=rows), np.asarray(super().random(rows))
            last = np.nextafter(values.dtype.type(1), values.dtype.type(0))
            ends = np.where(kind < SHARE, values.dtype.type(0), np.where(kind >= 1 - SHARE, last, table[row, place]))
            table[row, place] = ends
        if out is not None:
            out[...] = values
            return out
        return values if size is not None else values[()]

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """As numpy's, with the ends often."""
        shape = np.broadcast_shapes(np.shape(low), np.shape(high)) if size is None else size
        return low + (np.asarray(high) - low) * self.random(shape if shape != () else None)
