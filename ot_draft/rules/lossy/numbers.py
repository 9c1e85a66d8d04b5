"""What several rules of engines need: masses as floats, the law on the likeliest token."""

from __future__ import annotations

import numpy as np

from ... import arrays as xp
from ...arrays import Array


def floats(p: Array) -> Array:
    """Masses as floats: for thresholds that engines compute with logarithms. Fractions become float64."""
    return p.astype(np.float64) if xp.is_exact(p) else p


def most_likely(p: Array) -> Array:
    """All mass on the likeliest token, the first of equal ones: (..., n) -> (..., n)."""
    return xp.as_number(xp.positions(p.shape[-1], p) == xp.top_tokens(p, 1), p)
