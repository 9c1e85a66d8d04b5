"""Laws from captured logits."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..errors import InvalidDistribution

LOGITS = ("target_logits", "draft_logits")  # their names in files


def laws_of_logits(logits: Array, temperature: float = 1.0, source: str = "", start: int = 0) -> Array:
    """softmax(logits / temperature) in float64, (..., n). start: row of the file that the first row is, for the error.

    -inf is a token without mass. Raises InvalidDistribution for NaN, +inf, and rows that are -inf throughout.
    """
    if logits.dtype.kind not in "fiu" or not logits.shape[-1:] or not logits.shape[-1]:
        raise InvalidDistribution(
            f"{source}: logits have dtype {logits.dtype}, shape {logits.shape}: give real numbers (..., n), n >= 1"
        )
    logits = logits.astype(np.float64)
    highest = logits.max(-1, keepdims=True)
    sound = np.isfinite(highest[..., 0]) & ~np.isnan(logits).any(-1)
    if not sound.all():
        row = start + int(np.flatnonzero(~sound)[0])
        raise InvalidDistribution(
            f"{source}, row {row}: its logits hold NaN or inf, or are -inf throughout: capture the row again, or leave it out"
        )
    with np.errstate(over="ignore"):  # what is as far below the highest as no float64 can say has mass 0
        masses = np.exp((logits - highest) / temperature)
    law: Array = masses / masses.sum(-1, keepdims=True)
    return law
