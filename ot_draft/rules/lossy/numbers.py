"""What several rules of engines need: masses as floats, the law on the likeliest token."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ...arrays import Array, as_number, is_exact, positions, top_tokens


def floats(p: Array) -> Array:
    """Masses as floats: for thresholds that engines compute with logarithms. Fractions become float64."""
    return p.astype(np.float64) if is_exact(p) else p


def most_likely(p: Array) -> Array:
    """All mass on the likeliest token, the first of equal ones: (..., n) -> (..., n)."""
    return as_number(positions(p.shape[-1], p) == top_tokens(p, 1), p)


def in_kind(value: Any, p: Array) -> Any:
    """A parameter as a Fraction among Fractions, else as a float."""
    return Fraction(value) if is_exact(p) else float(value)
