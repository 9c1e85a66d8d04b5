"""How likely counts are under a law that was enumerated."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

LEAST = 10  # cells where fewer are expected are counted together


def chance(counts: np.ndarray, law: np.ndarray) -> float:
    """Probability of counts as far from the law as these, or farther, if they follow it; 0 if they cannot."""
    expected = counts.sum() * law.ravel()
    counts = counts.ravel()
    if counts[law.ravel() == 0].any():
        return 0.0
    order = np.argsort(-expected)
    own = order[: int((expected >= LEAST).sum())]
    rest = expected.sum() - expected[own].sum()
    cells, seen = expected[own], counts[own]
    if rest > LEAST:
        cells, seen = np.append(cells, rest), np.append(seen, counts.sum() - seen.sum())
    return float(chi2.sf(((seen - cells) ** 2 / cells).sum(), len(cells) - 1))
