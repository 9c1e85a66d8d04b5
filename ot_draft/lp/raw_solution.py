"""What a solver hands back before anything is believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class RawSolution:
    """A solver's own numbers, unchecked.

    flow: (pairs,) mass on every pair (draft set, token of it); floats, or integers over `denominator`.
    set_prices: (sets,), token_prices: (n,) dual variables of the two families of constraints, >= 0 in exact arithmetic.
    """

    flow: Any
    set_prices: np.ndarray
    token_prices: np.ndarray
    status: str
    denominator: int | None = None
